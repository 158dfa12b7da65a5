//! The simulator bites: without one part of the protocol it finds a violation, in a schedule that
//! is harmless with that part.

use vipward_simulation::{Options, Sabotage, Schedule, run};

/// The greatest number of schedules that may be needed.
const SEEDS: u64 = 3_000;

/// Plays schedules until one breaks one of the `rules` because of the sabotage alone.
fn is_noticed(sabotage: Sabotage, rules: &[&str]) {
    let sabotaged = Options { sabotage: Some(sabotage), ..Options::default() };
    for seed in 1..=SEEDS {
        let schedule = Schedule::generate(seed);
        let Some(violation) = run(&schedule, sabotaged).violation else { continue };
        if rules.contains(&violation.rule) && run(&schedule, Options::default()).violation.is_none() {
            println!("{sabotage:?} was noticed by schedule {seed}: {violation}");
            return;
        }
    }
    panic!("{sabotage:?} was not noticed in {SEEDS} schedules");
}

#[test]
fn a_program_that_ignores_the_fence_is_noticed() {
    is_noticed(Sabotage::NoFence, &["S1"]);
}

#[test]
fn waiting_without_a_margin_is_noticed() {
    is_noticed(Sabotage::NoMargin, &["S1"]);
}

#[test]
fn taking_over_without_the_deposing_write_is_noticed() {
    is_noticed(Sabotage::NoDeposing, &["S1", "S2"]);
}

#[test]
fn renewing_over_an_ended_session_is_noticed() {
    is_noticed(Sabotage::NoSessionCheck, &["S1", "S2"]);
}

#[test]
fn a_program_that_does_not_yield_is_noticed() {
    is_noticed(Sabotage::NoYield, &["S2"]);
}

#[test]
fn breaking_before_making_is_noticed() {
    is_noticed(Sabotage::BreakBeforeMake, &["L2"]);
}

#[test]
fn a_start_that_forgets_the_peers_is_noticed() {
    is_noticed(Sabotage::ForgetPeers, &["S2"]);
}

#[test]
fn going_on_with_the_watches_after_a_restore_is_noticed() {
    is_noticed(Sabotage::NoListing, &["R1", "L1", "convergence"]);
}

#[test]
fn taking_a_refused_entry_for_written_is_noticed() {
    is_noticed(Sabotage::NoStaleEntries, &["S1", "S2"]);
}

#[test]
fn taking_a_yielded_vip_back_without_a_question_is_noticed() {
    is_noticed(Sabotage::NoQuestion, &["S2"]);
}

#[test]
fn sharing_without_consent_is_noticed() {
    is_noticed(Sabotage::NoConsent, &["owner"]);
}

#[test]
fn forgetting_whose_a_vip_is_is_noticed() {
    is_noticed(Sabotage::NoRecord, &["owner"]);
}
