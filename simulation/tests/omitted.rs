//! Leaves out each effect of the agents and each input, one at a time, in a schedule that is harmless
//! otherwise. Each time a promise must break. Some may be left out, for a reason.
#![forbid(unsafe_code)]

use vipward_simulation::{
    Omitted::{self, *},
    Options,
    Sabotage::{self, Always, Once},
    Schedule, run,
};

/// The greatest number of schedules that may be needed.
const SEEDS: u64 = 600;
/// The number of schedules in which nothing is missed.
const HARMLESS: u64 = 60;

/// Returns the rule that a sabotage alone breaks, if it breaks one in so many schedules.
fn broken_by(sabotage: Sabotage, seeds: u64) -> Option<&'static str> {
    broken_in(|schedule| !schedule.has_controller(), sabotage, seeds)
}

/// Does the same for a sabotage of the controller.
fn broken_by_controller(sabotage: Sabotage, seeds: u64) -> Option<&'static str> {
    broken_in(Schedule::has_controller, sabotage, seeds)
}

fn broken_in(of: impl Fn(&Schedule) -> bool, sabotage: Sabotage, seeds: u64) -> Option<&'static str> {
    let sabotaged = Options { sabotage: Some(sabotage), ..Options::default() };
    let schedules = (1..).map(Schedule::generate).filter(of);
    schedules.take(usize::try_from(seeds).expect("a small number")).find_map(|schedule| {
        let rule = run(&schedule, sabotaged).violation?.rule;
        run(&schedule, Options::default()).violation.is_none().then_some(rule)
    })
}

#[test]
fn what_the_controller_leaves_out_once_is_missed() {
    let all = [
        Reserve,
        Keep,
        Free,
        WriteStatus,
        ClearStatus,
        ListSlices,
        Problem,
        ProblemOver,
        WriteEvent,
        ReservedReply,
        StatusReply,
        LeaderSeesService,
        LeaderSeesServiceGone,
        LeaderSeesClaimGone,
        LeaderSeesPool,
        LeaderSeesNamespace,
    ];
    let mut kept = Vec::new();
    for omitted in all {
        let rule = broken_by_controller(Once(omitted), SEEDS);
        println!("{omitted:?}: {rule:?}");
        kept.extend(rule.is_none().then_some(omitted));
    }
    assert!(kept.is_empty(), "{kept:?}, once");
}

/// One is not missed: the outcome of the write shows the same object, or the next change does.
#[test]
fn what_the_controller_always_leaves_out_is_missed() {
    let rule = broken_by_controller(Always(LeaderSeesClaim), SEEDS);
    println!("{rule:?}");
    assert!(rule.is_some());
}

#[test]
fn what_the_controller_leaves_out_without_harm_has_a_reason() {
    // The nodes' Leases come once a second, and each input makes it read the clock.
    assert_eq!(broken_by_controller(Always(LeaderDeadline), HARMLESS), None);
}

#[test]
fn what_is_left_out_once_is_missed() {
    let all = [
        PutHeld,
        PutForeign,
        PutHandover,
        RemoveEntry,
        FirstRound,
        Observe,
        WriteLease,
        ReadLease,
        WriteClaim,
        DeleteClaim,
        ReadClaim,
        Watch,
        Changed,
        SeenClaim,
        SeenNode,
        SeenService,
        Reply,
    ];
    for omitted in all {
        let rule = broken_by(Once(omitted), SEEDS);
        println!("{omitted:?}: {rule:?}");
        assert!(rule.is_some(), "{omitted:?}, once");
    }
}

/// One is not missed: the next one does its work, or the agent reads the maps again half a minute later.
#[test]
fn what_is_left_out_always_is_missed_if_another_makes_up_for_one() {
    let all = [
        PutPeer,
        RemovePeer,
        PutOwnMac,
        SetDeadline,
        LaterRound,
        Probe,
        AskHost,
        Moved,
        Sighted,
        SeenLease,
        Deadline,
    ];
    for omitted in all {
        let rule = broken_by(Always(omitted), SEEDS);
        println!("{omitted:?}: {rule:?}");
        assert!(rule.is_some(), "{omitted:?}, always");
    }
}

#[test]
fn what_is_left_out_without_harm_has_a_reason() {
    let all: [(Omitted, &str); 5] = [
        (ProbeHeld, "it finds rivals that answer and never announce, and no host of the model is one"),
        (SetHeeding, "a program with a key only receives words about its session that it need not"),
        (Show, "findings and statuses are for people and other programs"),
        (Contested, "it makes a node read a claim that its watch does not show, which S1 excepts"),
        (Yielded, "the program gives way by itself, and the agent finds that with the next event or reading"),
    ];
    for (omitted, why) in all {
        assert_eq!(broken_by(Always(omitted), HARMLESS), None, "{omitted:?}: {why}");
    }
}
