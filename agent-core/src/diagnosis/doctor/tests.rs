use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use super::*;
use crate::{
    diagnosis::{
        fact::{
            Cause, Fact,
            Fact::{Read, Unread},
            Unread as Why,
        },
        pinned::{self, Contents, Plane},
    },
    host::net::{Interface, NetView},
};

mod addresses;
mod file;
mod links;
mod machine;
mod multicast;
mod plane;
mod surroundings;
mod wire;

/// The program of the sample.
const OURS: u32 = 40;
const SECOND: u64 = 1_000_000_000;

/// Returns a host without a fault. Its NIC has native XDP. An agent holds a
/// VIP on it, and another node holds a second VIP.
fn healthy() -> Facts {
    let mut view = NetView::default();
    add(&mut view, 1, "lo", |it| (it.ethernet, it.loopback) = (false, true));
    add(&mut view, 2, "eth0", |it| {
        it.xdp_programs = vec![OURS];
        it.addresses = vec!["192.0.2.2/24".parse().expect("a subnet")];
    });
    Facts {
        machine: Machine {
            kernel: Read(Kernel { release: "6.18.44".to_owned(), lacks: None, counts_bpf_as_locked: false }),
            btf: Read(true),
            missing: Read(Vec::new()),
            memlock_bytes: Read(8 << 20),
            unprivileged_bpf_disabled: Read(2),
            clock_source: Read("tsc".to_owned()),
        },
        dir: PathBuf::from("/sys/fs/bpf/vipward"),
        pin_dir: Read(PinDir { exists: true, on_bpffs: true, owner: 0, mode: 0o700, user: 0 }),
        agent: Read(Agent::Runs(Some(4_711))),
        plane: Read(Some(pinned::State::sample().into_parts().0)),
        others: Read(Vec::new()),
        heartbeat: Read(Heartbeat::Seen { good_for: Duration::from_millis(3_400) }),
        offenders: Read(BTreeMap::new()),
        wire: Fact::skipped("no agent of a cluster runs"),
        file: Read(FileReport {
            file: "/etc/vipward/vipward.yaml".to_owned(),
            read_at_unix_seconds: 1_795_000_000,
            read_seconds_ago: 3_600,
            refused: None,
        }),
        wanted: Vec::new(),
        network: Read(view),
        bound: Read(vec![bound(2, "192.0.2.2/24", "eth0")]),
        memberships: Read(BTreeSet::new()),
        nics: BTreeMap::from([(2, nic())]),
        conf_all: Read(conf()),
        neighbours: Read(Neighbours { limits: [128, 512, 1_024], entries: 12, overflows: 0 }),
        processes: Read(vec![process(1, "systemd", "init"), process(4_711, "vipward", "vipward")]),
        sees_all_processes: Read(true),
    }
}

fn add(view: &mut NetView, index: u32, name: &str, change: impl FnOnce(&mut Interface)) {
    let mut interface = Interface::sample(index, name);
    change(&mut interface);
    view.interfaces.insert(index, interface);
}

fn conf() -> Conf {
    Conf { arp_ignore: 0, arp_announce: 2, rp_filter: 2 }
}

fn nic() -> Nic {
    Nic {
        driver: Read("mlx5_core".to_owned()),
        native: Read(true),
        vlan_offload: Read(false),
        gro: Read(true),
        mtu_bytes: Read(1_500),
        wireless: Read(None),
        conf: Read(conf()),
        conf_v6: Read(ConfV6 { disable_ipv6: 0, accept_dad: 1, drop_unsolicited_na: 0 }),
        mld_queries: Read(3),
        peer: Read(None),
        tc: Read(Vec::new()),
        xdp_names: BTreeMap::new(),
    }
}

fn bound(ifindex: u32, net: &str, label: &str) -> Bound {
    Bound { ifindex, net: net.parse().expect("an address"), label: label.to_owned() }
}

fn process(pid: u32, name: &str, program: &str) -> Process {
    Process { pid, name: name.to_owned(), program: program.to_owned() }
}

impl Facts {
    fn interface(&mut self, index: u32) -> &mut Interface {
        let view = self.network.read_mut();
        view.interfaces.get_mut(&index).expect("the interface is there")
    }

    fn view(&mut self) -> &mut NetView {
        self.network.read_mut()
    }

    fn nic_mut(&mut self) -> &mut Nic {
        self.nics.get_mut(&2).expect("eth0 is there")
    }

    fn conf_v6(&mut self) -> &mut ConfV6 {
        self.nic_mut().conf_v6.read_mut()
    }

    fn pinned(&mut self) -> &mut Plane {
        self.plane.read_mut().as_mut().expect("something is pinned")
    }

    fn contents_mut(&mut self) -> &mut Contents {
        self.pinned().contents.read_mut()
    }

    /// Puts a cluster's node into its grace period for 12.34 s, with a peer on each of these
    /// interfaces.
    fn grace(&mut self, peers: &[u32]) {
        let contents = self.contents_mut();
        contents.peers = peers.iter().map(|ifindex| (*ifindex, pinned::State::SAMPLE_PEER)).collect();
        contents.lease_deadline.session = 7;
        contents.pass_deadline();
        contents.now_ns += 12_340_000_000;
        contents.lease_deadline.grace_until_ns = contents.now_ns + 3_588 * SECOND;
    }
}

/// A fault, the check that finds it, the result, and parts of the finding and of the remedy.
type Row =
    (&'static str, fn(&mut Facts), &'static str, State, &'static [&'static str], &'static [&'static str]);

/// Checks the rows. Each of them changes the healthy host in one
/// way. `on` is the interface of the check.
fn assert_rows(on: Option<&str>, rows: &[Row]) {
    for (description, change, name, state, found, remedy) in rows {
        let mut facts = healthy();
        change(&mut facts);
        let checks = examine(&facts);
        let check = checks.iter().find(|it| it.subject == *name && it.interface.as_deref() == on);
        let check = check.unwrap_or_else(|| panic!("{description}: no check {name} in {checks:#?}"));
        assert_eq!(check.state, *state, "{description}: {check:?}");
        for part in *found {
            assert!(check.found.contains(part), "{description}: {part:?} in {check:?}");
        }
        let said = check.remedy.clone().unwrap_or_default();
        for part in *remedy {
            assert!(said.contains(part), "{description}: {part:?} in {check:?}");
        }
        let has_remedy = !said.is_empty();
        match state {
            State::Red | State::Yellow => assert!(has_remedy, "{description}: {check:?}"),
            State::Green | State::NotApplicable => assert!(!has_remedy, "{description}: {check:?}"),
            State::Unknown => {}
        }
    }
}

#[test]
fn a_healthy_host_has_every_check_and_nothing_is_amiss() {
    let checks = examine(&healthy());
    let amiss: Vec<_> =
        checks.iter().filter(|it| !matches!(it.state, State::Green | State::NotApplicable)).collect();
    assert!(amiss.is_empty(), "{amiss:#?}");
    let described: Vec<_> = CHECKS.iter().map(|it| it.name).collect();
    assert_eq!(checks.iter().map(|it| it.subject).collect::<Vec<_>>(), described);
    let names: Vec<_> = checks.iter().map(|it| (it.subject, it.interface.as_deref())).collect();
    let eth0 = Some("eth0");
    assert_eq!(
        names,
        [
            ("kernel", None),
            ("btf", None),
            ("capabilities", None),
            ("memlock", None),
            ("unprivileged-bpf", None),
            ("clock-source", None),
            ("bpffs", None),
            ("agent", None),
            ("pins", None),
            ("other-pins", None),
            ("lease-deadline", None),
            ("map-fill", None),
            ("events-lost", None),
            ("wire", None),
            ("config", None),
            ("link", eth0),
            ("wireless", eth0),
            ("program", eth0),
            ("proof", eth0),
            ("egress", eth0),
            ("own-frames", eth0),
            ("other-xdp", eth0),
            ("tc", eth0),
            ("vlan-offload", eth0),
            ("veth-peer", eth0),
            ("member", eth0),
            ("mtu", eth0),
            ("multicast", eth0),
            ("neighbour-discovery", eth0),
            ("kube-proxy", None),
            ("bound-elsewhere", None),
            ("labelled-addresses", None),
            ("arp-ignore", None),
            ("arp-announce", eth0),
            ("rp-filter", eth0),
            ("neighbour-table", None),
            ("other-vip-software", None),
            ("doubled", None),
            ("unknown-hosts", None),
        ]
    );
}

#[test]
fn a_host_passes_unless_something_is_red_or_strictly_unless_all_is_known_and_well() {
    let check = |state| Finding::new("link", state, "found", None);
    let table = [
        (vec![], true, true),
        (vec![State::Green, State::NotApplicable], true, true),
        (vec![State::Green, State::Yellow], true, false),
        (vec![State::Green, State::Unknown], true, false),
        (vec![State::Yellow, State::Red], false, false),
    ];
    for (states, loosely, strictly) in table {
        let checks: Vec<_> = states.iter().copied().map(check).collect();
        assert_eq!((passes(&checks, false), passes(&checks, true)), (loosely, strictly), "{states:?}");
    }
}

#[test]
fn nothing_that_could_not_be_read_is_green() {
    const WHY: &str = "failed to read it";
    let mut facts = healthy();
    facts.machine = Machine {
        kernel: Fact::failed(WHY),
        btf: Fact::failed(WHY),
        missing: Fact::failed(WHY),
        memlock_bytes: Fact::failed(WHY),
        unprivileged_bpf_disabled: Fact::failed(WHY),
        clock_source: Fact::failed(WHY),
    };
    facts.pin_dir = Fact::failed(WHY);
    facts.agent = Fact::failed(WHY);
    facts.plane = Fact::failed(WHY);
    facts.heartbeat = Fact::failed(WHY);
    facts.offenders = Fact::failed(WHY);
    facts.wire = Fact::failed(WHY);
    facts.file = Fact::failed(WHY);
    facts.bound = Fact::failed(WHY);
    facts.memberships = Fact::failed(WHY);
    facts.neighbours = Fact::failed(WHY);
    facts.processes = Fact::failed(WHY);
    facts.sees_all_processes = Fact::failed(WHY);
    facts.conf_all = Fact::failed(WHY);
    facts.network = Fact::failed(WHY);
    for check in examine(&facts) {
        assert_eq!(check.state, State::Unknown, "{check:?}");
        assert!(check.found.contains(WHY), "{check:?}");
    }
}

/// A fact that is not read, the checks that need it, and the reasons that they give.
#[test]
fn a_check_is_unknown_if_one_of_its_facts_was_not_read() {
    const WHY: &str = "it was not read";
    type Row = (&'static str, fn(&mut Facts), &'static [&'static str]);
    let not_attached: fn(&mut Facts) = |it| it.pinned().links[0].ids = Fact::skipped(WHY);
    let rows: [Row; 11] = [
        ("the kernel's release", |it| it.machine.kernel = Fact::skipped(WHY), &["kernel", "memlock"]),
        ("the user of the pins", |it| it.agent = Fact::skipped(WHY), &["agent", "capabilities"]),
        (
            "the user of the pins, of which there are none",
            |it| (it.agent, it.plane) = (Fact::skipped(WHY), Read(None)),
            &["agent", "capabilities", "pins"],
        ),
        (
            "the user of another user's pins",
            |it| {
                it.agent = Fact::skipped(WHY);
                it.pin_dir.read_mut().owner = 1_000;
            },
            &["bpffs"],
        ),
        ("the heartbeat", |it| it.heartbeat = Fact::skipped(WHY), &["lease-deadline"]),
        ("the map of claims", |it| it.offenders = Fact::skipped(WHY), &["doubled", "unknown-hosts"]),
        (
            "the pins",
            |it| it.plane = Fact::skipped(WHY),
            &[
                "pins",
                "lease-deadline",
                "program",
                "proof",
                "own-frames",
                "tc",
                "vlan-offload",
                "bound-elsewhere",
                "doubled",
                "unknown-hosts",
            ],
        ),
        (
            "the maps, which say what sees a VLAN device's frames",
            |it| {
                it.pinned().links.clear();
                it.pinned().contents = Fact::skipped(WHY);
            },
            &[
                "program",
                "proof",
                "own-frames",
                "tc",
                "vlan-offload",
                "lease-deadline",
                "doubled",
                "unknown-hosts",
            ],
        ),
        ("a link's program", not_attached, &["program", "proof", "own-frames", "other-xdp"]),
        ("the addresses", |it| it.bound = Fact::skipped(WHY), &["bound-elsewhere", "arp-ignore"]),
        ("the settings of all", |it| it.conf_all = Fact::skipped(WHY), &["arp-announce", "rp-filter"]),
    ];
    for (what, change, names) in rows {
        let mut facts = healthy();
        change(&mut facts);
        let checks = examine(&facts);
        for name in names {
            let check = checks.iter().find(|check| check.subject == *name).expect("there is such a check");
            assert_eq!(check.state, State::Unknown, "{what}: {check:?}");
            assert!(check.found.contains(WHY), "{what}: {check:?}");
        }
    }
}

#[test]
fn what_was_denied_says_that_root_may() {
    let mut facts = healthy();
    facts.plane = Unread(Why { reason: "permission denied".to_owned(), cause: Cause::Denied });
    let checks = examine(&facts);
    let lease_deadline = checks
        .iter()
        .find(|check| check.subject == "lease-deadline")
        .expect("there is a check of the lease deadline");
    assert_eq!(lease_deadline.state, State::Unknown);
    assert!(
        lease_deadline.remedy.as_ref().is_some_and(|remedy| remedy.contains("sudo")),
        "{lease_deadline:?}"
    );
}
