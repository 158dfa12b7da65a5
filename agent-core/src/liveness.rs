//! Wire failover: the nodes of a segment ask each other, kernel to kernel, whether they live.
//!
//! A node that holds VIPs *invites* some others, its witnesses, to ping it. The program
//! of the pinged node answers at once, whatever becomes of its agent. When enough witnesses find the
//! holder silent, one of them ends its session by a compare-and-swap of its Lease, as for a Lease
//! that is not renewed. `docs/failure-detector.md` has the rules.
//!
//! [`Offer`] is what a node says of itself in its Lease, [`Plan`] what the engine wants pinged, and
//! [`Witness`] the state machine that pings and judges. It counts in [`Boottime`](crate::base::time::Boottime).

mod acceptance;
pub mod found;
mod frame;
mod plan;
mod scale;
mod sight;
mod witness;

pub(crate) use self::plan::LEAST_SILENT;
pub use self::{
    acceptance::Acceptance,
    frame::{Act, Frame, Kind, Received},
    plan::{Answers, Counts, Ended, Finding, Path, Peer, Plan, Thread, Traffic, Watched, Word},
    scale::Scale,
    sight::{Seen, Sight},
    witness::Witness,
};
pub use super::records::offer::{KeyId, MOST_INVITED, Mode, Offer, PROTO, Wid};
