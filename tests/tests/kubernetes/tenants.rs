//! Services of a namespace that want the VIP of another one: they darken, move and take nothing.
//!
//! The VIPs belong to the cluster's own namespace. The tenant `b` wants them.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use vipward_tests::{
    agent::VIP,
    cluster::{Changes, Cluster, ClusterOptions, Kind, NodeId, ServiceSpec, Watch, scenario},
};

/// Time in which a fault would show.
const A_WHILE: Duration = Duration::from_secs(3);
/// Time after which a Service is older by its creation, which has whole seconds.
const OLDER: Duration = Duration::from_millis(1_100);
const THIEF: &str = "b/thief";
const NOWHERE: &str = "role=nobody";

/// Held VIPs of Services, while the tenant acts.
struct Held {
    watch: Watch,
    services: Changes,
    before: Vec<Before>,
}

/// A VIP and its claim before the tenant acts.
struct Before {
    service: &'static str,
    vip: Ipv4Addr,
    holder: NodeId,
    epoch: Option<i64>,
}

impl Held {
    /// Waits until the Services' VIPs are held, and watches them.
    fn begin(cluster: &mut Cluster, services: &[(&'static str, Ipv4Addr)]) -> Result<Self> {
        let mut before = Vec::new();
        for (service, vip) in services.iter().copied() {
            let holder = cluster.wait_until_held(vip)?;
            cluster.wait_for_ingress(service, vip)?;
            before.push(Before { service, vip, holder, epoch: cluster.epoch(vip)? });
        }
        cluster.wait_until_all_renew()?;
        let services = cluster.admin().changes(Kind::SERVICE, Some(&cluster.namespace_of("b")))?;
        let vips: Vec<_> = before.iter().map(|known| known.vip).collect();
        Ok(Self { watch: cluster.watch(&vips)?, services, before })
    }

    /// Checks that every request was answered, that nothing has moved, and that no status of the tenant has
    /// ever had a VIP.
    fn check(self, cluster: &Cluster) -> Result<()> {
        self.watch.let_pass(A_WHILE)?;
        let seen = self.watch.stop()?;
        let strange = self.services.so_far()?;
        for Before { service, vip, holder, epoch } in self.before {
            seen.assert_seamless(vip);
            assert_eq!((cluster.holder(vip)?, cluster.epoch(vip)?), (Some(holder), epoch), "{vip} has moved");
            assert_eq!(services_of(cluster, vip)?, cluster.full_name(service), "{vip} has other Services");
            assert_eq!(cluster.ingress(service)?, [vip.to_string()]);
            for change in &strange {
                let status = change.object["status"].to_string();
                assert!(!status.contains(&format!("\"{vip}\"")), "{vip} was in a status: {}", change.object);
            }
        }
        Ok(())
    }
}

fn services_of(cluster: &Cluster, vip: Ipv4Addr) -> Result<String> {
    let claim = cluster.admin().get(&cluster.virtual_ip(vip))?.context("the claim is gone")?;
    Ok(claim["spec"]["services"].as_str().unwrap_or_default().to_owned())
}

/// Creates the tenant `b` and the Service that has the VIP.
fn settle(cluster: &mut Cluster) -> Result<Held> {
    cluster.create_service(&ServiceSpec::new("web", VIP))?;
    Held::begin(cluster, &[("web", VIP)])
}

/// Waits for the refusal of the tenant's Service.
fn wait_until_refused(cluster: &Cluster) -> Result<()> {
    let owner = format!("it belongs to Service {}", cluster.full_name("web"));
    let refused = format!("{VIP} (annotation vipward.io/addresses) is not announced for this Service");
    let event = cluster.wait_for_event(THIEF, &[&refused, &owner, "vipward.io/share-with"])?;
    assert!(event.regarding.starts_with("Service "), "{event:?}");
    Ok(())
}

/// Creates the tenant and its Service without an address, then the younger one that gets the VIP.
fn settle_beside_an_older_service(cluster: &mut Cluster) -> Result<Held> {
    cluster.add_tenant("b")?;
    let thief = ServiceSpec::without_address(THIEF).port(25).annotation("vipward.io/nodes", NOWHERE);
    cluster.create_service(&thief)?;
    sleep(OLDER);
    settle(cluster)
}

#[test]
fn agents_that_all_start_anew_give_no_vip_to_an_older_service_of_another_namespace() -> Result<()> {
    scenario("anew", ClusterOptions::default(), |cluster| {
        let held = settle_beside_an_older_service(cluster)?;
        cluster.set_address(THIEF, VIP)?;
        held.watch.let_pass(A_WHILE)?;
        held.watch.step("all agents die and start again");
        for id in cluster.ids() {
            cluster.kill9(id)?;
        }
        for id in cluster.ids() {
            cluster.start_agent(id)?;
        }
        cluster.wait_until_all_renew()?;
        held.watch.let_pass(A_WHILE)?;
        held.watch.step("they end and start again, one by one");
        for id in cluster.ids().into_iter().filter(|id| *id != held.before[0].holder) {
            cluster.terminate(id)?;
            cluster.restart_agent(id)?;
        }
        wait_until_refused(cluster)?;
        held.check(cluster)
    })
}
