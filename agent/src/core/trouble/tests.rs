use proptest::prelude::*;

use super::*;
use crate::core::samples::{HOLDER, key, stranger};

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(seconds * 1_000_000_000)
}

fn event(kind: EventKind, host: u16, offender: MacAddr, swallowed: u64) -> Event {
    Event {
        at_ns: 0,
        swallowed,
        kind,
        ifindex: 3,
        vlan: 0,
        oper: 2,
        vip: key(host).addr,
        sha: offender.0,
        source: [2, 0, 0, 0, 0, 99],
        holder: HOLDER.0,
        _pad: [0; 6],
    }
}

fn claim(kind: EventKind, host: u16, offender: MacAddr, times: u64) -> Claim {
    let source = MacAddr([2, 0, 0, 0, 0, 99]);
    Claim { kind, key: key(host), offender, source, oper: 2, holder: HOLDER, times }
}

/// What happens at one second, and the lines of which it is the cause.
enum Step {
    Claim(MacAddr, u64),
    Tick,
}

#[test]
fn a_conflict_is_told_at_its_start_once_a_minute_and_at_its_end() {
    let kind = EventKind::Conflict;
    let (first, second) = (stranger(1), stranger(2));
    let goes_on = |times, offenders: &[MacAddr]| {
        vec![Line::GoesOn { kind, key: key(1), times, offenders: offenders.to_vec(), more: false }]
    };
    let ended = Line::Ended {
        kind,
        key: key(1),
        times: 27,
        lasted: Duration::from_secs(110),
        offenders: vec![first, second],
    };
    let table = [
        ("the first claim", 10, Step::Claim(first, 0), vec![Line::Started(claim(kind, 1, first, 1))]),
        ("the same again", 11, Step::Claim(first, 9), vec![]),
        ("nothing is due yet", 69, Step::Tick, vec![]),
        ("a minute after the start", 70, Step::Tick, goes_on(10, &[first])),
        ("it is told once", 71, Step::Tick, vec![]),
        ("another MAC", 80, Step::Claim(second, 2), vec![Line::NewOffender(claim(kind, 1, second, 3))]),
        ("the same again", 90, Step::Claim(second, 0), vec![]),
        ("and the first again", 120, Step::Claim(first, 11), vec![]),
        ("almost a minute after the last summary", 129, Step::Tick, vec![]),
        ("a minute after the last summary", 130, Step::Tick, goes_on(13, &[first, second])),
        ("a minute in which nothing came", 190, Step::Tick, vec![]),
        ("almost five quiet minutes", 419, Step::Tick, vec![]),
        ("five quiet minutes", 420, Step::Tick, vec![ended]),
        ("nothing is left", 421, Step::Tick, vec![]),
        ("the next claim", 500, Step::Claim(second, 0), vec![Line::Started(claim(kind, 1, second, 1))]),
    ];
    let mut trouble = Trouble::start(at(0));
    for (what, seconds, step, expected) in table {
        let lines = match step {
            Step::Claim(offender, swallowed) => {
                trouble.on_event(&event(kind, 1, offender, swallowed), at(seconds))
            }
            Step::Tick => trouble.on_tick(at(seconds)),
        };
        assert_eq!(lines, expected, "{what}, at {seconds} s");
    }
}

#[test]
fn what_was_not_told_is_told_before_the_end() {
    let kind = EventKind::Conflict;
    let mut trouble = Trouble::start(at(0));
    trouble.on_event(&event(kind, 1, stranger(1), 0), at(0));
    trouble.on_event(&event(kind, 1, stranger(1), 4), at(10));
    let lines = trouble.on_tick(at(310));
    assert!(
        matches!(lines[..], [Line::GoesOn { times: 5, .. }, Line::Ended { times: 6, .. }]),
        "an agent that slept tells both: {lines:?}"
    );
}

#[test]
fn every_kind_is_told_at_once_and_repeated_ones_are_folded() {
    let table = [
        (EventKind::Conflict, 1),
        (EventKind::Contested, 1),
        (EventKind::Moved, 1),
        // Each is a VIP given up: they are as rare as they are important.
        (EventKind::Yielded, 3),
        (EventKind::Sighted, 1),
    ];
    for (kind, expected) in table {
        let mut trouble = Trouble::start(at(0));
        let told: Vec<Line> =
            (0..3).flat_map(|second| trouble.on_event(&event(kind, 1, stranger(1), 0), at(second))).collect();
        let started = Line::Started(claim(kind, 1, stranger(1), 1));
        assert_eq!(told, vec![started; expected], "{kind:?}");
    }
}

#[test]
fn kinds_vips_and_interfaces_are_cases_of_their_own() {
    let mut trouble = Trouble::start(at(0));
    let conflict = event(EventKind::Conflict, 1, stranger(1), 0);
    let others = [
        conflict,
        event(EventKind::Sighted, 1, stranger(1), 0),
        event(EventKind::Conflict, 2, stranger(1), 0),
        Event { ifindex: 4, ..conflict },
        Event { vlan: 5, ..conflict },
    ];
    for other in others {
        let lines = trouble.on_event(&other, at(1));
        assert!(matches!(lines[..], [Line::Started(_)]), "{other:?}: {lines:?}");
    }
}

#[test]
fn a_flood_from_ever_new_macs_is_a_few_lines() {
    let mut trouble = Trouble::start(at(0));
    let flood = |trouble: &mut Trouble| -> Vec<Line> {
        (0..1_000)
            .flat_map(|n| trouble.on_event(&event(EventKind::Conflict, 1, stranger(n), 0), at(1)))
            .collect()
    };
    assert_eq!(flood(&mut trouble).len(), MAX_OFFENDERS, "the start, and each other MAC that is told apart");
    assert_eq!(flood(&mut trouble), [], "none of them is new");
    let lines = trouble.on_tick(at(61));
    let [Line::GoesOn { times, offenders, more: true, .. }] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((*times, offenders.len()), (2_000 - MAX_OFFENDERS as u64, MAX_OFFENDERS));
}

#[test]
fn a_flood_over_ever_new_vips_is_bounded_and_counted() {
    let mut trouble = Trouble::start(at(0));
    let hosts = u16::try_from(MAX_CASES).expect("few cases") + 100;
    let told: usize = (0..hosts)
        .map(|host| trouble.on_event(&event(EventKind::Conflict, host, stranger(1), 1), at(1)).len())
        .sum();
    assert_eq!((told, trouble.cases.len()), (MAX_CASES, MAX_CASES));
    assert_eq!(trouble.on_tick(at(1)), [Line::TooMany { times: 200 }]);
    let more = event(EventKind::Conflict, hosts, stranger(1), 0);
    assert_eq!(trouble.on_event(&more, at(2)), []);
    assert_eq!(trouble.on_tick(at(60)), [], "once a minute");
    assert_eq!(trouble.on_tick(at(61)).first(), Some(&Line::TooMany { times: 1 }));
    // Those that are quiet make room.
    trouble.on_tick(at(301));
    assert!(matches!(trouble.on_event(&more, at(302))[..], [Line::Started(_)]));
}

#[test]
fn a_flood_of_strangers_hides_nothing_that_peers_do() {
    let table = [
        (EventKind::Conflict, false),
        (EventKind::Sighted, false),
        (EventKind::Contested, true),
        (EventKind::Moved, true),
        (EventKind::Yielded, true),
    ];
    for (kind, told) in table {
        let mut trouble = Trouble::start(at(0));
        let claim_all = |trouble: &mut Trouble, kind, from: usize, hosts: usize| -> usize {
            (from..from + hosts)
                .map(|host| u16::try_from(host).expect("few hosts"))
                .map(|host| trouble.on_event(&event(kind, host, stranger(1), 0), at(1)).len())
                .sum()
        };
        assert_eq!(claim_all(&mut trouble, EventKind::Conflict, 0, MAX_CASES + 10), MAX_CASES);
        let lines = claim_all(&mut trouble, kind, 10_000, PEER_CASES + 10);
        assert_eq!(lines, if told { PEER_CASES } else { 0 }, "{kind:?}");
    }
}

#[test]
fn the_next_tick_is_asked_for_when_something_will_be_due() {
    let mut trouble = Trouble::start(at(0));
    assert_eq!(trouble.next_deadline(), None, "nothing happened");
    trouble.on_event(&event(EventKind::Conflict, 1, stranger(1), 0), at(10));
    assert_eq!(trouble.next_deadline(), Some(at(310)), "the end");
    trouble.on_event(&event(EventKind::Conflict, 1, stranger(1), 0), at(20));
    assert_eq!(trouble.next_deadline(), Some(at(70)), "a summary");
    trouble.on_tick(at(70));
    assert_eq!(trouble.next_deadline(), Some(at(320)), "the end, later");
    trouble.on_tick(at(320));
    assert_eq!(trouble.next_deadline(), None, "all is told");
}

fn kinds() -> impl Strategy<Value = EventKind> {
    prop_oneof![
        Just(EventKind::Conflict),
        Just(EventKind::Contested),
        Just(EventKind::Moved),
        Just(EventKind::Yielded),
        Just(EventKind::Sighted),
    ]
}

proptest! {
    #[test]
    fn every_claim_is_told_exactly_once(
        events in proptest::collection::vec((0_u64..200, kinds(), 0_u16..4, 0_u16..40, 0_u64..50), 1..80)
    ) {
        let mut trouble = Trouble::start(at(0));
        let (mut lines, mut now, mut total) = (Vec::new(), 0, 0);
        let wait = |trouble: &mut Trouble, until: u64, lines: &mut Vec<Line>| {
            while let Some(deadline) = trouble.next_deadline().filter(|deadline| *deadline <= at(until)) {
                let told = trouble.on_tick(deadline);
                assert!(!told.is_empty(), "woken at {deadline:?} for nothing");
                lines.extend(told);
            }
        };
        for (pause, kind, host, offender, swallowed) in events {
            now += pause;
            wait(&mut trouble, now, &mut lines);
            lines.extend(trouble.on_event(&event(kind, host, stranger(offender), swallowed), at(now)));
            total += swallowed + 1;
        }
        wait(&mut trouble, now + 301, &mut lines);
        prop_assert_eq!(trouble.next_deadline(), None, "everything comes to an end");

        let (mut told, mut ended, mut started) = (0, 0, BTreeMap::new());
        for line in lines {
            match line {
                Line::Started(claim) => {
                    told += claim.times;
                    started.entry((claim.key, claim.kind as u32)).or_insert(claim.kind);
                }
                Line::NewOffender(claim) => {
                    told += claim.times;
                    prop_assert!(started.contains_key(&(claim.key, claim.kind as u32)), "no start");
                }
                Line::GoesOn { kind, key, times, offenders, .. } => {
                    told += times;
                    prop_assert!(started.contains_key(&(key, kind as u32)), "no start");
                    prop_assert!((1..=MAX_OFFENDERS).contains(&offenders.len()));
                }
                Line::Ended { kind, key, times, .. } => {
                    ended += times;
                    prop_assert!(started.remove(&(key, kind as u32)).is_some(), "no start");
                }
                Line::TooMany { .. } => prop_assert!(false, "four VIPs are not too many"),
            }
        }
        prop_assert_eq!((told, ended), (total, total));
        prop_assert!(started.is_empty(), "no end of {:?}", started);
    }
}
