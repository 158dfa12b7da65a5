use vipward_common::{MacAddr, Proof};

use super::*;
use crate::{
    base::{samples::last_octet, time::Monotonic},
    diagnosis::pinned::{InterfaceStatus, OffenderStatus, State},
    host::{answering::Silence, attaching::Mode, net::InterfaceFault},
};

const SECOND: u64 = 1_000_000_000;
const NO_CARRIER: Part = Part::Silent(Silence::Interface(InterfaceFault::NoCarrier));

/// Returns two VIPs of this node and one of another node on
/// eth0, `seconds` after the machine's start.
fn status(seconds: u64) -> Status {
    let mut sample = Status::of(&State::sample(), &BTreeMap::new());
    sample.at = Monotonic::from_nanos(seconds * SECOND);
    sample.interfaces[0].mac = Some(mac(1));
    sample.vips =
        vec![vip(10, Part::Held, 1), without_counters(vip(11, Part::Held, 1)), vip(12, Part::Foreign, 9)];
    sample
}

fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

fn vip(last: u8, part: Part, at: u8) -> VipStatus {
    VipStatus {
        address: IpAddr::from([192, 0, 2, last]),
        interface: "eth0".to_owned(),
        vlan: None,
        part,
        answers: part.answers(Proof::Proven),
        mac: Some(mac(at)),
        yielded: false,
        answered: Some(0),
        conflicts: Some(0),
        suppressed: Some(0),
    }
}

fn without_counters(vip: VipStatus) -> VipStatus {
    VipStatus { answered: None, conflicts: None, suppressed: None, ..vip }
}

/// Replaces the entry of the same VIP, or adds one.
fn put(status: &mut Status, vip: VipStatus) {
    remove(status, last_octet(vip.address));
    status.vips.push(vip);
}

fn remove(status: &mut Status, last: u8) {
    status.vips.retain(|vip| last_octet(vip.address) != last);
}

fn at(status: &mut Status, last: u8) -> &mut VipStatus {
    status.vips.iter_mut().find(|vip| last_octet(vip.address) == last).expect("there")
}

fn eth0(status: &mut Status) -> &mut InterfaceStatus {
    &mut status.interfaces[0]
}

fn offender(vip: u8, of: u8, claims: u64) -> OffenderStatus {
    OffenderStatus {
        address: IpAddr::from([192, 0, 2, vip]),
        interface: "eth0".to_owned(),
        vlan: None,
        mac: mac(of).to_string(),
        vendor: "locally administered".to_owned(),
        eth_source: mac(0x77).to_string(),
        kind: "conflict",
        claims,
        last_seconds_ago: 1.0,
    }
}

fn lines(before: Option<&Status>, after: &Status) -> Vec<String> {
    changes(before, after).iter().map(ToString::to_string).collect()
}

#[test]
fn a_rate_is_growth_over_time_and_begins_anew_with_the_counter() {
    let table = [
        (0, 10, 2, 5.0),
        (10, 10, 1, 0.0),
        (10, 13, 4, 0.75),
        // The counter has started again, so all of it is growth.
        (10, 6, 2, 3.0),
        // No time has passed.
        (0, 10, 0, 0.0),
    ];
    for (before, after, seconds, expected) in table {
        let PerSecond(rate) = PerSecond::between(before, after, Duration::from_secs(seconds));
        assert!((rate - expected).abs() < 1e-9, "{before} {after} {seconds}: {rate}");
    }
    for (rate, text) in [(0.0, "0"), (0.25, "0.2"), (9.94, "9.9"), (9.96, "10"), (1234.5, "1234")] {
        assert_eq!(PerSecond(rate).to_string(), text);
    }
}

#[test]
fn vips_with_counters_have_rates_from_the_second_reading_on() {
    let before = status(100);
    let mut after = status(102);
    let counted = at(&mut after, 10);
    (counted.answered, counted.conflicts, counted.suppressed) = (Some(30), Some(4), Some(1));
    let rates_of = |before: Option<&Status>, last: u8| {
        let rows = List::default().rows(before, &after);
        rows.into_iter().find(|row| last_octet(row.vip.address) == last).and_then(|row| row.rates)
    };
    assert_eq!(rates_of(None, 10), None, "the first reading");
    assert_eq!(rates_of(Some(&before), 11), None, "no counters");
    assert_eq!(
        rates_of(Some(&before), 10),
        Some(Rates { answered: PerSecond(15.0), conflicts: PerSecond(2.0), suppressed: PerSecond(0.5) })
    );
    after.counters = [("answered", 30), ("claim_conflict", 40), ("unrelated", 0)].into();
    let frames = after.frame_rates(Some(&before));
    assert_eq!(frames, [("claim_conflict", PerSecond(20.0)), ("answered", PerSecond(15.0))]);
}

#[test]
fn the_first_reading_is_reported_whole_and_a_quiet_interval_by_its_rates_alone() {
    let first = status(100);
    assert_eq!(
        lines(None, &first),
        ["start     lease deadline valid, interfaces 1, VIPs 2 held, 0 handover, 0 silent, 1 foreign"]
    );
    assert_eq!(
        lines(Some(&first), &status(101)),
        ["rates     answered 0/s, conflicts 0/s, suppressed 0/s, frames 0/s"]
    );
}

type Row3 = (&'static str, fn(&mut Status), &'static [&'static str]);

#[test]
fn each_change_is_a_line() {
    let table: [Row3; 15] = [
        (
            "lease_deadline",
            |it| it.lease_deadline.state = "grace period",
            &["deadline  valid -> grace period"],
        ),
        (
            "taken",
            |it| put(it, vip(12, Part::Held, 1)),
            &["role      192.0.2.12 eth0 foreign -> held at 02:00:00:00:00:01"],
        ),
        (
            "moved elsewhere",
            |it| put(it, vip(12, Part::Foreign, 8)),
            &["role      192.0.2.12 eth0 foreign -> foreign at 02:00:00:00:00:08"],
        ),
        (
            "yielded",
            |it| put(it, VipStatus { yielded: true, ..vip(10, Part::Foreign, 8) }),
            &["role      192.0.2.10 eth0 held -> foreign (yielded) at 02:00:00:00:00:08"],
        ),
        ("removed", |it| remove(it, 11), &["role      192.0.2.11 eth0 held -> none"]),
        (
            "new",
            |it| put(it, VipStatus { mac: None, ..vip(13, Part::Foreign, 8) }),
            &["role      192.0.2.13 eth0 none -> foreign"],
        ),
        ("blind", |it| eth0(it).proof = "blind", &["link      eth0 is blind"]),
        ("carrier", |it| eth0(it).carrier = false, &["link      eth0 has no carrier"]),
        ("detached", |it| eth0(it).attached = false, &["link      eth0 not attached in native mode"]),
        ("interface gone", |it| it.interfaces.clear(), &["link      eth0 has no link any more"]),
        (
            "another interface",
            |it| {
                let name = Some("eth1".to_owned());
                let eth1 = InterfaceStatus { mode: Mode::Generic, name, ..eth0(it).clone() };
                it.interfaces.push(eth1);
            },
            &["link      eth1 attached in generic mode"],
        ),
        ("another MAC", |it| eth0(it).mac = Some(mac(5)), &["link      eth0 has the MAC 02:00:00:00:00:05"]),
        (
            "two offenders, the latest first",
            |it| {
                let named = OffenderStatus { vendor: "Example Inc".to_owned(), ..offender(11, 0x77, 2) };
                it.offenders = vec![named, offender(10, 0x66, 7)];
            },
            &[
                "conflict  192.0.2.11 eth0 claimed by 02:00:00:00:00:77 (Example Inc): 2 claims, 2 in all",
                "conflict  192.0.2.10 eth0 claimed by 02:00:00:00:00:66 (locally administered), Ethernet \
                source 02:00:00:00:00:77: 7 claims, 7 in all",
            ],
        ),
        ("events lost", |it| it.events_lost = 3, &["lost      3 events: the ring buffer was full"]),
        ("nothing", |_| {}, &[]),
    ];
    assert_changes(&table);
}

#[test]
fn a_vip_that_falls_silent_is_a_line_with_the_reason() {
    assert_changes(&[
        (
            "silent",
            |it| at(it, 10).part = NO_CARRIER,
            &["silent    192.0.2.10 eth0 is not answered: no carrier"],
        ),
        (
            "taken, and silent",
            |it| put(it, vip(12, NO_CARRIER, 1)),
            &[
                "role      192.0.2.12 eth0 foreign -> silent at 02:00:00:00:00:01",
                "silent    192.0.2.12 eth0 is not answered: no carrier",
            ],
        ),
        (
            "handed over, and silent",
            |it| put(it, vip(10, NO_CARRIER, 8)),
            &[
                "role      192.0.2.10 eth0 held -> silent at 02:00:00:00:00:08",
                "silent    192.0.2.10 eth0 is not answered: no carrier",
            ],
        ),
    ]);
}

/// Fails unless each change of the status is reported in these lines, beside the rates.
fn assert_changes(table: &[Row3]) {
    for (description, change, expected) in table {
        let before = status(100);
        let mut after = status(101);
        change(&mut after);
        let mut lines = lines(Some(&before), &after);
        assert!(lines.pop().is_some_and(|line| line.starts_with("rates ")), "{description}");
        assert_eq!(lines, *expected, "{description}");
    }
}

#[test]
fn an_offender_is_reported_again_only_when_it_claims_again() {
    let mut before = status(100);
    before.offenders.push(offender(10, 0x77, 7));
    let reported = |claims: u64| {
        let mut after = status(101);
        after.offenders.push(offender(10, 0x77, claims));
        let lines = lines(Some(&before), &after);
        lines.into_iter().find(|line| line.starts_with("conflict"))
    };
    let line = |text: &str| {
        Some(format!("conflict  192.0.2.10 eth0 claimed by 02:00:00:00:00:77 (locally administered): {text}"))
    };
    assert_eq!(reported(7), None);
    assert_eq!(reported(10), line("3 claims, 10 in all"));
    // The map has dropped the record in between.
    assert_eq!(reported(2), line("2 claims, 2 in all"));
}

#[test]
fn a_silent_vip_that_is_answered_again_is_reported() {
    let mut before = status(100);
    at(&mut before, 10).part = NO_CARRIER;
    assert_eq!(before.roles(), [("held", 1), ("handover", 0), ("silent", 1), ("foreign", 1)]);
    let lines = lines(Some(&before), &status(101));
    assert_eq!(lines[0], "answering 192.0.2.10 eth0 is answered");
    assert_eq!(lines.len(), 2, "and the rates: {lines:#?}");
}

#[test]
fn rates_are_summed_over_the_outcomes_that_they_are_made_of() {
    let before = status(100);
    let mut after = status(102);
    after.counters = [
        ("answered", 10),
        ("answered_in_grace", 4),
        ("answered_handover", 2),
        ("suppressed_deadline", 6),
        ("suppressed_foreign", 2),
        ("claim_conflict", 8),
        ("no_vip", 100),
        ("unrelated", 5_000),
    ]
    .into();
    let expected = Change::Rates { answered: 8.0, conflicts: 4.0, suppressed: 4.0, frames: 66.0 };
    assert_eq!(changes(Some(&before), &after), [expected]);
}

#[test]
fn a_change_is_a_json_object_that_names_its_event() {
    let change = Change::LeaseDeadline { from: "valid", to: "over" };
    assert_eq!(
        serde_json::to_value(&change).expect("it can be written"),
        serde_json::json!({"event": "lease_deadline", "from": "valid", "to": "over"})
    );
}

#[test]
fn the_countdown_is_to_the_next_state_of_the_lease_deadline() {
    let mut lease_deadline = status(1).lease_deadline;
    assert_eq!(lease_deadline.countdown(), Duration::from_secs(3));
    lease_deadline.left_seconds = 0.0;
    assert_eq!(lease_deadline.countdown(), Duration::from_hours(1));
    lease_deadline.policy = "stop";
    assert_eq!(lease_deadline.countdown(), Duration::ZERO);
}

fn shown(list: &List, before: &Status, after: &Status) -> Vec<u8> {
    list.rows(Some(before), after).iter().map(|row| last_octet(row.vip.address)).collect()
}

#[test]
fn rows_in_trouble_come_first_and_the_filter_takes_words() {
    let before = status(100);
    let mut after = status(101);
    at(&mut after, 12).conflicts = Some(1);
    let all = List::default();
    assert_eq!(shown(&all, &before, &after), [12, 10, 11]);
    for (filter, expected) in [
        ("held", &[10, 11][..]),
        ("trouble", &[12]),
        ("ETH0 .11", &[11]),
        ("00:09", &[12]),
        ("nothing like it", &[]),
    ] {
        let list = List { filter: filter.to_owned(), ..List::default() };
        assert_eq!(shown(&list, &before, &after), expected, "{filter}");
    }
}

#[test]
fn keys_scroll_filter_and_leave() {
    const COUNT: usize = 100;
    const PAGE: usize = 20;
    let mut list = List::default();
    let mut press = |keys: &[Key]| {
        for key in keys {
            assert_eq!(list.on_key(*key, COUNT, PAGE), Step::Continue, "{key:?}");
        }
        (list.top, list.filter.clone(), list.typing)
    };
    let at = |top: usize| (top, String::new(), false);
    assert_eq!(press(&[Key::Up]), at(0), "not above the first row");
    assert_eq!(press(&[Key::Down, Key::Char('j'), Key::PageDown]), at(22));
    assert_eq!(press(&[Key::Char('k'), Key::PageUp]), at(1));
    assert_eq!(press(&[Key::End, Key::Down, Key::PageDown]), at(80), "the last page is full");
    assert_eq!(press(&[Key::Home]), at(0));
    assert_eq!(press(&[Key::Char('G'), Key::Char('g')]), at(0));
    // `q` is a letter while the filter is being typed.
    let typed = press(&[Key::Down, Key::Char('/'), Key::Char('q'), Key::Char('x'), Key::Backspace]);
    assert_eq!(typed, (0, "q".to_owned(), true));
    assert_eq!(press(&[Key::Enter]), (0, "q".to_owned(), false));
    assert_eq!(press(&[Key::Escape]), at(0));
    assert_eq!(list.on_key(Key::Char('q'), COUNT, PAGE), Step::Quit);
    list.typing = true;
    assert_eq!(list.on_key(Key::Interrupt, COUNT, PAGE), Step::Quit, "also while typing");
}

#[test]
fn what_is_shown_stays_within_a_list_that_became_shorter() {
    let list = List { top: 90, ..List::default() };
    for (count, page, expected) in [(100, 20, 80), (10, 20, 0), (0, 20, 0), (95, 5, 90)] {
        assert_eq!(list.top_of(count, page), expected, "{count} {page}");
    }
}
