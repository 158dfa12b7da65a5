//! The queue of what happens when.

use std::{cmp::Reverse, collections::BinaryHeap};

use vipward_core::{
    delivery::{Answer, Target},
    records::Session,
};

use crate::{
    machine::{At, Frame, wired::Packet},
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
    /// Services begin to request a VIP.
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
    /// An agent's deadline has come.
    Deadline {
        node: usize,
        life: u32,
    },
    /// A controller is to read the Lease of the election.
    Round {
        node: usize,
        life: u32,
    },
    /// A process may have an Event to write.
    Desk {
        node: usize,
        life: u32,
    },
    /// An agent goes on with its effects.
    GoOn {
        node: usize,
        life: u32,
    },
    /// An agent has listened for half of a round.
    HalfListened {
        node: usize,
        life: u32,
        segment: u32,
        round: u64,
    },
    /// An agent has listened on a segment.
    Listened {
        node: usize,
        life: u32,
        segment: u32,
        round: u64,
    },
    /// The first answer to an agent that listens on a segment has come.
    Heard {
        node: usize,
        life: u32,
        segment: u32,
        round: u64,
    },
    /// A host that has a VIP's address answers a request.
    HostAnswer {
        segment: usize,
        vip: usize,
        frame: Frame,
    },
    /// A node's service proxy has answered its agent.
    ProxyAnswer {
        node: usize,
        life: u32,
        target: Target,
        answer: Answer,
    },
    /// A request reaches the API server.
    Arrive(usize),
    /// The response reaches the agent.
    Answer(usize),
    /// The agent gives up waiting for the response.
    Timeout(usize),
    /// A monitor may have something to do.
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
    /// A monitor's finding reaches the engine.
    Found {
        node: usize,
        life: u32,
        finding: usize,
    },
    /// A third station answers a monitor that doubts a session.
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
    /// An agent has had time to act since its program was notified of the end of this session.
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
    /// A frame reaches a station.
    Frame {
        segment: usize,
        to: usize,
        frame: Frame,
    },
    /// An agent notices events of its program.
    Ring {
        node: usize,
    },
    /// The agent notices a change of its interfaces.
    Links {
        node: usize,
        life: u32,
    },
    /// The time that an agent has to end is over.
    Grace {
        node: usize,
        life: u32,
    },
    /// A lease deadline may have passed, or an entry's time.
    Lapse {
        node: usize,
    },
    /// Everything is checked.
    Sweep,
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
