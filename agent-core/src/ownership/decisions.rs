//! Decisions about one VIP: each is a method of [`Subject`], and gives the commands that carry it out.

mod claims;
mod evaluate;
mod handover;
mod occupancy;
mod probes;
mod stopping;
mod subject;
mod taking;
mod unclear;

pub(super) use self::{
    evaluate::Next,
    stopping::{StopStep, Stopping, needs_no_session},
    subject::Subject,
};
