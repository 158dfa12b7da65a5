//! VIPs that wait: for their evaluation, for their turn to be taken or handed over, or for the read of
//! their claim.

mod disputes;
mod doubt;
mod pacing;
mod queue;

pub(super) use self::{
    disputes::Disputes,
    doubt::Doubt,
    pacing::{Pacing, Urgency},
    queue::Queue,
};
