//! Announcements, probes, conflicts, yields, groups, and the proofs that the program sees frames and that
//! the network takes them.

pub mod announce;
pub mod confirming;
pub mod conflict;
pub mod egress;
pub mod failover;
pub mod frame;
pub mod groups;
pub mod inquiry;
pub mod own_frames;
pub mod probing;
pub mod proving;
pub mod provisional;
pub mod rivals;
pub mod yields;
