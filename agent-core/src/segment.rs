//! Announcements, probes, conflicts, yields, groups, and the proof that the program sees frames.

pub mod announce;
pub mod conflict;
pub mod failover;
pub mod frame;
pub mod groups;
pub mod probing;
pub mod proving;
pub mod provisional;
pub mod yields;
