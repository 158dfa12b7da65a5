//! Marks of Kubernetes on nodes and VIPs, and their effects.

use std::collections::{BTreeMap, BTreeSet};

use vipward_core::records::{NodeName, NodeRecord};

use crate::{api::Service, schedule::names, world::World};

/// The label that keeps a node from holding VIPs.
const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The time of the creation of the tenants' Services. A stranger's are older or younger.
pub(crate) const CREATED: i64 = 1;

impl World {
    pub(crate) fn put_node(&mut self, node: usize) {
        let marks = self.nodes[node].marks;
        let name = names::node(node);
        if marks.gone.any() {
            self.api.remove_node(&name);
        } else {
            let excluded = marks.excluded.any().then(|| (EXCLUDE.to_owned(), String::new()));
            self.api.put_node(NodeRecord {
                name,
                labels: excluded.into_iter().collect::<BTreeMap<_, _>>(),
                cordoned: marks.cordoned.any(),
                ready: !marks.not_ready.any(),
                network_unavailable: marks.network_unavailable.any(),
                out_of_service: marks.out_of_service.any(),
            });
        }
        self.spread();
    }

    pub(crate) fn put_wanted_service(&mut self, vip: usize) {
        let desired = &self.desired.vips[vip];
        let bits = desired.local.last().map(|(_, bits)| *bits);
        let on = bits.map(|bits| self.nodes_of(bits));
        let address = names::vip(vip).to_string();
        let (name, port) = (names::service(vip), 80);
        let service = self.is_wanted(vip).then(|| {
            Service::new(name.clone(), &address, (CREATED, port), on)
                .with_health_port(names::health_port(vip))
        });
        self.proxies_learn(vip, bits);
        self.api.put_service(&name, service);
        self.spread();
    }

    /// Returns the nodes of these bits.
    pub(crate) fn nodes_of(&self, bits: u8) -> BTreeSet<NodeName> {
        (0..self.nodes.len()).filter(|node| bits >> node & 1 == 1).map(names::node).collect()
    }

    pub(crate) fn is_wanted(&self, vip: usize) -> bool {
        if self.plan.has_controller() {
            return self.reservation(vip).is_some();
        }
        self.desired.vips[vip].begun && !self.desired.vips[vip].unwanted.any()
    }

    /// Returns whether Kubernetes, its interface and the hosts of the segment let a node hold a VIP.
    pub(crate) fn may_hold(&self, node: usize, vip: usize) -> bool {
        let it = &self.nodes[node];
        let marks = it.marks;
        let local = if self.plan.has_controller() {
            self.has_endpoints(node, vip)
        } else {
            self.desired.vips[vip].local.last().is_none_or(|(_, bits)| bits >> node & 1 == 1)
        };
        local
            && self.network.hosts[vip].is_none_or(|host| host.is_cached)
            && !self.is_listed(vip)
            && !(marks.excluded.any()
                || marks.out_of_service.any()
                || marks.network_unavailable.any()
                || marks.gone.any())
            && !it.links[self.segment_of(vip)].no_carrier.any()
    }

    /// Returns whether a node's Lease lists the address of a VIP as its own.
    pub(crate) fn is_listed(&self, vip: usize) -> bool {
        let interfaces = self.api.leases.values().flat_map(|lease| &lease.interfaces);
        interfaces.flat_map(|interface| &interface.subnets).any(|net| net.addr() == names::vip(vip))
    }
}
