//! The controller that leads: one state machine that gives out the addresses of pools, writes the
//! statuses of Services, and reports their problems.
//!
//! [`Controller::on`] takes an input and returns effects, like [`Agent`](crate::agent::Agent).
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - `effect`: what the controller wants done.
//! - `input`: what it reads, and the outcomes of its requests.
//! - `failures`: reservations that have failed, and when they are tried again.
//! - `composed`: the controller.

mod composed;
mod effect;
mod failures;
mod input;

pub use self::{
    composed::Controller,
    effect::{Effect, Line},
    input::{Input, Now, Reply, Reserved},
};
