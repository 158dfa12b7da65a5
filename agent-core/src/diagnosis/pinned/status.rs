//! The status of a data plane, as `vipward status -o json` prints it.

use std::{cmp::Reverse, collections::BTreeMap, net::IpAddr, path::PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use vipward_common::{MacAddr, Offender, OffenderKey, Outcome, WireOutcome};

use super::{Entry, State, Wire, WireReceived};
use crate::{
    base::{schema, time::Monotonic},
    host::{
        answering::{Answering, Part, PartKeys, Silence, Waiting, answering},
        attaching::Mode,
    },
};

/// What this node's kernel has. An interface that is gone while an entry or a record names it is
/// called `#7`, by its index.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Status {
    /// The pin directory.
    pub pin_dir: PathBuf,
    /// The lease deadline: until when this node may answer.
    pub lease_deadline: DeadlineStatus,
    /// Entries of the map `vips_v4`.
    pub entries: usize,
    /// The size of that map.
    pub max_vips: u32,
    /// The interfaces that have a pinned link, and VLAN devices above them.
    pub interfaces: Vec<InterfaceStatus>,
    /// The entries, as the program sees them now.
    pub vips: Vec<VipStatus>,
    /// The VIPs that this host is to hold and that have no entry of its own: no interface is for them, their
    /// addresses are in use or being probed. `null` when no agent reports them: the maps do not have
    /// them.
    pub waiting: Option<Vec<Waiting>>,
    /// Hosts that may take a VIP over.
    pub peers: Vec<PeerStatus>,
    /// Hosts that claimed a VIP or were about to, the latest first
    /// (docs/commands.md#what-does-this-host-have).
    pub offenders: Vec<OffenderStatus>,
    /// Frames by outcome.
    #[schemars(schema_with = "schema::counters")]
    pub counters: BTreeMap<&'static str, u64>,
    /// The program's state of wire failover, or `null` if the agent has never taken part in it.
    pub wire: Option<WireStatus>,
    /// Frames of wire failover by outcome.
    #[schemars(schema_with = "schema::wire_counters")]
    pub wire_counters: BTreeMap<&'static str, u64>,
    /// Dropped claims in whose place the program announced the VIP.
    pub claims_defended: u64,
    /// Events that found the ring buffer full.
    pub events_lost: u64,
    /// The time of the reading.
    #[serde(skip)]
    pub at: Monotonic,
}

/// The lease deadline at the time of the reading.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct DeadlineStatus {
    /// The state of the lease deadline (docs/internals/dataplane.md#lease-deadline).
    #[schemars(schema_with = "schema::deadline_states")]
    pub state: &'static str,
    /// What it does after the deadline.
    #[schemars(schema_with = "schema::policies")]
    pub policy: &'static str,
    /// Time until the deadline; 0 when it has passed.
    pub left_seconds: f64,
    /// Time until the grace period ends; 0 when it has passed.
    pub hold_left_seconds: f64,
    /// True if the program has an expiry notice for the session of the lease deadline. False if the
    /// Lease has shown since that the notice is false. If true, the lease deadline counts as
    /// passed.
    pub ended: bool,
}

/// The program's state of wire failover.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct WireStatus {
    /// The number of this node as a monitor, 16 hexadecimal digits. `status --cluster` has the
    /// names.
    pub wid: String,
    /// The factor of its times (`--wire`), or `null` when no agent reports it: the maps do not have
    /// it.
    pub scale: Option<u32>,
    /// The numbers of the keys that frames may have.
    pub keys: Vec<u32>,
    /// The peers whose frames are accepted. A node that pings this one and is pinged by it is there
    /// twice: by its session, which answers, and by its number as a monitor, which pings.
    pub peers: Vec<On<WireReceived>>,
}

/// What is seen through an interface.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct On<T> {
    /// The interface.
    pub interface: String,
    /// The VLAN ID of that interface, or `null` when it is no VLAN device.
    pub vlan: Option<u16>,
    #[serde(flatten)]
    pub of: T,
}

/// An interface that the program is pinned to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct InterfaceStatus {
    /// Its name, or `null` when it is gone.
    pub name: Option<String>,
    /// Its index.
    pub ifindex: u32,
    /// Its VLAN ID, or `null` when it is no VLAN device.
    pub vlan: Option<u16>,
    /// The interface whose program sees its frames with their VLAN tag, or `null` when it has a program
    /// of its own.
    pub through: Option<String>,
    /// True while the kernel runs the program that sees its frames.
    pub attached: bool,
    /// The mode in which the program runs.
    pub mode: Mode,
    /// The id of the BPF link, or `null` for a filter (tc before Linux 6.6).
    pub link_id: Option<u32>,
    /// The id of the program.
    pub program_id: u32,
    /// Its MAC, or `null` when the program does not know it.
    #[schemars(with = "Option<String>")]
    pub mac: Option<MacAddr>,
    /// True while it has carrier.
    pub carrier: bool,
    /// The proof that the program sees the frames of its segment, as the agent last found
    /// (docs/internals/dataplane.md#proof).
    #[schemars(schema_with = "schema::proofs")]
    pub proof: &'static str,
}

impl InterfaceStatus {
    /// Returns its name, or its index when it is gone.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("#{}", self.ifindex))
    }
}

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct VipStatus {
    /// The VIP.
    pub address: IpAddr,
    /// The interface of the entry.
    pub interface: String,
    /// Its VLAN ID, or `null` when it is no VLAN device.
    pub vlan: Option<u16>,
    /// The part that this node has in answering for it.
    #[serde(flatten)]
    #[schemars(with = "PartKeys")]
    pub part: Part,
    /// The proof of that: `unproven` where no frame has shown that the VIP is reached; `blind` where the
    /// program does not see the requests; `unheard` where the network drops the answers
    /// (docs/network.md); `silent` for another reason; `no` for another node's VIP.
    #[schemars(schema_with = "answering")]
    pub answers: Answering,
    /// The MAC that the VIP is at, or `null` when it is not known.
    #[schemars(with = "Option<String>")]
    pub mac: Option<MacAddr>,
    /// True if the program yielded it to that MAC after the lease deadline had passed.
    pub yielded: bool,
    /// Requests answered, or `null` when it has no counters of its own: the first 4,096 have.
    pub answered: Option<u64>,
    /// Claims dropped as conflicts, or `null` without counters.
    pub conflicts: Option<u64>,
    /// Requests dropped, or `null` without counters.
    pub suppressed: Option<u64>,
}

/// A peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct PeerStatus {
    /// The interface that it is seen through.
    pub interface: String,
    /// The VLAN ID of that interface, or `null` when it is no VLAN device.
    pub vlan: Option<u16>,
    /// Its MAC.
    pub mac: String,
}

/// A host that claimed a VIP, or is about to use its address.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct OffenderStatus {
    /// The VIP.
    pub address: IpAddr,
    /// The interface that the host was seen through.
    pub interface: String,
    /// Its VLAN ID, or `null` when it is no VLAN device.
    pub vlan: Option<u16>,
    /// The MAC that its claims name.
    pub mac: String,
    /// The vendor of that MAC.
    pub vendor: String,
    /// The Ethernet source of the last claim.
    pub eth_source: String,
    /// The kind of the last claim: by an unknown host, by a peer, on a VIP whose holder is not
    /// known, or a probe for that VIP.
    #[schemars(schema_with = "schema::offences")]
    pub kind: &'static str,
    /// The number of claims.
    pub claims: u64,
    /// Time since the last one.
    pub last_seconds_ago: f64,
}

impl Status {
    pub fn of(state: &State, offenders: &BTreeMap<OffenderKey, Offender>) -> Self {
        let contents = &state.contents;
        let name = |ifindex: u32| state.network.name_of(ifindex);
        let peer = |(ifindex, mac): &(u32, MacAddr)| PeerStatus {
            interface: name(*ifindex),
            vlan: state.network.vlan_of(*ifindex),
            mac: mac.to_string(),
        };
        let mut latest: Vec<_> = offenders.iter().collect();
        latest.sort_by_key(|(key, offender)| (Reverse(offender.last_ns), **key));
        let frames = contents.counters.plus(contents.counters_v6);
        Self {
            pin_dir: state.dir.clone(),
            lease_deadline: DeadlineStatus {
                state: contents.lease_deadline_state().name(),
                policy: contents.lease_deadline.policy.name(),
                left_seconds: contents.left(contents.lease_deadline.deadline_ns).as_secs_f64(),
                hold_left_seconds: contents.left(contents.lease_deadline.grace_until_ns).as_secs_f64(),
                ended: contents.has_ended(),
            },
            entries: contents.entries.len(),
            max_vips: contents.max_vips,
            interfaces: state.segments().into_iter().filter_map(|ifindex| state.interface(ifindex)).collect(),
            vips: contents.entries.iter().map(|entry| state.vip(entry, offenders)).collect(),
            waiting: None,
            peers: contents.peers.iter().map(peer).collect(),
            offenders: latest.into_iter().map(|(key, offender)| state.offender(key, offender)).collect(),
            counters: Outcome::ALL.iter().map(|outcome| (outcome.name(), frames.get(*outcome))).collect(),
            wire: state.wire(),
            wire_counters: WireOutcome::ALL
                .iter()
                .map(|outcome| (outcome.name(), contents.wire.counters.get(*outcome)))
                .collect(),
            claims_defended: frames.claims_defended,
            events_lost: frames.events_lost,
            at: Monotonic::from_nanos(contents.now_ns),
        }
    }
}

impl State {
    fn interface(&self, ifindex: u32) -> Option<InterfaceStatus> {
        let (point, mode, ids) = self.link_of(ifindex)?;
        let interface = self.network.interfaces.get(&ifindex);
        Some(InterfaceStatus {
            name: interface.map(|interface| interface.name.clone()),
            ifindex,
            vlan: self.network.vlan_of(ifindex),
            through: (point != ifindex).then(|| self.network.name_of(point)),
            attached: self.is_attached(ifindex),
            mode,
            link_id: ids.link,
            program_id: ids.program,
            mac: self.contents.own_macs.get(&ifindex).copied(),
            carrier: interface.is_some_and(|interface| interface.carrier),
            proof: self.contents.proof(ifindex).name(),
        })
    }

    fn wire(&self) -> Option<WireStatus> {
        let Wire { wid, keys, received, .. } = &self.contents.wire;
        let peer = |peer: &WireReceived| On {
            interface: self.network.name_of(peer.ifindex),
            vlan: self.network.vlan_of(peer.ifindex),
            of: peer.clone(),
        };
        (*wid != 0).then(|| WireStatus {
            wid: format!("{wid:016x}"),
            scale: None,
            keys: keys.clone(),
            peers: received.iter().map(peer).collect(),
        })
    }

    fn vip(&self, entry: &Entry, offenders: &BTreeMap<OffenderKey, Offender>) -> VipStatus {
        let part = self.part(entry);
        let is_doubled = part == Part::Held && !self.contents.doubled_by(entry, offenders).is_empty();
        let part = if is_doubled { Part::Silent(Silence::Doubled) } else { part };
        VipStatus {
            address: entry.address(),
            interface: self.network.name_of(entry.key.ifindex),
            vlan: self.network.vlan_of(entry.key.ifindex),
            part,
            answers: part.answers(self.contents.proof(entry.key.ifindex)),
            mac: entry.known_mac(),
            yielded: entry.yielded,
            answered: entry.count.map(|count| count.answered),
            conflicts: entry.count.map(|count| count.conflicts),
            suppressed: entry.count.map(|count| count.suppressed),
        }
    }

    fn offender(&self, key: &OffenderKey, offender: &Offender) -> OffenderStatus {
        OffenderStatus {
            address: key.vip.addr,
            interface: self.network.name_of(key.vip.ifindex),
            vlan: self.network.vlan_of(key.vip.ifindex),
            mac: key.mac.to_string(),
            vendor: vipward_vendors::of(key.mac).to_string(),
            eth_source: MacAddr(offender.source).to_string(),
            kind: offender.kind.name(),
            claims: offender.claims,
            last_seconds_ago: self.contents.passed(offender.last_ns).as_secs_f64(),
        }
    }
}
