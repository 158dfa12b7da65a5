//! The facts about a host that the checks judge.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    time::Duration,
};

use humantime::FormattedDuration;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use vipward_common::{Offender, OffenderKey};

use crate::{
    base::{legible::Excerpt, pattern::InterfacePattern},
    diagnosis::{
        fact::Fact,
        pinned::{Contents, Plane},
    },
    host::net::NetView,
    liveness::Thread,
    ownership::{WireCounts, WireView},
    segment::groups::Membership,
};

/// The most characters of a refusal that are shown. The log has all.
const MOST_SHOWN: usize = 400;

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
    /// Other pin directories whose programs run here.
    pub others: Fact<Vec<OtherPins>>,
    /// The agent's heartbeat. It is watched for only while the lease deadline lies ahead.
    pub heartbeat: Fact<Heartbeat>,
    /// The hosts that claimed VIPs, by the program's records.
    pub offenders: Fact<BTreeMap<OffenderKey, Offender>>,
    /// The interfaces to examine. If empty: those that an agent would attach to.
    pub wanted: Vec<InterfacePattern>,
    pub wire: Fact<WireReport>,
    /// The agent's file.
    pub file: Fact<FileReport>,
    pub network: Fact<NetView>,
    /// The addresses, with their labels and protocols.
    pub bound: Fact<Vec<Bound>>,
    /// The joined groups of neighbour solicitations that have the agent's mark.
    pub memberships: Fact<BTreeSet<Membership>>,
    /// Details of each interface, by ifindex.
    pub nics: BTreeMap<u32, Nic>,
    /// The settings in `net.ipv4.conf` for `all`.
    pub conf_all: Fact<Conf>,
    pub neighbours: Fact<Neighbours>,
    /// The processes of this network namespace, as far as `/proc` shows them.
    pub processes: Fact<Vec<Process>>,
    /// True if `/proc` shows every process of the machine, not of one PID namespace only.
    pub sees_all_processes: Fact<bool>,
}

impl Facts {
    /// Returns the details of an interface.
    pub(super) fn nic(&self, ifindex: u32) -> Fact<&Nic> {
        match self.nics.get(&ifindex) {
            Some(nic) => Fact::Read(nic),
            None => Fact::skipped("the interface was not inspected: it has gone, or has just come"),
        }
    }

    /// Returns the contents of the maps, or none if nothing is pinned.
    pub(super) fn contents(&self) -> Fact<Option<&Contents>> {
        self.plane.as_ref().and_then(|plane| match plane {
            Some(plane) => plane.contents.as_ref().map(Some),
            None => Fact::Read(None),
        })
    }
}

/// The machine, and the rights of the agent on it.
#[derive(Clone, Debug)]
pub struct Machine {
    pub kernel: Fact<Kernel>,
    /// True if the kernel has type information.
    pub btf: Fact<bool>,
    /// The capabilities that the agent lacks, or this process if no agent is seen.
    pub missing: Fact<Vec<String>>,
    /// `RLIMIT_MEMLOCK` in bytes.
    pub memlock_bytes: Fact<u64>,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Fact<u8>,
    pub clock_source: Fact<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// The release, as `uname -r` prints it.
    pub release: String,
    /// The name of a feature that it lacks. None if it lacks nothing.
    pub lacks: Option<String>,
    /// True if BPF memory counts against `RLIMIT_MEMLOCK`.
    pub counts_bpf_as_locked: bool,
}

/// An agent's account of wire failover, as its page `/debug/wire` has it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WireReport {
    /// The expired sessions. Sessions whose Lease was not renewed count without the failure
    /// detector, too.
    pub counts: WireCounts,
    /// The engine's view. None if the node takes no part, by its options.
    pub view: Option<WireView>,
    /// The thread that pings. None if it does not run.
    pub thread: Option<Thread>,
}

/// A standalone agent's account of its file, as its page `/debug/file` has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileReport {
    /// Its path.
    pub file: String,
    /// Time of the last file without a fault, in seconds since 1970.
    pub read_at_unix_seconds: i64,
    pub read_seconds_ago: u64,
    /// None if the agent took the last file that it has read.
    pub refused: Option<Refusal>,
}

/// A file that an agent does not take.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason, with its causes.
    pub why: String,
    /// Age of the first refusal since a file without a fault.
    pub seconds_ago: u64,
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, read_seconds_ago, refused, .. } = self;
        let read = seconds(*read_seconds_ago);
        match refused {
            None => write!(f, "{file} is in force, as it was read {read} ago"),
            Some(Refusal { why, seconds_ago }) => write!(
                f,
                "the file on disk was refused {} ago ({}); the agent runs with the one that it read {read} ago",
                seconds(*seconds_ago),
                Excerpt::of(&why.replace('\n', "; "), MOST_SHOWN)
            ),
        }
    }
}

fn seconds(seconds: u64) -> FormattedDuration {
    humantime::format_duration(Duration::from_secs(seconds))
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinDir {
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

/// Another pin directory of Vipward's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherPins {
    pub dir: PathBuf,
    pub agent: Agent,
    /// The interfaces of this network namespace on which its programs run, with their ids.
    pub programs: Vec<(u32, u32)>,
}

/// The heartbeat of an agent, seen by a move of its lease deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heartbeat {
    /// The agent moved the lease deadline.
    Seen {
        /// The time from that move until the new deadline. A heartbeat is good for this long.
        good_for: Duration,
    },
    /// The lease deadline did not move.
    Missed {
        /// The time for which the lease deadline was watched.
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
    /// None if it is not wireless.
    pub wireless: Fact<Option<Wireless>>,
    /// Its settings in `net.ipv4.conf`.
    pub conf: Fact<Conf>,
    /// Its settings in `net.ipv6.conf`.
    pub conf_v6: Fact<ConfV6>,
    /// MLD queries that it has received since it came up.
    pub mld_queries: Fact<u64>,
    /// The other end of a veth. None if it is in another network namespace.
    pub peer: Fact<Option<u32>>,
    /// BPF programs of traffic control.
    pub tc: Fact<Vec<TcProgram>>,
    /// The names of the XDP programs on it, by id, as far as they could be looked up.
    pub xdp_names: BTreeMap<u32, String>,
}

/// A wireless interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wireless {
    /// True if it passes frames for all hosts on (`IFF_PROMISC`).
    pub is_promiscuous: bool,
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
