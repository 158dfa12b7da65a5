//! The facts about a host that the checks judge.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{
    base::pattern::InterfacePattern,
    diagnosis::pinned::{Fact, Plane},
    host::net::NetView,
    liveness::Traffic,
    ownership::WireView,
    segment::groups::Membership,
};

/// The facts about a host.
#[derive(Clone, Debug)]
pub struct Facts {
    pub machine: Machine,
    /// The pin directory.
    pub dir: PathBuf,
    pub pin_dir: Fact<PinDir>,
    pub agent: Fact<Agent>,
    /// The pinned state in it. None if nothing is pinned.
    pub plane: Fact<Option<Plane>>,
    /// The heartbeat of the agent. It matters only while the fence is valid.
    pub heartbeat: Heartbeat,
    /// The interfaces to examine. If empty: those that an agent would attach to.
    pub wanted: Vec<InterfacePattern>,
    pub wire: Fact<WireReport>,
    pub network: Fact<NetView>,
    /// The addresses, with their labels and protocols.
    pub bound: Fact<Vec<Bound>>,
    /// The joined groups of neighbour solicitations that have the agent's mark.
    pub memberships: Fact<BTreeSet<Membership>>,
    /// Details of each interface, by ifindex.
    pub nics: BTreeMap<u32, Nic>,
    /// The settings in `net.ipv4.conf`, by interface name and for `all`.
    pub conf: BTreeMap<String, Fact<Conf>>,
    pub neighbours: Fact<Neighbours>,
    /// The processes of this network namespace, as far as `/proc` shows them.
    pub processes: Fact<Vec<Process>>,
    /// True if `/proc` shows every process of the machine, and not only those of a PID namespace.
    pub sees_all_processes: Fact<bool>,
}

/// The machine, and the rights of this process.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel release, as `uname -r` prints it.
    pub release: Fact<String>,
    /// A feature that the kernel lacks, in words. None if it lacks nothing.
    pub lacks: Option<String>,
    /// True if the kernel has type information.
    pub btf: Fact<bool>,
    /// The capabilities that this process lacks.
    pub missing_here: Fact<Vec<String>>,
    /// The capabilities that the agent lacks. None if no agent is seen.
    pub missing_in_agent: Option<Fact<Vec<String>>>,
    /// `RLIMIT_MEMLOCK` in bytes.
    pub memlock_bytes: Fact<u64>,
    /// True if BPF memory counts against that limit on this kernel.
    pub memlock_counts: bool,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Fact<u8>,
    pub clock_source: Fact<String>,
    /// The agent's thread of wire failover. None if no agent is seen, or it has none.
    pub wire_thread: Fact<Option<WireThread>>,
}

/// The rights of the thread of wire failover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireThread {
    /// True if it runs before all ordinary threads (`SCHED_FIFO`).
    pub runs_first: bool,
    /// The locked memory of its process, in bytes.
    pub locked_bytes: u64,
}

/// An agent's account of wire failover, as its page `/debug/wire` has it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WireReport {
    /// The engine's view. None if the node takes no part, by its options.
    pub view: Option<WireView>,
    /// The traffic with the peers. Empty if the thread does not run.
    pub peers: Vec<WirePeer>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WirePeer {
    pub session: String,
    /// Time since the last ping that it answered.
    pub answered_seconds_ago: Option<f64>,
    /// The round-trip time of that ping.
    pub round_trip_seconds: Option<f64>,
    /// Pings sent.
    pub sent: u64,
    /// Pings for which no answer came in time, to them or to a later one.
    pub lost: u64,
}

impl WirePeer {
    pub fn of(traffic: &Traffic) -> Self {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        Self {
            session: traffic.session.to_string(),
            answered_seconds_ago: seconds(traffic.answered_ago),
            round_trip_seconds: seconds(traffic.round_trip),
            sent: traffic.sent,
            lost: traffic.lost,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinDir {
    /// The nearest directory that exists: the pin directory itself, or one above it.
    pub at: PathBuf,
    pub exists: bool,
    /// True if it is, or would be, on a bpffs.
    pub on_bpffs: bool,
    pub owner: u32,
    pub mode: u32,
    /// The user who examines it.
    pub user: u32,
}

/// The user of the pin directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Agent {
    /// An agent runs. Its process id is here if it can be seen.
    Runs(Option<u32>),
    None,
}

/// The heartbeat of an agent, seen by a move of its fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heartbeat {
    /// The agent moved the fence.
    Seen {
        /// The time from that move until the new deadline. A heartbeat is good for this long.
        good_for: Duration,
    },
    /// The fence did not move.
    Missed {
        /// The time for which the fence was watched.
        watched: Duration,
    },
}

/// An address on an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    pub ifindex: u32,
    pub net: IpNet,
    /// `IFA_LABEL`.
    pub label: String,
}

#[derive(Clone, Debug)]
pub struct Nic {
    pub driver: Fact<String>,
    /// True if the driver has native XDP.
    pub native: Fact<bool>,
    /// True if it takes VLAN tags off frames before XDP sees them.
    pub vlan_offload: Fact<bool>,
    pub gro: Fact<bool>,
    pub mtu_bytes: Fact<u32>,
    /// Its settings in `net.ipv6.conf`.
    pub conf_v6: Fact<ConfV6>,
    /// MLD queries that it has received since it came up.
    pub mld_queries: Fact<u64>,
    /// The interface below (of a VLAN or macvlan), or the other end of a veth.
    pub lower: Option<u32>,
    /// True if that interface is in another network namespace.
    pub lower_elsewhere: bool,
    /// BPF programs of traffic control.
    pub tc: Fact<Vec<TcProgram>>,
    /// The names of the XDP programs on it, by id, as far as they could be looked up.
    pub xdp_names: BTreeMap<u32, String>,
}

/// A BPF program of traffic control. A classifier runs it, or tcx.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcProgram {
    pub id: u32,
    /// Its name, if it could be looked up.
    pub name: Option<String>,
    /// True if it is on ingress, false on egress.
    pub ingress: bool,
}

/// The `net.ipv4.conf` settings that matter to VIPs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conf {
    pub arp_ignore: u8,
    pub arp_announce: u8,
    pub rp_filter: u8,
}

/// The `net.ipv6.conf` settings that matter to VIPs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfV6 {
    pub disable_ipv6: u8,
    pub accept_dad: i8,
    pub drop_unsolicited_na: u8,
}

/// The kernel's neighbour table, which all network namespaces share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbours {
    /// `gc_thresh1` to `gc_thresh3`.
    pub limits: [u32; 3],
    pub entries: u32,
    /// Number of times that an entry found no room, since the machine started.
    pub overflows: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    pub pid: u32,
    /// Its name, from `/proc/PID/comm`.
    pub name: String,
    /// The last part of the path of its executable.
    pub program: String,
}
