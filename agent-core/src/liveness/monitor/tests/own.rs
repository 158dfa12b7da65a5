//! A monitor reports on its own node: contact, its monitors, and the end of its session. It sends
//! other nodes expiry notices.

use super::*;

#[test]
fn the_end_of_a_session_is_reported_at_once_each_100_ms_for_10_s_then_each_second() {
    let ended = vec![Ended { session: session(b'h'), paths: vec![path(b'h', "eth0")], takers: Vec::new() }];
    let mut lan = Lan::start(Plan { ended, ..plan(Vec::new()) });
    let lines = lan.run(15_500);
    let often: Vec<_> = (0..=100).map(|nth| format!("{} tells h", nth * 100)).collect();
    assert_eq!(lines[..101], often);
    let rarely: Vec<_> = (11..=15).map(|nth| format!("{nth}000 tells h")).collect();
    assert_eq!(lines[101..], rarely);
    lan.monitor.set_plan(plan(Vec::new()), at(15_500));
    assert_eq!(lan.run(60_000), [""; 0], "its node has another session");
}

#[test]
fn a_plan_that_says_the_same_tells_nothing_anew() {
    let ended = vec![Ended { session: session(b'h'), paths: vec![path(b'h', "eth0")], takers: Vec::new() }];
    let plan = Plan { ended, ..plan(Vec::new()) };
    let mut lan = Lan::start(plan.clone());
    lan.run(50);
    lan.monitor.set_plan(plan, at(50));
    assert_eq!(lan.run(99), [""; 0]);
}

#[test]
fn the_nodes_that_may_take_an_ended_session_s_vips_are_notified_twice() {
    let takers = vec![path(b'x', "eth0"), path(b'y', "eth0")];
    let ended = vec![Ended { session: session(b'h'), paths: vec![path(b'h', "eth0")], takers }];
    let plan = Plan { ended, ..plan(Vec::new()) };
    let mut lan = Lan::start(plan.clone());
    let mut lines = lan.run(150);
    lan.monitor.set_plan(plan, at(150));
    lines.extend(lan.run(1_000));
    lines.retain(|line| !line.ends_with(" h"));
    assert_eq!(lines, ["0 tells x", "0 tells y", "100 tells x", "100 tells y"]);
}

#[test]
fn an_expiry_notice_for_another_nodes_session_is_reported_whoever_the_node_is() {
    let mut lan = Lan::start(plan(vec![contact(b'x')]));
    for (now, ended) in [(50, b'x'), (60, b'z')] {
        lan.run(now);
        let frame = Frame::ended(session(ended));
        let received = Received { interface: "eth0".into(), from: path(b'x', "eth0").mac, frame };
        lan.monitor.on_frame(received, at(now));
    }
    lan.run(100);
    lan.found.retain(|line| line.contains("expired"));
    assert_eq!(lan.found, ["50 x has expired", "60 z has expired"]);
}

#[test]
fn each_word_that_this_nodes_session_has_ended_is_reported_once() {
    let mut lan = Lan::start(plan(vec![contact(b'h')]));
    lan.run(1_000);
    lan.program.notified = Some(ExpiryNotice { session: session(b'w'), number: 1 });
    assert_eq!(lan.run(10_000), ["1200 ended"]);
    lan.program.notified = Some(ExpiryNotice { session: session(b'w'), number: 3 });
    assert_eq!(lan.run(20_000), ["10200 ended"]);
}

#[test]
fn a_member_that_pings_often_is_missed_after_220_ms() {
    let mut lan = Lan::start(Plan { set: vec![wid(b'x')], ..plan(vec![contact(b'x')]) });
    for now in (0..=2_000).step_by(100) {
        lan.run(now);
        lan.pinged(b'x');
    }
    lan.found.retain(|line| line.contains("pinged"));
    assert_eq!(lan.found.len(), 1, "{:?}", lan.found);
    lan.run(5_000);
    assert_eq!(lan.found.last().map(String::as_str), Some("2220 pinged by x: false"));
}

#[test]
fn a_member_that_does_not_know_yet_that_it_counts_is_not_missed_between_its_rare_pings() {
    let mut lan = Lan::start(Plan { set: vec![wid(b'x')], ..plan(vec![contact(b'x')]) });
    for now in (0..=6_000).step_by(300) {
        lan.run(now);
        lan.pinged(b'x');
    }
    lan.run(7_500);
    lan.found.retain(|line| line.contains("pinged"));
    assert_eq!(lan.found[1..], ["7000 pinged by x: false"], "{:?}", lan.found);
}

#[test]
fn a_monitor_that_never_pings_is_reported_after_a_second() {
    let mut lan = Lan::start(plan(vec![contact(b'x')]));
    lan.run(5_000);
    lan.found.retain(|line| line.contains("pinged"));
    assert_eq!(lan.found, ["1000 pinged by x: false"]);
}

#[test]
fn contact_is_an_answer_within_a_second_and_a_one_way_link_a_second_without_any_frame() {
    let mut lan = Lan::start(plan(vec![contact(b'x'), contact(b'y')]));
    lan.run(3_000);
    assert_eq!(lan.found[0], "300 eth0 received: true, answers: Lately");
    lan.found.clear();
    // Both answer up to 3 s. y pings this node for a second more.
    lan.kill(b'x');
    lan.kill(b'y');
    for now in (3_100..=4_000).step_by(100) {
        lan.run(now);
        lan.pinged(b'y');
    }
    lan.run(9_000);
    lan.found.retain(|line| line.contains("eth0"));
    let expected =
        ["4000 eth0 received: true, answers: NoLonger", "5000 eth0 received: false, answers: NoLonger"];
    assert_eq!(lan.found, expected);
}

#[test]
fn after_a_key_was_replaced_under_its_number_no_peer_has_answered_yet() {
    let mut lan = Lan::start(plan(vec![contact(b'x'), contact(b'y')]));
    lan.run(3_000);
    lan.kill(b'x');
    lan.kill(b'y');
    lan.monitor.forget_answers(at(3_001));
    lan.found.clear();
    for now in (3_100..=6_000).step_by(100) {
        lan.run(now);
        lan.pinged(b'x');
    }
    lan.found.retain(|line| line.contains("eth0"));
    assert_eq!(lan.found, ["3001 eth0 received: true, answers: None"]);
}

#[test]
fn a_one_way_link_counts_after_a_second_of_listening() {
    let mut lan = Lan::start(plan(vec![contact(b'x')]));
    lan.kill(b'x');
    lan.run(999);
    assert!(!lan.found.iter().any(|line| line.contains("eth0")), "{:?}", lan.found);
    lan.run(1_000);
    assert!(lan.found.contains(&"1000 eth0 received: false, answers: None".to_owned()), "{:?}", lan.found);
}

#[test]
fn a_host_that_stood_still_listens_for_a_second_before_it_is_one_way() {
    let mut lan = Lan::start(plan(vec![contact(b'x')]));
    lan.run(3_000);
    lan.kill(b'x');
    lan.found.clear();
    lan.stall(10_000);
    lan.run(20_000);
    lan.found.retain(|line| line.contains("eth0"));
    assert_eq!(lan.found, ["11000 eth0 received: false, answers: None"]);
}
