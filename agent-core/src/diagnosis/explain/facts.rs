//! The facts about an address or a Service, from which it is explained.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::PathBuf,
    time::Duration,
};

use vipward_common::MacAddr;

use crate::{
    diagnosis::{doctor::Agent, fact::Fact, pinned::State, who_has},
    host::{answering::Waiting, attaching::Attach},
    records::{ClaimRecord, LeaseRecord, NodeName, NodeRecord, ServiceName},
    segment::confirming::Answerer,
    services::{Account, ServiceAccount},
};

/// The facts about an address.
#[derive(Clone, PartialEq, Debug)]
pub struct Facts {
    pub address: IpAddr,
    /// The objects of the API server.
    pub cluster: Fact<Cluster>,
    /// The file of a standalone agent.
    pub config: Fact<Listed>,
    /// The pinned state of this host. None if nothing is pinned.
    pub pins: Fact<Option<State>>,
    pub pin_dir: PathBuf,
    /// The agent that uses the pin directory.
    pub agent: Fact<Agent>,
    /// True for each interface whose driver has native XDP, by ifindex.
    pub native: BTreeMap<u32, Fact<bool>>,
    /// The interfaces on which the agent here takes no VIP that is new or was another's, since no peer
    /// answers there.
    pub without_contact: Fact<Vec<String>>,
    /// Why the agent here does not hold the address yet, if it is to.
    pub waiting: Fact<Option<Waiting>>,
    pub segment: Fact<who_has::Report>,
    /// The sorts of the unknown hosts that answer on the segment, by MAC, as far as they were asked by
    /// unicast.
    pub answerers: BTreeMap<String, Answerer>,
    /// The unicast MACs of this host.
    pub own: BTreeSet<MacAddr>,
}

impl Facts {
    /// Returns the unknown hosts that answer on the segment. An unknown host is a MAC that
    /// neither this host nor the cluster's Leases know.
    pub(super) fn unknown_hosts(&self, cluster: &Cluster) -> Fact<Vec<String>> {
        let nodes: BTreeSet<String> = cluster.macs().map(|mac| mac.to_string()).collect();
        let is_others = |row: &&who_has::Row| {
            matches!(row.relation, who_has::Relation::UnknownHost | who_has::Relation::Unknown)
                && !nodes.contains(&row.mac)
        };
        let name = |row: &who_has::Row| format!("{} ({})", row.mac, row.vendor);
        self.segment.as_ref().map(|report| report.answers.iter().filter(is_others).map(name).collect())
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct ServiceFacts {
    pub service: ServiceName,
    /// Its account, by the objects of the API server. None if there is no such Service.
    pub account: Fact<Option<ServiceAccount>>,
    /// The controller that has the lead. If no controller runs, there are no pools, and the agents
    /// write the statuses.
    pub leader: Fact<Option<String>>,
    /// True if the pools were read, which `account` is from.
    pub pools: Fact<()>,
    pub namespace: String,
}

/// The objects of the API server that concern an address.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    /// The Services' view of the address.
    pub account: Account,
    pub claim: Option<ClaimRecord>,
    /// Reason why no node answers for the address, by its claim.
    pub unanswered: Option<String>,
    pub leases: BTreeMap<NodeName, LeaseSeen>,
    pub nodes: BTreeMap<NodeName, NodeRecord>,
    /// True if nodes with the exclude label are left out.
    pub honour_exclude_label: bool,
    /// The interfaces of the agent here. An address on one of their segments may be refused.
    pub segments: Fact<Vec<u32>>,
    /// The namespace of the agents' Leases and Pods.
    pub namespace: String,
}

impl Cluster {
    /// Returns the MACs of the nodes that have agents.
    pub(super) fn macs(&self) -> impl Iterator<Item = MacAddr> {
        self.leases.values().flat_map(|lease| &lease.record.interfaces).map(|interface| interface.mac)
    }
}

/// A Lease that was watched for some time. Its own times come from another clock.
#[derive(Clone, PartialEq, Debug)]
pub struct LeaseSeen {
    pub record: LeaseRecord,
    /// True if it changed while it was watched.
    pub renewed: bool,
    pub watched: Duration,
}

impl LeaseSeen {
    /// Returns true if it was watched for the duration of a renewal, and did not change.
    pub(super) fn is_silent(&self) -> bool {
        !self.renewed && self.watched >= self.record.duration
    }
}

/// The file of a standalone agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    pub file: String,
    pub attach: Attach,
    pub vip: Option<ListedVip>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedVip {
    /// The MAC of the VIP's host, if this host only guards the VIP.
    pub guarded: Option<MacAddr>,
    pub interface: Option<String>,
    pub problems: Vec<String>,
    /// The interface to which it is to be bound. True if it is bound.
    pub bind: Option<(String, bool)>,
}
