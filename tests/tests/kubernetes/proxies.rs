//! Nodes' service proxies: a node takes a VIP when its proxy delivers.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Result;
use serde_json::json;
use vipward_tests::{
    agent::VIP,
    cluster::{Cluster, ClusterOptions, Endpoint, N1, N2, NodeId, ServiceSpec, scenario},
};

/// `spec.healthCheckNodePort` of the Service.
const PORT: u16 = 32_101;
const HEALTH: u16 = 10_256;
/// A time in which a VIP would have moved.
const A_WHILE: Duration = Duration::from_secs(2);

/// A node's proxy: it answers at one port with one status, which a test changes.
struct Proxy(Arc<AtomicU16>);

impl Proxy {
    fn start(cluster: &Cluster, id: NodeId, port: u16, status: u16) -> Result<Self> {
        let listener = cluster.member(id)?.host.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, port)))?;
        let status = Arc::new(AtomicU16::new(status));
        let answers = Arc::clone(&status);
        // It ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = stream;
                let status = answers.load(Ordering::Relaxed);
                _ = stream.read(&mut [0; 512]);
                _ = write!(stream, "HTTP/1.1 {status} Status\r\nContent-Length: 0\r\n\r\n");
            }
        });
        Ok(Self(status))
    }

    fn answer(&self, status: u16) {
        self.0.store(status, Ordering::Relaxed);
    }
}

fn local() -> ServiceSpec {
    ServiceSpec::new("web", VIP).local().field("healthCheckNodePort", &json!(PORT))
}

#[test]
fn a_local_vip_moves_with_its_pod_when_the_new_nodes_proxy_delivers() -> Result<()> {
    scenario("behind", ClusterOptions::impatient(), |cluster| {
        let (old, new) = (Proxy::start(cluster, N1, PORT, 200)?, Proxy::start(cluster, N2, PORT, 503)?);
        cluster.set_endpoints("web", &[Endpoint::ready(N1)])?;
        cluster.create_service(&local())?;
        cluster.wait_until_held_by(VIP, N1)?;
        cluster.wait_until_all_renew()?;
        let watch = cluster.watch(&[VIP])?;

        watch.step("the pod moves, and the proxy there is behind");
        cluster.set_endpoints("web", &[Endpoint::terminating(N1), Endpoint::ready(N2)])?;
        watch.let_pass(A_WHILE)?;
        assert_eq!(cluster.holder(VIP)?, Some(N1), "the old endpoint still serves");
        // kube-proxy says that it has no ready endpoint any more, and delivers to the one that drains.
        old.answer(503);
        watch.let_pass(A_WHILE)?;
        assert_eq!(cluster.holder(VIP)?, Some(N1), "the old endpoint still serves");
        watch.step("the proxy there delivers");
        new.answer(200);
        cluster.wait_until_held_by(VIP, N2)?;
        watch.wait_until_received_by(VIP, N2)?;

        watch.step("the pod is on both, and one proxy loses it");
        old.answer(200);
        cluster.set_endpoints("web", &[Endpoint::ready(N1), Endpoint::ready(N2)])?;
        watch.let_pass(A_WHILE)?;
        new.answer(503);
        cluster.wait_until_held_by(VIP, N1)?;
        watch.wait_until_received_by(VIP, N1)?;
        watch.stop()?.assert_seamless(VIP);
        Ok(())
    })
}

#[test]
fn a_restarted_agent_keeps_its_local_vip_although_its_proxy_is_away() -> Result<()> {
    scenario("away", ClusterOptions::impatient(), |cluster| {
        let proxy = Proxy::start(cluster, N1, PORT, 200)?;
        let _other = Proxy::start(cluster, N2, PORT, 200)?;
        cluster.set_endpoints("web", &[Endpoint::ready(N1)])?;
        cluster.create_service(&local())?;
        cluster.wait_until_held_by(VIP, N1)?;
        cluster.set_endpoints("web", &[Endpoint::ready(N1), Endpoint::ready(N2)])?;
        cluster.wait_until_all_renew()?;
        let watch = cluster.watch(&[VIP])?;
        watch.step("the proxy stops, and the agent starts again");
        // A status of no proxy counts as no answer.
        proxy.answer(404);
        cluster.kill9(N1)?;
        cluster.restart_agent(N1)?;
        watch.let_pass(A_WHILE * 2)?;
        watch.stop()?.assert_seamless(VIP);
        assert_eq!(cluster.holder(VIP)?, Some(N1));
        Ok(())
    })
}

#[test]
fn no_node_takes_a_vip_before_its_proxy_was_healthy_and_an_event_says_so() -> Result<()> {
    let options = ClusterOptions { start_agents: false, ..ClusterOptions::default() };
    scenario("starting", options, |cluster| {
        let ids = cluster.ids();
        let proxies = ids.iter().map(|id| Proxy::start(cluster, *id, HEALTH, 503));
        let proxies = proxies.collect::<Result<Vec<_>>>()?;
        for id in &ids {
            cluster.start_agent(*id)?;
        }
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_for_event("web", &["its service proxy has not been healthy since it booted"])?;
        assert_eq!(cluster.holder(VIP)?, None);
        proxies[0].answer(200);
        cluster.wait_until_held_by(VIP, ids[0])?;
        // Once is enough.
        proxies[0].answer(503);
        thread::sleep(A_WHILE);
        assert_eq!(cluster.holder(VIP)?, Some(ids[0]));
        Ok(())
    })
}
