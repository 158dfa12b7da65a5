//! Services of a namespace that want the VIP of another one: they darken, move and take nothing.
//!
//! The VIPs belong to the cluster's own namespace. The tenant `b` is the stranger.

use std::env;
use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use serde_json::{Value, json};
use vipward_tests::{
    agent::{VIP, ip},
    cluster::{
        Changes, Cluster, ClusterOptions, Endpoint, Kind, N1, N2, N3, NodeId, ServiceSpec, Watch, scenario,
    },
};

const SECOND: Ipv4Addr = ip(20);
/// Time in which a fault would show.
const A_WHILE: Duration = Duration::from_secs(3);
/// Time after which a Service is older by its creation, which has whole seconds.
const OLDER: Duration = Duration::from_millis(1_100);
const THIEF: &str = "b/thief";
const NOWHERE: &str = "role=nobody";

/// VIPs of Services that are held, while a stranger acts.
struct Held {
    watch: Watch,
    services: Changes,
    before: Vec<Before>,
}

/// A VIP and its claim before the stranger acts.
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

    /// Checks that every request was answered, that nothing has
    /// moved, and that no status of the stranger has ever had a VIP.
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

/// The environment variable with the seed of the random steps.
const SEED: &str = "VIPWARD_TEST_SEED";

fn services_of(cluster: &Cluster, vip: Ipv4Addr) -> Result<String> {
    let claim = cluster.admin().get(&cluster.virtual_ip(vip))?.context("the claim is gone")?;
    Ok(claim["spec"]["services"].as_str().unwrap_or_default().to_owned())
}

/// Creates the tenant `b` and the Service that has the VIP.
fn settle(cluster: &mut Cluster) -> Result<Held> {
    cluster.create_service(&ServiceSpec::new("web", VIP))?;
    Held::begin(cluster, &[("web", VIP)])
}

/// Waits for the refusal of the stranger's Service.
fn wait_until_refused(cluster: &Cluster) -> Result<()> {
    let owner = format!("it belongs to Service {}", cluster.full_name("web"));
    let refused = format!("{VIP} (annotation vipward.io/addresses) is not announced for this Service");
    let event = cluster.wait_for_event(THIEF, &[&refused, &owner, "vipward.io/share-with"])?;
    assert!(event.regarding.starts_with("Service "), "{event:?}");
    Ok(())
}

#[test]
fn a_service_of_another_namespace_that_no_node_may_announce_darkens_no_vip() -> Result<()> {
    scenario("nobody", ClusterOptions::default(), |cluster| {
        cluster.add_tenant("b")?;
        let held = settle(cluster)?;
        held.watch.step("a stranger asks for it, for no node");
        let thief = ServiceSpec::new(THIEF, VIP).port(25).annotation("vipward.io/nodes", NOWHERE);
        cluster.create_service(&thief)?;
        wait_until_refused(cluster)?;
        held.check(cluster)
    })
}

#[test]
fn a_local_service_of_another_namespace_with_its_pod_elsewhere_moves_no_vip() -> Result<()> {
    scenario("elsewhere", ClusterOptions::default(), |cluster| {
        cluster.add_tenant("b")?;
        let held = settle(cluster)?;
        let holder = held.before[0].holder;
        let other = cluster.ids().into_iter().find(|id| *id != holder).context("there are three")?;
        held.watch.step("a stranger asks for it, with its Pod elsewhere");
        cluster.set_endpoints(THIEF, &[Endpoint::ready(other)])?;
        cluster.create_service(&ServiceSpec::new(THIEF, VIP).port(25).local())?;
        wait_until_refused(cluster)?;
        held.check(cluster)
    })
}

/// Creates the tenant and its Service without an address, then the younger one that gets the VIP.
fn settle_beside_an_older_stranger(cluster: &mut Cluster) -> Result<Held> {
    cluster.add_tenant("b")?;
    let thief = ServiceSpec::without_address(THIEF).port(25).annotation("vipward.io/nodes", NOWHERE);
    cluster.create_service(&thief)?;
    sleep(OLDER);
    settle(cluster)
}

#[test]
fn an_older_service_of_another_namespace_that_asks_later_gets_no_vip() -> Result<()> {
    scenario("older", ClusterOptions::default(), |cluster| {
        let held = settle_beside_an_older_stranger(cluster)?;
        held.watch.step("an older Service asks for it");
        cluster.set_address(THIEF, VIP)?;
        wait_until_refused(cluster)?;
        held.check(cluster)
    })
}

#[test]
fn agents_that_all_start_anew_give_no_vip_to_an_older_service_of_another_namespace() -> Result<()> {
    scenario("anew", ClusterOptions::default(), |cluster| {
        let held = settle_beside_an_older_stranger(cluster)?;
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

#[test]
fn whatever_another_namespace_does_leaves_the_vips_where_they_are() -> Result<()> {
    const STEPS: usize = 100;
    scenario("hostile", ClusterOptions::default(), |cluster| {
        cluster.add_tenant("b")?;
        let share = |service: ServiceSpec| service.annotation("vipward.io/share", "front");
        cluster.create_service(&share(ServiceSpec::new("web", VIP)))?;
        cluster.set_endpoints("mail", &[Endpoint::ready(N2)])?;
        cluster.create_service(&share(ServiceSpec::new("mail", SECOND).local().port(25)))?;
        let held = Held::begin(cluster, &[("web", VIP), ("mail", SECOND)])?;
        let seed = match env::var(SEED) {
            Ok(text) => text.parse().with_context(|| format!("{SEED} is {text:?}, and no number"))?,
            Err(_) => 1,
        };
        eprintln!("to have these steps again: {SEED}={seed}");
        let mut stranger = Stranger { rng: Rng::with_seed(seed) };
        for step in 0..STEPS {
            let done = stranger.act(cluster)?;
            held.watch.step(format!("{step}: {done}"));
            held.watch.let_pass(Duration::from_millis(stranger.rng.u64(0..100)))?;
        }
        held.check(cluster)
    })
}

/// A namespace that does anything that may do harm.
struct Stranger {
    rng: Rng,
}

impl Stranger {
    /// Creates, changes or deletes one Service, and returns what was done.
    fn act(&mut self, cluster: &Cluster) -> Result<String> {
        let name = format!("b/{}", self.one(&["s0", "s1", "s2", "s3", "s4", "s5"]));
        if cluster.admin().get(&cluster.service(&name))?.is_none() {
            let service = self.service(&name);
            cluster.create_service(&service)?;
            return Ok(format!("{service:?}"));
        }
        Ok(match self.rng.u8(0..8) {
            0 => {
                ensure!(cluster.delete_service(&name)?, "{name} was there above");
                format!("{name} is deleted")
            }
            1 | 2 => {
                let node = self.one(&[N1, N2, N3]);
                cluster.set_endpoints(&name, &[Endpoint::ready(node)])?;
                format!("{name} has a Pod on {node}")
            }
            3 => {
                let policy = self.one(&["Local", "Cluster"]);
                cluster.set_policy(&name, policy)?;
                format!("{name} is {policy}")
            }
            4 => {
                let port = self.one(&[25, 80, 443]);
                let ports = json!([{"name": "port", "protocol": "TCP", "port": port}]);
                cluster.patch_service(&name, &json!({"spec": {"ports": ports}}))?;
                format!("{name} has port {port}")
            }
            _ => {
                let (key, value) = self.annotation();
                let value = Some(value).filter(|_| self.rng.u8(0..4) > 0);
                cluster.annotate_service(&name, key, value.as_deref())?;
                format!("{name} has {key}: {value:?}")
            }
        })
    }

    fn service(&mut self, name: &str) -> ServiceSpec {
        let addresses = self.addresses();
        let mut service = ServiceSpec::without_address(name).port(self.one(&[25, 80, 443]));
        service = match self.rng.u8(0..6) {
            0 => service.field("loadBalancerIP", &Value::from(self.one(&[VIP, SECOND]).to_string())),
            1 => service.field("externalIPs", &json!([VIP.to_string(), SECOND.to_string()])),
            _ => service.annotation("vipward.io/addresses", &addresses),
        };
        for _ in 0..self.rng.u8(0..4) {
            let (key, value) = self.annotation();
            service = service.annotation(key, &value);
        }
        if self.rng.bool() { service.local() } else { service }
    }

    fn addresses(&mut self) -> String {
        let both = format!("{VIP},{SECOND}");
        let many = format!("8.8.8.8,{SECOND},{},{VIP},0.0.0.0", ip(60));
        self.one(&[VIP.to_string(), SECOND.to_string(), both, many])
    }

    fn annotation(&mut self) -> (&'static str, String) {
        let addresses = self.addresses();
        let others = [
            ("vipward.io/nodes", NOWHERE),
            ("vipward.io/nodes", "kubernetes.io/hostname=n3"),
            ("vipward.io/nodes", "not a ( selector"),
            ("vipward.io/preferred-nodes", "kubernetes.io/hostname=n1"),
            ("vipward.io/interface", "bond*"),
            ("vipward.io/interface", "*"),
            ("vipward.io/share", "front"),
            ("vipward.io/share", ""),
            ("vipward.io/share-with", "*"),
            ("vipward.io/force", "true"),
            ("vipward.io/ignore", "true"),
            ("vipward.io/addresses", "192.0.2.300"),
        ];
        match self.rng.u8(0..3) {
            0 => ("vipward.io/addresses", addresses),
            1 => ("kube-vip.io/loadbalancerIPs", addresses),
            _ => {
                let (key, value) = self.one(&others);
                (key, value.to_owned())
            }
        }
    }

    fn one<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.rng.usize(..choices.len())].clone()
    }
}
