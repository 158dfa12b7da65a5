//! The state of a host or cluster, what is wrong, and what to do.

pub mod doctor;
pub mod explain;
pub mod fact;
pub mod finding;
pub mod live;
pub mod overview;
pub mod pinned;
pub mod who_has;
