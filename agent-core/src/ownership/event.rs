//! Events that the engine receives, and the pinned state that it starts with.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use vipward_common::{LeaseDeadline, MacAddr, Role, VipEntry, VipKey};

use crate::{
    base::time::Monotonic,
    host::placement::Entry,
    liveness::Finding,
    records::{
        ClaimRecord, Demand, KeyId, LeaseRecord, NodeInterface, NodeName, NodeRecord, Proxy, Session, Wid,
    },
    segment::probing::Probed,
};

/// The pinned state at the agent's start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    pub session: Option<Session>,
    pub deadline: Monotonic,
    /// Time until which the program answers without an agent: the deadline, or with the policy
    /// `hold` the end of the grace period.
    pub answers_until: Monotonic,
    /// The entries that answer, and silent ones that name a MAC.
    pub entries: BTreeMap<IpAddr, Entry>,
    pub yielded: BTreeSet<IpAddr>,
    /// The expiry notices that the lease deadline settles, as
    /// [`NewDeadline::notices_settled`](super::NewDeadline::notices_settled).
    pub notices_settled: u64,
}

impl Found {
    /// Returns the pinned state, from the lease deadline and the entries. An entry whose flag is
    /// true was yielded.
    pub fn of(
        lease_deadline: &LeaseDeadline,
        entries: impl IntoIterator<Item = (VipKey, VipEntry, bool)>,
    ) -> Self {
        let mut found = Self {
            session: Session::from_number(lease_deadline.session),
            deadline: Monotonic::from_nanos(lease_deadline.deadline_ns),
            answers_until: Monotonic::from_nanos(lease_deadline.answers_until_ns()),
            notices_settled: lease_deadline.notices_settled,
            ..Self::default()
        };
        for (VipKey { addr, .. }, entry, is_yielded) in entries {
            let mac = MacAddr(entry.mac);
            let entry = match entry.role {
                _ if is_yielded => {
                    found.yielded.insert(addr);
                    continue;
                }
                Role::Held => Entry::Held,
                Role::Handover => Entry::Handover { mac, until: Monotonic::from_nanos(entry.until_ns) },
                // A VIP's entries on its other interfaces have no MAC.
                Role::Foreign if mac.is_zero() => continue,
                Role::Foreign => {
                    found.entries.entry(addr).or_insert(Entry::Foreign { mac });
                    continue;
                }
            };
            found.entries.insert(addr, entry);
        }
        found
    }

    /// Returns the VIPs that the process before this one held (true), or guarded for another node.
    pub fn vips(&self) -> BTreeMap<IpAddr, bool> {
        let yielded = self.yielded.iter().map(|vip| (*vip, false));
        yielded.chain(self.entries.iter().map(|(vip, entry)| (*vip, *entry == Entry::Held))).collect()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// All objects have been listed once. An object without an event does not exist.
    Synced,
    /// A Lease was listed or changed.
    Lease(LeaseRecord),
    LeaseGone(NodeName),
    /// A claim was listed or changed.
    Claim(ClaimRecord),
    ClaimGone(IpAddr),
    /// A Node was listed or changed.
    Node(NodeRecord),
    NodeGone(NodeName),
    /// The wishes of the Services for a VIP have changed. If none: no Service wants it any more.
    Demand(IpAddr, Option<Demand>),
    /// This node's own interfaces that VIPs can be on.
    Interfaces(Vec<NodeInterface>),
    /// The state of this node's own service proxy. None: the `EndpointSlice`s alone count.
    Proxy(Option<Proxy>),
    /// The outcome of [`Command::WriteLease`](super::Command::WriteLease), with the record as it
    /// was written.
    LeaseWritten {
        node: NodeName,
        outcome: Outcome<LeaseRecord>,
    },
    /// The outcome of [`Command::ReadLease`](super::Command::ReadLease). It is
    /// [`Outcome::Missing`] if there is no Lease.
    LeaseRead {
        node: NodeName,
        outcome: Outcome<LeaseRecord>,
    },
    /// The outcome of [`Command::WriteClaim`](super::Command::WriteClaim).
    ClaimWritten {
        vip: IpAddr,
        outcome: Outcome<ClaimRecord>,
    },
    /// The outcome of [`Command::DeleteClaim`](super::Command::DeleteClaim).
    ClaimDeleted {
        vip: IpAddr,
        outcome: Outcome<()>,
    },
    /// The outcome of [`Command::ReadClaim`](super::Command::ReadClaim). It is
    /// [`Outcome::Missing`] if there is no claim.
    ClaimRead {
        vip: IpAddr,
        outcome: Outcome<ClaimRecord>,
    },
    /// The result of [`Command::Probe`](super::Command::Probe). Another result may follow.
    Probed {
        vip: IpAddr,
        probed: Probed,
    },
    /// The program reported an event about a VIP.
    Wire {
        vip: IpAddr,
        received: Wire,
    },
    Detected(Finding),
    /// The keys of wire failover that this node has, the newest last.
    WireKeys(Vec<KeyId>),
    /// The number of this node as a monitor, from its maps. None if its monitor does not run.
    WireSelf(Option<Wid>),
    Stop(StopReason),
    Tick,
}

/// An event of the program about a VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
    /// A peer claims a VIP that this node answers for while its lease deadline lies ahead.
    Contested {
        /// The peer's MAC.
        mac: MacAddr,
    },
    /// A peer has announced a VIP that this node hands over or does not hold.
    Moved {
        /// The peer's MAC.
        mac: MacAddr,
    },
    /// The program gave way to a peer after the lease deadline.
    Yielded {
        /// The peer's MAC.
        mac: MacAddr,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// A restart: another process soon goes on with the pins.
    Restart,
    /// The node leaves: other nodes get its VIPs.
    Leave,
    Uninstall,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome<T> {
    /// The request was carried out, or the object was found.
    Done(T),
    /// The object has another version, or exists already. Nothing was changed.
    Conflict,
    /// The object does not exist. Nothing was changed.
    Missing,
    /// No answer came in time. The request may have been carried out or not.
    Unknown,
    /// The API server refuses the request. Nothing was changed.
    Refused(Arc<str>),
}
