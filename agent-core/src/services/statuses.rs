//! What a Service's status is to name, and the other controllers that write it.

mod hands;
mod ingress;

pub(super) use self::{
    hands::{Turns, look, turn},
    ingress::{Acceptance, Duty, Naming, due, is_ours},
};
