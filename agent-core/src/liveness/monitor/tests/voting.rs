//! When there is a quorum, and when a sole voter may act.

use super::*;

/// Description, the other voters, the quorum, their votes with the times, and when it is enough.
type Row = (&'static str, &'static [u8], usize, &'static [(u64, u8)], Option<u64>);

/// Returns a segment on which h has died at 1 s, as its set of this node and `others` finds at 1.3 s.
fn unanswering(others: &[u8], quorum: usize) -> Lan {
    let mut lan = Lan::start(plan(vec![holder(b'h', others, quorum)]));
    lan.run(1_000);
    lan.kill(b'h');
    lan
}

#[test]
fn a_vote_request_that_too_few_second_is_repeated_after_30_ms_and_changes_nothing() {
    let mut lan = unanswering(b"xy", 2);
    let asks = ["1300 asks x", "1300 asks y", "1330 asks x", "1330 asks y"];
    assert_eq!(lan.run(1_335), asks);
    assert_eq!(lan.run(5_000).iter().filter(|line| line.ends_with("unresponsive")).count(), 0);
    let requested: BTreeSet<_> = lan.requested.iter().collect();
    assert_eq!(requested.len() * 2, lan.requested.len(), "each request has its own number");
}

#[test]
fn the_engine_learns_of_silence_when_the_quorum_agrees_in_time() {
    let rows: [Row; 6] = [
        ("three nodes, the other agrees", b"x", 2, &[(1_305, b'x')], Some(1_315)),
        ("three nodes, it does not", b"x", 2, &[], None),
        ("four nodes, one agrees", b"xy", 2, &[(1_305, b'y')], Some(1_315)),
        ("all are needed, one agrees", b"xy", 3, &[(1_305, b'y')], None),
        ("all are needed, one agrees twice", b"xy", 3, &[(1_305, b'y'), (1_306, b'y')], None),
        ("all are needed, both agree", b"xy", 3, &[(1_305, b'y'), (1_310, b'x')], Some(1_320)),
    ];
    for (what, others, quorum, words, expected) in rows {
        let mut lan = unanswering(others, quorum);
        let mut lines = lan.run(1_300);
        for (at, from) in words {
            lines.extend(lan.run(*at));
            lan.second(*from, b'h');
        }
        lines.extend(lan.run(1_329));
        lines.retain(|line| !line.contains("asks"));
        assert_eq!(lines, expected.map(|at| format!("{at} unresponsive")).as_slice(), "{what}");
    }
}

#[test]
fn only_answers_of_members_to_this_vote_request_about_this_holder_count() {
    let mut lan = unanswering(b"x", 2);
    lan.run(1_330);
    let (before, now) = (lan.requested[0], lan.requested[1]);
    for (from, about, number) in
        [(b'x', b'h', before), (b'z', b'h', now), (b'x', b'z', now), (b'x', b'h', now + 1)]
    {
        lan.deliver(Kind::Vote, from, about, number);
        assert_eq!(lan.run(1_331), [""; 0]);
    }
    lan.deliver(Kind::Vote, b'x', b'h', now);
    assert_eq!(lan.run(1_341), ["1341 unresponsive"]);
}

#[test]
fn a_holder_that_answers_the_last_ping_is_not_unresponsive() {
    let mut lan = unanswering(b"x", 2);
    lan.run(1_305);
    // Until now, frames of all nodes were lost.
    lan.dead.clear();
    lan.second(b'x', b'h');
    assert_eq!(lan.run(10_000), [""; 0]);
    assert!(lan.pings.contains(&(1_305, 'h')), "{:?}", lan.pings);
}

#[test]
fn an_answer_that_comes_after_15_ms_is_too_late() {
    let mut lan = unanswering(b"x", 2);
    lan.run(1_316);
    lan.second(b'x', b'h');
    assert_eq!(lan.run(1_329), [""; 0]);
}

#[test]
fn the_engine_is_notified_again_while_the_holder_is_unresponsive_and_when_it_answers() {
    let mut lan = unanswering(b"x", 2);
    lan.run(1_300);
    lan.second(b'x', b'h');
    assert_eq!(lan.run(1_610), ["1310 unresponsive", "1610 asks x"]);
    lan.second(b'x', b'h');
    assert_eq!(lan.run(1_620), ["1620 unresponsive"]);
    lan.dead.clear();
    assert_eq!(lan.run(2_000), ["1650 answers"]);
    assert_eq!(lan.run(10_000), [""; 0]);
}

#[test]
fn a_late_own_ping_after_the_agreement_is_reported_too() {
    let mut lan = unanswering(b"x", 2);
    lan.run(1_300);
    lan.second(b'x', b'h');
    lan.run(1_350);
    lan.stall(1_800);
    assert_eq!(lan.lines, ["1800 answers"]);
}

#[test]
fn a_vote_request_is_seconded_only_by_a_member_that_finds_the_holder_unresponsive_itself() {
    let rows: [(&str, bool, u64, Plan, u8, bool); 5] = [
        ("unresponsive", true, 1_300, plan(vec![holder(b'h', b"x", 2)]), b'x', true),
        ("not yet", true, 1_290, plan(vec![holder(b'h', b"x", 2)]), b'x', false),
        ("it answers", false, 1_300, plan(vec![holder(b'h', b"x", 2)]), b'x', false),
        ("the asker is no member", true, 1_300, plan(vec![holder(b'h', b"x", 2)]), b'z', false),
        ("this node is no member", true, 9_000, plan(vec![contact(b'h')]), b'x', false),
    ];
    for (what, dies, at, plan, from, expected) in rows {
        let mut lan = Lan::start(plan);
        lan.run(1_000);
        if dies {
            lan.kill(b'h');
        }
        lan.run(at);
        lan.deliver(Kind::VoteRequest, from, b'h', 77);
        let lines = lan.run(at);
        assert_eq!(
            lines,
            Some(format!("{at} seconds {}, request 77", char::from(from))).filter(|_| expected).as_slice(),
            "{what}"
        );
    }
}

#[test]
fn a_vote_request_is_judged_by_what_the_program_has_seen_by_then() {
    let mut lan = unanswering(b"x", 2);
    lan.run(1_310);
    let sight = Sight { answered: at(1_300), received: at(1_311) };
    lan.program.holders.insert((session(b'h'), "eth0".to_owned()), sight);
    lan.deliver(Kind::VoteRequest, b'x', b'h', 77);
    assert_eq!(lan.run(1_310), [""; 0], "it has answered since the last look");
}

#[test]
fn an_only_monitor_needs_a_third_station_that_answers_after_the_silence() {
    let mut lan = unanswering(b"", 1);
    lan.run(1_250);
    lan.monitor.on_third_station(session(b'h'), at(1_250));
    let asks = ["1300 asks neighbours of h on eth0", "1400 asks neighbours of h on eth0"];
    assert_eq!(lan.run(1_450), asks, "what was received before does not count");
    lan.monitor.on_third_station(session(b'h'), at(1_450));
    assert_eq!(lan.run(1_540).last().map(String::as_str), Some("1460 unresponsive"), "after a last ping");
}

#[test]
fn an_only_monitor_without_neighbours_leaves_the_holder_to_its_lease() {
    let mut lan = unanswering(b"", 1);
    let lines = lan.run(6_000);
    assert!(lines.iter().all(|line| line.ends_with("asks neighbours of h on eth0")), "{lines:?}");
    assert!((45..=48).contains(&lines.len()), "{} questions", lines.len());
}

#[test]
fn others_who_count_from_now_on_are_asked_anew() {
    let mut lan = unanswering(b"x", 2);
    lan.run(1_305);
    lan.monitor.set_plan(plan(vec![holder(b'h', b"y", 2)]), at(1_305));
    lan.second(b'x', b'h');
    assert_eq!(lan.run(1_306), ["1305 asks y"], "the vote of x no longer counts");
}
