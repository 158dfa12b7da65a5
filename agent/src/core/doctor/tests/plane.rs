use super::*;
use State::{Green, NotApplicable, Red, Unknown, Yellow};

#[test]
fn the_pin_directory_and_who_uses_it() {
    assert_rows(
        None,
        &[
            ("a bpffs", |_| {}, "bpffs", Green, &["/sys/fs/bpf/vipward is on a bpffs", "mode 700"], &[]),
            (
                "not made yet",
                |it| it.pin_dir.as_mut().expect("read").exists = false,
                "bpffs",
                Green,
                &["does not exist yet"],
                &[],
            ),
            (
                "no bpffs at its usual place",
                |it| it.pin_dir.as_mut().expect("read").on_bpffs = false,
                "bpffs",
                Red,
                &["no bpffs is mounted on /sys/fs/bpf"],
                &["mount -t bpf bpf /sys/fs/bpf"],
            ),
            (
                "a directory elsewhere",
                |it| {
                    it.dir = PathBuf::from("/run/vipward/pins");
                    let dir = it.pin_dir.as_mut().expect("read");
                    dir.on_bpffs = false;
                    dir.at = PathBuf::from("/run");
                },
                "bpffs",
                Red,
                &["/run/vipward/pins is not on a bpffs"],
                &["--pin-dir", "mount -t bpf bpf /run"],
            ),
            (
                "others may write it",
                |it| it.pin_dir.as_mut().expect("read").mode = 0o770,
                "bpffs",
                Red,
                &["mode 770", "take the pins away"],
                &["chmod 0700 /sys/fs/bpf/vipward"],
            ),
            (
                "another user's, and no agent",
                |it| {
                    it.agent = Ok(Agent::None);
                    it.pin_dir.as_mut().expect("read").owner = 1_000;
                },
                "bpffs",
                Yellow,
                &["belongs to user 1000"],
                &["start the agent as user 1000", "chown 0 "],
            ),
            (
                "another user's, whose agent runs",
                |it| it.pin_dir.as_mut().expect("read").owner = 1_000,
                "bpffs",
                Green,
                &["owner 1000"],
                &[],
            ),
        ],
    );
}

#[test]
fn whether_an_agent_and_its_pins_are_there() {
    assert_rows(
        None,
        &[
            ("an agent", |_| {}, "agent", Green, &["pid 4711"], &[]),
            (
                "an agent in another pid namespace",
                |it| it.agent = Ok(Agent::Runs(None)),
                "agent",
                Green,
                &["an agent runs"],
                &[],
            ),
            (
                "no agent, and pins",
                |it| it.agent = Ok(Agent::None),
                "agent",
                Yellow,
                &["on its own"],
                &["start it again", "journalctl"],
            ),
            (
                "no agent, and no pins",
                |it| (it.agent, it.plane) = (Ok(Agent::None), Ok(None)),
                "agent",
                Yellow,
                &["nothing is pinned"],
                &["vipward agent --config"],
            ),
            ("all pins", |_| {}, "pins", Green, &["all maps and 1 link "], &[]),
            (
                "two pins missing",
                |it| it.pinned().missing = vec!["vips_v4", "events"],
                "pins",
                Red,
                &["vips_v4, events", "missing"],
                &["start the agent again"],
            ),
            (
                "an agent without pins",
                |it| it.plane = Ok(None),
                "pins",
                Red,
                &["an agent runs, and nothing is pinned"],
                &["start it again"],
            ),
            (
                "neither",
                |it| (it.agent, it.plane) = (Ok(Agent::None), Ok(None)),
                "pins",
                NotApplicable,
                &["nothing is pinned"],
                &[],
            ),
        ],
    );
}

#[test]
fn the_fence_and_the_last_heartbeat() {
    assert_rows(
        None,
        &[
            (
                "moved",
                |_| {},
                "fence",
                Green,
                &["the last heartbeat was 400ms ago; valid for another 2s 600ms"],
                &[],
            ),
            (
                "moved just before it was looked at, which was seen at the next look only",
                |it| {
                    let good_for_ns = 3 * SECOND - SECOND / 20;
                    let fence = &mut it.contents().fence;
                    fence.state = Validity::Valid(Heartbeat::Seen { good_for_ns });
                    fence.left_ns = 3 * SECOND - 1;
                },
                "fence",
                Green,
                &["the last heartbeat was 0s ago; valid for another 2s 900ms"],
                &[],
            ),
            (
                "not moved",
                |it| {
                    let watched = Duration::from_millis(3_004);
                    let fence = &mut it.contents().fence;
                    fence.state = Validity::Valid(Heartbeat::Missed { watched });
                    fence.left_ns = 57 * SECOND;
                },
                "fence",
                Yellow,
                &["not moved while it was watched for 3s; valid for another 57s"],
                &["hangs", "its log", "/livez", "more seldom than every 3s is as it should be"],
            ),
            (
                "held over",
                |it| {
                    let fence = &mut it.contents().fence;
                    fence.state = Validity::HeldOver;
                    fence.left_ns = -12_340_000_000;
                    fence.hold_left_ns = 3_588 * SECOND;
                },
                "fence",
                Yellow,
                &["passed 12s 300ms ago", "goes on for 59m 48s"],
                &["start the agent again"],
            ),
            (
                "held over for long enough",
                |it| {
                    let fence = &mut it.contents().fence;
                    fence.state = Validity::Over;
                    fence.left_ns = -3_700 * SECOND;
                    fence.hold_left_ns = -100 * SECOND;
                },
                "fence",
                Red,
                &["over since 1m 40s", "1 VIPs of this node are not answered"],
                &["start the agent again"],
            ),
            (
                "stopped",
                |it| {
                    let fence = &mut it.contents().fence;
                    (fence.state, fence.policy) = (Validity::Over, Policy::Stop);
                    fence.left_ns = -5 * SECOND;
                    fence.hold_left_ns = 3_600 * SECOND;
                },
                "fence",
                Red,
                &["over since 5s"],
                &["cannot renew"],
            ),
            ("nothing pinned", |it| it.plane = Ok(None), "fence", NotApplicable, &[], &[]),
            (
                "another layout",
                |it| it.pinned().contents = Err(unread("layout 9")),
                "fence",
                Unknown,
                &["layout 9"],
                &[],
            ),
        ],
    );
}

#[test]
fn what_the_maps_say() {
    assert_rows(
        None,
        &[
            ("room", |_| {}, "map-fill", Green, &["vips_v4 2 of 65536", "peers 2 of 16384"], &[]),
            (
                "little room",
                |it| {
                    let contents = it.contents();
                    contents.max_vips = 10;
                    contents.vips = vec![contents.vips[0].clone(); 8];
                },
                "map-fill",
                Yellow,
                &["vips_v4 is nearly full", "8 of 10"],
                &["--max-vips"],
            ),
            (
                "no room",
                |it| it.contents().max_vips = 2,
                "map-fill",
                Red,
                &["vips_v4 is full", "2 of 2"],
                &["--max-vips"],
            ),
            (
                "no room for peers",
                |it| it.contents().peers = 16_384,
                "map-fill",
                Red,
                &["peers is full"],
                &["interfaces"],
            ),
            ("nothing pinned: no fill", |it| it.plane = Ok(None), "map-fill", NotApplicable, &[], &[]),
            ("all events read", |_| {}, "events-lost", Green, &["none"], &[]),
            (
                "events lost",
                |it| it.contents().events_lost = 7,
                "events-lost",
                Yellow,
                &["7 events"],
                &["CPU time", "floods"],
            ),
            ("nothing pinned: no events", |it| it.plane = Ok(None), "events-lost", NotApplicable, &[], &[]),
        ],
    );
}
