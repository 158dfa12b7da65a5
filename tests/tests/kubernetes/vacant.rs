//! VIPs that no node holds: their addresses may be other hosts' by now, whatever the claims name.

use std::{net::Ipv4Addr, thread::sleep, time::Duration};

use anyhow::{Context, Result};
use ipnet::Ipv4Net;
use serde_json::{Value, json};
use vipward_tests::{
    agent::ip,
    cluster::{
        Cluster, ClusterOptions, Endpoint, Kind, N1, N2, N3, NodeId, PATIENCE, SEGMENT, ServiceSpec, scenario,
    },
    kit::output_of,
};

/// Longer than a VIP that was let go of is taken without a probe.
const NO_LONGER_LATELY: Duration = Duration::from_secs(12);
/// Longer than a claim that was edited rests, and its address is probed.
const A_WHILE: Duration = Duration::from_secs(8);
const NOWHERE: &str = "nosuch=label";

/// A way for a tenant to have a VIP released, and to have it taken again.
#[derive(Clone, Copy)]
enum Parking {
    Endpoints,
    Nodes,
    Interface,
}

impl Parking {
    const ALL: [Self; 3] = [Self::Endpoints, Self::Nodes, Self::Interface];

    fn create(self, cluster: &Cluster, name: &str, vip: Ipv4Addr) -> Result<()> {
        let service = ServiceSpec::new(name, vip);
        let service = if matches!(self, Self::Endpoints) { service.local() } else { service };
        cluster.set_endpoints(name, &[Endpoint::ready(N1)])?;
        cluster.create_service(&service)
    }

    fn park(self, cluster: &Cluster, name: &str, parked: bool) -> Result<()> {
        match self {
            Self::Endpoints if parked => cluster.delete_endpoints(name).map(drop),
            Self::Endpoints => cluster.set_endpoints(name, &[Endpoint::ready(N1)]),
            Self::Nodes => cluster.annotate_service(name, "vipward.io/nodes", parked.then_some(NOWHERE)),
            Self::Interface => {
                cluster.annotate_service(name, "vipward.io/interface", parked.then_some("nosuch0"))
            }
        }
    }
}

fn net(address: Ipv4Addr) -> Result<Ipv4Net> {
    Ok(Ipv4Net::new(address, 24)?)
}

/// Returns a claim that a node holds a VIP, as the token of that node can write it.
fn lie(cluster: &Cluster, id: NodeId, vip: Ipv4Addr) -> Result<Value> {
    let session = cluster.session(id)?.context("it has a session")?;
    let session = session.split_once('/').context("a session")?.1.to_owned();
    Ok(json!({
        "apiVersion": Kind::VIRTUAL_IP.api_version(), "kind": Kind::VIRTUAL_IP.name(),
        "metadata": {"name": vip.to_string(), "finalizers": ["vipward.io/claim"]},
        "spec": {
            "address": vip.to_string(), "epoch": 1, "holder": cluster.node_name(id), "session": session,
            "mac": id.mac().to_string(), "interface": "eth0",
        },
    }))
}

#[test]
fn an_address_that_no_node_holds_any_more_stays_with_the_host_that_has_it_now() -> Result<()> {
    scenario("parked", ClusterOptions::default(), |cluster| {
        cluster.wait_until_all_renew()?;
        // Each way has a VIP that a host of the segment gets, and one that a node gets.
        let ways = Parking::ALL.into_iter().zip(40..).map(|(way, last)| (way, ip(last), ip(last + 10)));
        let vips: Vec<_> = ways
            .flat_map(|(way, rogues, nodes)| [(way, rogues, None), (way, nodes, Some(N2))])
            .enumerate()
            .map(|(number, (way, vip, node))| (format!("web-{number}"), way, vip, node))
            .collect();
        for (name, way, vip, _) in &vips {
            way.create(cluster, name, *vip)?;
        }
        for (_, _, vip, _) in &vips {
            cluster.wait_until_held(*vip)?;
        }
        for (name, way, ..) in &vips {
            way.park(cluster, name, true)?;
        }
        sleep(NO_LONGER_LATELY);
        for (_, _, vip, node) in &vips {
            assert_eq!(cluster.holder(*vip)?, None, "{vip} is parked");
            let host = match node {
                Some(id) => &cluster.member(*id)?.host,
                None => &cluster.rogue,
            };
            host.add_address(SEGMENT, net(*vip)?)?;
        }
        let monitor = cluster.monitor(&vips.iter().map(|(_, _, vip, _)| *vip).collect::<Vec<_>>())?;
        let macs = vips.iter().map(|(_, _, vip, node)| {
            let mac = match node {
                Some(id) => id.mac(),
                None => cluster.rogue.mac(SEGMENT)?,
            };
            Ok((*vip, mac))
        });
        let macs = macs.collect::<Result<Vec<_>>>()?;
        for (vip, mac) in &macs {
            monitor.wait_until_answered_by(*vip, *mac, PATIENCE)?;
        }
        monitor.note("they are wanted again");
        for (name, way, ..) in &vips {
            way.park(cluster, name, false)?;
        }
        sleep(A_WHILE);
        let report = monitor.stop()?;
        for (vip, mac) in &macs {
            let wire = report.vip(*vip)?;
            assert_eq!(cluster.holder(*vip)?, None, "{vip} was taken:\n{report}");
            assert!(wire.answers_by().into_keys().all(|by| by.sha == *mac), "{vip}:\n{report}");
            assert!(wire.announcements.is_empty(), "{vip} was announced:\n{report}");
            assert!(wire.gaps().iter().all(|gap| gap.until.is_some()), "{vip} is dark:\n{report}");
        }
        for (_, _, vip, node) in &vips {
            let host = match node {
                Some(id) => &cluster.member(*id)?.host,
                None => &cluster.rogue,
            };
            host.delete_address(SEGMENT, net(*vip)?)?;
        }
        for (_, _, vip, _) in &vips {
            cluster.wait_until_held(*vip)?;
        }
        Ok(())
    })
}

#[test]
fn a_false_claim_takes_no_address_of_a_node_a_gateway_or_a_host_and_keeps_none_from_receiving_them()
-> Result<()> {
    scenario("lied", ClusterOptions::default(), |cluster| {
        cluster.wait_until_all_renew()?;
        let (gateway, host) = (ip(4), ip(60));
        cluster.rogue.add_address(SEGMENT, net(gateway)?)?;
        cluster.rogue.add_address(SEGMENT, net(host)?)?;
        let mut route = cluster.member(N2)?.host.command("ip");
        route.args(["route", "add", "default", "via", &gateway.to_string(), "table", "100"]);
        output_of(route)?;
        cluster.wait_until_all_renew()?;
        let rogue = cluster.rogue.mac(SEGMENT)?;
        let owners = [(gateway, rogue), (host, rogue), (N3.address(), N3.mac())];
        let monitor = cluster.monitor(&owners.map(|(address, _)| address))?;
        for (number, (address, _)) in owners.into_iter().enumerate() {
            cluster.create_service(&ServiceSpec::new(&format!("web-{number}"), address))?;
        }
        sleep(A_WHILE);
        monitor.note("the token of n1 lies");
        for (address, _) in owners {
            cluster.admin().put(&lie(cluster, N1, address)?)?;
        }
        sleep(A_WHILE);
        let report = monitor.stop()?;
        for (address, mac) in owners {
            let wire = report.vip(address)?;
            assert!(wire.answers_by().into_keys().all(|by| by.sha == mac), "{address}:\n{report}");
            assert!(wire.announcements.is_empty(), "{address} was announced:\n{report}");
            assert!(wire.gaps().iter().all(|gap| gap.until.is_some()), "{address} is dark:\n{report}");
        }
        for id in cluster.ids() {
            assert!(!cluster.knows(id, N3.address())?, "{id} has an entry for the address of n3");
        }
        assert!(!cluster.knows(N2, gateway)?, "n2 has an entry for its gateway");
        Ok(())
    })
}
