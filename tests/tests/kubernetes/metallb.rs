//! Vipward instead of `MetalLB`: its objects are read, and what its controller wrote stays.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use vipward_tests::{
    agent::ip,
    cluster::{Cluster, ClusterOptions, Kind, N1, N2, NodeId, PATIENCE, SEGMENT, ServiceSpec, scenario},
    kit::{interrupt, tools::in_checkout, wait_until},
    lan::Responder,
};

/// The field manager of `MetalLB`'s controller, and the annotation with the pool of the addresses.
const MANAGER: &str = "controller";
const FROM_POOL: &str = "metallb.io/ip-allocated-from-pool";
const SHARE: &str = "metallb.io/allow-shared-ip";
const A_WHILE: Duration = Duration::from_secs(3);

fn options() -> ClusterOptions {
    ClusterOptions { with_controller: true, ..ClusterOptions::with_args(&["--metallb"]) }
}

/// Creates a Service with a key, and writes its status as `MetalLB`'s controller does.
fn given_by_metallb(cluster: &Cluster, name: &str, key: &str, port: u16, vip: Ipv4Addr) -> Result<()> {
    let service = ServiceSpec::without_address(name).annotation(FROM_POOL, "lan").annotation(SHARE, key);
    cluster.create_service(&service.port(port))?;
    cluster.set_ingress(name, MANAGER, &[vip])
}

fn count(cluster: &Cluster, pool: &str, field: &str, expected: i64) -> Result<()> {
    let object = Cluster::metallb(Kind::METALLB_POOL, pool);
    let what = format!("{field} to be {expected}");
    cluster.admin().wait_for(PATIENCE, &object, &what, |pool| {
        pool.is_some_and(|pool| pool["status"][field] == expected)
    })?;
    Ok(())
}

#[test]
fn services_keep_the_addresses_that_metallb_gave_them_and_new_ones_get_theirs() -> Result<()> {
    scenario("mlkeep", options(), |cluster| {
        cluster.install_metallb()?;
        let spec = json!({"addresses": ["192.0.2.64/28"]});
        cluster.put_metallb(Kind::METALLB_POOL, "lan", &spec)?;
        cluster.put_metallb(Kind::L2_ADVERTISEMENT, "all", &json!({}))?;
        given_by_metallb(cluster, "web", "", 80, ip(70))?;
        given_by_metallb(cluster, "tcp", "dns", 80, ip(71))?;
        given_by_metallb(cluster, "udp", "dns", 81, ip(71))?;
        for vip in [ip(70), ip(71)] {
            cluster.wait_until_held(vip)?;
        }
        let watch = cluster.watch(&[ip(70), ip(71)])?;
        watch.step("the controller replaces MetalLB's");
        cluster.start_controller(1, &["--metallb"])?;
        count(cluster, "lan", "assignedIPv4", 2)?;
        count(cluster, "lan", "availableIPv4", 14)?;
        // MetalLB gives out the first address of a network too.
        cluster.create_service(&ServiceSpec::without_address("new"))?;
        cluster.wait_for_ingress("new", ip(64))?;
        cluster.wait_until_held(ip(64))?;
        watch.let_pass(A_WHILE)?;
        let report = watch.stop()?;
        for vip in [ip(70), ip(71)] {
            report.assert_seamless(vip);
        }
        for (name, vip) in [("web", ip(70)), ("tcp", ip(71)), ("udp", ip(71))] {
            assert_eq!(cluster.ingress(name)?, [vip.to_string()], "{name}");
        }

        let (code, said) = cluster.vipward(&["pools", "--addresses"])?;
        let lines: Vec<_> =
            said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let shown = "IPAddressPool/lan IPv4 3 0 13 16 yes yes 192.0.2.64/28".to_owned();
        assert!(code == Some(0) && lines.contains(&shown), "{said}");
        let web = format!("192.0.2.70 {} IPAddressPool/lan in use", cluster.full_name("web"));
        assert!(lines.contains(&web), "{said}");

        // What MetalLB wrote can be changed, and taken back.
        cluster.annotate_service("web", "metallb.universe.tf/loadBalancerIPs", Some("192.0.2.72"))?;
        cluster.wait_for_ingress("web", ip(72))?;
        cluster.wait_until_held(ip(72))?;
        cluster.annotate_service("udp", "vipward.io/ignore", Some("true"))?;
        cluster.wait_for_addresses("udp", &[])?;
        Ok(())
    })
}

#[test]
fn what_is_not_served_or_malformed_has_an_event_on_the_object() -> Result<()> {
    scenario("mlbgp", options(), |cluster| {
        cluster.install_metallb()?;
        cluster.put_metallb(Kind::BGP_PEER, "router", &json!({"peerAddress": "192.0.2.1"}))?;
        let bad = json!({"addresses": ["192.0.2.80-192.0.2.70", "192.0.2.82/32"]});
        cluster.put_metallb(Kind::METALLB_POOL, "bad", &bad)?;
        let nowhere = [json!({"matchExpressions": [{"key": "zone", "operator": "Within", "values": ["a"]}]})];
        cluster.put_metallb(Kind::L2_ADVERTISEMENT, "odd", &json!({"nodeSelectors": nowhere}))?;
        cluster.start_controller(1, &["--metallb"])?;
        let notified =
            cluster.wait_for_event("router", &["Vipward announces at Layer 2; BGPPeer is not served"])?;
        assert_eq!(notified.regarding, "BGPPeer router");
        cluster.wait_for_event("bad", &["addresses[0]: \"192.0.2.80-192.0.2.70\" ends before it begins"])?;
        cluster.wait_for_event("odd", &["nodeSelectors[0]: \"zone Within\""])?;
        // The rest of the pool is usable.
        cluster.create_service(&ServiceSpec::without_address("web"))?;
        cluster.wait_for_addresses("web", &[IpAddr::V4(ip(82))])?;
        Ok(())
    })
}

/// The endpoint where a controller reports why it is not ready.
const READY: &str = "/readyz";

#[test]
fn a_controller_that_may_not_list_the_pools_says_so_and_waits() -> Result<()> {
    scenario("mlright", options(), |cluster| {
        cluster.install_metallb()?;
        cluster.put_metallb(Kind::METALLB_POOL, "lan", &json!({"addresses": ["192.0.2.64/28"]}))?;
        cluster.put_pool("ours", &json!({"addresses": ["192.0.2.90"]}))?;
        let role = Cluster::metallb(Kind::ROLE, "vipward-metallb");
        let complete = cluster.admin().get(&role)?.context("the Role is installed")?;
        let without = |left_out: &str| {
            let mut rules = complete["rules"].clone();
            for rule in rules.as_array_mut().into_iter().flatten() {
                if let Some(resources) = rule["resources"].as_array_mut() {
                    resources.retain(|resource| resource != left_out);
                }
            }
            json!({"rules": rules})
        };
        cluster.admin().merge(&role, &without("ipaddresspools"))?;
        cluster.start_controller(1, &["--metallb"])?;
        cluster.create_service(&ServiceSpec::without_address("web"))?;
        let unread = "not listed yet: ipaddresspools.metallb.io";
        wait_until(PATIENCE, "the controller to say what it waits for", || {
            let page = cluster.controller_page(9648, READY);
            Ok(page.is_ok_and(|page| page.status != 200 && page.body.contains(unread)))
        })?;
        std::thread::sleep(A_WHILE);
        assert_eq!(cluster.ingress("web")?, [""; 0], "no address is given out");
        let warned = |cluster: &mut Cluster, words: &str| {
            anyhow::Ok(
                cluster.controller(1)?.transcript().lines().filter(|line| line.contains(words)).count(),
            )
        };
        let not_read = "deploy/kubernetes/overlays/metallb/rbac.yaml";
        assert_eq!(warned(cluster, not_read)?, 1, "{}", cluster.controller(1)?.transcript());

        cluster.admin().merge(&role, &without("ipaddresspools/status"))?;
        cluster.wait_for_ingress("web", ip(90))?;
        cluster.create_service(&ServiceSpec::without_address("more"))?;
        cluster.wait_for_ingress("more", ip(64))?;
        let not_written = "the pools' statuses are not written";
        wait_until(PATIENCE, "a warning", || Ok(warned(cluster, not_written)? > 0))?;
        std::thread::sleep(A_WHILE);
        assert_eq!(warned(cluster, not_written)?, 1, "{}", cluster.controller(1)?.transcript());
        cluster.admin().merge(&role, &json!({"rules": complete["rules"]}))?;
        count(cluster, "lan", "assignedIPv4", 1)
    })
}

/// The nodes with this role, as selectors.
fn role(role: &str) -> Value {
    json!([{"matchLabels": {"role": role}}])
}

/// Waits until this node alone shows that it has the addresses of a Service, on the segment.
fn wait_for_l2_status(cluster: &Cluster, service: &str, id: Option<NodeId>) -> Result<()> {
    let status = |id| (json!(cluster.node_name(id)), json!([{"name": SEGMENT}]));
    let expected: Vec<_> = id.map(status).into_iter().collect();
    let mut last = Vec::new();
    let what = format!("the ServiceL2Status of {service} to be {expected:?}");
    let found = interrupt::wait(PATIENCE, &what, || {
        last = cluster.l2_statuses(&cluster.full_name(service))?;
        Ok((last == expected).then_some(()))
    });
    found.with_context(|| format!("they were last: {last:?}"))
}

fn metrics_of_metallb(page: &str) -> BTreeSet<&str> {
    let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    names.filter(|name| name.starts_with("metallb_")).collect()
}

#[test]
fn addresses_are_announced_where_the_advertisements_say_and_statuses_and_metrics_follow() -> Result<()> {
    let options = ClusterOptions { start_agents: false, ..options() };
    scenario("mlplaces", options, |cluster| {
        cluster.install_metallb()?;
        cluster.label_node(N1, "role", Some("core"))?;
        cluster.label_node(N2, "role", Some("edge"))?;
        cluster.put_metallb(Kind::METALLB_POOL, "lan", &json!({"addresses": ["192.0.2.64/28"]}))?;
        let advertise = |cluster: &mut Cluster, role: &Value, interfaces: &Value| {
            let spec = json!({"ipAddressPools": ["lan"], "nodeSelectors": role, "interfaces": interfaces});
            cluster.put_metallb(Kind::L2_ADVERTISEMENT, "lan", &spec)
        };
        let vip = ip(64);
        for id in cluster.ids() {
            cluster.start_agent(id)?;
        }
        cluster.start_controller(1, &["--metallb"])?;
        cluster.create_service(&ServiceSpec::without_address("web"))?;
        cluster.wait_for_ingress("web", vip)?;
        let why = "no L2Advertisement announces IPAddressPool lan: create one";
        cluster.wait_for_event("web", &[&format!("no node can hold {vip}"), why])?;
        assert_eq!(cluster.answered_by(vip)?, None);

        advertise(cluster, &role("edge"), &json!([]))?;
        cluster.wait_until_held_by(vip, N2)?;
        wait_for_l2_status(cluster, "web", Some(N2))?;
        cluster.wait_until_all_renew()?;
        let watch = cluster.watch(&[vip])?;
        watch.step("the advertisement selects the other node");
        advertise(cluster, &role("core"), &json!([SEGMENT]))?;
        cluster.wait_until_held_by(vip, N1)?;
        watch.wait_until_received_by(vip, N1)?;
        wait_for_l2_status(cluster, "web", Some(N1))?;
        watch.stop()?.assert_seamless(vip);

        let page = cluster.page(N1, "/metrics")?.good()?;
        let (node, service) = (cluster.node_name(N1), cluster.full_name("web"));
        let line = format!("service=\"{service}\",protocol=\"layer2\",node=\"{node}\",ip=\"{vip}\"}} 1");
        assert!(page.contains(&line) && page.contains("config_loaded_bool 1"), "{page}");
        let of_controller = cluster.controller_page(9648, "/metrics")?.good()?;
        let said = &metrics_of_metallb(&page) | &metrics_of_metallb(&of_controller);
        let documented = fs::read_to_string(in_checkout("docs/reference/metrics.md"))?;
        let documented =
            documented.lines().filter_map(|line| line.strip_prefix("| `metallb_")?.split('`').next());
        let documented: BTreeSet<_> = documented.map(|name| format!("metallb_{name}")).collect();
        assert_eq!(said.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), documented);

        cluster.stop_delivering(vip)?;
        advertise(cluster, &role("core"), &json!(["nosuch0"]))?;
        let why =
            format!("spec.interfaces of L2Advertisement lan (for IPAddressPool lan) leaves out {SEGMENT}");
        cluster.wait_for_event("web", &[&why])?;
        wait_for_l2_status(cluster, "web", None)?;
        advertise(cluster, &role("core"), &json!([]))?;
        cluster.wait_until_held_by(vip, N1)?;
        cluster.admin().delete(&Cluster::metallb(Kind::L2_ADVERTISEMENT, "lan"))?;
        wait_for_l2_status(cluster, "web", None)?;
        assert_eq!(cluster.answered_by(vip)?, None);
        Ok(())
    })
}

/// A responder on the first node stands for a speaker: it answers for the address with the node's MAC.
#[test]
fn a_move_from_speakers_is_measured_with_the_agents_before_their_end_and_after_it() -> Result<()> {
    let options = ClusterOptions { start_agents: false, ..options() };
    scenario("mlmove", options, |cluster| {
        cluster.install_metallb()?;
        cluster.put_metallb(Kind::METALLB_POOL, "lan", &json!({"addresses": ["192.0.2.64/28"]}))?;
        cluster.put_metallb(Kind::L2_ADVERTISEMENT, "all", &json!({}))?;
        let (before, after) = (ip(70), ip(71));
        for (name, vip) in [("before", before), ("after", after)] {
            given_by_metallb(cluster, name, "", 80, vip)?;
        }
        let speak = |vip| Responder::start(&cluster.member(N1)?.host, SEGMENT, vip, N1.mac());
        let (until_held, until_now) = (speak(before)?, speak(after)?);
        let monitor = cluster.monitor(&[before, after])?;
        for vip in [before, after] {
            monitor.wait_until_answered_by(vip, N1.mac(), PATIENCE)?;
        }
        monitor.note("the speaker of the second address ends");
        until_now.stop()?;
        for id in cluster.ids() {
            cluster.start_agent(id)?;
        }
        cluster.start_controller(1, &["--metallb"])?;
        for vip in [before, after] {
            cluster.wait_until_held(vip)?;
        }
        monitor.note("the speaker of the first address ends");
        until_held.stop()?;
        std::thread::sleep(A_WHILE);
        let report = monitor.stop()?;
        let gap = |vip: Ipv4Addr| anyhow::Ok(report.vip(vip)?.longest_gap());
        let (warm, cold) = (gap(before)?, gap(after)?);
        println!("without answers: {warm:?} with agents before the end of the speaker, {cold:?} after it");
        // The speaker's node drops the requests from the time that its agent knows the Service. The
        // holder probes the address first.
        assert!(warm < Duration::from_secs(5), "{warm:?}");
        assert!(warm < cold, "{warm:?} {cold:?}");
        Ok(())
    })
}
