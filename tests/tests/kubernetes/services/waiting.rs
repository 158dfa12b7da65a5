//! Services that wait for an address of a pool, share one, or are created again.

use std::{thread, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use vipward_tests::{
    agent::ip,
    cluster::{Cluster, ClusterOptions, Endpoint, Kind, N1, N2, Object, PATIENCE, ServiceSpec, scenario},
    kit::wait_for,
};

fn with_controller() -> ClusterOptions {
    ClusterOptions { with_controller: true, ..ClusterOptions::default() }
}

/// Waits until a Service has addresses.
fn wait_for_any(cluster: &Cluster, name: &str) -> Result<Vec<String>> {
    wait_for(PATIENCE, &format!("an address of Service {name}"), || {
        let addresses = cluster.ingress(name)?;
        Ok((!addresses.is_empty()).then_some(addresses))
    })
}

fn on_udp(name: &str, port: u16) -> ServiceSpec {
    ServiceSpec::without_address(name)
        .field("ports", &json!([{"name": "port", "protocol": "UDP", "port": port}]))
}

#[test]
fn services_that_name_one_address_and_are_created_at_once_all_have_it() -> Result<()> {
    scenario("waitpair", with_controller(), |cluster| {
        cluster.start_controller(1, &[])?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.64-192.0.2.95"]}))?;
        for last in 64..72 {
            let vip = ip(last);
            let specs = [53, 54, 55].map(|port| ServiceSpec::new(&format!("s{last}-{port}"), vip).port(port));
            let cluster = &*cluster;
            thread::scope(|scope| {
                let created: Vec<_> =
                    specs.iter().map(|spec| scope.spawn(|| cluster.create_service(spec))).collect();
                created.into_iter().try_for_each(|one| one.join().expect("no panic"))
            })?;
            for port in [53, 54, 55] {
                cluster.wait_for_ingress(&format!("s{last}-{port}"), vip)?;
            }
        }
        Ok(())
    })
}

#[test]
fn a_service_that_is_deleted_and_created_again_keeps_its_address() -> Result<()> {
    scenario("waitagain", with_controller(), |cluster| {
        cluster.start_controller(1, &[])?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.64-192.0.2.79"]}))?;
        let names = ["one", "two", "three"];
        for name in names {
            cluster.create_service(&ServiceSpec::without_address(name))?;
        }
        let before = names.map(|name| wait_for_any(cluster, name)).into_iter().collect::<Result<Vec<_>>>()?;
        for name in names {
            let vip = wait_for_any(cluster, name)?.concat().parse::<std::net::Ipv4Addr>()?;
            cluster.wait_until_held(vip)?;
        }
        for (round, pause) in [0, 0, 100, 500, 1_000].into_iter().enumerate() {
            for name in names {
                cluster.delete_service(name)?;
                thread::sleep(Duration::from_millis(pause));
                cluster.create_service(&ServiceSpec::without_address(name))?;
            }
            let after =
                names.map(|name| wait_for_any(cluster, name)).into_iter().collect::<Result<Vec<_>>>()?;
            ensure!(after == before, "round {round}, after {pause} ms: {after:?}, before: {before:?}");
        }
        Ok(())
    })
}

#[test]
fn a_pool_gives_out_only_what_a_node_can_announce_and_says_so() -> Result<()> {
    scenario("waitsegm", with_controller(), |cluster| {
        cluster.wait_until_all_renew()?;
        cluster.start_controller(1, &[])?;
        cluster.put_pool("a-typo", &json!({"addresses": ["10.99.0.0/24"]}))?;
        cluster.put_pool("b-good", &json!({"addresses": ["192.0.2.64-192.0.2.71"]}))?;
        for (name, vip) in [("one", ip(64)), ("two", ip(65))] {
            cluster.create_service(&ServiceSpec::without_address(name))?;
            cluster.wait_for_ingress(name, vip)?;
            cluster.wait_until_held(vip)?;
        }
        cluster.wait_for_pool("a-typo", "/status/conditions/0/reason", "NoSegment")?;
        cluster.wait_for_pool("a-typo", "/status/conditions/0/status", "False")?;
        let named = ServiceSpec::without_address("named").annotation("vipward.io/pool", "a-typo");
        cluster.create_service(&named)?;
        cluster.wait_for_event(
            "named",
            &["no node can announce an IPv4 address of VIPPool a-typo", "192.0.2.0/24"],
        )?;
        // What the policy Local needs counts.
        let on = |id| json!({"matchLabels": {"kubernetes.io/hostname": cluster.node_name(id)}});
        let (first, second) = (on(N1), on(N2));
        let pool = |addresses: &str, nodes| {
            let announce = json!({"nodeSelector": nodes});
            json!({"addresses": [addresses], "announce": announce, "priority": 1})
        };
        let (c, d) = (pool("192.0.2.80-192.0.2.83", first), pool("192.0.2.84-192.0.2.87", second));
        cluster.put_pool("b-good", &json!({"addresses": ["192.0.2.64-192.0.2.71"], "autoAssign": false}))?;
        cluster.put_pool("c-first", &c)?;
        cluster.put_pool("d-second", &d)?;
        cluster.set_endpoints("local", &[Endpoint::ready(N2)])?;
        cluster.create_service(&ServiceSpec::without_address("local").local())?;
        cluster.wait_for_ingress("local", ip(84))?;
        cluster.wait_until_held_by(ip(84), N2)?;
        Ok(())
    })
}

#[test]
fn services_of_one_key_get_one_address_of_the_pool_ports_permitting() -> Result<()> {
    scenario("waitkey", with_controller(), |cluster| {
        cluster.start_controller(1, &[])?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.64-192.0.2.79"]}))?;
        let share = |spec: ServiceSpec| spec.annotation("vipward.io/share", "dns");
        let specs = [share(ServiceSpec::without_address("tcp").port(53)), share(on_udp("udp", 53))];
        for spec in &specs {
            cluster.create_service(spec)?;
        }
        for name in ["tcp", "udp"] {
            cluster.wait_for_ingress(name, ip(64))?;
        }
        cluster.wait_until_held(ip(64))?;
        cluster.create_service(&share(on_udp("clash", 53)))?;
        cluster.wait_for_ingress("clash", ip(65))?;
        cluster.wait_for_event("clash", &["does not share 192.0.2.64", "port 53/UDP"])?;
        cluster.put_pool("far", &json!({"addresses": ["192.0.2.90"], "autoAssign": false}))?;
        let far = share(on_udp("far", 54)).annotation("vipward.io/pool", "far");
        cluster.create_service(&far)?;
        cluster.wait_for_ingress("far", ip(90))?;
        cluster.wait_for_event("far", &["does not share 192.0.2.6", "an address of VIPPool lan"])?;
        // The owner goes, and the address stays.
        cluster.delete_service("tcp")?;
        let claim = cluster.virtual_ip(ip(64));
        let udp = cluster.full_name("udp");
        wait_for(PATIENCE, "the reservation to be that of the other Service", || {
            let claim = cluster.admin().get(&claim)?.context("the claim stays")?;
            let is_its = claim["spec"]["reservation"]["service"] == json!(udp);
            Ok(is_its.then_some(()))
        })?;
        cluster.wait_for_ingress("udp", ip(64))?;
        cluster.wait_until_held(ip(64))?;
        Ok(())
    })
}

#[test]
fn annotations_without_effect_on_a_namespace_a_pool_and_a_claim_are_events() -> Result<()> {
    scenario("waitvain", with_controller(), |cluster| {
        cluster.start_controller(1, &[])?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.64-192.0.2.79"]}))?;
        cluster.create_service(&ServiceSpec::without_address("web"))?;
        cluster.wait_until_held(ip(64))?;
        let namespace = Object::cluster_scoped(Kind::NAMESPACE, cluster.namespace());
        let pool = Object::cluster_scoped(Kind::POOL, "lan");
        let claim = cluster.virtual_ip(ip(64));
        for (object, annotation, parts) in [
            (&namespace, "vipward.io/sharewith", ["Namespace", "vipward.io/share-with"]),
            (&pool, "vipward.io/addresses", ["VIPPool", "it is for Services"]),
            (&claim, "vipward.io/move", ["VirtualIP", "vipward.io/move-to"]),
        ] {
            cluster.admin().merge(object, &json!({"metadata": {"annotations": {annotation: "x"}}}))?;
            let event = cluster.wait_for_event(&object.name, &parts)?;
            assert_eq!(event.reason, "UnknownAnnotation", "{event:?}");
        }
        Ok(())
    })
}

#[test]
fn a_service_in_a_cluster_without_a_pool_says_so_until_there_is_one() -> Result<()> {
    scenario("waitpool", with_controller(), |cluster| {
        cluster.start_controller(1, &[])?;
        // Nobody else may give an address to a Service of this class.
        let ours = ServiceSpec::without_address("web").field("loadBalancerClass", &json!("vipward.io/l2"));
        cluster.create_service(&ours)?;
        let event = cluster.wait_for_event("web", &["no VIPPool exists", "vipward.io/addresses"])?;
        assert_eq!(event.reason, "NoPool");
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.64-192.0.2.79"]}))?;
        cluster.wait_for_ingress("web", ip(64))?;
        cluster.wait_until_held(ip(64)).map(drop)
    })
}
