//! What was seen in a run, to know that runs are worth something.

use std::ops::AddAssign;

/// What happened in one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "what was seen, each independent of the others")]
pub struct Facts {
    /// A VIP was taken over from a node whose session was ended.
    pub taken_over: bool,
    /// A fence lapsed while its node had VIPs to answer for.
    pub lapsed: bool,
    /// A program gave way.
    pub yielded: bool,
    /// Something befell a handover that was under way.
    pub interrupted: bool,
    /// How often a VIP without an answer had to be answered again in time, and was.
    pub brightened: u64,
    /// How often a VIP was watched because nothing but planned things happened.
    pub guarded: u64,
}

/// In how many runs each was seen.
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
    /// Runs with an interrupted handover.
    pub interrupted: u64,
    /// VIPs without an answer that were to be answered again in time, in all runs.
    pub brightened: u64,
    /// VIPs that were watched during planned changes, in all runs.
    pub guarded: u64,
}

impl AddAssign<Facts> for Tally {
    fn add_assign(&mut self, facts: Facts) {
        self.runs += 1;
        self.taken_over += u64::from(facts.taken_over);
        self.lapsed += u64::from(facts.lapsed);
        self.yielded += u64::from(facts.yielded);
        self.interrupted += u64::from(facts.interrupted);
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
        self.interrupted += other.interrupted;
        self.brightened += other.brightened;
        self.guarded += other.guarded;
    }
}

impl Tally {
    /// What is seen in less than a tenth of the runs.
    pub fn too_rare(&self) -> Vec<&'static str> {
        self.shares().into_iter().filter(|(_, seen)| seen * 10 < self.runs).map(|(what, _)| what).collect()
    }

    /// In how many runs each was seen.
    pub fn shares(&self) -> [(&'static str, u64); 4] {
        [
            ("a take-over", self.taken_over),
            ("a lapsed fence", self.lapsed),
            ("a yield", self.yielded),
            ("an interrupted handover", self.interrupted),
        ]
    }
}
