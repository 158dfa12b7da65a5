//! Collects the measured figures and prints them as a table.

use std::time::Duration;

use super::narrator::Narrator;
use vipward_tests::{frames::Mac, measure::ProbeReport};

/// Answers to requests for the VIP and for an ordinary address.
pub(super) struct Answers {
    /// Requests that the program answered.
    pub(super) by_program: u64,
    /// Requests for the VIP that reached the kernel.
    pub(super) received_by_kernel: usize,
    /// Requests for the ordinary address that reached the other node's kernel.
    pub(super) other_kernel: usize,
}

pub(super) struct Outage {
    pub(super) probe: ProbeReport,
    pub(super) dead_for: Duration,
    pub(super) asked_while_dead: usize,
}

/// Number of askers of a family that the program answered, and that a kernel answered.
pub(super) struct ManyHosts {
    pub(super) family: &'static str,
    pub(super) by_program: usize,
    pub(super) by_kernel: usize,
}

pub(super) struct Conflicts {
    /// Time from the moment an address is free to its announcement.
    pub(super) taken_after: Duration,
    /// Dropped claims on a held VIP.
    pub(super) dropped: u64,
    /// Time from the first claim to the first defence, and the number of defences.
    pub(super) defended_after: Duration,
    pub(super) defences: usize,
    /// Correct neighbour entries during these claims: on a
    /// host that guards the VIP, and on one that does not.
    pub(super) guarded: Belief,
    pub(super) unguarded: Belief,
    /// Time from the first answer of a rival that sends no announcements to its report.
    pub(super) found_after: Duration,
    /// Step that `vipward explain` named while the agent was dead.
    pub(super) broken: String,
}

/// Number of readings of a neighbour entry, and of those with the right MAC.
#[derive(Clone, Copy, Default)]
pub(super) struct Belief {
    pub(super) looks: usize,
    pub(super) right: usize,
}

/// Figures of a VIP that three nodes share.
pub(super) struct Moves {
    /// Requests and datagrams around a planned move, and how many of each were lost.
    pub(super) requests: usize,
    pub(super) unanswered: usize,
    pub(super) sent: usize,
    pub(super) lost: usize,
    /// Time without an answer after the holder's loss of power, and its limit.
    pub(super) gap: Duration,
    pub(super) limit: Duration,
}

pub(super) struct Findings {
    pub(super) answers: Answers,
    /// MAC of the gateway in the neighbour entry after a claim, without Vipward and with it.
    pub(super) stolen_without: Mac,
    pub(super) kept_with: Mac,
    /// Claimant that the agent named.
    pub(super) named: Mac,
    pub(super) outage: Outage,
    pub(super) askers: usize,
    /// Answers to the askers, of each family.
    pub(super) many_hosts: Vec<ManyHosts>,
    pub(super) conflicts: Conflicts,
    pub(super) cluster: Moves,
}

impl Findings {
    pub(super) fn show(&self, narrator: Narrator) {
        let Self {
            answers,
            stolen_without,
            kept_with,
            named,
            outage,
            askers,
            many_hosts,
            conflicts,
            cluster,
        } = self;
        let probe = &outage.probe;
        let unanswered = probe.sent() - probe.answered();
        let mut rows = vec![
            ["", "Vipward", "without"].map(str::to_owned),
            [
                "answered by the program, received by the kernel".to_owned(),
                format!("{}, {}", answers.by_program, answers.received_by_kernel),
                format!("-, {} (node-b)", answers.other_kernel),
            ],
            [
                "after a claim, the gateway is at".to_owned(),
                kept_with.to_string(),
                format!("{stolen_without} (the rogue)"),
            ],
            ["named as the impostor".to_owned(), named.to_string(), "nobody".to_owned()],
            [
                format!("unanswered of {}, no agent for {:.1?}", probe.sent(), outage.dead_for),
                format!("{unanswered} ({} came meanwhile)", outage.asked_while_dead),
                String::new(),
            ],
        ];
        rows.extend(many_hosts.iter().map(|row| {
            [
                format!("answered of {askers} new askers, {}", row.family),
                row.by_program.to_string(),
                format!("{} (node-b)", row.by_kernel),
            ]
        }));
        rows.extend(conflicts.rows());
        rows.extend([
            [
                "unanswered when the holder has no power".to_owned(),
                format!("{} ms (at most {} ms)", cluster.gap.as_millis(), cluster.limit.as_millis()),
                String::new(),
            ],
            [
                format!("unanswered of {}, lost of {} in a planned move", cluster.requests, cluster.sent),
                format!("{}, {}", cluster.unanswered, cluster.lost),
                String::new(),
            ],
        ]);
        let width =
            |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let (first, second) = (width(0), width(1));
        narrator.chapter("What was measured");
        for [what, ours, without] in &rows {
            narrator.text(format!("{what:first$}   {ours:second$}   {without}").trim_end());
        }
        println!();
    }
}

impl Conflicts {
    fn rows(&self) -> [[String; 3]; 5] {
        let Belief { looks, right } = self.guarded;
        [
            [
                "an address in use is held, once it is free, after".to_owned(),
                format!("{} ms", self.taken_after.as_millis()),
                String::new(),
            ],
            [
                format!("a VIP claimed {} times is announced", self.dropped),
                format!("{} times, first after {:.1?}", self.defences, self.defended_after),
                String::new(),
            ],
            [
                "believed at its holder meanwhile".to_owned(),
                format!("{right} of {looks} (node-b, guards it)"),
                format!("{} of {} (client)", self.unguarded.right, self.unguarded.looks),
            ],
            [
                "a silent rival is named after".to_owned(),
                format!("{} ms (asked every second)", self.found_after.as_millis()),
                String::new(),
            ],
            [
                "explain names, when its agent is dead".to_owned(),
                format!("the step {}", self.broken),
                String::new(),
            ],
        ]
    }
}
