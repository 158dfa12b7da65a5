use std::net::Ipv4Addr;

use super::*;
use crate::measure::Answer;

const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const B: Mac = Mac([2, 0, 0, 0, 0, 2]);
const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));

/// A description, the requests, and the expected doubles.
type Row<'a> = (&'a str, &'a [(u64, &'a [Mac])], &'a [(u64, DoubleKind)]);

fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

/// Returns a report of requests at these milliseconds, each with the MACs that answered it at once.
fn report(requests: &[(u64, &[Mac])]) -> VipReport {
    let mut report = VipReport::new(VIP, at(0));
    for (ms, macs) in requests {
        let sent_at = at(*ms);
        let answers =
            macs.iter().map(|sha| Answer { by: Answerer { sha: *sha, eth_src: *sha }, at: sent_at });
        report.requests.push(Request { sent_at, late: Duration::ZERO, answers: answers.collect() });
    }
    report
}

#[test]
fn gaps_last_until_the_next_answer_and_the_longest_comes_first() {
    let report = report(&[(0, &[A]), (1, &[]), (2, &[A]), (3, &[]), (9, &[]), (10, &[B]), (11, &[])]);
    let gaps = [
        Gap { from: at(3), until: Some(at(10)), unanswered: 2 },
        Gap { from: at(1), until: Some(at(2)), unanswered: 1 },
        Gap { from: at(11), until: None, unanswered: 1 },
    ];
    assert_eq!(report.gaps(), gaps);
    assert_eq!(report.longest_gap(), Duration::from_millis(2), "only what was asked is proven");
    assert_eq!(gaps[0].elapsed(), Some(Duration::from_millis(7)));
    assert_eq!(gaps[2].elapsed(), None);
}

#[test]
fn time_in_which_nothing_was_asked_is_no_gap() {
    assert_eq!(report(&[(0, &[A]), (500, &[A])]).gaps(), []);
    assert_eq!(report(&[]).gaps(), []);
}

#[test]
fn doubles_are_two_answers_to_one_request_or_an_old_answer_after_a_new_one() {
    let same = |first, second| DoubleKind::SameRequest { first, second };
    let overlap = |again, after| DoubleKind::Overlap { again, after };
    let rows: [Row<'_>; 7] = [
        ("one answers throughout", &[(0, &[A]), (1, &[A])], &[]),
        ("a plain move", &[(0, &[A]), (1, &[A]), (2, &[B]), (3, &[B])], &[]),
        ("one request, two answers", &[(0, &[A]), (1, &[B, A])], &[(1, same(B, A))]),
        ("one request, two answers with one MAC, as in a handover", &[(0, &[B, B])], &[]),
        ("the old one answers again", &[(0, &[A]), (1, &[B]), (2, &[A])], &[(2, overlap(A, B))]),
        ("turns of seconds are moves", &[(0, &[A]), (3000, &[B]), (9000, &[A]), (9001, &[B])], &[]),
        (
            "an old one that wakes up while the new one answers",
            &[(0, &[A]), (3000, &[B]), (8999, &[B]), (9000, &[A]), (9001, &[B])],
            &[(9001, overlap(B, A))],
        ),
    ];
    for (description, requests, expected) in rows {
        let found: Vec<_> =
            report(requests).doubles().iter().map(|double| (double.at, double.kind)).collect();
        let expected: Vec<_> = expected.iter().map(|(ms, kind)| (at(*ms), *kind)).collect();
        assert_eq!(found, expected, "{description}");
    }
}

#[test]
fn moves_pass_over_silence() {
    let report = report(&[(0, &[A]), (1, &[]), (2, &[B]), (3, &[B]), (4000, &[A])]);
    let moves = [Move { at: at(2), from: A, to: B }, Move { at: at(4000), from: B, to: A }];
    assert_eq!(report.moves(), moves);
    assert_eq!(report.doubles(), [], "away and back after seconds is two moves");
    assert_eq!(report.first_answered_after(at(1)), Some(at(2)));
}

#[test]
fn a_part_of_a_report_has_the_requests_and_answers_of_its_time() {
    let mut whole = report(&[(0, &[]), (1, &[A]), (2, &[])]);
    for ms in [0, 1, 2] {
        let by = Answerer { sha: A, eth_src: A };
        whole.announcements.push(Announcement { at: at(ms), by, form: AnnouncementForm::Reply });
    }
    let part = whole.between(at(1), at(2));
    assert_eq!((part.requests.len(), part.answered(), part.announcements.len()), (1, 1, 1));
    assert_eq!(whole.first_announced_after(at(1), A), Some(at(1)));
    assert_eq!(whole.first_announced_after(at(1), B), None);
}

#[test]
fn the_timeline_reads_in_order_with_what_the_test_did() {
    let vip = report(&[(0, &[A]), (10, &[]), (20, &[B]), (21, &[A])]);
    let notes = vec![Note { at: at(5), text: "the deed".to_owned() }];
    let whole = MonitorReport { started: at(0), vips: BTreeMap::from([(VIP, vip)]), notes };
    let text = whole.to_string();
    let timeline: Vec<_> = text.lines().skip(1).collect();
    assert_eq!(
        timeline,
        [
            "     0.000 s  192.0.2.10 answered with 02:00:00:00:00:01",
            "     0.005 s  --- the deed",
            "     0.010 s  192.0.2.10 unanswered: 1 requests, answered again after 10ms",
            "     0.020 s  192.0.2.10 moved 02:00:00:00:00:01 -> 02:00:00:00:00:02",
            "     0.021 s  192.0.2.10 DOUBLE answered with 02:00:00:00:00:01 again after 02:00:00:00:00:02",
            "     0.021 s  192.0.2.10 moved 02:00:00:00:00:02 -> 02:00:00:00:00:01",
        ],
        "{text}"
    );
}

#[test]
fn how_late_the_monitor_was_about_an_instant_says_nothing_of_other_times() {
    let mut report = report(&[(0, &[A]), (90, &[A]), (100, &[A]), (140, &[A]), (200, &[A])]);
    for (request, late) in report.requests.iter_mut().zip([30, 1, 15, 2, 40]) {
        request.late = Duration::from_millis(late);
    }
    assert_eq!(report.delay_of_monitor_about(at(95)), Duration::from_millis(15));
    assert_eq!(report.delay_of_monitor_about(at(1_000)), Duration::ZERO);
}
