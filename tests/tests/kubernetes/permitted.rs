//! The addresses that a Service may request, and those that its status may name.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use vipward_tests::{
    agent::{VIP, ip},
    cluster::{
        Changes, Cluster, ClusterOptions, Kind, N1, N3, NodeId, PATIENCE, SEGMENT, ServiceSpec, scenario,
    },
};

const SECOND: Ipv4Addr = ip(20);
const STRANGE: [Ipv4Addr; 3] =
    [Ipv4Addr::new(8, 8, 8, 8), Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::new(9, 9, 9, 9)];
const ADDRESSES: &str = "vipward.io/addresses";

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

/// Writes to a node's Lease that its segment has these subnets, as the token of the node can.
fn lie_about_subnets(cluster: &Cluster, id: NodeId, subnets: &[&str]) -> Result<()> {
    let lease = cluster.lease_of(id)?.context("it has a Lease")?;
    let mac = id.mac().to_string();
    let interfaces = json!([{"name": SEGMENT, "mac": mac, "subnets": subnets, "carrier": true}]).to_string();
    let patch = json!({"metadata": {"annotations": {"vipward.io/interfaces": interfaces}}});
    cluster.admin().merge(&lease, &patch).map(drop)
}

/// Writes to a VIP's claim that a node holds it, as the token of the node can.
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
fn networks_of_pods_and_services_and_excluded_ones_are_refused_and_darken_no_held_vip() -> Result<()> {
    scenario("reserved", ClusterOptions::with_args(&["--refuse-address", "192.0.2.96/28"]), |cluster| {
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
