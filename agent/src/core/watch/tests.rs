use vipward_common::MacAddr;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// Two VIPs of ours and one of another node's on eth0, `seconds` after the machine's start.
fn snapshot(seconds: u64) -> Snapshot {
    let interface =
        Interface { attached: true, mode: "native".to_owned(), carrier: true, mac: Some(mac(1).to_string()) };
    Snapshot {
        at: Monotonic::from_nanos(seconds * SECOND),
        fence: Fence {
            state: "valid",
            policy: "hold",
            left: Duration::from_secs(3),
            hold_left: Duration::from_hours(1),
        },
        interfaces: [("eth0".to_owned(), interface)].into(),
        vips: [
            (id(10), vip("held", 1, Some(Counts::default()))),
            (id(11), vip("held", 1, None)),
            (id(12), vip("foreign", 9, Some(Counts::default()))),
        ]
        .into(),
        frames: [("answered", 0), ("not_arp", 0)].into(),
        offenders: BTreeMap::new(),
        events_lost: 0,
    }
}

fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

fn id(last: u8) -> VipId {
    VipId { address: Ipv4Addr::new(192, 0, 2, last), interface: "eth0".to_owned() }
}

fn vip(role: &'static str, at: u8, counts: Option<Counts>) -> Vip {
    Vip { role, mac: Some(mac(at).to_string()), yielded: false, silent_because: None, counts }
}

fn offender(claims: u64, last: u64) -> Offender {
    let at = |seconds: u64| Monotonic::from_nanos(seconds * SECOND);
    Offender {
        first: at(1),
        last: at(last),
        claims,
        kind: "conflict",
        source: mac(0x77),
        vendor: "locally administered".to_owned(),
    }
}

fn offender_id(vip: u8, of: u8) -> OffenderId {
    OffenderId { vip: id(vip), mac: mac(of) }
}

fn counts(snapshot: &mut Snapshot, last: u8) -> &mut Counts {
    snapshot.vips.get_mut(&id(last)).expect("there").counts.as_mut().expect("it has counts")
}

fn lines(before: Option<&Snapshot>, after: &Snapshot) -> Vec<String> {
    changes(before, after).iter().map(ToString::to_string).collect()
}

#[test]
fn a_rate_is_growth_over_time_and_begins_anew_with_the_counter() {
    let table = [
        (0, 10, 2, 5.0),
        (10, 10, 1, 0.0),
        (10, 13, 4, 0.75),
        // Begun anew: all of it is growth.
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
fn rates_are_of_vips_that_have_counts_and_two_snapshots() {
    let before = snapshot(100);
    let mut after = snapshot(102);
    *counts(&mut after, 10) = Counts { answered: 30, conflicts: 4, suppressed: 1 };
    assert_eq!(after.rates_of(&id(10), None), None, "the first snapshot");
    assert_eq!(after.rates_of(&id(11), Some(&before)), None, "no counts");
    assert_eq!(after.rates_of(&id(99), Some(&before)), None, "no VIP");
    let rates = after.rates_of(&id(10), Some(&before)).expect("it has counts");
    assert_eq!(
        rates,
        Rates { answered: PerSecond(15.0), conflicts: PerSecond(2.0), suppressed: PerSecond(0.5) }
    );
    after.frames = [("answered", 30), ("claim_conflict", 40), ("not_arp", 0)].into();
    let frames = after.frame_rates(Some(&before));
    assert_eq!(frames, [("claim_conflict", PerSecond(20.0)), ("answered", PerSecond(15.0))]);
}

#[test]
fn the_first_snapshot_is_told_as_a_whole_and_a_quiet_interval_has_its_rates_alone() {
    let first = snapshot(100);
    assert_eq!(
        lines(None, &first),
        ["start     fence valid, interfaces 1, VIPs 2 held, 0 handover, 1 foreign"]
    );
    assert_eq!(
        lines(Some(&first), &snapshot(101)),
        ["rates     answered 0/s, conflicts 0/s, suppressed 0/s, ARP frames 0/s"]
    );
}

type Row3 = (&'static str, fn(&mut Snapshot), &'static [&'static str]);

#[test]
fn each_change_is_a_line() {
    let table: [Row3; 15] = [
        ("fence", |it| it.fence.state = "held over", &["fence     valid -> held over"]),
        (
            "taken",
            |it| {
                it.vips.insert(id(12), vip("held", 1, None));
            },
            &["role      192.0.2.12 eth0 foreign -> held at 02:00:00:00:00:01"],
        ),
        (
            "moved elsewhere",
            |it| {
                it.vips.insert(id(12), vip("foreign", 8, None));
            },
            &["role      192.0.2.12 eth0 foreign -> foreign at 02:00:00:00:00:08"],
        ),
        (
            "yielded",
            |it| {
                it.vips.insert(id(10), Vip { yielded: true, ..vip("foreign", 8, None) });
            },
            &["role      192.0.2.10 eth0 held -> foreign (yielded) at 02:00:00:00:00:08"],
        ),
        ("removed", |it| drop(it.vips.remove(&id(11))), &["role      192.0.2.11 eth0 held -> none"]),
        (
            "new",
            |it| {
                it.vips.insert(id(13), Vip { mac: None, ..vip("foreign", 8, None) });
            },
            &["role      192.0.2.13 eth0 none -> foreign"],
        ),
        (
            "silent",
            |it| it.vips.get_mut(&id(10)).expect("there").silent_because = Some("no carrier"),
            &["silent    192.0.2.10 eth0 is not answered: no carrier"],
        ),
        (
            "carrier",
            |it| it.interfaces.get_mut("eth0").expect("there").carrier = false,
            &["link      eth0 has no carrier"],
        ),
        (
            "detached",
            |it| it.interfaces.get_mut("eth0").expect("there").attached = false,
            &["link      eth0 not attached in native mode"],
        ),
        ("interface gone", |it| it.interfaces.clear(), &["link      eth0 has no link any more"]),
        (
            "another interface",
            |it| {
                let eth1 = Interface { mode: "generic".to_owned(), ..it.interfaces["eth0"].clone() };
                it.interfaces.insert("eth1".to_owned(), eth1);
            },
            &["link      eth1 attached in generic mode"],
        ),
        (
            "another MAC",
            |it| it.interfaces.get_mut("eth0").expect("there").mac = Some(mac(5).to_string()),
            &["link      eth0 has the MAC 02:00:00:00:00:05"],
        ),
        (
            "two offenders, the latest first",
            |it| {
                it.offenders.insert(offender_id(10, 0x66), offender(7, 90));
                let named = Offender { vendor: "Example Inc".to_owned(), ..offender(2, 95) };
                it.offenders.insert(offender_id(11, 0x77), named);
            },
            &[
                "conflict  192.0.2.11 eth0 claimed by 02:00:00:00:00:77 (Example Inc): 2 claims, 2 in all",
                "conflict  192.0.2.10 eth0 claimed by 02:00:00:00:00:66 (locally administered), Ethernet source 02:00:00:00:00:77: 7 claims, \
                 7 in all",
            ],
        ),
        ("events lost", |it| it.events_lost = 3, &["lost      3 events: the ring buffer was full"]),
        ("nothing", |_| {}, &[]),
    ];
    for (description, change, expected) in table {
        let before = snapshot(100);
        let mut after = snapshot(101);
        change(&mut after);
        let mut lines = lines(Some(&before), &after);
        assert!(lines.pop().is_some_and(|line| line.starts_with("rates ")), "{description}");
        assert_eq!(lines, expected, "{description}");
    }
}

#[test]
fn an_offender_is_told_again_when_it_claims_again_and_not_otherwise() {
    let mut before = snapshot(100);
    before.offenders.insert(offender_id(10, 0x77), offender(7, 90));
    let told = |claims: u64| {
        let mut after = snapshot(101);
        after.offenders.insert(offender_id(10, 0x77), offender(claims, 101));
        let lines = lines(Some(&before), &after);
        lines.into_iter().find(|line| line.starts_with("conflict"))
    };
    let line = |text: &str| {
        Some(format!("conflict  192.0.2.10 eth0 claimed by 02:00:00:00:00:77 (locally administered): {text}"))
    };
    assert_eq!(told(7), None);
    assert_eq!(told(10), line("3 claims, 10 in all"));
    // Forgotten by the map in between.
    assert_eq!(told(2), line("2 claims, 2 in all"));
}

#[test]
fn a_silent_vip_that_is_answered_again_is_told() {
    let mut before = snapshot(100);
    before.vips.get_mut(&id(10)).expect("there").silent_because = Some("no carrier");
    let lines = lines(Some(&before), &snapshot(101));
    assert_eq!(lines[0], "answering 192.0.2.10 eth0 is answered");
}

#[test]
fn rates_are_summed_over_the_outcomes_that_they_are_made_of() {
    let before = snapshot(100);
    let mut after = snapshot(102);
    after.frames = [
        ("answered", 10),
        ("answered_held_over", 4),
        ("answered_handover", 2),
        ("suppressed_fence", 6),
        ("suppressed_foreign", 2),
        ("claim_conflict", 8),
        ("arp_no_vip", 100),
        ("not_arp", 5_000),
    ]
    .into();
    let expected = Change::Rates { answered: 8.0, conflicts: 4.0, suppressed: 4.0, frames: 66.0 };
    assert_eq!(changes(Some(&before), &after), [expected]);
}

#[test]
fn a_change_is_a_json_object_that_names_its_event() {
    let change = Change::Fence { from: "valid", to: "over" };
    assert_eq!(
        serde_json::to_value(&change).expect("it can be written"),
        serde_json::json!({"event": "fence", "from": "valid", "to": "over"})
    );
}

#[test]
fn the_countdown_is_to_the_next_state_of_the_fence() {
    let mut fence = snapshot(1).fence;
    assert_eq!(fence.countdown(), Duration::from_secs(3));
    fence.left = Duration::ZERO;
    assert_eq!(fence.countdown(), Duration::from_hours(1));
    fence.policy = "stop";
    assert_eq!(fence.countdown(), Duration::ZERO);
}

fn shown(list: &List, before: &Snapshot, after: &Snapshot) -> Vec<u8> {
    list.rows(Some(before), after).iter().map(|row| row.id.address.octets()[3]).collect()
}

#[test]
fn rows_in_trouble_come_first_and_the_filter_takes_words() {
    let before = snapshot(100);
    let mut after = snapshot(101);
    counts(&mut after, 12).conflicts = 1;
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
    // While a filter is typed, q is a letter.
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
