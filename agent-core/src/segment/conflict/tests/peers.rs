//! Peers' announcements in a cluster, where claim objects name the peer that has a VIP.

use super::*;

const NOT_GIVEN: Right = Right::NotGiven(Epoch(4));
const UNKNOWN: Right = Right::Unknown(Epoch(4));
/// Seconds in which everything that waits is reported, and every conflict ends.
const LONG: u64 = 900;

fn peer(number: u16) -> MacAddr {
    let [high, low] = number.to_be_bytes();
    MacAddr([2, 0, 0, 8, high, low])
}

fn second(second: u64) -> Monotonic {
    at(second * 1_000)
}

fn announced(what: What, host: u16, number: u16, right: Right) -> Event {
    Event::Sighted(Sight { what, right, ..sight(host, peer(number), 1) })
}

fn lines_of(commands: Vec<Command>) -> Vec<Line> {
    let line = |command| match command {
        Command::Report(line) => Some(line),
        Command::Ask(_) => None,
        Command::Defend(_) | Command::Count => panic!("{command:?} about a peer"),
    };
    commands.into_iter().filter_map(line).collect()
}

/// Wakes the conflicts at their deadlines, from one second to another.
/// `right` is the peers' right at each of them.
fn pass(
    conflicts: &mut Conflicts,
    from: u64,
    until: u64,
    right: impl Fn(u64, &Sight) -> Right,
) -> Vec<(u64, Line)> {
    let mut lines = Vec::new();
    for now in from..=until {
        if conflicts.next_deadline().is_some_and(|deadline| deadline <= second(now)) {
            let due = lines_of(conflicts.on_tick(|sight| right(now, sight), second(now)));
            lines.extend(due.into_iter().map(|line| (now, line)));
        }
    }
    lines
}

/// Returns the lines that follow six announcements of a peer that has just taken a VIP.
fn announce(what: What, right: impl Fn(u64) -> Right) -> Vec<(u64, Line)> {
    let mut conflicts = Conflicts::start(&SETTINGS, at(0));
    let mut lines = Vec::new();
    for now in 0..6 {
        let reported = conflicts.on_event(announced(what, 1, 1, right(now)), second(now));
        lines.extend(lines_of(reported).into_iter().map(|line| (now, line)));
    }
    lines.extend(pass(&mut conflicts, 6, LONG, |now, _| right(now)));
    assert_eq!(conflicts.next_deadline(), None, "everything comes to an end");
    lines
}

#[test]
fn a_peer_that_announces_a_vip_by_the_rules_is_not_reported() {
    use What::{Contested, Moved, Yielded};
    type Row = (&'static str, &'static [What], fn(u64) -> Right);
    let table: [Row; 6] = [
        ("the claim is known", &[Contested, Moved, Yielded], |_| Right::Given),
        ("the claim comes during the announcements", &[Moved, Yielded], |second| {
            if second < 3 { NOT_GIVEN } else { Right::Given }
        }),
        ("the claim comes between the two looks", &[Moved, Yielded], |second| {
            if second < 45 { NOT_GIVEN } else { Right::Given }
        }),
        ("the VIP has moved on when the claim comes", &[Moved, Yielded], |second| {
            if second < 10 { NOT_GIVEN } else { Right::NotGiven(Epoch(6)) }
        }),
        ("the node is cut off for long, and the claim comes 40 s later", &[Moved, Yielded], |second| {
            match second {
                0..500 => UNKNOWN,
                500..540 => NOT_GIVEN,
                _ => Right::Given,
            }
        }),
        ("the node is cut off for long, and the VIP has moved on", &[Moved, Yielded], |second| {
            if second < 500 { UNKNOWN } else { Right::NotGiven(Epoch(6)) }
        }),
    ];
    for (description, states, right) in table {
        for what in states {
            assert_eq!(announce(*what, right), [], "{description}: {what:?}");
        }
    }
}

#[test]
fn a_peer_that_announces_a_vip_against_the_rules_is_reported() {
    use What::{Contested, Moved, Yielded};
    type Row = (&'static str, What, fn(u64) -> Right, u64);
    let table: [Row; 6] = [
        ("what is held here", Contested, |_| NOT_GIVEN, 0),
        ("what is held here, and the node is cut off", Contested, |_| UNKNOWN, 0),
        ("a VIP of another", Moved, |_| NOT_GIVEN, 60),
        ("a VIP that was given up", Yielded, |_| NOT_GIVEN, 60),
        (
            "the node was cut off until after the first look",
            Moved,
            |second| if second < 31 { UNKNOWN } else { NOT_GIVEN },
            90,
        ),
        (
            "the claim was the peer's first",
            Moved,
            |second| if second < 2 { Right::Given } else { NOT_GIVEN },
            62,
        ),
    ];
    for (description, what, right, reported_at) in table {
        let lines = announce(what, right);
        let Some((now, Line::Began { sight, .. })) = lines.first() else {
            panic!("{description}: {lines:?}")
        };
        assert_eq!((*now, sight.what, sight.mac), (reported_at, what, peer(1)), "{description}");
        let is_over = matches!(lines.last(), Some((_, Line::Ended { conflict, .. })) if conflict.claims >= 4);
        assert!(is_over, "{description}: {lines:?}");
    }
}

#[test]
fn a_peer_that_goes_on_against_the_rules_is_summed_up_once_a_minute() {
    let mut conflicts = Conflicts::start(&SETTINGS, at(0));
    let mut lines = Vec::new();
    for now in 0..240 {
        let reported = conflicts.on_event(announced(What::Moved, 1, 1, NOT_GIVEN), second(now));
        lines.extend(lines_of(reported));
        lines.extend(pass(&mut conflicts, now, now, |_, _| NOT_GIVEN).into_iter().map(|(_, line)| line));
    }
    let [Line::Began { sight, .. }, summaries @ ..] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(sight.times, 61, "all that waited");
    let counts: Vec<u64> = summaries
        .iter()
        .map(|line| if let Line::GoesOn { times, .. } = line { *times } else { panic!("{line:?}") })
        .collect();
    assert_eq!(counts, [60, 60]);
}

#[test]
fn each_peer_waits_for_its_own_claim() {
    let mut conflicts = Conflicts::start(&SETTINGS, at(0));
    for number in [1, 2] {
        assert_eq!(conflicts.on_event(announced(What::Moved, 1, number, NOT_GIVEN), at(0)), []);
    }
    let right = |_, sight: &Sight| if sight.mac == peer(1) { Right::Given } else { NOT_GIVEN };
    let lines = pass(&mut conflicts, 0, 60, right);
    let [(60, Line::Began { sight, .. })] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(sight.mac, peer(2));
}

#[test]
fn unknown_hosts_are_reported_at_once_whatever_the_claims_say() {
    for what in [What::Guarded, What::InUse, What::Sighted] {
        for right in [Right::Given, NOT_GIVEN, UNKNOWN, Right::NoClaims] {
            let mut conflicts = Conflicts::start(&SETTINGS, at(0));
            let lines = lines_of(conflicts.on_event(announced(what, 1, 1, right), at(0)));
            assert!(matches!(lines[..], [Line::Began { .. }]), "{what:?}, {right:?}: {lines:?}");
        }
    }
}

#[test]
fn a_cold_start_in_which_peers_take_ten_thousand_vips_is_not_reported() {
    const VIPS: u16 = 10_000;
    /// Delay in seconds between the announcements and a busy node's reading of the claims.
    const READ: u64 = 25;
    let mut conflicts = Conflicts::start(&SETTINGS, at(0));
    let mut lines = Vec::new();
    for now in 0..6 {
        for host in 0..VIPS {
            let announced = announced(What::Moved, host, host % 2, Right::NotGiven(Epoch(0)));
            lines.extend(lines_of(conflicts.on_event(announced, second(now))));
        }
    }
    let claimed = |now, _: &Sight| if now < READ { Right::NotGiven(Epoch(0)) } else { Right::Given };
    lines.extend(pass(&mut conflicts, 6, LONG, claimed).into_iter().map(|(_, line)| line));
    assert_eq!(lines, []);
    assert_eq!(conflicts.next_deadline(), None, "nothing waits any more");
}

#[test]
fn an_announcement_that_finds_no_room_to_wait_is_counted() {
    let mut conflicts = Conflicts::start(&SETTINGS, at(0));
    let hosts = u16::MAX;
    for host in 0..=hosts {
        assert_eq!(conflicts.on_event(announced(What::Moved, host, 1, NOT_GIVEN), at(0)), []);
    }
    assert_eq!(conflicts.on_tick(|_| NOT_GIVEN, second(1)), [], "there is room for {hosts} and one");
    let third = Sight { what: What::Moved, right: NOT_GIVEN, ..sight(0, peer(2), 3) };
    conflicts.on_event(Event::Sighted(third), second(1));
    let lines = lines_of(conflicts.on_tick(|_| NOT_GIVEN, second(1)));
    assert_eq!(lines, [Line::TooMany { times: 3 }]);
}
