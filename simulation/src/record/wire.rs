//! What the checks of wire failover need.

use std::collections::BTreeMap;

use vipward_core::records::{Session, Wid};

use crate::machine::At;

/// A VIP whose holder has crashed.
#[derive(Clone, Debug)]
pub(crate) struct Crash {
    pub(crate) vip: usize,
    pub(crate) holder: usize,
    pub(crate) at: At,
    /// The voters that counted, and how many of them must have agreed.
    pub(crate) set: Vec<Wid>,
    pub(crate) quorum: usize,
}

/// A mild disturbance, by which nothing may move.
#[derive(Clone, Debug)]
pub(crate) struct Mild {
    /// The node that it takes away, whose session may be ended.
    pub(crate) gone: Option<usize>,
    /// The VIPs that must stay answered.
    pub(crate) vips: Vec<usize>,
}

/// The records of wire failover that its checks need.
#[derive(Clone, Debug, Default)]
pub(crate) struct WireRecord {
    /// For each session, the last configuration with the time of its write.
    pub(crate) configured: BTreeMap<Session, (u64, At)>,
    /// The sessions that were ended by their voters, each with the time and the node that did it.
    pub(crate) ended: Vec<(Session, At, usize)>,
    pub(crate) crashes: Vec<Crash>,
    pub(crate) mild: Option<Mild>,
}
