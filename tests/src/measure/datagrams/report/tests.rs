use std::net::Ipv4Addr;

use super::*;

fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

/// Returns a report of datagrams sent at these milliseconds. The named node
/// received each a tenth of a millisecond later.
fn report(datagrams: &[(u64, Option<&str>)]) -> DatagramReport {
    let mut report = DatagramReport::new((Ipv4Addr::new(192, 0, 2, 10), 9).into());
    for (number, (ms, node)) in datagrams.iter().enumerate() {
        report.sent.push(at(*ms));
        let received = node.map(|node| Received {
            number,
            node: node.to_owned(),
            at: at(*ms) + Duration::from_micros(100),
        });
        report.received.extend(received);
    }
    report
}

#[test]
fn interruptions_last_until_the_next_datagram_that_arrives() {
    let report = report(&[
        (0, Some("a")),
        (1, None),
        (2, Some("a")),
        (3, None),
        (40, None),
        (41, Some("b")),
        (42, None),
    ]);
    assert_eq!(report.lost(), [1, 3, 4, 6]);
    let interruptions = report.interruptions();
    assert_eq!(interruptions[0], Interruption { first: 3, from: at(3), until: Some(at(41)), lost: 2 });
    assert_eq!(interruptions[0].elapsed(), Some(Duration::from_millis(38)));
    assert_eq!(report.longest_interruption(), Duration::from_millis(2), "only what was sent is proven");
    assert_eq!(interruptions[2], Interruption { first: 6, from: at(42), until: None, lost: 1 });
    assert_eq!(report.lost_between(at(2), at(40)), [3]);
    assert_eq!(report.flows_for_good_after(at(0)), None, "the last one is lost");
}

#[test]
fn a_late_datagram_does_not_count_for_later_ones() {
    let mut report = report(&[(0, Some("a")), (10, None), (20, Some("b"))]);
    report.received[0].at = at(15);
    assert_eq!(report.first_received_after(at(10)), Some(Duration::from_micros(10_100)));
    assert_eq!(report.first_received_after(at(21)), None);
    assert_eq!(report.flows_for_good_after(at(10)), Some(Duration::from_millis(10)));
}

#[test]
fn nodes_take_turns_by_number_in_any_order_of_writes() {
    let mut report = report(&[(0, Some("a")), (1, Some("a")), (2, Some("b")), (3, Some("a"))]);
    report.received.reverse();
    let turns: Vec<_> = report.turns().iter().map(|turn| (turn.number, turn.node.as_str())).collect();
    assert_eq!(turns, [(0, "a"), (2, "b"), (3, "a")]);
    assert_eq!(report.received_by(), BTreeMap::from([("a", 3), ("b", 1)]));
}
