//! The addresses that a Service may ask for, and those that its status may name.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use vipward_tests::{
    agent::{VIP, ip, net},
    apiserver::{Effect, Matching, Often},
    cluster::{
        Changes, Cluster, ClusterOptions, Kind, N1, N3, NodeId, PATIENCE, SEGMENT, ServiceSpec, scenario,
        skip,
    },
};

const SECOND: Ipv4Addr = ip(20);
const STRANGE: [Ipv4Addr; 3] =
    [Ipv4Addr::new(8, 8, 8, 8), Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::new(9, 9, 9, 9)];
/// An address that no segment has, and its network.
const ROUTED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const ROUTED_NET: &str = "203.0.113.0/24";
const ADDRESSES: &str = "vipward.io/addresses";

fn with_args(args: &[&str]) -> ClusterOptions {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    ClusterOptions { args, ..ClusterOptions::default() }
}

/// The changes of Services and claims from the beginning of a scenario.
struct Written {
    services: Changes,
    claims: Changes,
}

impl Written {
    fn watch(cluster: &Cluster) -> Result<Self> {
        Ok(Self {
            services: cluster.admin().changes(Kind::SERVICE, Some(cluster.namespace()))?,
            claims: cluster.admin().changes(Kind::VIRTUAL_IP, None)?,
        })
    }

    /// Checks that no status and no claim has ever had one of these addresses.
    fn check_never(&self, addresses: &[Ipv4Addr]) -> Result<()> {
        let services = self.services.so_far()?;
        assert!(!services.is_empty(), "nothing was seen");
        for change in services.iter().chain(&self.claims.so_far()?) {
            let is_claim = change.object["kind"] == "VirtualIP";
            let text = if is_claim { &change.object["metadata"]["name"] } else { &change.object["status"] };
            for address in addresses {
                let has = text.to_string().contains(&format!("\"{address}\""));
                assert!(!has, "{address} was written: {}", change.object);
            }
        }
        Ok(())
    }
}

/// Creates a Service inside of the cluster, and returns its address there. The server of the tests
/// gives it none.
fn cluster_ip(cluster: &Cluster) -> Result<Ipv4Addr> {
    let inside = ServiceSpec::without_address("inside").field("type", &json!("ClusterIP"));
    let inside = inside.field("externalTrafficPolicy", &Value::Null);
    let inside = if cluster.api().is_shared() {
        inside
    } else {
        inside.field("clusterIP", &json!("10.96.0.10")).field("clusterIPs", &json!(["10.96.0.10"]))
    };
    cluster.create_service(&inside)?;
    let service = cluster.admin().get(&cluster.service("inside"))?.context("it was created")?;
    service["spec"]["clusterIP"].as_str().context("it has no address")?.parse().context("no address")
}

/// Waits until the refusal of an address is reported, with this reason.
fn wait_until_refused(cluster: &Cluster, service: &str, address: Ipv4Addr, why: &str) -> Result<()> {
    let refused = format!("{address} (");
    cluster.wait_for_event(service, &[&refused, "is not announced", why]).map(drop)
}

#[test]
fn a_status_never_names_addresses_of_the_internet_or_of_the_cluster() -> Result<()> {
    scenario("deputy", ClusterOptions::default(), |cluster| {
        let written = Written::watch(cluster)?;
        let [public, wild, _] = STRANGE;
        let inside = cluster_ip(cluster)?;
        let on_segment = ServiceSpec::without_address("web");
        cluster.create_service(&on_segment.annotation(ADDRESSES, &format!("{VIP},{public},{inside}")))?;
        let everywhere = ServiceSpec::new("wild", wild).annotation("vipward.io/interface", "*");
        cluster.create_service(&everywhere)?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        wait_until_refused(cluster, "web", public, "it is in no subnet of an interface")?;
        wait_until_refused(cluster, "web", inside, "ClusterIP")?;
        wait_until_refused(cluster, "wild", wild, "--allow-address")?;

        let monitor = cluster.monitor(&[VIP, wild])?;
        // A new write of the status would be the next chance for the others.
        cluster.annotate_service("web", ADDRESSES, Some(&format!("{public},{SECOND},{inside},{VIP}")))?;
        cluster.wait_until_held(SECOND)?;
        let both = |service: Option<&Value>| {
            let ingress = service.and_then(|service| service["status"]["loadBalancer"]["ingress"].as_array());
            ingress.is_some_and(|ingress| ingress.len() == 2)
        };
        cluster.admin().wait_for(PATIENCE, &cluster.service("web"), "to have two addresses", both)?;
        monitor.wait_for_requests(2_000, PATIENCE)?;
        let report = monitor.stop()?;
        assert!(report.vip(VIP)?.gaps().is_empty(), "{report}");
        assert_eq!(report.vip(wild)?.answered(), 0, "{report}");
        for id in cluster.ids() {
            for address in [public, wild, inside] {
                assert!(!cluster.knows(id, address)?, "{id} has an entry for {address}");
            }
        }
        written.check_never(&[public, wild, inside])
    })
}

/// Says in a node's Lease that its segment has these subnets, as the token of the node can.
fn lie_about_subnets(cluster: &Cluster, id: NodeId, subnets: &[&str]) -> Result<()> {
    let lease = cluster.lease_of(id)?.context("it has a Lease")?;
    let mac = id.mac().to_string();
    let interfaces = json!([{"name": SEGMENT, "mac": mac, "subnets": subnets, "carrier": true}]).to_string();
    let patch = json!({"metadata": {"annotations": {"vipward.io/interfaces": interfaces}}});
    cluster.admin().merge(&lease, &patch).map(drop)
}

/// Says in a VIP's claim that a node holds it, as the token of the node can.
fn lie_about_holding(cluster: &Cluster, id: NodeId, vip: Ipv4Addr) -> Result<()> {
    let session = cluster.session(id)?.context("it has a session")?;
    let session = session.split_once('/').context("a session")?.1;
    let claim = json!({"spec": {
        "epoch": 1, "holder": cluster.node_name(id), "session": session, "mac": id.mac().to_string(),
        "interface": SEGMENT, "released": null,
    }});
    let object = cluster.virtual_ip(vip);
    cluster.admin().wait_for(PATIENCE, &object, "to be there", |object| object.is_some())?;
    cluster.admin().merge(&object, &claim).map(drop)
}

#[test]
fn the_controller_writes_an_address_that_a_user_chose_once_it_is_held_on_a_segment_that_a_node_confirms()
-> Result<()> {
    // The session of the node that lies lasts, since it looks as if it renewed.
    let (lease, margin) = (Duration::from_secs(50), Duration::from_secs(3));
    let options = ClusterOptions { with_controller: true, lease, margin, ..ClusterOptions::default() };
    scenario("steering", options, |cluster| {
        let written = Written::watch(cluster)?;
        let (host, [public, ..]) = (ip(60), STRANGE);
        cluster.start_controller(1, &[])?;
        cluster.wait_until_all_renew()?;
        let taken = ipnet::Ipv4Net::new(host, 24)?;
        cluster.rogue.add_address(SEGMENT, taken)?;
        cluster.kill9(N3)?;
        lie_about_subnets(cluster, N3, &["192.0.2.13/24", "8.8.8.1/24", "0.0.0.0/0"])?;

        let asked = format!("{host},{VIP}");
        cluster.create_service(&ServiceSpec::without_address("web").annotation(ADDRESSES, &asked))?;
        cluster.create_service(&ServiceSpec::new("dns", public))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        let rival = cluster.rogue.mac(SEGMENT)?.to_string();
        cluster.wait_for_event("web", &[&host.to_string(), &rival])?;
        let warned =
            cluster.controller(1)?.stderr().contains("without --allow-address, Services may have any");
        assert!(warned, "the controller says that nothing limits the users");
        lie_about_holding(cluster, N3, public)?;
        cluster.wait_for_event("dns", &[&format!("{public} is announced, but Vipward does not write it")])?;
        assert_eq!(cluster.ingress("web")?, [VIP.to_string()]);
        assert_eq!(cluster.ingress("dns")?, [""; 0]);
        for change in written.services.so_far()? {
            let status = change.object["status"].to_string();
            let has = |address: &Ipv4Addr| status.contains(&format!("\"{address}\""));
            assert!(![host, public].iter().any(has), "{status}");
        }

        cluster.rogue.delete_address(SEGMENT, taken)?;
        cluster.wait_until_held(host)?;
        cluster.wait_for_addresses("web", &[host.into(), VIP.into()])
    })
}

#[test]
fn refused_addresses_make_no_objects() -> Result<()> {
    const SERVICES: u8 = 30;
    scenario("objectless", ClusterOptions { with_controller: true, ..ClusterOptions::default() }, |cluster| {
        let written = Written::watch(cluster)?;
        cluster.start_controller(1, &[])?;
        for number in 1..=SERVICES {
            let address = |last: u8| format!("2001:db8:9:{number:x}::{last:x}");
            let asked: Vec<_> = (1..=16).map(address).collect();
            let service = ServiceSpec::without_address(&format!("far-{number}"));
            cluster.create_service(&service.annotation(ADDRESSES, &asked.join(",")))?;
        }
        cluster.create_service(&ServiceSpec::new("near", VIP))?;
        cluster.wait_for_event("far-1", &["2001:db8:9:1::1 (", "it is in no subnet of an interface"])?;
        cluster.wait_for_ingress("near", VIP)?;
        let claims = written.claims.so_far()?;
        let names: std::collections::BTreeSet<_> =
            claims.iter().map(|change| change.object["metadata"]["name"].to_string()).collect();
        assert_eq!(names, [format!("\"{VIP}\"")].into());
        Ok(())
    })
}

#[test]
fn spec_load_balancer_ip_and_external_ips_are_taken_under_the_same_rule() -> Result<()> {
    scenario("fields", with_args(&["--external-ips"]), |cluster| {
        cluster.add_tenant("b")?;
        let written = Written::watch(cluster)?;
        let [by_spec, external, _] = STRANGE;
        let spec = |name: &str, address: Ipv4Addr| {
            ServiceSpec::without_address(name).field("loadBalancerIP", &json!(address.to_string()))
        };
        cluster.create_service(&spec("good", VIP))?;
        cluster.create_service(&spec("bad", by_spec))?;
        let addresses = json!([external.to_string(), SECOND.to_string()]);
        cluster.create_service(&ServiceSpec::without_address("external").field("externalIPs", &addresses))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("good", VIP)?;
        cluster.wait_until_held(SECOND)?;
        let why = "it is in no subnet of an interface";
        cluster
            .wait_for_event("bad", &[&format!("{by_spec} (spec.loadBalancerIP) is not announced"), why])?;
        let refused = format!("{external} (spec.externalIPs) is not announced");
        cluster.wait_for_event("external", &[&refused, why])?;
        cluster.wait_for_event("external", &["spec.externalIPs is deprecated since Kubernetes 1.36"])?;

        let monitor = cluster.monitor(&[VIP, SECOND])?;
        let thief = ServiceSpec::without_address("b/thief").port(25);
        let both = json!([VIP.to_string(), SECOND.to_string()]);
        cluster.create_service(
            &thief.annotation("vipward.io/nodes", "role=nobody").field("externalIPs", &both),
        )?;
        for (vip, owner) in [(VIP, "good"), (SECOND, "external")] {
            let refused = format!("{vip} (spec.externalIPs) is not announced for this Service");
            cluster.wait_for_event("b/thief", &[&refused, &cluster.full_name(owner)])?;
        }
        monitor.wait_for_requests(2_000, PATIENCE)?;
        let report = monitor.stop()?;
        for vip in [VIP, SECOND] {
            assert!(report.vip(vip)?.gaps().is_empty(), "{report}");
        }
        for id in cluster.ids() {
            for address in [by_spec, external] {
                assert!(!cluster.knows(id, address)?, "{id} has an entry for {address}");
            }
        }
        written.check_never(&[by_spec, external])
    })
}

#[test]
fn networks_of_pods_and_services_and_excluded_ones_are_refused_and_darken_no_held_vip() -> Result<()> {
    scenario("reserved", with_args(&["--refuse-address", "192.0.2.96/28"]), |cluster| {
        let written = Written::watch(cluster)?;
        cluster.create_service(&ServiceSpec::new("held", ip(65)))?;
        cluster.wait_until_held(ip(65))?;
        cluster.wait_for_ingress("held", ip(65))?;
        let watch = cluster.watch(&[ip(65)])?;
        watch.step("networks appear, one around a held VIP");
        cluster.add_service_cidr("192.0.2.64/28")?;
        let pods = "192.0.2.80/28";
        cluster.patch_node(N1, &json!({"spec": {"podCIDR": pods, "podCIDRs": [pods]}}))?;
        let disputed = format!("VIP {} stays announced and is defended", ip(65));
        cluster.wait_for_event("held", &[&disputed, "192.0.2.64/28", "ServiceCIDR"])?;

        let node = cluster.node_name(N1);
        let refused = [
            ("services", ip(66), "it is in 192.0.2.64/28, where the ClusterIPs are".to_owned()),
            ("pods", ip(81), format!("it is in {pods}, the network of the Pods on node {node}")),
            ("excluded", ip(97), "it is in 192.0.2.96/28, which --refuse-address excludes".to_owned()),
        ];
        for (name, address, _) in &refused {
            cluster.create_service(&ServiceSpec::new(name, *address))?;
        }
        for (name, address, why) in &refused {
            wait_until_refused(cluster, name, *address, why)?;
        }
        cluster.create_service(&ServiceSpec::new("good", VIP))?;
        cluster.wait_for_ingress("good", VIP)?;
        watch.stop()?.assert_seamless(ip(65));
        assert_eq!(cluster.ingress("held")?, [ip(65).to_string()]);
        written.check_never(&refused.map(|(_, address, _)| address))
    })
}

#[test]
fn an_address_elsewhere_is_held_if_an_admin_allows_it_and_is_written_after_that() -> Result<()> {
    scenario("routed", with_args(&["--allow-address", ROUTED_NET]), |cluster| {
        let written = Written::watch(cluster)?;
        // A host of the LAN has the address: it is not held at first.
        let taken = ipnet::Ipv4Net::new(ROUTED, 24)?;
        cluster.rogue.add_address(SEGMENT, taken)?;
        let routed = ServiceSpec::new("routed", ROUTED).annotation("vipward.io/interface", SEGMENT);
        cluster.create_service(&routed)?;
        cluster.create_service(&ServiceSpec::new("segment", VIP))?;
        wait_until_refused(cluster, "segment", VIP, ROUTED_NET)?;
        let rival = cluster.rogue.mac(SEGMENT)?.to_string();
        cluster.wait_for_event("routed", &[&ROUTED.to_string(), &rival])?;
        assert_eq!(cluster.ingress("routed")?, [""; 0]);

        cluster.rogue.delete_address(SEGMENT, taken)?;
        cluster.wait_until_held(ROUTED)?;
        cluster.wait_for_ingress("routed", ROUTED)?;
        let held = written.claims.wait_for(PATIENCE, "a claim with a holder", |claim| {
            claim["metadata"]["name"] == ROUTED.to_string().as_str()
                && claim["spec"]["holder"].as_str().is_some_and(|holder| !holder.is_empty())
        })?;
        let named = written.services.wait_for(PATIENCE, "a status with the address", |service| {
            service["status"].to_string().contains(&ROUTED.to_string())
        })?;
        let object = &named.object;
        assert!(named.version()? > held.version()?, "it was in the status before it was held: {object}");
        Ok(())
    })
}

#[test]
fn a_service_beside_a_taken_address_elsewhere_has_only_what_is_held_in_its_status() -> Result<()> {
    let args = ["--allow-address", ROUTED_NET, "--allow-address", &net(0).trunc().to_string()];
    scenario("beside", with_args(&args), |cluster| {
        let written = Written::watch(cluster)?;
        let taken = ipnet::Ipv4Net::new(ROUTED, 24)?;
        cluster.rogue.add_address(SEGMENT, taken)?;
        let both = ServiceSpec::without_address("web").annotation("vipward.io/interface", SEGMENT);
        cluster.create_service(&both.annotation(ADDRESSES, &format!("{ROUTED},{VIP}")))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        let rival = cluster.rogue.mac(SEGMENT)?.to_string();
        cluster.wait_for_event("web", &[&ROUTED.to_string(), &rival])?;
        assert_eq!(cluster.ingress("web")?, [VIP.to_string()]);
        for change in written.services.so_far()? {
            let status = change.object["status"].to_string();
            assert!(!status.contains(&ROUTED.to_string()), "{status}");
        }
        Ok(())
    })
}

#[test]
fn vips_are_held_although_the_api_server_knows_no_service_cidrs() -> Result<()> {
    let options = ClusterOptions { start_agents: false, ..ClusterOptions::default() };
    scenario("unknown", options, |cluster| {
        let Some(server) = cluster.api_mut().in_this_process() else {
            return skip("the scenario needs an API server of Kubernetes before 1.33");
        };
        let all = Matching::any().resource("servicecidrs");
        server.trouble(all, Effect::Answer(404), Often::Always);
        for id in cluster.ids() {
            cluster.start_agent(id)?;
        }
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        let inside = cluster_ip(cluster)?;
        cluster.create_service(&ServiceSpec::new("thief", inside))?;
        wait_until_refused(cluster, "thief", inside, "it is the ClusterIP of Service")?;
        let (errors, warnings) = cluster.complaints()?;
        assert!(errors.iter().chain(&warnings).all(|line| !line.contains("servicecidrs")), "{errors:#?}");
        Ok(())
    })
}
