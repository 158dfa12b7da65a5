//! The segments, and the hosts on them that are no nodes.

use std::time::Duration;

use super::time::At;
use crate::schedule::Times;

#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) segments: Vec<Segment>,
    /// Per VIP: the host that has its address.
    pub(crate) hosts: Vec<Option<Host>>,
}

impl Network {
    pub(crate) fn new(segments: usize, vips: usize) -> Self {
        Self { segments: vec![Segment::default(); segments], hosts: vec![None; vips] }
    }
}

/// The disturbances of a segment, each with its number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) partitions: Vec<(usize, u8)>,
    pub(crate) one_way: Vec<(usize, (usize, usize))>,
    pub(crate) lossy: Vec<(usize, u8)>,
    pub(crate) late: Vec<(usize, u32)>,
    pub(crate) dead: Vec<(usize, Way)>,
    /// The switch sends each frame back to its sender, too.
    pub(crate) reflecting: Times,
    /// The time of the last change.
    pub(crate) changed: At,
}

/// An interface that carries no frames, with the ways that are dead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) node: usize,
    pub(crate) out: bool,
    pub(crate) into: bool,
}

impl Segment {
    /// Returns whether the segment carries frames between two nodes.
    pub(crate) fn passes(&self, from: usize, to: usize) -> bool {
        let side = |bits: u8, node: usize| bits >> node & 1;
        self.partitions.iter().all(|(_, bits)| side(*bits, from) == side(*bits, to))
            && !self.one_way.iter().any(|(_, pair)| *pair == (from, to))
            && !self.dead.iter().any(|(_, way)| way.node == from && way.out || way.node == to && way.into)
    }

    /// Returns whether it carries no frame of a node, or none to it.
    pub(crate) fn is_dead(&self, node: usize) -> bool {
        self.dead.iter().any(|(_, way)| way.node == node)
    }

    /// Returns whether nothing disturbs it.
    pub(crate) fn is_clean(&self) -> bool {
        self.partitions.is_empty()
            && self.one_way.is_empty()
            && self.dead.is_empty()
            && self.lossy.is_empty()
            && self.late.is_empty()
    }
}

/// A host that has the address of a VIP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    /// The number of its disturbance.
    pub(crate) disturbance: usize,
    /// The node that it is. None for another host.
    pub(crate) node: Option<usize>,
    /// The time at which it got the address.
    pub(crate) since: At,
    /// The last time at which its frames did not reach a node.
    pub(crate) away: At,
    /// The time after which it answers a request.
    pub(crate) late: Duration,
    /// True if it is gone, and the segment's fabric answers broadcast requests in its name.
    pub(crate) is_cached: bool,
    /// The first node that has answered for its address.
    pub(crate) robbed_by: Option<usize>,
    /// The time for which nodes have, and the last time at which one did.
    pub(crate) robbed: (Duration, Option<At>),
    /// True if a node took the VIP because the host's frames had not reached it.
    pub(crate) is_void: bool,
}
