//! The address of a Service, the interfaces that may announce it, and the writers of its status.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use vipward_tests::{
    agent::{VIP, ip},
    cluster::{
        Cluster, ClusterOptions, MANAGEMENT, N1, N2, N3, NodeId, PATIENCE, SEGMENT, ServiceSpec, scenario,
    },
    frames::Family,
    kit::output_of,
};

const SECOND: Ipv4Addr = ip(20);
const RIVAL: &str = "rival-controller";
const A_WHILE: Duration = Duration::from_secs(3);

/// Returns options with which a better node gets a VIP within a test.
fn impatient() -> ClusterOptions {
    let args = vec!["--stable-for".to_owned(), "2s".to_owned()];
    ClusterOptions { args, ..ClusterOptions::default() }
}

fn wait_until_cleared(cluster: &Cluster, name: &str) -> Result<()> {
    let cleared = |service: Option<&Value>| {
        service.is_some_and(|service| service.pointer("/status/loadBalancer/ingress/0").is_none())
    };
    cluster.admin().wait_for(PATIENCE, &cluster.service(name), "to have no status", cleared).map(drop)
}

fn version_of(cluster: &Cluster, name: &str) -> Result<Value> {
    let service = cluster.admin().get(&cluster.service(name))?.context("the Service is gone")?;
    Ok(service["metadata"]["resourceVersion"].clone())
}

#[test]
fn the_holder_writes_the_status_from_wherever_the_address_comes_and_clears_it() -> Result<()> {
    scenario("sources", ClusterOptions::default(), |cluster| {
        let annotations =
            ["vipward.io/addresses", "kube-vip.io/loadbalancerIPs", "metallb.io/loadBalancerIPs"];
        let spec = ("spec", ip(33));
        let services: Vec<_> = ["a", "b", "c"].into_iter().zip(annotations).zip(30..).collect();
        for ((name, key), last) in &services {
            let service = ServiceSpec::without_address(name).annotation(key, &ip(*last).to_string());
            cluster.create_service(&service)?;
        }
        let service = ServiceSpec::without_address(spec.0);
        cluster.create_service(&service.field("loadBalancerIP", &json!(spec.1.to_string())))?;
        let all = services.iter().map(|((name, _), last)| (*name, ip(*last))).chain([spec]);
        for (name, vip) in all.clone() {
            cluster.wait_until_held(vip)?;
            cluster.wait_for_ingress(name, vip)?;
        }
        for ((name, key), _) in &services {
            cluster.annotate_service(name, key, None)?;
        }
        cluster.patch_service(spec.0, &json!({"spec": {"loadBalancerIP": null}}))?;
        for (name, vip) in all {
            wait_until_cleared(cluster, name)?;
            cluster.wait_until_gone(vip)?;
            cluster.wait_until_forgotten(vip)?;
        }
        Ok(())
    })
}

#[test]
fn an_address_that_another_controller_wrote_is_announced_and_the_status_stays_its_own() -> Result<()> {
    scenario("given", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::without_address("web"))?;
        cluster.set_ingress("web", RIVAL, &[VIP])?;
        let written = version_of(cluster, "web")?;
        cluster.wait_until_held(VIP)?;
        cluster.set_ingress("web", RIVAL, &[SECOND])?;
        cluster.wait_until_held(SECOND)?;
        cluster.wait_until_gone(VIP)?;
        assert_ne!(version_of(cluster, "web")?, written, "the second address was not written");
        assert_eq!(cluster.ingress("web")?, [SECOND.to_string()]);
        cluster.set_ingress("web", RIVAL, &[])?;
        cluster.wait_until_gone(SECOND)
    })
}

#[test]
fn a_rival_controller_is_reported_by_name_and_nothing_of_it_is_overwritten() -> Result<()> {
    scenario("rival", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;

        cluster.set_ingress("web", RIVAL, &[SECOND])?;
        let written = version_of(cluster, "web")?;
        cluster.wait_for_event("web", &[RIVAL, &VIP.to_string(), &SECOND.to_string()])?;
        // The status goes first: kube-proxy delivers by it.
        cluster.wait_until_held(SECOND)?;
        cluster.wait_until_gone(VIP)?;
        let monitor = cluster.monitor(&[VIP, SECOND])?;
        monitor.wait_until_silent(VIP, A_WHILE, PATIENCE)?;
        let report = monitor.stop()?;
        assert!(report.vip(SECOND)?.gaps().is_empty(), "{report}");
        assert_eq!(cluster.ingress("web")?, [SECOND.to_string()]);
        assert_eq!(version_of(cluster, "web")?, written, "the Service was written to");

        cluster.set_ingress("web", RIVAL, &[])?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        cluster.wait_until_gone(SECOND)
    })
}

#[test]
fn addresses_that_others_need_are_refused_with_the_reason_and_never_answered_nor_guarded() -> Result<()> {
    scenario("refused", ClusterOptions::default(), |cluster| {
        let gateways = Family::BOTH.map(|family| family.ip(3));
        // The agents run when the host gets its gateways.
        cluster.wait_until_all_renew()?;
        for id in cluster.ids() {
            for gateway in gateways {
                let mut route = cluster.member(id)?.host.command("ip");
                route.args(["route", "add", "default", "via", &gateway.to_string()]);
                output_of(route)?;
            }
        }
        let api = *cluster.forwarder.address().ip();
        let node = format!("it is an address of Node {}", cluster.node_name(N2));
        let (gateway, rogue) = ("it is a gateway of this host", cluster.rogue.mac(SEGMENT)?);
        let on_segment: [(_, IpAddr, _, _); 7] = [
            ("gateway", gateways[0], gateway, Some(rogue)),
            ("gateway6", gateways[1], gateway, Some(rogue)),
            ("node", N2.address().into(), &node, Some(N2.mac())),
            ("node6", N2.address_in(Family::V6), &node, Some(N2.mac())),
            ("network", ip(0).into(), "it is the network address of 192.0.2.0/24", None),
            ("broadcast", ip(255).into(), "it is the broadcast address of 192.0.2.0/24", None),
            ("routers", Family::V6.ip(0), "it is the address of all routers of 2001:db8::/64", None),
        ];
        let elsewhere: [(_, IpAddr, _); 7] = [
            ("api", api.into(), "the API server is there"),
            ("loopback", Ipv4Addr::new(127, 0, 0, 2).into(), "it is a loopback address"),
            ("multicast", Ipv4Addr::new(224, 0, 0, 9).into(), "it is a multicast address"),
            ("multicast6", "ff02::9".parse()?, "it is a multicast address"),
            ("linklocal", Ipv4Addr::new(169, 254, 1, 1).into(), "it is a link-local address"),
            ("linklocal6", "fe80::9".parse()?, "it is a link-local address"),
            ("mapped", "::ffff:192.0.2.9".parse()?, "it is an IPv4 address in an IPv6 address"),
        ];
        let refused: Vec<(_, IpAddr, _)> = on_segment
            .iter()
            .map(|(name, address, why, _)| (*name, *address, *why))
            .chain(elsewhere)
            .collect();
        let monitor = cluster.monitor(&on_segment.map(|(_, address, _, _)| address))?;
        for (name, address, _) in &refused {
            cluster.create_service(&ServiceSpec::new(name, *address))?;
        }
        cluster.create_service(&ServiceSpec::new("good", VIP))?;
        cluster.wait_until_held(VIP)?;
        for (name, address, why) in &refused {
            cluster.wait_for_event(name, &[&format!("{address} ("), "is not announced", why])?;
        }
        monitor.wait_for_requests(1_000, PATIENCE)?;
        let report = monitor.stop()?;
        for (_, address, _, owner) in on_segment {
            let wire = report.vip(address)?;
            let macs: Vec<_> = wire.answers_by().into_keys().map(|by| by.sha).collect();
            assert_eq!(macs, owner.into_iter().collect::<Vec<_>>(), "{address} has other owners:\n{report}");
            assert!(wire.announcements.is_empty(), "{address} was announced:\n{report}");
        }
        for (name, address, _) in &refused {
            for id in cluster.ids() {
                assert!(!cluster.knows(id, *address)?, "{id} has an entry for {address}");
            }
            assert_eq!(cluster.ingress(name)?, [""; 0], "{address} is in a status");
        }
        assert_eq!(cluster.virtual_ips()?.len(), 1);
        Ok(())
    })
}

#[test]
fn an_address_of_a_status_full_of_node_addresses_is_refused() -> Result<()> {
    scenario("lent", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::without_address("web"))?;
        let addresses: Vec<_> = cluster.ids().into_iter().map(NodeId::address).collect();
        cluster.set_ingress("web", "lender", &addresses)?;
        for id in cluster.ids() {
            let part = format!("{} (status.loadBalancer.ingress) is not announced", id.address());
            cluster.wait_for_event("web", &[&part])?;
            assert_eq!(cluster.answered_by(id.address())?, Some(id));
        }
        assert_eq!(cluster.virtual_ips()?.len(), 0);
        Ok(())
    })
}

#[test]
fn a_malformed_annotation_is_reported_with_its_value_and_takes_no_vip_away() -> Result<()> {
    scenario("malformed", ClusterOptions::default(), |cluster| {
        const WRONG: &str = "192.0.2.10, 192.0.2.300";
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        let watch = cluster.watch(&[VIP])?;
        watch.step("a typing error");
        cluster.annotate_service("web", "vipward.io/addresses", Some(WRONG))?;
        cluster.wait_for_event("web", &["annotation vipward.io/addresses", WRONG])?;
        watch.let_pass(A_WHILE)?;
        watch.stop()?.assert_seamless(VIP);
        assert_eq!(cluster.holder(VIP)?, Some(holder));
        assert_eq!(cluster.ingress("web")?, [VIP.to_string()]);

        cluster.stop_delivering(VIP)?;
        cluster.set_address("web", SECOND)?;
        cluster.wait_until_held(SECOND)?;
        cluster.wait_for_ingress("web", SECOND)?;
        cluster.wait_until_gone(VIP)
    })
}

#[test]
fn only_selected_nodes_hold_a_vip_and_it_follows_their_labels_without_a_gap() -> Result<()> {
    scenario("nodes", impatient(), |cluster| {
        cluster.label_node(N2, "role", Some("edge"))?;
        let service = ServiceSpec::new("web", VIP).annotation("vipward.io/nodes", "role=edge");
        cluster.create_service(&service)?;
        cluster.wait_until_held_by(VIP, N2)?;
        cluster.wait_until_all_renew()?;
        let watch = cluster.watch(&[VIP])?;
        watch.step("the label goes to another node");
        cluster.label_node(N3, "role", Some("edge"))?;
        cluster.label_node(N2, "role", None)?;
        cluster.wait_until_held_by(VIP, N3)?;
        watch.wait_until_received_by(VIP, N3)?;
        watch.step("the annotation names another node");
        let name = format!("kubernetes.io/hostname={}", cluster.node_name(N1));
        cluster.annotate_service("web", "vipward.io/nodes", Some(&name))?;
        cluster.wait_until_held_by(VIP, N1)?;
        watch.wait_until_received_by(VIP, N1)?;
        watch.stop()?.assert_seamless(VIP);

        cluster.stop_delivering(VIP)?;
        cluster.annotate_service("web", "vipward.io/nodes", Some("role=nobody"))?;
        let nobody = format!("no node can hold {VIP}");
        cluster.wait_for_event("web", &[&nobody, "annotation vipward.io/nodes leaves it out"])?;
        assert_eq!(cluster.answered_by(VIP)?, None);
        Ok(())
    })
}

#[test]
fn a_preferred_node_gets_the_vip_by_a_handover() -> Result<()> {
    scenario("preferred", impatient(), |cluster| {
        let prefer = |cluster: &Cluster, id| format!("kubernetes.io/hostname={}", cluster.node_name(id));
        let first = prefer(cluster, N3);
        cluster.wait_until_all_renew()?;
        let service = ServiceSpec::new("web", VIP).annotation("vipward.io/preferred-nodes", &first);
        cluster.create_service(&service)?;
        cluster.wait_until_held_by(VIP, N3)?;
        let watch = cluster.watch(&[VIP])?;
        watch.step("another node is preferred");
        let second = prefer(cluster, N1);
        cluster.annotate_service("web", "vipward.io/preferred-nodes", Some(&second))?;
        cluster.wait_until_held_by(VIP, N1)?;
        watch.wait_until_received_by(VIP, N1)?;
        watch.step("a node that is not there is preferred");
        cluster.annotate_service("web", "vipward.io/preferred-nodes", Some("kubernetes.io/hostname=none"))?;
        watch.let_pass(A_WHILE)?;
        watch.stop()?.assert_seamless(VIP);
        assert!(cluster.holder(VIP)?.is_some());
        Ok(())
    })
}

#[test]
fn a_vip_is_announced_on_the_interfaces_that_its_service_names_and_nowhere_else() -> Result<()> {
    scenario("interface", ClusterOptions::default(), |cluster| {
        let service = ServiceSpec::new("web", VIP).annotation("vipward.io/interface", "eth*");
        cluster.create_service(&service)?;
        let holder = cluster.wait_until_held(VIP)?;
        cluster.annotate_service("web", "vipward.io/interface", Some("bond*,ens1"))?;
        let nobody = format!("no node can hold {VIP}");
        let why = "annotation vipward.io/interface leaves out eth0";
        cluster.wait_for_event("web", &[&nobody, &cluster.node_name(holder), why])?;
        let monitor = cluster.monitor(&[VIP])?;
        monitor.wait_until_silent(VIP, A_WHILE, PATIENCE)?;
        drop(monitor);
        cluster.annotate_service("web", "vipward.io/interface", Some(&format!("{SEGMENT},{MANAGEMENT}")))?;
        cluster.wait_until_held(VIP)?;
        Ok(())
    })
}
