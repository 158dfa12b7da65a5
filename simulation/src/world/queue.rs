//! The queue of what happens when.

use std::{cmp::Reverse, collections::BinaryHeap};

use vipward_common::MacAddr;
use vipward_core::{ownership::Wire, records::Session};

use crate::{
    machine::{At, wired::Packet},
    schedule::Kind,
};

/// Something that is due.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Happening {
    /// A disturbance begins.
    Begin(usize),
    /// A disturbance ends.
    End(usize),
    /// A disturbance has waited in vain for its step.
    Disarm(usize),
    /// The API server stops, for a restore of its store.
    StoreAway,
    /// A node joins.
    Join(usize),
    /// Services begin to want a VIP.
    Wanted(usize),
    /// An agent starts, unless one runs.
    Boot {
        node: usize,
    },
    /// An agent's list reaches the API server.
    List {
        node: usize,
        life: u32,
        kind: Kind,
        watch: u32,
    },
    /// The list's response reaches the agent.
    Listed {
        node: usize,
        life: u32,
        kind: Kind,
        watch: u32,
        list: usize,
    },
    /// An agent's watch delivers changes.
    Deliver {
        node: usize,
        life: u32,
        kind: Kind,
        watch: u32,
        upto: usize,
    },
    /// An engine's deadline has come.
    Tick {
        node: usize,
        life: u32,
    },
    /// A request reaches the API server.
    Arrive(usize),
    /// The response reaches the agent.
    Answer(usize),
    /// The agent gives up waiting for the response.
    Timeout(usize),
    /// A witness may have something to do.
    Turn {
        node: usize,
        life: u32,
    },
    /// A frame of wire failover reaches a node.
    Packet {
        segment: usize,
        packet: Packet,
    },
    /// An old frame of wire failover comes again.
    Replay {
        segment: usize,
        packet: Packet,
    },
    /// A witness's finding reaches the engine.
    Found {
        node: usize,
        life: u32,
        finding: usize,
    },
    /// A third station answers a witness that doubts a session.
    Neighbour {
        node: usize,
        life: u32,
        session: u64,
    },
    /// An agent reads the keys of wire failover.
    Keys {
        node: usize,
        life: u32,
    },
    /// An announcement is due for a former holder alone.
    Repeat {
        node: usize,
        vip: usize,
        life: u32,
        to: MacAddr,
    },
    /// An agent whose program was told the end of this session has had time to act.
    Heeds {
        node: usize,
        session: Session,
    },
    Settled {
        node: usize,
        session: Session,
    },
    /// A crash is judged.
    Judge(usize),
    /// A frame reaches a node.
    Frame {
        segment: usize,
        to: usize,
        vip: usize,
        sha: MacAddr,
    },
    /// An agent may take yielded VIPs back.
    TakeBack {
        node: usize,
        life: u32,
    },
    /// An announcement is due.
    Announce {
        node: usize,
        vip: usize,
        life: u32,
        round: u8,
    },
    /// The program's event reaches the agent.
    Heard {
        node: usize,
        life: u32,
        vip: usize,
        wire: HeardWire,
    },
    /// Probing a VIP's address on the segment has ended.
    Probed {
        node: usize,
        vip: usize,
        life: u32,
        asked: u32,
    },
    /// The agent notices a change of its interfaces.
    Links {
        node: usize,
        life: u32,
    },
    /// The grace period of an agent that ends is over.
    Grace {
        node: usize,
        life: u32,
    },
    /// Stale entries are tried again.
    WriteAgain {
        node: usize,
        life: u32,
    },
    /// A fence or an entry may have lapsed.
    Lapse {
        node: usize,
    },
    /// Everything is checked.
    Sweep,
}

/// [`Wire`], with an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum HeardWire {
    Contested(MacAddr),
    Moved(MacAddr),
    Yielded(MacAddr),
}

impl From<Wire> for HeardWire {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Contested { mac } => Self::Contested(mac),
            Wire::Moved { mac } => Self::Moved(mac),
            Wire::Yielded { mac } => Self::Yielded(mac),
        }
    }
}

impl From<HeardWire> for Wire {
    fn from(heard: HeardWire) -> Self {
        match heard {
            HeardWire::Contested(mac) => Self::Contested { mac },
            HeardWire::Moved(mac) => Self::Moved { mac },
            HeardWire::Yielded(mac) => Self::Yielded { mac },
        }
    }
}

/// What is due, in order. What is due at the same time happens in the order in which it was queued.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    due: BinaryHeap<Reverse<(At, u64, Happening)>>,
    queued: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: At, happening: Happening) {
        self.queued += 1;
        self.due.push(Reverse((at, self.queued, happening)));
    }

    pub(crate) fn pop(&mut self) -> Option<(At, Happening)> {
        let Reverse((at, _, happening)) = self.due.pop()?;
        Some((at, happening))
    }
}
