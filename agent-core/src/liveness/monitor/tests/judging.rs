//! When one monitor finds a holder unresponsive.

use super::*;

#[test]
fn a_holder_that_answers_is_never_unresponsive() {
    let mut lan = Lan::start(plan(vec![holder(b'h', b"x", 2)]));
    assert_eq!(lan.run(600_000), [""; 0]);
    assert_eq!(lan.pings.len(), 6_001, "one ping each 100 ms");
    let traffic = &lan.monitor.traffic(at(600_000))[0];
    assert_eq!((traffic.sent, traffic.lost), (6_001, 0));
    assert_eq!(traffic.round_trip_seconds, Some(0.0003));
}

#[test]
fn a_holder_is_unresponsive_300_ms_after_the_last_ping_that_it_answered_and_is_pinged_urgently_before() {
    for (scale, times) in [(Scale::One, 1), (Scale::Two, 2), (Scale::Four, 4)] {
        let mut lan = Lan::scaled(scale, plan(vec![holder(b'h', b"x", 2)]));
        lan.run(1_000 * times);
        lan.kill(b'h');
        lan.pings.clear();
        assert_eq!(lan.run(1_310 * times)[0], format!("{} asks x", 1_300 * times));
        let pings: Vec<u64> = lan.pings.iter().map(|(at, _)| at / times).collect();
        assert_eq!(pings, [1_100, 1_200, 1_220, 1_240, 1_260, 1_280, 1_300], "times {times}");
    }
}

#[test]
fn a_late_own_ping_voids_the_suspicion() {
    // The monitor sleeps from this time on, and the holder is dead since 1 s.
    for (asleep, awake, suspects) in [(1_260, 1_450, 1_450), (1_240, 1_500, 1_800), (1_299, 9_000, 9_300)] {
        let mut lan = Lan::start(plan(vec![holder(b'h', b"x", 2)]));
        lan.run(1_000);
        lan.kill(b'h');
        lan.run(asleep);
        lan.stall(awake);
        let lines = lan.run(20_000);
        assert_eq!(lines[0], format!("{suspects} asks x"), "asleep from {asleep} to {awake}");
        assert_eq!(lan.monitor.counts().late, u64::from(suspects > awake));
    }
}

#[test]
fn fewer_than_six_pings_say_nothing() {
    let mut lan = Lan::start(plan(vec![holder(b'h', b"x", 2)]));
    lan.run(1_000);
    lan.kill(b'h');
    // A slow host wakes the monitor each 100 ms only.
    for now in (1_100..=1_500).step_by(100) {
        lan.stall(now);
        assert_eq!(lan.lines, [""; 0], "at {now} ms");
    }
    lan.stall(1_600);
    assert_eq!(lan.lines, ["1600 asks x"]);
}

#[test]
fn a_holder_that_has_never_answered_is_not_unresponsive() {
    let mut lan = Lan::start(plan(vec![holder(b'h', b"x", 2)]));
    lan.kill(b'h');
    // The slot of the maps still has the times of another peer.
    let sight = Sight { answered: Boottime::from_nanos(at(0).as_nanos() - 1), received: at(0) };
    lan.program.holders.insert((session(b'h'), "eth0".to_owned()), sight);
    assert_eq!(lan.run(60_000), [""; 0]);
}

#[test]
fn an_answer_over_any_segment_counts() {
    let two = Peer { paths: vec![path(b'h', "eth0"), path(b'h', "eth1")], ..holder(b'h', b"x", 2) };
    let mut lan = Lan::start(plan(vec![two]));
    lan.run(1_000);
    lan.kill(b'h');
    assert_eq!(lan.run(10_000), [""; 0]);
    lan.dead.push(path(b'h', "eth1"));
    assert_eq!(lan.run(10_310)[0], "10300 asks x");
}

#[test]
fn a_node_whose_session_is_not_watched_is_pinged_rarely_and_never_suspected() {
    let mut lan = Lan::start(plan(vec![contact(b'h')]));
    lan.run(1_000);
    lan.kill(b'h');
    assert_eq!(lan.run(31_000), [""; 0]);
    assert!((100..=105).contains(&lan.pings.len()), "{} pings in 31 s", lan.pings.len());
    // Rare pings prove nothing when it is watched from now on.
    lan.monitor.set_plan(plan(vec![holder(b'h', b"x", 2)]), at(31_000));
    let lines = lan.run(40_000);
    let first: u64 = lines[0].strip_suffix(" asks x").expect("a vote request").parse().expect("a time");
    assert!((31_200..=31_300).contains(&first), "{first}");
    assert_eq!(lan.monitor.counts().late, 0, "no ping was late");
}

#[test]
fn an_older_answer_that_comes_late_or_again_changes_nothing() {
    let mut lan = Lan::start(plan(vec![holder(b'h', b"x", 2)]));
    lan.run(1_000);
    lan.kill(b'h');
    lan.run(1_250);
    let sight = Sight { answered: at(700), received: at(1_250) };
    lan.program.holders.insert((session(b'h'), "eth0".to_owned()), sight);
    assert_eq!(lan.run(1_310)[0], "1300 asks x");
}

#[test]
fn without_a_key_nothing_is_sent_and_nothing_suspected() {
    let mut lan = Lan::start(Plan { key: None, ..plan(vec![holder(b'h', b"x", 2)]) });
    assert_eq!(lan.run(10_000), [""; 0]);
    assert_eq!(lan.pings, []);
}

#[test]
fn a_holder_that_stays_unresponsive_is_pinged_as_often_as_before() {
    let mut lan = Lan::start(plan(vec![holder(b'h', b"x", 2)]));
    lan.run(1_000);
    lan.kill(b'h');
    lan.run(10_000);
    lan.pings.clear();
    lan.run(11_000);
    assert_eq!(lan.pings.len(), 10);
}

#[test]
fn pings_and_losses_are_counted_over_all_peers_so_far() {
    let mut lan = Lan::start(plan(vec![holder(b'h', b"x", 2), contact(b'x')]));
    lan.run(1_000);
    lan.kill(b'h');
    lan.run(9_000);
    let sent = |lan: &Lan| u64::try_from(lan.pings.len()).expect("a number");
    let counts = lan.monitor.counts();
    assert_eq!(counts.pings, sent(&lan));
    let lost: u64 = lan.monitor.traffic(at(9_000)).iter().map(|peer| peer.lost).sum();
    assert!(lost > 50 && counts.lost == lost, "{counts:?}, not {lost}");
    // A peer that leaves takes none with it.
    lan.monitor.set_plan(plan(vec![contact(b'x')]), at(9_000));
    lan.run(12_000);
    assert_eq!((lan.monitor.counts().pings, lan.monitor.counts().lost), (sent(&lan), lost));
}

#[test]
fn pings_that_could_not_be_sent_show_nothing() {
    let mut lan = Lan::start(plan(vec![holder(b'h', b"x", 2)]));
    lan.run(1_000);
    lan.kill(b'h');
    for now in (1_000..3_000).step_by(50) {
        lan.run(now);
        lan.monitor.on_unsent(session(b'h'), at(now));
    }
    assert_eq!(lan.lines, [""; 0]);
    assert_eq!(lan.run(3_300).first().map(String::as_str), Some("3250 asks x"), "300 ms after the last one");
}

#[test]
fn a_peer_that_does_not_have_a_replaced_key_yet_is_not_unresponsive() {
    let mut lan = Lan::start(plan(vec![holder(b'h', b"x", 2)]));
    lan.run(1_010);
    lan.kill(b'h');
    lan.monitor.forget_answers(at(1_010));
    assert_eq!(lan.run(3_000), [""; 0]);
    lan.dead.clear();
    lan.run(4_000);
    lan.kill(b'h');
    assert!(!lan.run(4_300).is_empty(), "once it has answered with the new one");
}
