//! The nodes and interfaces on which a pool's addresses may be announced.

use std::{collections::BTreeMap, sync::Arc};

use super::{InterfaceNames, PoolKind, Selector, ServiceLabels, Shown};
use crate::base::pattern::InterfacePattern;

type NodeLabels = BTreeMap<String, String>;

/// Nodes that come first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Preference {
    /// The weight. The weights of all selectors that match a node are added.
    pub weight: i32,
    pub nodes: Selector,
}

/// Nodes and interfaces that may hold an address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allowance {
    /// A node that one of these selects may hold it. If empty: all nodes may.
    pub nodes: Vec<Selector>,
    /// An interface that one of these matches may have it. If empty: all interfaces may.
    pub interfaces: Vec<InterfacePattern>,
    /// The nodes that come first.
    pub preferred: Vec<Preference>,
    /// It is about an address that a Service which one of these selects wants. If empty: about all.
    pub services: Vec<Selector>,
}

impl Allowance {
    fn is_for(&self, services: &[&ServiceLabels]) -> bool {
        let is_one = |labels: &&ServiceLabels| self.services.iter().any(|selector| selector.matches(*labels));
        self.services.is_empty() || services.iter().any(is_one)
    }

    fn selects(&self, labels: &NodeLabels) -> bool {
        self.nodes.is_empty() || self.nodes.iter().any(|selector| selector.matches(labels))
    }

    fn has(&self, interface: InterfaceNames<'_>) -> bool {
        self.interfaces.is_empty() || interface.match_one_of(&self.interfaces)
    }
}

/// Where the addresses of one pool may be announced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolPolicy {
    pub pool: Arc<str>,
    /// The `L2Advertisement` objects that announce it. Of a `VIPPool`, there are none.
    pub advertisements: Arc<[Arc<str>]>,
    /// A node may hold an address on an interface if one of these allows the node with this
    /// interface. If empty: no node may.
    pub allowances: Vec<Allowance>,
}

impl PoolPolicy {
    /// Returns true if a node with these labels may hold an address, on some interface.
    pub fn selects(&self, labels: &NodeLabels) -> bool {
        self.allowances.iter().any(|allowance| allowance.selects(labels))
    }

    /// Returns true if an address may be on a node's interface.
    ///
    /// A node that is not selected, or whose labels are unknown, may use the interfaces of any
    /// node: it answers until it has handed its VIPs over.
    pub fn has(&self, interface: InterfaceNames<'_>, labels: Option<&NodeLabels>) -> bool {
        let labels = labels.filter(|labels| self.selects(labels));
        let is_meant = |allowance: &&Allowance| labels.is_none_or(|labels| allowance.selects(labels));
        self.allowances.iter().filter(is_meant).any(|allowance| allowance.has(interface))
    }

    /// Returns the weight of a node among those that may hold an address. The largest comes first.
    pub fn preference(&self, interface: InterfaceNames<'_>, labels: &NodeLabels) -> i64 {
        let meant =
            self.allowances.iter().filter(|allowance| allowance.selects(labels) && allowance.has(interface));
        let preferred = meant.flat_map(|allowance| &allowance.preferred);
        preferred.filter(|it| it.nodes.matches(labels)).map(|it| i64::from(it.weight)).sum()
    }

    pub(crate) fn of_services(self: &Arc<Self>, services: &[&ServiceLabels]) -> Arc<Self> {
        if self.allowances.iter().all(|allowance| allowance.is_for(services)) {
            return Arc::clone(self);
        }
        let meant = self.allowances.iter().filter(|allowance| allowance.is_for(services));
        Arc::new(Self { allowances: meant.cloned().collect(), ..Self::clone(self) })
    }

    pub fn nodes_field(&self) -> Arc<str> {
        if self.allowances.is_empty() {
            return self.field("announce.nodeSelector", "serviceSelectors");
        }
        self.field("announce.nodeSelector", "nodeSelectors")
    }

    pub fn interfaces_field(&self) -> Arc<str> {
        self.field("announce.interfaces", "interfaces")
    }

    fn field(&self, of_pool: &str, of_advertisement: &str) -> Arc<str> {
        let pool = Shown(&self.pool);
        match PoolKind::of(&self.pool).0 {
            PoolKind::VipPool => format!("spec.{of_pool} of {pool}"),
            PoolKind::IpAddressPool => {
                let names = self.advertisements.join(", ");
                format!("spec.{of_advertisement} of L2Advertisement {names} (for {pool})")
            }
        }
        .into()
    }
}
