use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use super::*;
use crate::{
    diagnosis::pinned::{self, Contents, Plane, Unread},
    host::net::{Interface, NetView},
};

mod addresses;
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
    let conf = Conf { arp_ignore: 0, arp_announce: 2, rp_filter: 2 };
    Facts {
        machine: Machine {
            release: Ok("6.18.44".to_owned()),
            lacks: None,
            btf: Ok(true),
            missing_here: Ok(Vec::new()),
            missing_in_agent: Some(Ok(Vec::new())),
            memlock_bytes: Ok(8 << 20),
            memlock_counts: false,
            unprivileged_bpf_disabled: Ok(2),
            clock_source: Ok("tsc".to_owned()),
            wire_thread: Ok(Some(WireThread { runs_first: true, locked_bytes: 1 << 20 })),
        },
        dir: PathBuf::from("/sys/fs/bpf/vipward"),
        pin_dir: Ok(PinDir {
            at: PathBuf::from("/sys/fs/bpf/vipward"),
            exists: true,
            on_bpffs: true,
            owner: 0,
            mode: 0o700,
            user: 0,
        }),
        agent: Ok(Agent::Runs(Some(4_711))),
        plane: Ok(Some(pinned::State::sample().into_parts().0)),
        heartbeat: Heartbeat::Seen { good_for: Duration::from_millis(3_400) },
        wire: Ok(WireReport::default()),
        wanted: Vec::new(),
        network: Ok(view),
        bound: Ok(vec![bound(2, "192.0.2.2/24", "eth0")]),
        memberships: Ok(BTreeSet::new()),
        nics: BTreeMap::from([(2, nic())]),
        conf: BTreeMap::from([("all".to_owned(), Ok(conf)), ("eth0".to_owned(), Ok(conf))]),
        neighbours: Ok(Neighbours { limits: [128, 512, 1_024], entries: 12, overflows: 0 }),
        processes: Ok(vec![process(1, "systemd", "init"), process(4_711, "vipward", "vipward")]),
        sees_all_processes: Ok(true),
    }
}

fn add(view: &mut NetView, index: u32, name: &str, change: impl FnOnce(&mut Interface)) {
    let mut interface = Interface::sample(index, name);
    change(&mut interface);
    view.interfaces.insert(index, interface);
}

fn nic() -> Nic {
    Nic {
        driver: Ok("mlx5_core".to_owned()),
        native: Ok(true),
        vlan_offload: Ok(false),
        gro: Ok(true),
        mtu_bytes: Ok(1_500),
        conf_v6: Ok(ConfV6 { disable_ipv6: 0, accept_dad: 1, drop_unsolicited_na: 0 }),
        mld_queries: Ok(3),
        lower: None,
        lower_elsewhere: false,
        tc: Ok(Vec::new()),
        xdp_names: BTreeMap::new(),
    }
}

fn bound(ifindex: u32, net: &str, label: &str) -> Bound {
    Bound { ifindex, net: net.parse().expect("an address"), label: label.to_owned() }
}

fn process(pid: u32, name: &str, program: &str) -> Process {
    Process { pid, name: name.to_owned(), program: program.to_owned() }
}

fn unread(reason: &str) -> Unread {
    Unread { reason: reason.to_owned(), denied: false }
}

impl Facts {
    fn interface(&mut self, index: u32) -> &mut Interface {
        let view = self.network.as_mut().expect("the network was read");
        view.interfaces.get_mut(&index).expect("the interface is there")
    }

    fn view(&mut self) -> &mut NetView {
        self.network.as_mut().expect("the network was read")
    }

    fn nic(&mut self) -> &mut Nic {
        self.nics.get_mut(&2).expect("eth0 is there")
    }

    fn conf_v6(&mut self) -> &mut ConfV6 {
        self.nic().conf_v6.as_mut().expect("it was read")
    }

    fn pinned(&mut self) -> &mut Plane {
        self.plane.as_mut().expect("the pins were read").as_mut().expect("something is pinned")
    }

    fn contents(&mut self) -> &mut Contents {
        self.pinned().contents.as_mut().expect("the maps were read")
    }

    /// Sets the fence of a cluster's node to held over for 12.34 s,
    /// with a peer on each of these interfaces.
    fn hold_over(&mut self, peers: &[u32]) {
        let contents = self.contents();
        contents.peers = peers.iter().map(|ifindex| (*ifindex, pinned::State::SAMPLE_PEER)).collect();
        contents.fence.session = 7;
        contents.pass_deadline();
        contents.now_ns += 12_340_000_000;
        contents.fence.hold_until_ns = contents.now_ns + 3_588 * SECOND;
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
        let check = checks.iter().find(|it| it.check == *name && it.interface.as_deref() == on);
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
    let names: Vec<_> = checks.iter().map(|it| (it.check, it.interface.as_deref())).collect();
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
            ("fence", None),
            ("map-fill", None),
            ("events-lost", None),
            ("wire", None),
            ("link", eth0),
            ("program", eth0),
            ("proof", eth0),
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
            ("strangers", None),
        ]
    );
}

#[test]
fn a_host_passes_unless_something_is_red_or_strictly_unless_all_is_known_and_well() {
    let check = |state| Check::new("link", state, "found", None);
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
    let why = || unread("failed to read it");
    let mut facts = healthy();
    facts.machine = Machine {
        release: Err(why()),
        lacks: None,
        btf: Err(why()),
        missing_here: Err(why()),
        missing_in_agent: None,
        memlock_bytes: Err(why()),
        memlock_counts: true,
        unprivileged_bpf_disabled: Err(why()),
        clock_source: Err(why()),
        wire_thread: Err(why()),
    };
    facts.pin_dir = Err(why());
    facts.agent = Err(why());
    facts.plane = Err(why());
    facts.wire = Err(why());
    facts.bound = Err(why());
    facts.memberships = Err(why());
    facts.neighbours = Err(why());
    facts.processes = Err(why());
    facts.sees_all_processes = Err(why());
    facts.conf.clear();
    facts.network = Err(why());
    for check in examine(&facts) {
        assert_eq!(check.state, State::Unknown, "{check:?}");
        assert!(check.found.contains("failed to read it"), "{check:?}");
    }
}

#[test]
fn what_was_denied_says_that_root_may() {
    let mut facts = healthy();
    facts.plane = Err(Unread { reason: "permission denied".to_owned(), denied: true });
    let checks = examine(&facts);
    let fence = checks.iter().find(|check| check.check == "fence").expect("there is a check of the fence");
    assert_eq!(fence.state, State::Unknown);
    assert!(fence.remedy.as_ref().is_some_and(|remedy| remedy.contains("sudo")), "{fence:?}");
}
