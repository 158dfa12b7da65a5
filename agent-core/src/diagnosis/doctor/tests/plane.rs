use vipward_common::{MAX_PEERS, MacAddr, Policy};

use super::*;
use State::{Green, NotApplicable, Red, Unknown, Yellow};

#[test]
fn the_pin_directory_is_on_a_bpffs() {
    assert_rows(
        None,
        &[
            ("a bpffs", |_| {}, "bpffs", Green, &["/sys/fs/bpf/vipward is on a bpffs", "mode 700"], &[]),
            (
                "not made yet",
                |it| it.pin_dir.read_mut().exists = false,
                "bpffs",
                Green,
                &["does not exist yet"],
                &[],
            ),
            (
                "no bpffs at its usual place",
                |it| it.pin_dir.read_mut().on_bpffs = false,
                "bpffs",
                Red,
                &["no bpffs is mounted on /sys/fs/bpf"],
                &["mount -t bpf bpf /sys/fs/bpf"],
            ),
            (
                "a directory elsewhere",
                |it| {
                    it.dir = PathBuf::from("/run/vipward/pins");
                    let dir = it.pin_dir.read_mut();
                    dir.on_bpffs = false;
                    dir.at = PathBuf::from("/run");
                },
                "bpffs",
                Red,
                &["/run/vipward/pins is not on a bpffs"],
                &["--pin-dir", "mount -t bpf bpf /run"],
            ),
        ],
    );
}

#[test]
fn the_pin_directory_belongs_to_the_agents_user_alone() {
    assert_rows(
        None,
        &[
            (
                "others may write it",
                |it| it.pin_dir.read_mut().mode = 0o770,
                "bpffs",
                Red,
                &["mode 770", "take the pins away"],
                &["chmod 0700 /sys/fs/bpf/vipward"],
            ),
            (
                "another user's, and no agent",
                |it| {
                    it.agent = Read(Agent::None);
                    it.pin_dir.read_mut().owner = 1_000;
                },
                "bpffs",
                Yellow,
                &["belongs to user 1000"],
                &["start the agent as user 1000", "chown 0 "],
            ),
            (
                "another user's, whose agent runs",
                |it| it.pin_dir.read_mut().owner = 1_000,
                "bpffs",
                Green,
                &["owner 1000"],
                &[],
            ),
        ],
    );
}

#[test]
fn an_agent_runs() {
    assert_rows(
        None,
        &[
            ("an agent", |_| {}, "agent", Green, &["pid 4711"], &[]),
            (
                "an agent in another pid namespace",
                |it| it.agent = Read(Agent::Runs(None)),
                "agent",
                Green,
                &["an agent runs"],
                &[],
            ),
            (
                "no agent, and pins",
                |it| it.agent = Read(Agent::None),
                "agent",
                Yellow,
                &["on its own"],
                &["start it again", "journalctl"],
            ),
            (
                "no agent, and no pins",
                |it| (it.agent, it.plane) = (Read(Agent::None), Read(None)),
                "agent",
                Yellow,
                &["nothing is pinned"],
                &["vipward agent --config"],
            ),
        ],
    );
}

#[test]
fn all_pins_are_there() {
    assert_rows(
        None,
        &[
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
                |it| it.plane = Read(None),
                "pins",
                Red,
                &["an agent runs, and nothing is pinned"],
                &["start it again"],
            ),
            (
                "neither",
                |it| (it.agent, it.plane) = (Read(Agent::None), Read(None)),
                "pins",
                NotApplicable,
                &["nothing is pinned"],
                &[],
            ),
        ],
    );
}

#[test]
fn a_lease_deadline_ahead_shows_the_last_heartbeat() {
    assert_rows(
        None,
        &[
            (
                "moved",
                |_| {},
                "lease-deadline",
                Green,
                &["the last heartbeat was 400ms ago; valid for another 3s"],
                &[],
            ),
            (
                "moved just before the first look, as the next one showed",
                |it| {
                    it.heartbeat = Read(Heartbeat::Seen { good_for: Duration::from_millis(2_950) });
                    it.contents_mut().now_ns += 1;
                },
                "lease-deadline",
                Green,
                &["the last heartbeat was 0s ago; valid for another 2s 900ms"],
                &[],
            ),
            (
                "not moved",
                |it| {
                    it.heartbeat = Read(Heartbeat::Missed { watched: Duration::from_millis(3_004) });
                    it.contents_mut().lease_deadline.deadline_ns += 54 * SECOND;
                },
                "lease-deadline",
                Yellow,
                &["not moved while it was watched for 3s; valid for another 57s"],
                &["hangs", "its log", "/livez", "more seldom than every 3s is as it should be"],
            ),
            ("nothing pinned", |it| it.plane = Read(None), "lease-deadline", NotApplicable, &[], &[]),
            (
                "another layout",
                |it| it.pinned().contents = Fact::failed("layout 9"),
                "lease-deadline",
                Unknown,
                &["layout 9"],
                &[],
            ),
        ],
    );
}

#[test]
fn a_lease_deadline_that_has_passed_shows_since_when() {
    assert_rows(
        None,
        &[
            (
                "grace period",
                |it| {
                    it.grace(&[]);
                    it.contents_mut().lease_deadline.session = 0;
                },
                "lease-deadline",
                Yellow,
                &["passed 12s 300ms ago", "goes on for 59m 48s"],
                &["start the agent again"],
            ),
            (
                "grace period for long enough",
                |it| {
                    it.contents_mut().pass_hold();
                    it.contents_mut().now_ns += 100 * SECOND;
                },
                "lease-deadline",
                Red,
                &["over since 1m 40s", "1 of this node's VIPs not answered"],
                &["start the agent again"],
            ),
            (
                "grace period for long enough, with a VIP on two interfaces",
                |it| {
                    let contents = it.contents_mut();
                    contents.pass_hold();
                    let mut second = contents.entries[0];
                    second.key.ifindex = 3;
                    contents.entries.push(second);
                },
                "lease-deadline",
                Red,
                &["; 1 of this node's VIPs not answered"],
                &["start the agent again"],
            ),
            (
                "stopped",
                |it| {
                    it.contents_mut().lease_deadline.policy = Policy::Stop;
                    it.contents_mut().pass_deadline();
                    it.contents_mut().now_ns += 5 * SECOND;
                },
                "lease-deadline",
                Red,
                &["over since 5s"],
                &["cannot renew"],
            ),
        ],
    );
}

#[test]
fn a_lease_deadline_that_is_in_its_grace_period_without_a_peer_is_red_in_a_cluster() {
    assert_rows(
        None,
        &[
            (
                "grace period in a cluster, and the agent runs",
                |it| it.grace(&[2]),
                "lease-deadline",
                Yellow,
                &["passed 12s 300ms ago", "goes on for 59m 48s"],
                &["the agent runs", "let it reach the API server", "its log"],
            ),
            (
                "grace period in a cluster, without an agent",
                |it| {
                    it.grace(&[2]);
                    it.agent = Read(Agent::None);
                },
                "lease-deadline",
                Yellow,
                &["grace period"],
                &["start the agent again"],
            ),
            (
                "a session that has ended, under hold",
                |it| {
                    (it.contents_mut().lease_deadline.session, it.contents_mut().wire.notified.ended) =
                        (7, 7);
                },
                "lease-deadline",
                Yellow,
                &["grace period: a peer's expiry notice ended this node's session", "goes on for"],
                &["the agent runs"],
            ),
            (
                "a session that has ended, under stop",
                |it| {
                    (it.contents_mut().lease_deadline.session, it.contents_mut().wire.notified.ended) =
                        (7, 7);
                    it.contents_mut().lease_deadline.policy = Policy::Stop;
                },
                "lease-deadline",
                Red,
                &["a peer's expiry notice ended this node's session", "1 of this node's VIPs not answered"],
                &["start the agent again", "new session"],
            ),
            (
                "grace period in a cluster, with no peer",
                |it| it.grace(&[]),
                "lease-deadline",
                Red,
                &["goes on for 59m 48s", "1 VIPs on eth0", "no peer", "yields to no host", "two may answer"],
                &["let the agent reach the API server", "vipward who-has ADDRESS", "vipward unload"],
            ),
            (
                "grace period in a cluster, with peers on another interface only",
                |it| it.grace(&[3]),
                "lease-deadline",
                Red,
                &["1 VIPs on eth0"],
                &["vipward unload"],
            ),
            (
                "grace period in a cluster, with no peer where nothing is answered",
                |it| {
                    it.grace(&[2]);
                    it.contents_mut().entries[1].key.ifindex = 3;
                },
                "lease-deadline",
                Yellow,
                &["grace period"],
                &[],
            ),
            (
                "grace period without peers, standalone",
                |it| {
                    it.grace(&[]);
                    it.contents_mut().lease_deadline.session = 0;
                },
                "lease-deadline",
                Yellow,
                &["grace period"],
                &["start the agent again"],
            ),
        ],
    );
}

#[test]
fn full_maps_and_lost_events_are_found() {
    assert_rows(
        None,
        &[
            ("room", |_| {}, "map-fill", Green, &["vip_state 2 of 65536", "peers 1 of 16384"], &[]),
            (
                "little room",
                |it| {
                    let contents = it.contents_mut();
                    contents.max_vips = 10;
                    contents.entries = vec![contents.entries[0]; 8];
                },
                "map-fill",
                Yellow,
                &["vip_state is nearly full", "8 of 10"],
                &["--max-vips"],
            ),
            (
                "no room",
                |it| it.contents_mut().max_vips = 2,
                "map-fill",
                Red,
                &["vip_state is full", "2 of 2"],
                &["--max-vips"],
            ),
            (
                "no room for peers",
                |it| {
                    let mac = |ifindex: u32| {
                        let [_, _, high, low] = ifindex.to_be_bytes();
                        MacAddr([2, 0, 0, 1, high, low])
                    };
                    it.contents_mut().peers =
                        (0..MAX_PEERS).map(|number| (2 + number % 2, mac(number))).collect();
                },
                "map-fill",
                Red,
                &["peers is full"],
                &["interfaces"],
            ),
            ("nothing pinned: no fill", |it| it.plane = Read(None), "map-fill", NotApplicable, &[], &[]),
            ("all events read", |_| {}, "events-lost", Green, &["none"], &[]),
            (
                "events lost",
                |it| it.contents_mut().counters.events_lost = 7,
                "events-lost",
                Yellow,
                &["7 events"],
                &["CPU time", "floods"],
            ),
            ("nothing pinned: no events", |it| it.plane = Read(None), "events-lost", NotApplicable, &[], &[]),
        ],
    );
}

fn other_pins(agent: Agent) -> OtherPins {
    OtherPins { dir: PathBuf::from("/sys/fs/bpf/trial"), agent, programs: vec![(2, 50)] }
}

#[test]
fn programs_of_other_pin_directories_are_named() {
    const NAME: &str = "other-pins";
    assert_rows(
        None,
        &[
            ("none", |_| {}, NAME, Green, &["no other pin directory"], &[]),
            (
                "without an agent",
                |it| it.others = Read(vec![other_pins(Agent::None), other_pins(Agent::Runs(Some(9)))]),
                NAME,
                Red,
                &["without an agent", "/sys/fs/bpf/trial on eth0"],
                &["vipward unload --pin-dir /sys/fs/bpf/trial", "--all"],
            ),
            (
                "another agent",
                |it| it.others = Read(vec![other_pins(Agent::Runs(Some(9)))]),
                NAME,
                Yellow,
                &["other agents run", "/sys/fs/bpf/trial on eth0 (pid 9)"],
                &["stop one"],
            ),
            (
                "a program of Vipward's without pins",
                |it| {
                    it.interface(2).xdp_programs.push(50);
                    it.nic_mut().xdp_names = BTreeMap::from([(50, "vipward_ports".to_owned())]);
                },
                NAME,
                Yellow,
                &["program 50 on eth0 is Vipward's, and its pins are not in sight"],
                &["mount namespace"],
            ),
            (
                "the pinned program",
                |it| it.nic_mut().xdp_names = BTreeMap::from([(OURS, "vipward".to_owned())]),
                NAME,
                Green,
                &[],
                &[],
            ),
            ("unread", |it| it.others = Fact::failed("no answer"), NAME, Unknown, &[], &[]),
            (
                "pins are unread",
                |it| it.plane = Fact::failed("no answer"),
                NAME,
                Unknown,
                &["no answer"],
                &[],
            ),
            (
                "traffic control is unread",
                |it| it.nic_mut().tc = Fact::failed("no answer"),
                NAME,
                Unknown,
                &["traffic control on eth0: no answer"],
                &[],
            ),
            (
                "a program without a name",
                |it| it.interface(2).xdp_programs.push(50),
                NAME,
                Unknown,
                &["the name of program 50 on eth0"],
                &["sudo"],
            ),
            (
                "a program of Vipward's, though another has no name",
                |it| {
                    it.interface(2).xdp_programs.extend([49, 50]);
                    it.nic_mut().xdp_names = BTreeMap::from([(50, "vipward".to_owned())]);
                },
                NAME,
                Yellow,
                &["program 50 on eth0"],
                &[],
            ),
        ],
    );
}
