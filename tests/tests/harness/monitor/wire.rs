use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use vipward_tests::{
    agent::ip,
    frames::{Arp, Mac},
    kit::wait_until,
    lan::{Responder, Wire},
    measure::{AnnouncementForm, Answerer, DoubleKind, Gap, Monitor, Move},
};

use super::{A, B, PATIENCE, Segment, VIP};

#[test]
fn nodes_that_always_answer_show_no_gap_no_double_and_no_move() -> Result<()> {
    let segment = Segment::new("mon-none")?;
    let vips = [VIP, ip(11), ip(12)];
    segment.a.add_address("lo", "192.0.2.10/32".parse::<ipnet::IpNet>()?)?;
    // Only a has the VIP, and the others answer for their own addresses: the
    // kernels are three answerers that never fail.
    let monitor = Monitor::start(&segment.client, "eth0", &vips)?;
    monitor.wait_for_requests(500, PATIENCE)?;
    let report = monitor.stop()?;
    for (vip, mac) in vips.into_iter().zip([A, A, B]) {
        let seen = report.vip(vip)?;
        assert!(seen.requests.len() >= 500, "{report}");
        assert_eq!((seen.gaps(), seen.doubles(), seen.moves()), (vec![], vec![], vec![]), "{report}");
        assert_eq!(seen.announcements, [], "{report}");
        let answerer = Answerer { sha: mac, eth_src: mac };
        assert_eq!(seen.answers_by(), BTreeMap::from([(answerer, seen.requests.len())]), "{report}");
    }
    assert!(report.vip(ip(99)).is_err(), "that one was not watched");
    Ok(())
}

#[test]
fn a_gap_of_five_milliseconds_is_noticed_in_one_vip_and_not_in_the_other() -> Result<()> {
    let segment = Segment::new("mon-gap")?;
    let responder = Responder::start(&segment.a, "eth0", VIP, A)?;
    let monitor = Monitor::start(&segment.client, "eth0", &[VIP, ip(12)])?;
    monitor.wait_until_answered_by(VIP, A, PATIENCE)?;
    monitor.wait_for_requests(100, PATIENCE)?;

    // On a busy machine the monitor may sleep through a gap. The test
    // makes gaps until the monitor sends a request in one.
    let mut asked_in_gap = 0;
    for _ in 0..50 {
        let ignored_before = responder.counts().ignored;
        monitor.note("a gap of 5 ms");
        responder.pause_for(Duration::from_millis(5));
        monitor.wait_for_requests(50, PATIENCE)?;
        monitor.wait_until_answered_by(VIP, A, PATIENCE)?;
        asked_in_gap = responder.counts().ignored - ignored_before;
        if asked_in_gap >= 4 {
            break;
        }
    }
    assert!(asked_in_gap >= 4, "in no gap were there four requests; the last had {asked_in_gap}");

    let report = monitor.stop()?;
    let ignored = responder.stop()?.ignored;
    let seen = report.vip(VIP)?;
    assert_eq!(seen.requests.len() - seen.answered(), ignored, "{report}");
    let longest = seen.longest_gap();
    assert!((Duration::from_millis(4)..=Duration::from_millis(7)).contains(&longest), "{report}");
    // A late request is followed by one that seems early.
    assert!(seen.gaps()[0].elapsed() >= Some(longest.saturating_sub(Duration::from_millis(1))), "{report}");
    assert!(report.to_string().contains("--- a gap of 5 ms"), "{report}");
    assert_eq!((seen.doubles(), seen.moves()), (vec![], vec![]), "{report}");
    assert_eq!(report.vip(ip(12))?.gaps(), [], "{report}");
    Ok(())
}

#[test]
fn two_who_answer_the_same_request_are_a_double() -> Result<()> {
    let segment = Segment::new("mon-double")?;
    let holder = Responder::start(&segment.a, "eth0", VIP, A)?;
    let monitor = Monitor::start(&segment.client, "eth0", &[VIP])?;
    monitor.wait_until_answered_by(VIP, A, PATIENCE)?;
    let alone_until = SystemTime::now();
    let rival = Responder::start(&segment.b, "eth0", VIP, B)?;
    wait_until(PATIENCE, "the rival to answer", || Ok(rival.counts().answered >= 20))?;
    let report = monitor.stop()?;
    drop((holder, rival));
    let seen = report.vip(VIP)?;
    assert_eq!(seen.between(SystemTime::UNIX_EPOCH, alone_until).doubles(), [], "{report}");
    let same = seen.doubles().into_iter().filter(|double| match double.kind {
        DoubleKind::SameRequest { first, second } => [first, second] == [A, B] || [first, second] == [B, A],
        DoubleKind::Overlap { .. } => false,
    });
    assert!(same.count() >= 5, "{report}");
    Ok(())
}

#[test]
fn a_move_is_noticed_with_its_announcement_and_without_a_double() -> Result<()> {
    let segment = Segment::new("mon-move")?;
    let old = Responder::start(&segment.a, "eth0", VIP, A)?;
    let new = Responder::start(&segment.b, "eth0", VIP, B)?;
    new.set_answering(false);
    let monitor = Monitor::start(&segment.client, "eth0", &[VIP])?;
    monitor.wait_until_answered_by(VIP, A, PATIENCE)?;

    let moved_from = monitor.note("the VIP moves");
    old.set_answering(false);
    monitor.wait_until_silent(VIP, Duration::from_millis(10), PATIENCE)?;
    new.set_answering(true);
    let at_b = Wire::open(&segment.b, "eth0")?;
    at_b.send(&Arp::gratuitous_request(B, VIP, Mac::ZERO).to_bytes())?;
    at_b.send(&Arp::gratuitous_reply(B, VIP, B).to_bytes())?;
    monitor.wait_until_answered_by(VIP, B, PATIENCE)?;

    let report = monitor.stop()?;
    let seen = report.vip(VIP)?;
    assert_eq!(seen.doubles(), [], "{report}");
    let moves = seen.moves();
    assert_eq!(moves.len(), 1, "{report}");
    let Move { at, from, to } = moves[0];
    assert_eq!((from, to), (A, B), "{report}");
    assert!(at >= moved_from, "{report}");
    // On a busy machine the monitor sends fewer requests than one a
    // millisecond, and a single answer may be late.
    let is_long = |gap: &Gap| gap.proven() >= Duration::from_millis(5);
    assert_eq!(seen.gaps().iter().filter(|gap| is_long(gap)).count(), 1, "{report}");
    let forms: Vec<_> = seen.announcements.iter().map(|received| (received.by.sha, received.form)).collect();
    assert_eq!(forms, [(B, AnnouncementForm::Request), (B, AnnouncementForm::Reply)], "{report}");
    assert!(
        seen.first_announced_after(moved_from, B).is_some()
            && seen.first_announced_after(moved_from, A).is_none()
    );
    Ok(())
}
