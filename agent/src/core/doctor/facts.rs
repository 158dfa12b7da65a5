//! What was read about a host, before anything is made of it.

use std::{collections::BTreeMap, net::Ipv4Addr, path::PathBuf, time::Duration};

use ipnet::Ipv4Net;
use vipward_common::{MacAddr, Policy, Role};

use crate::core::{config::InterfacePattern, net::NetView};

/// Something that was read, or why it was not.
pub type Fact<T> = Result<T, Unread>;

/// Why something was not read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unread {
    /// In words.
    pub reason: String,
    /// Whether more rights would help.
    pub denied: bool,
}

/// Everything that was read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The machine and this process.
    pub machine: Machine,
    /// Where the pins are looked for.
    pub dir: PathBuf,
    /// That directory.
    pub pin_dir: Fact<PinDir>,
    /// Who uses it.
    pub agent: Fact<Agent>,
    /// What is pinned in it; none when nothing is.
    pub plane: Fact<Option<Plane>>,
    /// The interfaces to look at; empty means those that an agent would attach to.
    pub wanted: Vec<InterfacePattern>,
    /// Interfaces, addresses and routes.
    pub network: Fact<NetView>,
    /// The IPv4 addresses with their labels.
    pub bound: Fact<Vec<Bound>>,
    /// More about each interface, by ifindex.
    pub nics: BTreeMap<u32, Nic>,
    /// `net.ipv4.conf`, by interface name, and `all`.
    pub conf: BTreeMap<String, Fact<Conf>>,
    /// The kernel's neighbour table.
    pub neighbours: Fact<Neighbours>,
    /// The processes of this network namespace, as far as `/proc` shows them.
    pub processes: Fact<Vec<Process>>,
    /// Whether `/proc` shows every process of the machine, and not only those of a PID namespace.
    pub sees_all_processes: Fact<bool>,
}

/// The machine, and what this process may do.
#[derive(Clone, Debug)]
pub struct Machine {
    /// As `uname -r` prints it.
    pub release: Fact<String>,
    /// What the kernel lacks, in words; none when it has all that is needed.
    pub lacks: Option<String>,
    /// Whether the kernel has type information.
    pub btf: Fact<bool>,
    /// The capabilities that this process lacks.
    pub missing_here: Fact<Vec<String>>,
    /// Those that the agent lacks; none when no agent is seen.
    pub missing_in_agent: Option<Fact<Vec<String>>>,
    /// `RLIMIT_MEMLOCK` in bytes.
    pub memlock_bytes: Fact<u64>,
    /// Whether BPF memory counts against that limit on this kernel.
    pub memlock_counts: bool,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Fact<u8>,
    /// The clock source in use.
    pub clock_source: Fact<String>,
}

/// The pin directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinDir {
    /// The nearest directory that exists: itself, if it does.
    pub at: PathBuf,
    /// Whether it exists.
    pub exists: bool,
    /// Whether it is, or would be, on a bpffs.
    pub on_bpffs: bool,
    /// Its owner.
    pub owner: u32,
    /// Its permissions.
    pub mode: u32,
    /// Who asks.
    pub user: u32,
}

/// Who uses the pin directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Agent {
    /// An agent, with its process id when that can be seen.
    Runs(Option<u32>),
    /// Nobody.
    None,
}

/// What is pinned.
#[derive(Clone, Debug)]
pub struct Plane {
    /// The maps that are not pinned though others are.
    pub missing: Vec<&'static str>,
    /// The pinned links.
    pub links: Vec<PinnedLink>,
    /// What the maps say.
    pub contents: Fact<Contents>,
}

/// A pinned link.
#[derive(Clone, Debug)]
pub struct PinnedLink {
    /// The interface that it was made for.
    pub ifindex: u32,
    /// Native, else generic.
    pub native: bool,
    /// The program that it runs.
    pub program: Fact<u32>,
}

/// What the maps say.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The entries, as the program sees them now.
    pub vips: Vec<Vip>,
    /// Room for entries.
    pub max_vips: u32,
    /// Peers that are known.
    pub peers: usize,
    /// Events that found the ring buffer full.
    pub events_lost: u64,
    /// The fence.
    pub fence: FenceFact,
}

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vip {
    /// The VIP.
    pub address: Ipv4Addr,
    /// What this node is to it.
    pub role: Role,
    /// Where it is; zero when unknown.
    pub mac: MacAddr,
}

/// The fence, as of one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FenceFact {
    /// Whether this node may answer.
    pub state: Validity,
    /// What is done between the deadline and the end of holding over.
    pub policy: Policy,
    /// Nanoseconds until the deadline; negative since it.
    pub left_ns: i64,
    /// The same for the end of holding over.
    pub hold_left_ns: i64,
}

/// Whether this node may answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validity {
    /// It may; the fence was watched for a heartbeat.
    Valid(Heartbeat),
    /// The agent is late, and the policy is to answer on.
    HeldOver,
    /// It may not.
    Over,
}

/// What became of a valid fence while it was watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heartbeat {
    /// The agent moved it.
    Seen {
        /// Nanoseconds from when that was seen until the new deadline: for how long a heartbeat is good.
        good_for_ns: i64,
    },
    /// It stayed as it was.
    Missed {
        /// For so long.
        watched: Duration,
    },
}

/// An address on an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// ifindex.
    pub ifindex: u32,
    /// The address, with its prefix length.
    pub net: Ipv4Net,
    /// `IFA_LABEL`.
    pub label: String,
}

/// More about an interface.
#[derive(Clone, Debug)]
pub struct Nic {
    /// The driver's name.
    pub driver: Fact<String>,
    /// Whether the driver says that it runs native XDP.
    pub native: Fact<bool>,
    /// Whether it takes VLAN tags off frames before XDP sees them.
    pub vlan_offload: Fact<bool>,
    /// Generic receive offload.
    pub gro: Fact<bool>,
    /// The largest packet, in bytes.
    pub mtu_bytes: Fact<u32>,
    /// The interface below it (VLAN, macvlan), or the other end of a veth.
    pub lower: Option<u32>,
    /// Whether that is in another network namespace.
    pub lower_elsewhere: bool,
    /// BPF programs of traffic control.
    pub tc: Fact<Vec<TcProgram>>,
    /// The names of the XDP programs on it, by id; those that could be looked up.
    pub xdp_names: BTreeMap<u32, String>,
}

/// A BPF program of traffic control: of a classifier, or attached by tcx.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcProgram {
    /// Its id.
    pub id: u32,
    /// Its name, where it could be looked up.
    pub name: Option<String>,
    /// Ingress, else egress.
    pub ingress: bool,
}

/// The `net.ipv4.conf` settings that matter to VIPs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conf {
    /// `arp_ignore`
    pub arp_ignore: u8,
    /// `arp_announce`
    pub arp_announce: u8,
    /// `rp_filter`
    pub rp_filter: u8,
}

/// The kernel's neighbour table, which is the whole machine's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbours {
    /// `gc_thresh1` to `gc_thresh3`.
    pub limits: [u32; 3],
    /// Entries now.
    pub entries: u32,
    /// How often an entry found no room since the machine was started.
    pub overflows: u64,
}

/// A process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its name, as `/proc/PID/comm` has it.
    pub name: String,
    /// The last part of the path that it was started by.
    pub program: String,
}
