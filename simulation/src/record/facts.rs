//! Counts the events that make runs worth something.

use std::ops::AddAssign;

/// Events of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "what was seen, each independent of the others")]
pub struct Facts {
    /// A VIP was taken over from a node whose session was ended.
    pub taken_over: bool,
    /// A lease deadline passed while its node had VIPs to answer for.
    pub lapsed: bool,
    /// A program yielded.
    pub yielded: bool,
    /// A node took a yielded VIP back.
    pub taken_back: bool,
    /// A fault hit a handover that was under way.
    pub interrupted: bool,
    /// The kernel refused an entry.
    pub refused: bool,
    /// A Service requested a VIP of another namespace.
    pub strangers: bool,
    pub hosts: Hosts,
    pub switches: Switches,
    /// The token of a node lied about a VIP.
    pub lies: bool,
    /// The API server refused a write of an agent.
    pub denied: bool,
    /// Nodes take part in wire failover.
    pub wire: bool,
    /// A quorum found a holder unresponsive.
    pub suspected: bool,
    /// The failure detector ended a session.
    pub expired_by_wire: bool,
    /// A program whose lease deadline lay ahead received its expiry notice.
    pub notified: bool,
    /// An unknown host sent a program a false expiry notice.
    pub notified_falsely: bool,
    /// A mild disturbance was in force, for which no VIP may move.
    pub mild: bool,
    /// A controller runs.
    pub controller: bool,
    /// A Service was created again, and had the address that was kept for it.
    pub kept: bool,
    /// A Service lacked an address, and a problem named the reason.
    pub lacked: bool,
    /// A Service had an address that it had waited for.
    pub waited: bool,
    /// Another controller led than before.
    pub replaced: bool,
    /// The number of VIPs whose holder crashed, and which had to be held again soon.
    pub crashes: u64,
    /// The number of times that a dark VIP had to be answered again in time, and was.
    pub brightened: u64,
    /// The number of times that a VIP was guarded while only planned changes happened.
    pub guarded: u64,
}

/// Hosts with the address of a VIP that no node held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hosts {
    pub any: bool,
    /// One of them answers late.
    pub late: bool,
}

/// Faults of switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Switches {
    /// One sent frames back to their senders.
    pub reflects: bool,
    /// One dropped frames of a node's VIPs.
    pub filter: bool,
    pub found: Found,
    /// Such a VIP moved to another node.
    pub left: bool,
}

/// The faults that nodes found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Found {
    pub unheard: bool,
    pub blind: bool,
}

/// The schedules among which something must happen often enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Among {
    /// Those without a controller.
    Ordinary,
    /// Those in which a host got the address of a VIP.
    Host,
    /// Those with a filter on a node's way out.
    Filter,
    /// Those with wire failover.
    Wire,
    Controller,
}

type Happened = fn(&Facts) -> bool;

const SHARES: [(Among, &str, Happened); 26] = [
    (Among::Ordinary, "wire failover", |it| it.wire),
    (Among::Ordinary, "a take-over", |it| it.taken_over),
    (Among::Ordinary, "a passed lease deadline", |it| it.lapsed),
    (Among::Ordinary, "a yield", |it| it.yielded),
    (Among::Ordinary, "a VIP taken back", |it| it.taken_back),
    (Among::Ordinary, "an interrupted handover", |it| it.interrupted),
    (Among::Ordinary, "a refused entry", |it| it.refused),
    (Among::Ordinary, "a switch that sends frames back", |it| it.switches.reflects),
    (Among::Ordinary, "a stranger's Service", |it| it.strangers),
    (Among::Ordinary, "a host with a VIP's address", |it| it.hosts.any),
    (Among::Host, "one that answers late", |it| it.hosts.late),
    (Among::Filter, "a VIP that was found unheard", |it| it.switches.found.unheard),
    (Among::Filter, "one that was found blind", |it| it.switches.found.blind),
    (Among::Filter, "one that moved for that", |it| it.switches.left),
    (Among::Ordinary, "a token that lied", |it| it.lies),
    (Among::Ordinary, "a refused write of an agent", |it| it.denied),
    (Among::Wire, "voters that agreed", |it| it.suspected),
    (Among::Wire, "a session expired by wire", |it| it.expired_by_wire),
    (Among::Wire, "a program that was notified of that", |it| it.notified),
    (Among::Wire, "a program that was notified falsely", |it| it.notified_falsely),
    (Among::Wire, "a mild disturbance", |it| it.mild),
    (Among::Wire, "a crash that was judged", |it| it.crashes > 0),
    (Among::Controller, "a Service that had its address again", |it| it.kept),
    (Among::Controller, "a lack that was reported", |it| it.lacked),
    (Among::Controller, "a Service that had waited for its address", |it| it.waited),
    (Among::Controller, "a change of leaders", |it| it.replaced),
];

/// The number of runs, and of those in which each happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub runs: u64,
    hosts: u64,
    filters: u64,
    wire: u64,
    controller: u64,
    seen: [u64; SHARES.len()],
    /// VIPs that had to be held again soon, in all runs.
    pub crashes: u64,
    /// Dark VIPs that were answered again in time, in all runs.
    pub brightened: u64,
    /// VIPs that were guarded during planned changes, in all runs.
    pub guarded: u64,
}

impl From<Facts> for Tally {
    fn from(facts: Facts) -> Self {
        Self {
            runs: 1,
            hosts: facts.hosts.any.into(),
            filters: facts.switches.filter.into(),
            wire: facts.wire.into(),
            controller: facts.controller.into(),
            seen: SHARES.map(|(.., happened)| happened(&facts).into()),
            crashes: facts.crashes,
            brightened: facts.brightened,
            guarded: facts.guarded,
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.hosts += other.hosts;
        self.filters += other.filters;
        self.wire += other.wire;
        self.controller += other.controller;
        self.seen.iter_mut().zip(other.seen).for_each(|(seen, more)| *seen += more);
        self.crashes += other.crashes;
        self.brightened += other.brightened;
        self.guarded += other.guarded;
    }
}

impl Tally {
    /// Returns what happened, in how many runs, of how many, and of which.
    pub fn shares(&self) -> impl Iterator<Item = (&'static str, u64, u64, Among)> {
        SHARES.iter().zip(self.seen).map(|((among, what, _), seen)| {
            let of = match among {
                Among::Ordinary => self.runs - self.controller,
                Among::Host => self.hosts,
                Among::Filter => self.filters,
                Among::Wire => self.wire,
                Among::Controller => self.controller,
            };
            (*what, seen, of, *among)
        })
    }

    /// Returns what happened in less than a tenth of the runs that it belongs to.
    pub fn too_rare(&self) -> Vec<&'static str> {
        let rare = self.shares().filter(|(_, seen, of, _)| seen * 10 < *of);
        rare.map(|(what, ..)| what).collect()
    }
}
