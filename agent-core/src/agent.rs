//! Parts of the agent, each composed of machines: inputs go in, effects come out in their order.

pub mod answers;
#[cfg(test)]
mod fixtures;
pub mod host;
pub mod memberships;
pub mod segment;
