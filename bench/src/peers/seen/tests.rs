use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, SystemTime};

use vipward_tests::{
    frames::Mac,
    measure::{Answer, Answerer, DatagramReport, ProbeReport, Received, Request},
};

use super::{Seen, right_after, share_at};

const A: Mac = Mac([2, 0, 0, 0, 1, 1]);
const B: Mac = Mac([2, 0, 0, 0, 1, 2]);

fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Returns what was seen of requests and datagrams, each by the millisecond of sending, with who
/// answered or received it half a millisecond later.
fn seen(requests: &[(u64, &[Mac])], datagrams: &[(u64, Option<&str>)]) -> Seen {
    let half = Duration::from_micros(500);
    let answer =
        |sent: u64, mac: &Mac| Answer { by: Answerer { sha: *mac, eth_src: *mac }, at: at(sent) + half };
    let request = |(sent, macs): &(u64, &[Mac])| Request {
        sent_at: at(*sent),
        late: Duration::ZERO,
        answers: macs.iter().map(|mac| answer(*sent, mac)).collect(),
    };
    let received = datagrams.iter().enumerate().filter_map(|(number, (sent, node))| {
        Some(Received { number, node: (*node)?.to_owned(), at: at(*sent) + half })
    });
    Seen {
        wire: ProbeReport { interval: ms(1), requests: requests.iter().map(request).collect() },
        felt: DatagramReport {
            target: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 10), 5000).into(),
            sent: datagrams.iter().map(|(sent, _)| at(*sent)).collect(),
            received: received.collect(),
        },
    }
}

#[test]
fn silence_lasts_until_the_next_request_and_adds_up_over_gaps() {
    let seen = seen(&[(0, &[]), (10, &[A]), (11, &[]), (12, &[]), (15, &[B]), (16, &[]), (17, &[B])], &[]);
    assert_eq!(seen.silent(at(0)), ms(10 + 4 + 1));
    assert_eq!(seen.silent(at(10)), ms(4 + 1), "what was before does not count");
    assert_eq!(seen.silent(at(17)), Duration::ZERO);
}

#[test]
fn two_answers_of_one_mac_are_no_two_hosts() {
    let seen = seen(&[(0, &[A, A]), (1, &[A, B]), (4, &[B, A, B]), (5, &[B]), (6, &[])], &[]);
    assert_eq!(seen.doubled(at(0)), ms(3 + 1));
    assert_eq!(seen.doubled(at(2)), ms(1));
}

#[test]
fn another_answers_only_to_a_request_of_after_the_crash() {
    let seen = seen(&[(0, &[B]), (5, &[A]), (6, &[]), (9, &[B]), (10, &[B])], &[]);
    assert_eq!(seen.answered_by_another(at(4), A), Some(Duration::from_micros(5_500)));
    assert_eq!(seen.answered_by_another(at(4), B), Some(Duration::from_micros(1_500)));
    assert_eq!(seen.answered_by_another(at(11), A), None);
}

#[test]
fn another_receives_only_what_was_sent_after_the_crash() {
    let seen = seen(&[], &[(0, Some("b")), (3, Some("a")), (4, None), (8, Some("b"))]);
    assert_eq!(seen.received_by_another(at(2), "a"), Some(Duration::from_micros(6_500)));
    assert_eq!(seen.received_by_another(at(9), "a"), None);
    assert_eq!(seen.lost(at(0)), 1);
    assert_eq!(seen.lost(at(5)), 0, "what was lost before does not count");
}

#[test]
fn a_share_is_of_what_was_sent_in_that_time() {
    let felt =
        seen(&[], &[(0, Some("rogue")), (1, Some("rogue")), (2, None), (3, Some("n1")), (4, Some("rogue"))])
            .felt;
    assert!((share_at(&felt, "rogue", at(0), at(4)) - 0.5).abs() < f64::EPSILON);
    assert!((share_at(&felt, "rogue", at(3), at(5)) - 0.5).abs() < f64::EPSILON);
    assert!(share_at(&felt, "rogue", at(2), at(4)).abs() < f64::EPSILON);
    assert!(share_at(&felt, "rogue", at(5), at(9)).is_nan(), "of nothing there is no share");
}

#[test]
fn a_client_is_right_when_nothing_more_arrives_elsewhere() {
    let felt =
        seen(&[], &[(0, Some("n1")), (2, Some("rogue")), (3, None), (5, Some("n1")), (6, Some("n1"))]).felt;
    assert_eq!(right_after(&felt, "n1", at(1)), Some(ms(4)));
    assert_eq!(right_after(&felt, "rogue", at(1)), None, "the last went elsewhere");
    assert_eq!(right_after(&felt, "n1", at(9)), Some(Duration::ZERO), "it was right before");
}
