//! The nodes that can announce an address of a pool.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipnet::IpNet;

use super::super::{Change, Family, Policies, Pool};
use crate::{
    base::pattern::InterfacePattern,
    records::{InterfaceNames, NodeInterface, NodeName, PoolPolicy, Selector, ServiceLabels},
};

/// The nodes and interfaces that a Service's VIPs may be on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    pub nodes: Option<Selector>,
    /// The interfaces. If empty: all.
    pub interfaces: Vec<InterfacePattern>,
    /// The nodes with endpoints of a family, if these alone deliver the traffic. None for a family: all
    /// nodes, or there is no endpoint yet.
    pub endpoints: BTreeMap<Family, BTreeSet<NodeName>>,
}

/// A change of which nodes can announce addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Announcing {
    /// Where pools have their addresses announced.
    Pools(Change),
    /// The interfaces of a node. If there are none any more, it has left.
    Interfaces(NodeName, Vec<NodeInterface>),
    Labels(NodeName, BTreeMap<String, String>),
    NodeGone(NodeName),
}

/// A node's interface with one of its segments.
type OnSegment = (Arc<NodeInterface>, IpNet);

/// Returns what counts of an interface here. Its carrier and its other addresses do not.
fn of_segment((interface, net): &OnSegment) -> (InterfaceNames<'_>, IpNet) {
    (interface.names(), *net)
}

/// The interfaces and labels of the nodes, and where the pools have their addresses announced.
#[derive(Debug, Default)]
pub(super) struct Announcers {
    interfaces: BTreeMap<NodeName, Vec<OnSegment>>,
    labels: BTreeMap<NodeName, BTreeMap<String, String>>,
    policies: Policies,
    /// True if an admin has named the networks of VIPs: they need not be on a node's interface.
    is_anywhere: bool,
}

impl Announcers {
    pub(super) fn start(is_anywhere: bool) -> Self {
        Self { is_anywhere, ..Self::default() }
    }

    /// Records a change. Returns true unless it changes nothing.
    pub(super) fn on_change(&mut self, change: Announcing) -> bool {
        match change {
            Announcing::Pools(change) => {
                self.on_pool(&change);
                true
            }
            Announcing::Interfaces(node, interfaces) => {
                let segments = |interface: NodeInterface| {
                    let interface = Arc::new(interface);
                    let nets: Vec<_> = interface.segments().collect();
                    nets.into_iter().map(move |net| (Arc::clone(&interface), net))
                };
                let segments: Vec<_> = interfaces.into_iter().flat_map(segments).collect();
                let before = if segments.is_empty() {
                    self.interfaces.remove(&node)
                } else {
                    self.interfaces.insert(node, segments.clone())
                };
                let before = before.unwrap_or_default();
                !before.iter().map(of_segment).eq(segments.iter().map(of_segment))
            }
            Announcing::Labels(node, labels) => {
                let before = self.labels.insert(node, labels.clone());
                before.as_ref() != Some(&labels)
            }
            Announcing::NodeGone(node) => {
                self.labels.remove(&node);
                self.interfaces.remove(&node).is_some()
            }
        }
    }

    /// Records where a pool has its addresses announced.
    pub(super) fn on_pool(&mut self, change: &Change) {
        self.policies.on_change(change);
    }

    /// Returns the segments of all nodes.
    pub(super) fn all(&self) -> BTreeSet<IpNet> {
        self.interfaces.values().flatten().map(|(_, net)| *net).collect()
    }

    /// Returns the subnets on which a node can announce an address of a pool. None: any address of the pool
    /// can be announced, as far as is known.
    pub(super) fn segments(
        &self,
        pool: &str,
        family: Family,
        service: Option<(&ServiceLabels, &Limits)>,
    ) -> Option<BTreeSet<IpNet>> {
        if self.is_anywhere || self.interfaces.is_empty() {
            return None;
        }
        let policy = self.policies.of_pool(pool);
        let policy = policy.map(|policy| match service {
            Some((labels, _)) => policy.of_services(&[labels]),
            None => Arc::clone(policy),
        });
        // BGP may announce a pool without an `L2Advertisement`.
        let policy = policy.filter(|policy| !policy.allowances.is_empty());
        let limits = service.map(|(_, limits)| limits);
        let nodes =
            self.interfaces.iter().filter(|(node, _)| self.may_hold(node, family, policy.as_deref(), limits));
        let interfaces = nodes.flat_map(|(node, interfaces)| {
            interfaces.iter().map(move |(interface, net)| (node, interface, net))
        });
        let may_have = |node: &NodeName, interface: &NodeInterface| {
            let names = interface.names();
            policy.as_ref().is_none_or(|policy| policy.has(names, self.labels.get(node)))
                && limits.is_none_or(|limits| {
                    limits.interfaces.is_empty() || names.match_one_of(&limits.interfaces)
                })
        };
        let usable =
            interfaces.filter(|(node, on, net)| Family::of(net.addr()) == family && may_have(node, on));
        Some(usable.map(|(_, _, net)| *net).collect())
    }

    /// Returns true if a node may hold an address. The labels of one may not be known yet.
    fn may_hold(
        &self,
        node: &NodeName,
        family: Family,
        policy: Option<&PoolPolicy>,
        limits: Option<&Limits>,
    ) -> bool {
        let labels = self.labels.get(node);
        let is_selected = |selector: &Selector| labels.is_none_or(|labels| selector.matches(labels));
        let is_meant = policy.zip(labels).is_none_or(|(policy, labels)| policy.selects(labels));
        is_meant
            && limits.is_none_or(|limits| {
                limits.nodes.as_ref().is_none_or(is_selected)
                    && limits.endpoints.get(&family).is_none_or(|nodes| nodes.contains(node))
            })
    }

    /// Returns the segments of the nodes, if no node can announce any address of the pool.
    pub(super) fn unreached(&self, pool: &Pool) -> Option<BTreeSet<IpNet>> {
        let name = &pool.record.name;
        let is_reached =
            |family| !pool.spans_in(family, self.segments(name, family, None).as_ref()).is_empty();
        (!self.is_anywhere
            && !self.interfaces.is_empty()
            && ![Family::V4, Family::V6].into_iter().any(is_reached))
        .then(|| self.all())
    }
}
