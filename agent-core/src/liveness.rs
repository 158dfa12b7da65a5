//! The failure detector: the nodes of a segment ping each other, program to program.
//!
//! A node that holds VIPs *invites* some others, its monitors, to ping it.
//! Some monitors are voters. The program of the pinged node answers at
//! once, whatever becomes of its agent. When a quorum of voters finds the holder unresponsive, one
//! of them expires its session. It does so by a compare-and-swap of the Lease, as for an expired
//! Lease. `docs/failure-detector.md` has the rules.
//!
//! [`Offer`] is what a node publishes in its Lease. [`Plan`] has the nodes that the engine wants
//! pinged. [`Monitor`] is the state machine that pings and judges. Its clock is
//! [`Boottime`](crate::base::time::Boottime).

mod acceptance;
pub mod found;
mod frame;
mod monitor;
mod plan;
mod scale;
mod sight;

pub(crate) use self::plan::LEAST_UNANSWERED;
pub use self::{
    acceptance::Acceptance,
    frame::{Act, Frame, Kind, Received},
    monitor::Monitor,
    plan::{Answers, Counts, Ended, ExpiryNotice, Finding, Path, Peer, Plan, Thread, Traffic, Watched},
    scale::Scale,
    sight::{Seen, Sight},
};
pub use super::records::offer::{KeyId, MOST_INVITED, Mode, Offer, PROTO, Wid};
