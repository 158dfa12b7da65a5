//! What a Service's status is to name, and the other controllers that write it.

mod ingress;
mod other_controllers;
mod standing;

pub(super) use self::{
    ingress::{Acceptance, Duty, Naming, due, is_ours},
    other_controllers::{Turns, control_problems, is_of_status_only, turn},
    standing::{Standing, Why, standing},
};
