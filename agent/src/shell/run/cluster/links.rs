//! What the core is told about this host's network.

use std::{collections::BTreeMap, sync::Arc};

use ipnet::Ipv4Net;

use super::{Cluster, Driver, RunError, now};
use crate::{
    core::{
        cluster::NodeLink,
        net::NetView,
        ownership,
        services::{self, HostNetwork},
    },
    shell::bind,
};

impl Driver<Cluster> {
    /// Tells the core about interfaces and addresses, if they have changed.
    pub(super) async fn tell_links(&mut self) -> Result<(), RunError> {
        let attached: Vec<u32> = self.plane.attached().map(|(ifindex, _)| ifindex).collect();
        let links = node_links(&self.view, &attached);
        let ours = bind::observe_binds(&self.view).await?;
        let network = HostNetwork::of(&self.view, &attached, &ours);
        let told = self.source.services.on_event(services::Event::HostNetwork(network));
        let now = now()?;
        let mut commands = self.serve(told, now);
        commands.extend(self.source.engine.on_event(ownership::Event::Links(links), now));
        self.execute(commands).await
    }
}

/// The interfaces that VIPs can be on; those that the kernel's routes prefer come first.
fn node_links(view: &NetView, attached: &[u32]) -> Vec<NodeLink> {
    let mut subnets: BTreeMap<u32, (usize, Vec<Ipv4Net>)> = BTreeMap::new();
    let mut routes: Vec<_> = view.routes.iter().filter(|route| route.prefix.prefix_len() > 0).collect();
    routes.sort_by_key(|route| route.metric);
    for (position, route) in routes.into_iter().enumerate() {
        let (_, nets) = subnets.entry(route.interface).or_insert((position, Vec::new()));
        if !nets.contains(&route.prefix) {
            nets.push(route.prefix);
        }
    }
    let mut links = Vec::new();
    for interface in attached.iter().filter_map(|ifindex| view.interfaces.get(ifindex)) {
        let (position, mut nets) = subnets.remove(&interface.index).unwrap_or((usize::MAX, Vec::new()));
        // Addresses say more than the subnets that routes name: no node may take another's. A /32 is no subnet.
        for address in interface.addresses.iter().filter(|net| net.prefix_len() < 32) {
            match nets.iter_mut().find(|net| **net == address.trunc()) {
                Some(net) => *net = *address,
                None => nets.push(*address),
            }
        }
        let link = NodeLink {
            name: Arc::from(interface.name.as_str()),
            mac: interface.mac,
            subnets: nets,
            carrier: interface.up && interface.carrier,
        };
        links.push((position, link));
    }
    links.sort_by_key(|(position, link)| (*position, Arc::clone(&link.name)));
    links.into_iter().map(|(_, link)| link).collect()
}
