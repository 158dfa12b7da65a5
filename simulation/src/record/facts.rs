//! Counts the events that make runs worth something.

use std::ops::AddAssign;

/// Events of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "what was seen, each independent of the others")]
pub struct Facts {
    /// A VIP was taken over from a node whose session was ended.
    pub taken_over: bool,
    /// A fence lapsed while its node had VIPs to answer for.
    pub lapsed: bool,
    /// A program yielded.
    pub yielded: bool,
    /// A node took a yielded VIP back.
    pub taken_back: bool,
    /// A fault hit a handover that was under way.
    pub interrupted: bool,
    /// The kernel refused an entry.
    pub refused: bool,
    /// A stranger's Service asked for a VIP of another namespace.
    pub strangers: bool,
    /// A host got the address of a VIP that no node held.
    pub hosts: bool,
    /// The token of a node lied about a VIP.
    pub lies: bool,
    /// The API server refused a write of an agent.
    pub denied: bool,
    /// Nodes take part in wire failover.
    pub wire: bool,
    /// Witnesses agreed that a holder was silent.
    pub suspected: bool,
    /// A session was ended for silence on the wire.
    pub deposed_by_wire: bool,
    /// A program that counted itself valid heard that its session has ended.
    pub told: bool,
    /// A stranger told a program that its session has ended.
    pub told_falsely: bool,
    /// A mild disturbance was in force, by which nothing may move.
    pub mild: bool,
    /// A controller runs.
    pub controller: bool,
    /// A Service was created again, and had the address that was kept for it.
    pub kept: bool,
    /// A Service lacked an address, and a problem said why.
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

/// The number of runs in which each happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// All runs.
    pub runs: u64,
    /// Runs with a take-over.
    pub taken_over: u64,
    /// Runs with a lapsed fence.
    pub lapsed: u64,
    /// Runs with a yield.
    pub yielded: u64,
    /// Runs with a yielded VIP that was taken back.
    pub taken_back: u64,
    /// Runs with an interrupted handover.
    pub interrupted: u64,
    /// Runs with an entry that the kernel refused.
    pub refused: u64,
    /// Runs with a stranger's Service.
    pub strangers: u64,
    /// Runs with a host that got the address of a VIP.
    pub hosts: u64,
    /// Runs with a token that lied about a VIP.
    pub lies: u64,
    /// Runs with a refused write of an agent.
    pub denied: u64,
    /// Runs with wire failover.
    pub wire: u64,
    /// Runs in which witnesses agreed.
    pub suspected: u64,
    /// Runs in which a session was ended for silence on the wire.
    pub deposed_by_wire: u64,
    /// Runs in which a program heard of that first.
    pub told: u64,
    /// Runs with a program that a stranger told so falsely.
    pub told_falsely: u64,
    /// Runs with a mild disturbance.
    pub mild: u64,
    /// Runs with a crash that was judged.
    pub crashed: u64,
    /// Runs with a controller.
    pub controller: u64,
    /// Runs with a Service that had its address again.
    pub kept: u64,
    /// Runs with a lack that was reported.
    pub lacked: u64,
    /// Runs with a Service that had waited for its address.
    pub waited: u64,
    /// Runs with a change of leaders.
    pub replaced: u64,
    /// VIPs that had to be held again soon, in all runs.
    pub crashes: u64,
    /// Dark VIPs that were answered again in time, in all runs.
    pub brightened: u64,
    /// VIPs that were guarded during planned changes, in all runs.
    pub guarded: u64,
}

impl AddAssign<Facts> for Tally {
    fn add_assign(&mut self, facts: Facts) {
        self.runs += 1;
        self.taken_over += u64::from(facts.taken_over);
        self.lapsed += u64::from(facts.lapsed);
        self.yielded += u64::from(facts.yielded);
        self.taken_back += u64::from(facts.taken_back);
        self.interrupted += u64::from(facts.interrupted);
        self.refused += u64::from(facts.refused);
        self.strangers += u64::from(facts.strangers);
        self.hosts += u64::from(facts.hosts);
        self.lies += u64::from(facts.lies);
        self.denied += u64::from(facts.denied);
        self.wire += u64::from(facts.wire);
        self.suspected += u64::from(facts.suspected);
        self.deposed_by_wire += u64::from(facts.deposed_by_wire);
        self.told += u64::from(facts.told);
        self.told_falsely += u64::from(facts.told_falsely);
        self.mild += u64::from(facts.mild);
        self.crashed += u64::from(facts.crashes > 0);
        self.controller += u64::from(facts.controller);
        self.kept += u64::from(facts.kept);
        self.lacked += u64::from(facts.lacked);
        self.waited += u64::from(facts.waited);
        self.replaced += u64::from(facts.replaced);
        self.crashes += facts.crashes;
        self.brightened += facts.brightened;
        self.guarded += facts.guarded;
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.taken_over += other.taken_over;
        self.lapsed += other.lapsed;
        self.yielded += other.yielded;
        self.taken_back += other.taken_back;
        self.interrupted += other.interrupted;
        self.refused += other.refused;
        self.strangers += other.strangers;
        self.hosts += other.hosts;
        self.lies += other.lies;
        self.denied += other.denied;
        self.wire += other.wire;
        self.suspected += other.suspected;
        self.deposed_by_wire += other.deposed_by_wire;
        self.told += other.told;
        self.told_falsely += other.told_falsely;
        self.mild += other.mild;
        self.crashed += other.crashed;
        self.controller += other.controller;
        self.kept += other.kept;
        self.lacked += other.lacked;
        self.waited += other.waited;
        self.replaced += other.replaced;
        self.crashes += other.crashes;
        self.brightened += other.brightened;
        self.guarded += other.guarded;
    }
}

impl Tally {
    /// Returns what happened in less than a tenth of the runs that it belongs to.
    pub fn too_rare(&self) -> Vec<&'static str> {
        // Of the schedules without a controller.
        let all = self.shares().map(|(what, seen)| (what, seen, self.runs - self.controller));
        let wire = self.wire_shares().map(|(what, seen)| (what, seen, self.wire));
        let controller = self.controller_shares().map(|(what, seen)| (what, seen, self.controller));
        let rare = all.into_iter().chain(wire).chain(controller).filter(|(_, seen, of)| seen * 10 < *of);
        rare.map(|(what, ..)| what).collect()
    }

    /// Returns in how many runs with wire failover each happened.
    pub fn wire_shares(&self) -> [(&'static str, u64); 6] {
        [
            ("witnesses that agreed", self.suspected),
            ("a session ended by wire", self.deposed_by_wire),
            ("a program that was told so", self.told),
            ("a program that was told so falsely", self.told_falsely),
            ("a mild disturbance", self.mild),
            ("a crash that was judged", self.crashed),
        ]
    }

    /// Returns in how many runs with a controller each happened.
    pub fn controller_shares(&self) -> [(&'static str, u64); 4] {
        [
            ("a Service that had its address again", self.kept),
            ("a lack that was reported", self.lacked),
            ("a Service that had waited for its address", self.waited),
            ("a change of leaders", self.replaced),
        ]
    }

    /// Returns in how many runs each happened.
    pub fn shares(&self) -> [(&'static str, u64); 11] {
        [
            ("wire failover", self.wire),
            ("a take-over", self.taken_over),
            ("a lapsed fence", self.lapsed),
            ("a yield", self.yielded),
            ("a VIP taken back", self.taken_back),
            ("an interrupted handover", self.interrupted),
            ("a refused entry", self.refused),
            ("a stranger's Service", self.strangers),
            ("a host with a VIP's address", self.hosts),
            ("a token that lied", self.lies),
            ("a refused write of an agent", self.denied),
        ]
    }
}
