//! The parts of the agent, composed: inputs go in, effects come out, and the order is decided here.

pub mod answers;
pub mod host;
pub mod memberships;
pub mod segment;
