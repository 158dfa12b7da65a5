use ratatui::{Terminal, backend::TestBackend, layout::Size};

use super::*;
use crate::core::watch::{Key, List};

const SECOND: u64 = 1_000_000_000;
const WIDTH: u16 = 120;

fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

fn id(address: [u8; 4]) -> VipId {
    VipId { address: address.into(), interface: "eth0".to_owned() }
}

fn vip(role: &'static str, at: u8, counts: Option<Counts>) -> Vip {
    Vip { role, mac: Some(mac(at).to_string()), yielded: false, silent_because: None, counts }
}

/// Two VIPs and a rival, `seconds` after the machine's start.
fn snapshot(seconds: u64, counts: Counts) -> Snapshot {
    let interface = Interface {
        attached: true,
        mode: "generic".to_owned(),
        carrier: true,
        mac: Some(mac(2).to_string()),
    };
    Snapshot {
        at: Monotonic::from_nanos(seconds * SECOND),
        fence: Fence {
            state: "valid",
            policy: "hold",
            left: Duration::from_millis(2_840),
            hold_left: Duration::from_hours(1),
        },
        interfaces: [("eth0".to_owned(), interface)].into(),
        vips: [
            (id([192, 0, 2, 10]), vip("held", 2, Some(counts))),
            (id([192, 0, 2, 9]), vip("foreign", 9, None)),
        ]
        .into(),
        frames: [("answered", counts.answered), ("claim_conflict", counts.conflicts)].into(),
        offenders: BTreeMap::new(),
        events_lost: 0,
    }
}

fn offender(last_seconds: u64, source: u8, claims: u64) -> Offender {
    let at = Monotonic::from_nanos(last_seconds * SECOND);
    Offender {
        first: at,
        last: at,
        claims,
        kind: "conflict",
        source: mac(source),
        vendor: "Example Inc".to_owned(),
    }
}

/// What is on a terminal of `height` lines, without the blanks at their ends.
fn drawn(
    height: u16,
    before: Option<&Snapshot>,
    now: &Snapshot,
    trouble: Option<&str>,
    list: &List,
) -> String {
    let mut terminal = Terminal::new(TestBackend::new(WIDTH, height)).expect("a backend without a terminal");
    let screen = draw::Screen { before, now, trouble, list };
    terminal.draw(|frame| draw::draw(frame, &screen)).expect("nothing can fail");
    let buffer = terminal.backend().buffer().clone();
    let lines = buffer.content().chunks(usize::from(WIDTH)).map(|line| {
        let line: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_screen_shows_fence_interfaces_frames_vips_and_keys() {
    let before = snapshot(100, Counts::default());
    let now = snapshot(102, Counts { answered: 24, conflicts: 0, suppressed: 1 });
    let expected = "\
fence valid 2.8 s (policy hold)   VIPs 1 held, 0 handover, 1 foreign

INTERFACE       ATTACHED MODE    CARRIER MAC
eth0            yes      generic yes     02:00:00:00:00:02

frames/s: answered 12

VIP             INTERFACE       ROLE              HOLDER            ANSWERED/s CONFLICTS/s SUPPRESSED/s ANSWERING
192.0.2.9       eth0            foreign           02:00:00:00:00:09 -          -           -            no
192.0.2.10      eth0            held              02:00:00:00:00:02 12         0           0.5          yes



q quit  / filter  up, down, page up, page down   1-2 of 2";
    assert_eq!(drawn(14, Some(&before), &now, None, &List::default()), expected);
}

#[test]
fn a_conflict_is_at_the_top_and_its_offenders_below_the_latest_first() {
    let before = snapshot(100, Counts::default());
    let mut now = snapshot(101, Counts { answered: 0, conflicts: 7, suppressed: 0 });
    let by = |last: u8| OffenderId { vip: id([192, 0, 2, 10]), mac: mac(last) };
    now.offenders.insert(by(0x66), offender(41, 0x66, 3));
    now.offenders.insert(by(0x77), offender(100, 0x55, 7));
    let screen = drawn(17, Some(&before), &now, None, &List::default());
    let expected = "\
VIP             INTERFACE       ROLE              HOLDER            ANSWERED/s CONFLICTS/s SUPPRESSED/s ANSWERING
192.0.2.10      eth0            held              02:00:00:00:00:02 0          7.0         0            yes
192.0.2.9       eth0            foreign           02:00:00:00:00:09 -          -           -            no


LAST CLAIM   VIP             INTERFACE       KIND      CLAIMS     CLAIMED BY        ETHERNET SOURCE   VENDOR
1.0 s ago    192.0.2.10      eth0            conflict  7          02:00:00:00:00:77 02:00:00:00:00:55 Example Inc
1m 00s ago   192.0.2.10      eth0            conflict  3          02:00:00:00:00:66 -                 Example Inc
";
    assert!(screen.contains(expected), "{screen}");
    assert!(screen.contains("\nframes/s: claim_conflict 7.0\n"), "{screen}");
}

#[test]
fn the_fence_counts_down_to_the_end_of_holding_over_and_says_when_it_is_over() {
    let mut now = snapshot(100, Counts::default());
    now.fence.left = Duration::ZERO;
    for (state, hold_left, expected) in [
        ("held over", Duration::from_secs(3_725), "fence held over 1h 02m (policy hold)"),
        ("held over", Duration::from_secs(185), "fence held over 3m 05s (policy hold)"),
        ("over", Duration::ZERO, "fence over (policy hold)"),
    ] {
        (now.fence.state, now.fence.hold_left) = (state, hold_left);
        let screen = drawn(14, None, &now, None, &List::default());
        assert!(screen.starts_with(expected), "{screen}");
    }
}

#[test]
fn silence_and_yielding_are_said_with_their_reason() {
    let mut now = snapshot(100, Counts::default());
    let held = now.vips.get_mut(&id([192, 0, 2, 10])).expect("there");
    held.silent_because = Some("no carrier");
    let foreign = now.vips.get_mut(&id([192, 0, 2, 9])).expect("there");
    foreign.yielded = true;
    now.interfaces.get_mut("eth0").expect("there").carrier = false;
    now.events_lost = 4;
    let screen = drawn(14, None, &now, None, &List::default());
    for line in [
        "192.0.2.10      eth0            held              02:00:00:00:00:02 -          -           -            no: no carrier",
        "192.0.2.9       eth0            foreign (yielded) 02:00:00:00:00:09 -          -           -            no",
        "eth0            yes      generic no      02:00:00:00:00:02",
        "frames/s: at the next look",
    ] {
        assert!(screen.lines().any(|it| it == line), "{line:?} in:\n{screen}");
    }
    assert!(screen.lines().next().is_some_and(|line| line.ends_with("   4 events lost")), "{screen}");
}

#[test]
fn what_is_old_is_said_to_be() {
    let now = snapshot(100, Counts::default());
    let screen = drawn(14, None, &now, Some("nothing is pinned"), &List::default());
    assert!(screen.starts_with("not read any more, what is below is old: nothing is pinned"), "{screen}");
    assert!(screen.contains("192.0.2.10"), "{screen}");
}

#[test]
fn ten_thousand_vips_scroll_and_are_filtered() {
    let mut now = snapshot(100, Counts::default());
    now.vips.clear();
    for number in 0..10_000_u16 {
        let [high, low] = number.to_be_bytes();
        now.vips.insert(id([10, 0, high, low]), vip("held", 2, None));
    }
    let mut list = List::default();
    // Of 20 lines, 2 are the heading, 3 the interfaces, 2 the frames, 1 the keys, and 2 the VIPs' own heading and a blank.
    let page = draw::page(Size::new(WIDTH, 20), &now);
    let screen = drawn(20, None, &now, None, &list);
    assert!(screen.contains(&format!("1-{page} of 10000")), "{screen}");
    assert_eq!(screen.lines().filter(|line| line.starts_with("10.0.")).count(), page, "{screen}");
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
    let now = snapshot(100, Counts::default());
    for height in 1..12 {
        drawn(height, None, &now, None, &List::default());
        assert!(draw::page(Size::new(WIDTH, height), &now) >= 1);
    }
}
