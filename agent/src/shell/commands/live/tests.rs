use std::{collections::BTreeMap, net::IpAddr};

use ratatui::{Terminal, backend::TestBackend, layout::Size};
use vipward_common::{MacAddr, Proof};
use vipward_core::{
    base::time::Monotonic,
    diagnosis::{
        live::{Key, List},
        pinned::{OffenderStatus, State, Status, VipStatus},
    },
    host::{
        answering::{Part, Silence},
        attaching::Mode,
        net::InterfaceFault,
    },
};

use super::*;

const SECOND: u64 = 1_000_000_000;
const WIDTH: u16 = 120;

fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

fn vip(address: [u8; 4], part: Part, at: u8) -> VipStatus {
    VipStatus {
        address: address.into(),
        interface: "eth0".to_owned(),
        vlan: None,
        part,
        answers: part.answers(Proof::Proven),
        mac: Some(mac(at)),
        yielded: false,
        answered: None,
        conflicts: None,
        suppressed: None,
    }
}

/// Returns two VIPs, `seconds` after the machine's start. The
/// first has answered and counted conflicts.
fn status_at(seconds: u64, [answered, conflicts, suppressed]: [u64; 3]) -> Status {
    let mut status = Status::of(&State::sample(), &BTreeMap::new());
    status.at = Monotonic::from_nanos(seconds * SECOND);
    (status.lease_deadline.left_seconds, status.lease_deadline.hold_left_seconds) = (2.84, 3_600.0);
    status.interfaces[0].mode = Mode::Generic;
    let held = VipStatus {
        answered: Some(answered),
        conflicts: Some(conflicts),
        suppressed: Some(suppressed),
        ..vip([192, 0, 2, 10], Part::Held, 2)
    };
    status.vips = vec![held, vip([192, 0, 2, 9], Part::Foreign, 9)];
    status.counters = [("answered", answered), ("claim_conflict", conflicts)].into();
    status
}

fn offender(last_seconds_ago: f64, of: u8, source: u8, claims: u64) -> OffenderStatus {
    OffenderStatus {
        address: IpAddr::from([192, 0, 2, 10]),
        interface: "eth0".to_owned(),
        vlan: None,
        mac: mac(of).to_string(),
        vendor: "Example Inc".to_owned(),
        eth_source: mac(source).to_string(),
        kind: "conflict",
        claims,
        last_seconds_ago,
    }
}

/// Returns the text on a terminal of `height` lines, without the blanks at the line ends.
fn drawn(height: u16, before: Option<&Status>, now: &Status, trouble: Option<&str>, list: &List) -> String {
    drawn_on([WIDTH, height], before, now, trouble, list)
}

fn drawn_on(
    [width, height]: [u16; 2],
    before: Option<&Status>,
    now: &Status,
    trouble: Option<&str>,
    list: &List,
) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a backend without a terminal");
    let screen = draw::Screen { before, now, trouble, list };
    terminal.draw(|frame| draw::draw(frame, &screen)).expect("nothing can fail");
    let buffer = terminal.backend().buffer().clone();
    let lines = buffer.content().chunks(usize::from(width)).map(|line| {
        let line: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_screen_shows_lease_deadline_interfaces_frames_vips_and_keys() {
    let before = status_at(100, [0; 3]);
    let now = status_at(102, [24, 0, 1]);
    let expected = "\
lease deadline valid 2.8 s (policy hold)   VIPs 1 held, 0 handover, 0 silent, 1 foreign

 INTERFACE  ATTACHED  MODE     CARRIER  MAC
 eth0       yes       generic  yes      02:00:00:00:00:02

frames/s: answered 12

 VIP         INTERFACE  ROLE     HOLDER             ANSWERED/s  CONFLICTS/s  SUPPRESSED/s  ANSWERING
 192.0.2.9   eth0       foreign  02:00:00:00:00:09  -           -            -             no
 192.0.2.10  eth0       held     02:00:00:00:00:02  12          0            0.5           yes



q quit  / filter  up, down, page up, page down   1-2 of 2";
    assert_eq!(drawn(14, Some(&before), &now, None, &List::default()), expected);
}

#[test]
fn at_eighty_columns_addresses_and_macs_are_whole_and_what_matters_least_is_left_out() {
    let before = status_at(100, [0; 3]);
    let mut now = status_at(101, [0, 7, 0]);
    let long = "2001:db8:1111:2222:3333:4444:5555:6666";
    now.vips[1].address = long.parse().expect("an address");
    now.offenders = vec![OffenderStatus { address: now.vips[1].address, ..offender(1.0, 0x77, 0x55, 7) }];
    let screen = drawn_on([80, 24], Some(&before), &now, None, &List::default());
    for whole in [long, "02:00:00:00:00:02", "02:00:00:00:00:09", "02:00:00:00:00:77", "02:00:00:00:00:55"] {
        assert!(screen.split_whitespace().any(|word| word == whole), "{whole} in:\n{screen}");
    }
    assert!(screen.contains("lease deadline valid 2.8 s (policy hold)\nVIPs 1 held"), "{screen}");
    assert!(!screen.contains("SUPPRESSED/s") && screen.contains("ANSWERING"), "{screen}");
    assert!(!screen.contains("VENDOR") && screen.contains("CLAIMED BY"), "{screen}");
}

#[test]
fn a_conflict_is_at_the_top_and_its_offenders_below_the_latest_first() {
    let before = status_at(100, [0; 3]);
    let mut now = status_at(101, [0, 7, 0]);
    now.offenders = vec![offender(1.0, 0x77, 0x55, 7), offender(60.0, 0x66, 0x66, 3)];
    let screen = drawn(17, Some(&before), &now, None, &List::default());
    let expected = "\
 VIP         INTERFACE  ROLE     HOLDER             ANSWERED/s  CONFLICTS/s  SUPPRESSED/s  ANSWERING
 192.0.2.10  eth0       held     02:00:00:00:00:02  0           7.0          0             yes
 192.0.2.9   eth0       foreign  02:00:00:00:00:09  -           -            -             no


 LAST CLAIM  VIP         INTERFACE  KIND      CLAIMS  CLAIMED BY         ETHERNET SOURCE    VENDOR
 1.0 s ago   192.0.2.10  eth0       conflict  7       02:00:00:00:00:77  02:00:00:00:00:55  Example Inc
 1m 00s ago  192.0.2.10  eth0       conflict  3       02:00:00:00:00:66  -                  Example Inc
";
    assert!(screen.contains(expected), "{screen}");
    assert!(screen.contains("\nframes/s: claim_conflict 7.0\n"), "{screen}");
}

#[test]
fn the_lease_deadline_counts_down_to_the_end_of_the_grace_period_and_says_when_it_is_over() {
    let mut now = status_at(100, [0; 3]);
    now.lease_deadline.left_seconds = 0.0;
    for (state, hold_left_seconds, expected) in [
        ("grace period", 3_725.0, "lease deadline grace period 1h 02m (policy hold)"),
        ("grace period", 185.0, "lease deadline grace period 3m 05s (policy hold)"),
        ("over", 0.0, "lease deadline over (policy hold)"),
    ] {
        (now.lease_deadline.state, now.lease_deadline.hold_left_seconds) = (state, hold_left_seconds);
        let screen = drawn(14, None, &now, None, &List::default());
        assert!(screen.starts_with(expected), "{screen}");
    }
}

#[test]
fn silence_and_yielding_are_said_with_their_reason() {
    let mut now = status_at(100, [0; 3]);
    let silent = vip([192, 0, 2, 10], Part::Silent(Silence::Interface(InterfaceFault::NoCarrier)), 2);
    now.vips[0] = VipStatus { answered: Some(0), conflicts: Some(0), suppressed: Some(0), ..silent };
    now.vips[1].yielded = true;
    now.interfaces[0].carrier = false;
    now.events_lost = 4;
    let screen = drawn(14, None, &now, None, &List::default());
    for line in [
        " 192.0.2.10  eth0       silent             02:00:00:00:00:02  -           -            -             \
         no: no carrier",
        " 192.0.2.9   eth0       foreign (yielded)  02:00:00:00:00:09  -           -            -             no",
        " eth0       yes       generic  no       02:00:00:00:00:02",
        "frames/s: at the next look",
    ] {
        assert!(screen.lines().any(|it| it == line), "{line:?} in:\n{screen}");
    }
    assert!(screen.lines().next().is_some_and(|line| line.ends_with("   4 events lost")), "{screen}");
}

#[test]
fn what_is_old_is_said_to_be() {
    let now = status_at(100, [0; 3]);
    let screen = drawn(14, None, &now, Some("nothing is pinned"), &List::default());
    assert!(screen.starts_with("not read any more, what is below is old: nothing is pinned"), "{screen}");
    assert!(screen.contains("192.0.2.10"), "{screen}");
}

fn page([width, height]: [u16; 2], now: &Status) -> usize {
    let list = List::default();
    draw::page(Size::new(width, height), &draw::Screen { before: None, now, trouble: None, list: &list })
}

#[test]
fn ten_thousand_vips_scroll_and_are_filtered() {
    let mut now = status_at(100, [0; 3]);
    now.vips.clear();
    for number in 0..10_000_u16 {
        let [high, low] = number.to_be_bytes();
        now.vips.push(vip([10, 0, high, low], Part::Held, 2));
    }
    let mut list = List::default();
    // Of 20 lines, 2 are the heading, 3 the interfaces, 2 the frames, 1 the keys, and 2 the VIPs'
    // own heading and a blank.
    let page = page([WIDTH, 20], &now);
    let screen = drawn(20, None, &now, None, &list);
    assert!(screen.contains(&format!("1-{page} of 10000")), "{screen}");
    assert_eq!(screen.lines().filter(|line| line.starts_with(" 10.0.")).count(), page, "{screen}");
    list.on_key(Key::End, 10_000, page);
    let screen = drawn(20, None, &now, None, &list);
    assert!(
        screen.contains("10.0.39.15 ") && screen.contains(&format!("{}-10000 of 10000", 10_001 - page)),
        "{screen}"
    );

    for letter in "/.39.1".chars() {
        list.on_key(Key::Char(letter), 10_000, page);
    }
    let screen = drawn(20, None, &now, None, &list);
    // 10.0.39.1, and 10.0.39.10 to 10.0.39.15, which is the last.
    assert!(screen.contains("1-7 of 7   filter: .39.1_"), "{screen}");
    list.on_key(Key::Enter, 7, page);
    let screen = drawn(20, None, &now, None, &list);
    assert!(screen.contains("filter: .39.1 (Esc: all 10000)"), "{screen}");
}

#[test]
fn a_tiny_terminal_is_no_reason_to_fail() {
    let now = status_at(100, [0; 3]);
    for height in 1..12 {
        drawn(height, None, &now, None, &List::default());
        assert!(page([WIDTH, height], &now) >= 1);
    }
}
