//! The rows of the result, each from what a scene has measured.

use std::time::Duration;

use vipward_tests::measure::ProbeReport;

/// Stands for what was not measured.
const NONE: &str = "–";

/// One measurement: of Vipward, and of a host without it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) good: bool,
    /// What was measured, with its unit.
    pub(super) what: String,
    pub(super) vipward: String,
    pub(super) kernel: String,
}

impl Row {
    fn new(good: bool, what: impl Into<String>, vipward: impl Into<String>) -> Self {
        Self { good, what: what.into(), vipward: vipward.into(), kernel: NONE.to_owned() }
    }

    fn against(self, kernel: impl Into<String>) -> Self {
        Self { kernel: kernel.into(), ..self }
    }
}

/// Requests around the kill of an agent.
pub(super) struct Outage {
    pub(super) probe: ProbeReport,
    pub(super) dead_for: Duration,
}

impl Outage {
    pub(super) fn row(&self) -> Row {
        let unanswered = self.probe.sent() - self.probe.answered();
        let what =
            format!("agent killed, back after {:.1} s: requests unanswered", self.dead_for.as_secs_f64());
        Row::new(unanswered == 0, what, format!("{unanswered} of {}", self.probe.sent()))
    }
}

/// Number of askers of a family that the program answered, and that a kernel answered.
pub(super) struct ManyHosts {
    pub(super) family: &'static str,
    pub(super) askers: usize,
    pub(super) by_program: usize,
    pub(super) by_kernel: usize,
}

impl ManyHosts {
    pub(super) fn row(&self) -> Row {
        let what = format!("{} new askers, {}: answered", self.askers, self.family);
        Row::new(self.by_program == self.askers, what, self.by_program.to_string())
            .against(self.by_kernel.to_string())
    }
}

/// Number of readings of a neighbour entry, and of those with the right MAC.
#[derive(Clone, Copy, Default)]
pub(super) struct Belief {
    pub(super) looks: usize,
    pub(super) right: usize,
}

impl Belief {
    fn words(self) -> String {
        format!("{} of {}", self.right, self.looks)
    }
}

/// Neighbour entries of a VIP that a rogue claims: on a host that guards it, and on one that does not.
pub(super) struct Claimed {
    pub(super) guarded: Belief,
    pub(super) unguarded: Belief,
}

impl Claimed {
    pub(super) fn row(&self) -> Row {
        let good = self.guarded.right == self.guarded.looks;
        Row::new(good, "a held VIP is claimed: looks with the holder's MAC", self.guarded.words())
            .against(format!("{} (client without Vipward)", self.unguarded.words()))
    }
}

/// What a host sends to after a claim on its gateway: with Vipward, and without.
pub(super) fn gateway(kept: bool, stolen: bool) -> Row {
    let words = |right: bool| if right { "the gateway" } else { "the impostor" };
    Row::new(kept, "the gateway is claimed: a host's packets go to", words(kept)).against(words(!stolen))
}

/// The time until a rival that sends nothing by itself is named.
pub(super) fn silent_rival(found_after: Duration) -> Row {
    let what = "a second host answers silently: it is named after";
    Row::new(true, what, format!("{} ms", found_after.as_millis()))
}

/// The time without an answer after the holder's loss of power, and its limit.
pub(super) fn power_off(gap: Duration, limit: Duration) -> Row {
    Row::new(gap <= limit, "the holder loses power: no answer for", format!("{} ms", gap.as_millis()))
}

/// Requests and datagrams around a planned move, and those that were lost.
pub(super) fn planned_move(lost: usize, sent: usize) -> Row {
    Row::new(lost == 0, "a planned move: requests and datagrams lost", format!("{lost} of {sent}"))
}
