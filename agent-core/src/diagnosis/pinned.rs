//! Model of the pinned state: the kernel's contents for a data plane at one moment.
//!
//! One reader in the shell fills it. `status`, `watch`, `doctor`, `explain`,
//! `who-has`, `/metrics` and `/readyz` all draw from it.

mod sample;
mod status;
mod summary;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::PathBuf,
    time::Duration,
};

use schemars::JsonSchema;
use serde::Serialize;
use vipward_common::{
    Counters, DeadlineState, EventKind, LeaseDeadline, MacAddr, Offender, OffenderKey, Proof, Role, Twin,
    VipCounters, VipFault, VipKey, VlanKey, VlanTags, WireCounters, WireState,
};

pub use self::status::{
    DeadlineStatus, InterfaceStatus, OffenderStatus, On, PeerStatus, Status, VipStatus, WireStatus,
};
use super::fact::Fact;
use crate::{
    host::{
        answering::Part,
        attaching::Mode,
        net::{InterfaceFault, NetView},
    },
    segment::conflict::ALONE_AFTER,
};

/// Age up to which a claim of another host counts as a present one. While a conflict goes on, hosts
/// claim more often.
pub(super) const PRESENT: Duration = Duration::from_secs(10);

/// The pins under a directory, as far as they could be read.
#[derive(Clone, Debug)]
pub struct Plane {
    /// Maps without a pin, although other pins are there.
    pub missing: Vec<&'static str>,
    pub links: Vec<PinnedLink>,
    pub contents: Fact<Contents>,
}

/// A pinned attachment. Its mode is read from the pin's name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinnedLink {
    /// The interface that it was made for.
    pub ifindex: u32,
    pub mode: Mode,
    pub ids: Fact<LinkIds>,
}

/// The kernel's ids of an attachment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkIds {
    /// The link. None for a filter of a kernel that has no links for traffic control.
    pub link: Option<u32>,
    pub program: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Contents {
    /// The time of the reading, by the clock that the program compares deadlines with.
    pub now_ns: u64,
    pub lease_deadline: LeaseDeadline,
    /// The entries of `vips_v4`, in the order of their keys.
    pub entries: Vec<Entry>,
    pub max_vips: u32,
    /// This host's own MAC on each interface, by ifindex.
    pub own_macs: BTreeMap<u32, MacAddr>,
    /// The agent's finding whether the program sees each segment's frames, by ifindex.
    pub proofs: BTreeMap<u32, Proof>,
    /// The agent's finding why frames with this host's own MAC come from each segment, by ifindex.
    pub twins: BTreeMap<u32, Twin>,
    /// The VLAN devices whose frames are decided where they have tags, by those tags.
    pub vlans: BTreeMap<VlanKey, u32>,
    /// The peers' MACs, each with the ifindex of the interface that it is seen through.
    pub peers: BTreeSet<(u32, MacAddr)>,
    pub counters: Counters,
    pub counters_v6: Counters,
    pub wire: Wire,
    /// Entries yielded since the maps were made.
    pub yields: u64,
}

/// The program's state of wire failover, without the keys.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Wire {
    /// The number of this node as a monitor; 0 for none.
    pub wid: u64,
    /// The last expiry notice for a session of this node.
    pub notified: WireState,
    pub counters: WireCounters,
    pub keys: Vec<u32>,
    /// The peers whose frames are accepted, with the times of their frames.
    pub received: Vec<WireReceived>,
}

/// A peer of wire failover, with the times of its frames over one interface.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct WireReceived {
    #[serde(skip)]
    pub ifindex: u32,
    /// Its session, which answers pings, or its number as a monitor, which pings: 16 hexadecimal
    /// digits.
    pub id: String,
    /// Time since the newest ping of this node that it has answered, or `null`.
    pub answered_seconds_ago: Option<f64>,
    /// The round-trip time of that ping, or `null`.
    pub round_trip_seconds: Option<f64>,
    /// Time since its last frame, or `null` when none has come.
    pub received_seconds_ago: Option<f64>,
}

/// An entry as the program sees it: a yield and the end of a handover count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub key: VipKey,
    pub role: Role,
    /// The MAC of the VIP; zero if unknown.
    pub mac: MacAddr,
    /// True if the program yielded the VIP to that MAC.
    pub yielded: bool,
    /// The agent's finding about the held VIP.
    pub fault: Option<VipFault>,
    /// Its counters. None if it has no own counters, or if they were not requested.
    pub count: Option<VipCounters>,
}

impl Entry {
    pub fn address(&self) -> IpAddr {
        self.key.addr
    }

    pub fn known_mac(&self) -> Option<MacAddr> {
        (!self.mac.is_zero()).then_some(self.mac)
    }

    /// Returns true if this node has the VIP, answered or not.
    pub fn is_own(&self) -> bool {
        self.role != Role::Foreign
    }
}

impl Contents {
    /// Returns the state of the lease deadline at the time of the reading.
    pub fn lease_deadline_state(&self) -> DeadlineState {
        self.lease_deadline.state(self.now_ns, self.wire.notified)
    }

    /// Returns the time until `until_ns`. Returns zero if that has passed.
    pub fn left(&self, until_ns: u64) -> Duration {
        Duration::from_nanos(until_ns.saturating_sub(self.now_ns))
    }

    /// Returns the time since `since_ns`. Returns zero if that is still to come.
    pub fn passed(&self, since_ns: u64) -> Duration {
        Duration::from_nanos(self.now_ns.saturating_sub(since_ns))
    }

    /// Returns true if the program has an expiry notice for the lease deadline's session, and the
    /// agent has not found it false.
    pub fn has_ended(&self) -> bool {
        self.lease_deadline.has_ended(self.wire.notified)
    }

    /// Returns true if the lease deadline belongs to a session. Then this host is a node of a cluster.
    pub fn is_in_cluster(&self) -> bool {
        self.lease_deadline.session != 0
    }

    /// Returns the interfaces whose program may see an interface's frames: itself, those below a VLAN
    /// device, and the bonds of which these are ports.
    pub fn points_of(&self, ifindex: u32) -> impl Iterator<Item = u32> {
        let below = self.vlans.iter().filter(move |(_, of)| **of == ifindex).flat_map(|(key, _)| {
            let bond = self.vlans.get(&VlanKey::new(key.ifindex, VlanTags::NONE));
            [key.ifindex].into_iter().chain(bond.copied())
        });
        [ifindex].into_iter().chain(below)
    }

    /// Returns the peers that answer for an entry's VIP too, which this node holds.
    pub fn doubled_by(
        &self,
        entry: &Entry,
        offenders: &BTreeMap<OffenderKey, Offender>,
    ) -> BTreeSet<MacAddr> {
        if entry.role != Role::Held || self.lease_deadline_state() == DeadlineState::Over {
            return BTreeSet::new();
        }
        let key = |mac| OffenderKey { vip: entry.key, mac };
        let claims = offenders.range(key(MacAddr::ZERO)..=key(MacAddr::BROADCAST));
        let is_rival = |(key, claim): &(&OffenderKey, &Offender)| {
            claim.kind == EventKind::Contested
                && claim.source == key.mac.0
                && self.passed(claim.last_ns) < ALONE_AFTER
        };
        claims.filter(is_rival).map(|(key, _)| key.mac).collect()
    }

    /// Returns the number of peers that the program knows on an interface.
    pub fn peers_on(&self, ifindex: u32) -> usize {
        self.peers.iter().filter(|(peers_ifindex, _)| *peers_ifindex == ifindex).count()
    }

    pub fn proof(&self, ifindex: u32) -> Proof {
        self.proofs.get(&ifindex).copied().unwrap_or_default()
    }

    /// Returns the VIPs that this node holds on an interface.
    pub fn held_on(&self, ifindex: u32) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |it| it.key.ifindex == ifindex && it.role == Role::Held)
    }

    pub fn entries_of(&self, address: IpAddr) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.address() == address)
    }
}

/// Pinned state that was read completely, with the interfaces that it is about.
///
/// # Examples
///
/// ```
/// use vipward_core::{diagnosis::pinned::State, host::answering::{Part, Silence}};
///
/// let mut state = State::sample();
/// let held = state.contents.entries[0];
/// assert!(state.is_attached(held.key.ifindex));
/// assert_eq!(state.part(&held), Part::Held);
///
/// state.contents.pass_hold();
/// assert_eq!(state.part(&held), Part::Silent(Silence::LeaseDeadline));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// The pin directory.
    pub dir: PathBuf,
    /// The pinned links, by ifindex.
    pub links: BTreeMap<u32, (Mode, LinkIds)>,
    pub contents: Contents,
    pub network: NetView,
}

impl State {
    /// Returns the interfaces with a pinned link, and the VLAN devices whose frames such a link's
    /// program sees.
    pub fn segments(&self) -> BTreeSet<u32> {
        self.links.keys().chain(self.contents.vlans.values()).copied().collect()
    }

    /// Returns the pinned link whose program sees an interface's frames: its own, or the link of
    /// the interface below a VLAN device. The first number is the ifindex of the link's interface.
    pub fn link_of(&self, ifindex: u32) -> Option<(u32, Mode, LinkIds)> {
        let own = |ifindex: u32| self.links.get(&ifindex).map(|(mode, ids)| (ifindex, *mode, *ids));
        self.contents.points_of(ifindex).find_map(own)
    }

    /// Returns true if the kernel runs a program that sees an interface's frames.
    pub fn is_attached(&self, ifindex: u32) -> bool {
        self.running(ifindex).is_some()
    }

    /// Returns the mode of the program that sees an interface's frames, if the kernel runs it.
    pub fn running(&self, ifindex: u32) -> Option<Mode> {
        let (point, mode, ids) = self.link_of(ifindex)?;
        let interface = self.network.interfaces.get(&point)?;
        (self.network.interfaces.contains_key(&ifindex) && mode.runs(interface, ids.program)).then_some(mode)
    }

    /// Returns the fault that keeps an entry's interface from answering, regardless of the maps.
    pub fn interface_fault(&self, entry: &Entry) -> Option<InterfaceFault> {
        let ifindex = entry.key.ifindex;
        let interface = self.network.interfaces.get(&ifindex);
        InterfaceFault::of(interface, self.is_attached(ifindex), entry.mac, self.contents.proof(ifindex))
    }

    /// Returns the part that this node has in answering for an entry's VIP.
    pub fn part(&self, entry: &Entry) -> Part {
        let lease_deadline = self.contents.lease_deadline_state();
        Part::of(entry.role, lease_deadline, self.interface_fault(entry), entry.fault)
    }
}
