//! This host's network, the placement of VIPs on it, and the plan of its maps.

pub mod answering;
pub mod attaching;
pub mod heartbeat;
pub mod interfaces;
pub mod layout;
pub mod naming;
pub mod net;
pub mod owner;
pub mod placement;
pub mod plan;
pub mod stack;
pub mod stale;
