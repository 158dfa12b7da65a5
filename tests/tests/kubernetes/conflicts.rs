//! Other hosts that have or claim a VIP, and the reports to a cluster's people.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ipnet::{IpNet, Ipv4Net};
use serde_json::{Value, json};
use vipward_tests::{
    agent::{VIP, ip},
    apiserver::Verb,
    cluster::{Cluster, ClusterOptions, PATIENCE, SEGMENT, ServiceSpec, scenario},
    frames::{Arp, Family, Mac, Message},
    lan::{Flood, Wire},
};

/// Names of Services with a VIP of each family.
const SERVICES: [&str; 2] = ["web", "web6"];
/// Longest time from the force to the holding.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Returns options with short conflicts, and frequent probes for rivals.
fn options() -> ClusterOptions {
    ClusterOptions::with_args(&["--conflict-quiet", "4s", "--probe-repeat", "1s"])
}

fn bound() -> Result<Ipv4Net> {
    Ok(Ipv4Net::new(VIP, 32)?)
}

#[test]
fn an_address_that_is_in_use_is_reported_where_people_look_and_taken_when_it_is_free() -> Result<()> {
    scenario("inuse", options(), |cluster| {
        cluster.wait_until_all_renew()?;
        let rival = cluster.rogue.mac(SEGMENT)?.to_string();
        for (service, vip) in SERVICES.into_iter().zip(Family::vips()) {
            cluster.rogue.add_address(SEGMENT, IpNet::from(vip))?;
            cluster.create_service(&ServiceSpec::new(service, vip))?;
        }
        for (service, vip) in SERVICES.into_iter().zip(Family::vips()) {
            for about in notified_of(cluster, service, vip) {
                let event = cluster.wait_for_event(&about, &[&rival, "in use", "vipward.io/force"])?;
                assert_eq!(event.reason, "Conflict", "{event:?}");
            }
            let claim = cluster.wait_for_conflict(vip, "True", &rival)?;
            assert_eq!(claim["spec"]["holder"], Value::Null, "{claim:#}");
            assert!(
                claim["status"]["trouble"].as_str().is_some_and(|trouble| trouble.contains(&rival)),
                "{claim:#}"
            );
            assert!(cluster.cell(vip, "CONFLICT")?.contains(&rival));
            assert_eq!(cluster.ingress(service)?, [""; 0], "no client learns of it");
        }

        for vip in Family::vips() {
            cluster.rogue.delete_address(SEGMENT, IpNet::from(vip))?;
        }
        for (service, vip) in SERVICES.into_iter().zip(Family::vips()) {
            cluster.wait_until_held(vip)?;
            cluster.wait_for_ingress(service, vip)?;
            cluster.wait_for_conflict(vip, "False", "")?;
            let over = cluster.wait_for_event(service, &["is over", &rival])?;
            assert_eq!(over.reason, "ConflictOver", "{over:?}");
            assert_eq!(cluster.cell(vip, "CONFLICT")?, "");
        }
        Ok(())
    })
}

#[test]
fn a_vip_is_taken_by_force_at_once_when_its_object_says_so_and_not_when_a_service_does() -> Result<()> {
    scenario("force", options(), |cluster| {
        cluster.wait_until_all_renew()?;
        cluster.rogue.add_address(SEGMENT, bound()?)?;
        let service = ServiceSpec::new("web", VIP).annotation("vipward.io/force", "true");
        cluster.create_service(&service)?;
        cluster.wait_for_event("web", &["no effect on a Service", "kubectl annotate virtualip"])?;
        let rival = cluster.rogue.mac(SEGMENT)?.to_string();
        let claim = cluster.wait_for_conflict(VIP, "True", &rival)?;
        assert_eq!(claim["spec"]["holder"], Value::Null, "{claim:#}");

        let force = json!({"metadata": {"annotations": {"vipward.io/force": "true"}}});
        let began = Instant::now();
        cluster.admin().merge(&cluster.virtual_ip(VIP), &force)?;
        cluster.wait_until_held(VIP)?;
        let took = began.elapsed();
        assert!(took <= AT_ONCE, "it was held after {took:?}");
        // The agent finds and fights the rival.
        cluster.wait_for_conflict(VIP, "True", &rival)?;
        Ok(())
    })
}

#[test]
fn a_node_without_an_agent_that_answers_for_every_vip_is_reported_with_the_likely_cause() -> Result<()> {
    scenario("ipvs", options(), |cluster| {
        cluster.wait_until_all_renew()?;
        let unknown_host = cluster.add_node()?;
        let host = &cluster.member(unknown_host)?.host;
        // The kernel answers by every interface for it, as it does for those on kube-ipvs0.
        host.add_address("lo", bound()?)?;
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let node = cluster.node_name(unknown_host);
        let parts = [&unknown_host.mac().to_string(), "Perhaps", node.as_str(), "ipvs.strictARP"];
        cluster.wait_for_event("web", &parts)?;
        Ok(())
    })
}

#[test]
fn claims_on_a_held_vip_are_one_conflict_with_events_for_each_offender_and_its_end() -> Result<()> {
    const SECOND: Mac = Mac([2, 0, 0, 0, 0x0e, 0x02]);
    scenario("claims", options(), |cluster| {
        for (service, vip) in SERVICES.into_iter().zip(Family::vips()) {
            cluster.create_service(&ServiceSpec::new(service, vip))?;
        }
        for vip in Family::vips() {
            cluster.wait_until_kept(vip)?;
        }
        let monitor = cluster.monitor(&Family::vips())?;
        for vip in Family::vips() {
            monitor.wait_until_answered(vip, PATIENCE)?;
        }
        let wire = Wire::open(&cluster.rogue, SEGMENT)?;
        let first = cluster.rogue.mac(SEGMENT)?;
        for vip in Family::vips() {
            for _ in 0..5 {
                wire.send(&Message::announcement(first, vip).to_bytes())?;
            }
        }
        for (service, vip) in SERVICES.into_iter().zip(Family::vips()) {
            let began = cluster.wait_for_event(service, &[&first.to_string(), "who-has"])?;
            assert_eq!(began.reason, "Conflict", "{began:?}");
            cluster.wait_for_conflict(vip, "True", &first.to_string())?;
            wire.send(&Message::announcement(SECOND, vip).to_bytes())?;
        }
        for (service, vip) in SERVICES.into_iter().zip(Family::vips()) {
            let grown = cluster.wait_for_event(service, &[&first.to_string(), &SECOND.to_string()])?;
            assert_eq!(grown.reason, "ConflictGrows", "{grown:?}");
            let claim = cluster.wait_for_conflict(vip, "True", &SECOND.to_string())?;
            let conflict = claim["status"]["conflict"].as_str();
            assert!(conflict.is_some_and(|text| text.contains(&first.to_string())), "{claim:#}");
        }
        for (service, vip) in SERVICES.into_iter().zip(Family::vips()) {
            cluster.wait_for_conflict(vip, "False", "")?;
            let over = cluster.wait_for_event(service, &["is over", &SECOND.to_string(), "6 claims"])?;
            assert_eq!(over.reason, "ConflictOver", "{over:?}");
            let about = cluster.events_about(service)?;
            let conflicts = about.iter().filter(|event| event.reason.starts_with("Conflict"));
            assert_eq!(conflicts.count(), 3, "{about:#?}");
        }
        let report = monitor.stop()?;
        for vip in Family::vips() {
            let wire = report.vip(vip)?;
            assert!(wire.gaps().is_empty() && wire.doubles().is_empty(), "{vip}: {report}");
        }
        Ok(())
    })
}

#[test]
fn a_conflict_that_is_taken_off_the_claim_is_shown_again_and_the_next_agent_ends_it() -> Result<()> {
    scenario("offclaim", options(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_kept(VIP)?;
        cluster.rogue.add_address(SEGMENT, bound()?)?;
        let rival = cluster.rogue.mac(SEGMENT)?.to_string();
        cluster.wait_for_conflict(VIP, "True", &rival)?;
        // An edit by hand does this, and so does a restore of an older store.
        let none = json!({"status": {"conflict": null, "conditions": []}});
        let edited = cluster.admin().merge(&cluster.virtual_ip(VIP), &none)?;
        assert_eq!(Cluster::conflict_of(&edited), None);
        cluster.wait_for_conflict(VIP, "True", &rival)?;

        cluster.rogue.delete_address(SEGMENT, bound()?)?;
        cluster.kill9(holder)?;
        cluster.restart_agent(holder)?;
        cluster.wait_for_conflict(VIP, "False", "")?;
        cluster.wait_for_event("web", &["is over", " of it for 4s"])?;
        assert_eq!(cluster.holder(VIP)?, Some(holder));
        Ok(())
    })
}

/// Returns the names of the objects with new Events about the VIP. On a shared server, earlier
/// tests have left the same Events about the claim.
fn notified_of(cluster: &Cluster, service: &str, vip: impl Into<IpAddr>) -> Vec<String> {
    let claim = (!cluster.api().is_shared()).then(|| cluster.virtual_ip(vip).name);
    [service.to_owned()].into_iter().chain(claim).collect()
}

/// Returns the number of the agents' requests, and the number of those that read one claim.
fn requests(cluster: &mut Cluster) -> Result<(u64, u64)> {
    let agents: Vec<String> = cluster.ids().into_iter().map(|id| cluster.user_of(id)).collect();
    let stats = cluster.api_mut().in_this_process().context("the API server is in this process")?.stats();
    let all = stats.count(|kind| agents.contains(&kind.user));
    let reads = |verb, resource: &str| verb == Verb::Get && resource == "virtualips";
    Ok((all, stats.count(|kind| agents.contains(&kind.user) && reads(kind.verb, &kind.resource))))
}

#[test]
fn forged_claims_in_a_peers_name_on_many_vips_make_few_requests_and_silence_none() -> Result<()> {
    const VIPS: u8 = 60;
    const SECONDS: u64 = 8;
    /// Reads of contested claims in a second, of each node (docs/internals/ownership.md).
    const READS: u64 = 5;
    /// Each VIP is contested more often than the program reports it (10 times a second).
    const RATE: u32 = 20 * VIPS as u32;
    let options = ClusterOptions { api_in_process: true, ..ClusterOptions::default() };
    scenario("forged", options, |cluster| {
        let vips: Vec<Ipv4Addr> = (0..VIPS).map(|number| ip(100 + number)).collect();
        for vip in &vips {
            cluster.create_service(&ServiceSpec::new(&format!("web{}", vip.octets()[3]), *vip))?;
        }
        let holders = vips.iter().map(|vip| cluster.wait_until_held(*vip)).collect::<Result<Vec<_>>>()?;
        cluster.wait_until_all_renew()?;
        let watched = &vips[..2];
        let before = watched.iter().map(|vip| cluster.epoch(*vip)).collect::<Result<Vec<_>>>()?;
        let claims = vips.iter().zip(&holders).map(|(vip, holder)| {
            let peer = cluster.ids().into_iter().find(|id| id != holder).context("no peer")?.mac();
            // With the peer's own source address, the switch would send the peer's frames here.
            Ok(Arp { eth_src: cluster.rogue.mac(SEGMENT)?, ..Arp::gratuitous_reply(peer, *vip, peer) })
        });
        let claims = claims.collect::<Result<Vec<_>>>()?;
        // A client without an agent believes the claims, so no datagrams are sent.
        let watch = cluster.monitor(watched)?;
        let before_flood = requests(cluster)?;

        watch.note("claims in the name of peers begin");
        let flood = Flood::start(&cluster.rogue, SEGMENT, claims.iter().map(Arp::to_bytes), RATE)?;
        thread::sleep(Duration::from_secs(SECONDS));
        let sent = flood.stop()?;
        watch.note("and end");
        let now = requests(cluster)?;
        let (all, reads) = (now.0 - before_flood.0, now.1 - before_flood.1);
        let seen = watch.stop()?;
        eprintln!("{sent} claims in {SECONDS} s: {all} requests, of which {reads} read a claim");
        assert!(sent >= u64::from(RATE) * SECONDS / 2, "this was no flood: {sent} claims");
        let nodes = u64::try_from(holders.iter().collect::<BTreeSet<_>>().len())?;
        let most = nodes * READS * (SECONDS + 1);
        assert!((1..=most).contains(&reads), "{reads} reads of claims by {nodes} nodes, at most {most}");
        // Besides, each of three nodes renews its Lease every second.
        assert!(all - reads <= 3 * SECONDS * 2, "{all} requests, of which {reads} read a claim");
        for vip in watched {
            let wire = seen.vip(*vip)?;
            assert!(
                wire.answered() > 0 && wire.gaps().is_empty(),
                "{vip} was not answered throughout: {seen}"
            );
        }
        assert_eq!(watched.iter().map(|vip| cluster.epoch(*vip)).collect::<Result<Vec<_>>>()?, before);
        let after = vips.iter().map(|vip| cluster.holder(*vip)).collect::<Result<Vec<_>>>()?;
        assert_eq!(after, holders.into_iter().map(Some).collect::<Vec<_>>());
        Ok(())
    })
}
