//! The cluster that is measured, and its changes.

use std::collections::BTreeMap;
use std::env;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ipnet::Ipv4Net;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{
    health::is_ready,
    objects,
    pins::Outstanding,
    survey::{Answers, Surveyor},
};
use crate::host::peak_resident_bytes;
use vipward_tests::{
    apiserver::{ApiServer, RequestKind, Stats, Verb},
    cluster::{Cluster, ClusterOptions, Kind, NodeId, Object, SEGMENT},
    kit::interrupt,
};

/// Time between two checks of work in progress.
const LOOK: Duration = Duration::from_millis(20);
/// Limit of every wait. Nothing takes that long.
const LIMIT: Duration = Duration::from_mins(4);
/// Longest time for which an agent keeps Events about moves.
const EVENTS_WAIT: Duration = Duration::from_mins(5);
/// Least size of a Service in bytes, so that it is like one of a real cluster.
const LEAST_BYTES: usize = 2_048;
/// Services whose size is checked.
const SAMPLES: u32 = 20;

/// Requests at a time for what is not measured.
pub(super) const MEANWHILE: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    pub(super) services: u32,
    /// Services that are changed, one after the other.
    pub(super) changes: u32,
    /// Duration of the watch for requests when nothing changes.
    pub(super) calm: Duration,
}

impl Effort {
    pub(super) const WHOLE: Self = Self { services: 10_000, changes: 200, calm: Duration::from_secs(30) };
    pub(super) const QUICK: Self = Self { services: 500, changes: 100, calm: Duration::from_secs(10) };
}

/// Three agents, their API server, and thousands of Services.
pub(super) struct Scene {
    pub(super) cluster: Cluster,
    pub(super) effort: Effort,
    /// The VIP of each Service, by the Service's number.
    pub(super) vips: Vec<Ipv4Addr>,
    /// VIPs that were in use at some time.
    used: u32,
    /// The most memory that any agent has used in the lives that are over, in bytes.
    peak: f64,
    pub(super) cold: Option<Duration>,
}

/// How the nodes notice that one is dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Noticed {
    ByTheLease,
    OnTheWire,
}

/// Writes of the agents, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Writes {
    pub(super) new_claims: u64,
    pub(super) changed_claims: u64,
    pub(super) statuses: u64,
    pub(super) leases: u64,
    pub(super) events: u64,
    pub(super) other: u64,
}

impl Scene {
    /// Returns the cluster and its objects; no agent runs.
    pub(super) fn new(effort: Effort, noticed: Noticed) -> Result<Self> {
        // With this pace, a node that comes last gets its share within seconds. Probes are
        // off: they would add 700 ms to the agreement of the nodes, which is measured here.
        // On a real API server the defaults are measured.
        let args = ["--handover-pace", "2ms", "--probe-count", "0"].map(str::to_owned);
        let mut args = if env::var_os("KUBECONFIG").is_some() { Vec::new() } else { args.to_vec() };
        args.extend((noticed == Noticed::OnTheWire).then(|| "--wire=1".to_owned()));
        let options = ClusterOptions { start_agents: false, args, ..ClusterOptions::default() };
        let cluster = Cluster::start("scale", options)?;
        for id in cluster.ids() {
            let [.., host] = id.address().octets();
            cluster.member(id)?.host.add_address(SEGMENT, segment(host)?)?;
        }
        cluster.observer.add_address(SEGMENT, segment(OBSERVER)?)?;
        let vips = (0..effort.services).map(vip).collect();
        let mut scene = Self { cluster, effort, vips, used: effort.services, peak: 0.0, cold: None };
        scene.load()?;
        if noticed == Noticed::OnTheWire {
            scene.cluster.make_wire_key()?;
        }
        Ok(scene)
    }

    fn load(&mut self) -> Result<()> {
        let namespace = self.cluster.namespace().to_owned();
        let nodes: Vec<_> = self.cluster.ids().into_iter().map(|id| self.cluster.node_name(id)).collect();
        let vips = self.vips.clone();
        let (mut manifests, mut statuses) = (Vec::new(), Vec::new());
        for (number, vip) in (0..).zip(vips) {
            let service = objects::service(number, &namespace, vip);
            if let Some(status) = service.get("status") {
                statuses.push((Object::of(&service)?, json!({"status": status})));
            }
            manifests.extend([service, objects::slice(number, &namespace, &nodes)]);
        }
        if let Ok(server) = self.server() {
            manifests.into_iter().try_for_each(|manifest| server.load_object(manifest))?;
        } else {
            let admin = self.cluster.admin();
            admin.create_all("package-manager", &manifests, MEANWHILE)?;
            admin.merge_statuses(objects::ADDRESS_MANAGER, &statuses, MEANWHILE)?;
        }
        for number in (0..self.effort.services).take(usize::try_from(SAMPLES)?) {
            let bytes = self.service_bytes(number)?;
            ensure!(bytes >= LEAST_BYTES, "a Service of {bytes} bytes is too small to be measured with");
        }
        Ok(())
    }

    /// Returns the size of a Service's object, as the API server sends it.
    pub(super) fn service_bytes(&self, number: u32) -> Result<usize> {
        let object = self.cluster.service(&objects::name(number));
        let service = self.cluster.admin().get(&object)?.with_context(|| format!("{object} is not there"))?;
        ensure!(service["metadata"]["managedFields"].is_array(), "{object} has no managed fields");
        Ok(service.to_string().len())
    }

    pub(super) fn server(&mut self) -> Result<&mut ApiServer> {
        let server = self.cluster.api_mut().in_this_process();
        server.context("what is asked of a real API server cannot be counted: unset KUBECONFIG")
    }

    /// Returns the agents' requests since the last reset.
    pub(super) fn stats(&mut self) -> Result<Stats> {
        let users: Vec<_> = self.cluster.ids().into_iter().map(|id| self.cluster.user_of(id)).collect();
        let mut stats = self.server()?.stats();
        stats.requests.retain(|kind, _| users.contains(&kind.user));
        stats.delivered.retain(|(user, _), _| users.contains(user));
        Ok(stats)
    }

    pub(super) fn writes(&mut self) -> Result<Writes> {
        Ok(Writes::of(&self.stats()?))
    }

    pub(super) fn start_agents(&mut self) -> Result<()> {
        self.cluster.ids().into_iter().try_for_each(|id| self.cluster.start_agent(id))
    }

    /// Sends SIGTERM to all agents that run at once, as at the end
    /// of a rollout's step. Waits until they have ended.
    pub(super) fn stop_agents(&mut self) -> Result<()> {
        const ENDING: Duration = Duration::from_secs(30);
        self.record_memory()?;
        let mut running = Vec::new();
        for id in self.cluster.ids() {
            if self.cluster.member_mut(id)?.agent_runs()? {
                self.cluster.member_mut(id)?.agent_mut()?.signal(Signal::SIGTERM)?;
                running.push(id);
            }
        }
        for id in running {
            self.cluster.member_mut(id)?.agent_mut()?.wait(ENDING)?;
        }
        Ok(())
    }

    pub(super) fn pids(&mut self) -> Result<Vec<u32>> {
        let mut pids = Vec::new();
        for id in self.cluster.ids() {
            let member = self.cluster.member_mut(id)?;
            if member.agent_runs()? {
                pids.push(member.agent_mut()?.pid()?);
            }
        }
        Ok(pids)
    }

    /// Takes the peak memory of the agents that run into account, before they end.
    pub(super) fn record_memory(&mut self) -> Result<()> {
        for pid in self.pids()? {
            self.peak = self.peak.max(peak_resident_bytes(pid)?);
        }
        Ok(())
    }

    /// Returns the most memory that any agent has used.
    pub(super) fn peak(&self) -> f64 {
        self.peak
    }

    /// Waits until each VIP is held by one of these nodes, and returns when that was and which
    /// holds which.
    pub(super) fn wait_until_held(
        &mut self,
        nodes: &[NodeId],
        vips: &[Ipv4Addr],
        mut meanwhile: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<(Instant, BTreeMap<Ipv4Addr, NodeId>)> {
        let mut outstanding = Outstanding::new(nodes.to_vec(), vips.to_vec());
        let waited = interrupt::wait(LIMIT, &format!("{} VIPs to be held", vips.len()), || {
            self.expect_running(nodes)?;
            let held = outstanding
                .read_holders(&self.cluster)?
                .map(|held| (Instant::now(), held.iter().copied().collect()));
            meanwhile(self)?;
            if held.is_none() {
                thread::sleep(LOOK);
            }
            Ok(held)
        });
        waited.with_context(|| format!("{} are not known to be held", outstanding.left()))
    }

    /// Waits until all agents report that they are ready, and returns the time.
    pub(super) fn wait_until_ready(&mut self) -> Result<Instant> {
        let mut waiting = self.cluster.ids();
        interrupt::wait(LIMIT, "all agents to be ready", || {
            self.expect_running(&waiting)?;
            let mut left = Vec::new();
            for id in &waiting {
                if !is_ready(&self.cluster.member(*id)?.host) {
                    left.push(*id);
                }
            }
            waiting = left;
            if waiting.is_empty() {
                return Ok(Some(Instant::now()));
            }
            thread::sleep(LOOK);
            Ok(None)
        })
    }

    fn expect_running(&mut self, nodes: &[NodeId]) -> Result<()> {
        for id in nodes {
            ensure!(self.cluster.member_mut(*id)?.agent_runs()?, "the agent on {id} has ended");
        }
        Ok(())
    }

    /// Waits until the agents have written nothing but renewals and Events for a while. A node
    /// writes one Event a second for minutes after very many changes.
    pub(super) fn wait_until_calm(&mut self) -> Result<()> {
        self.wait_until_unchanged(LIMIT, "the agents to write nothing but renewals and Events", |writes| {
            Writes { leases: 0, events: 0, ..writes }
        })
    }

    /// Waits until the agents have written nothing but renewals for a while.
    pub(super) fn wait_until_silent(&mut self) -> Result<()> {
        self.wait_until_unchanged(LIMIT + EVENTS_WAIT, "the agents to write nothing but renewals", |writes| {
            Writes { leases: 0, ..writes }
        })
    }

    fn wait_until_unchanged(
        &mut self,
        limit: Duration,
        what: &str,
        counted: fn(Writes) -> Writes,
    ) -> Result<()> {
        const CALM: Duration = Duration::from_secs(3);
        let mut last = (counted(self.writes()?), Instant::now());
        interrupt::wait(limit, what, || {
            let now = counted(self.writes()?);
            if now != last.0 {
                last = (now, Instant::now());
            }
            thread::sleep(LOOK);
            Ok((last.1.elapsed() >= CALM).then_some(()))
        })
    }

    pub(super) fn surveyor(&self) -> Result<Surveyor> {
        Surveyor::new(&self.cluster, segment(OBSERVER)?.addr())
    }

    pub(super) fn sweep(&self) -> Result<Answers> {
        self.surveyor()?.sweep(&self.vips)
    }

    /// Returns a VIP that was never in use.
    pub(super) fn unused_vip(&mut self) -> Ipv4Addr {
        self.used += 1;
        vip(self.used - 1)
    }

    pub(super) fn claims(&self) -> Result<Vec<Value>> {
        self.cluster.admin().list(Kind::VIRTUAL_IP, None)
    }

    /// Returns how many VIPs each node holds, by their claims.
    pub(super) fn shares(&self) -> Result<BTreeMap<String, usize>> {
        let mut held = BTreeMap::new();
        for claim in self.claims()? {
            if let Value::String(holder) = &claim["spec"]["holder"] {
                *held.entry(holder.clone()).or_default() += 1;
            }
        }
        Ok(held)
    }

    /// Waits until no node holds many more VIPs than its share.
    pub(super) fn wait_until_shared(&self) -> Result<()> {
        const MOST: f64 = 1.1;
        let share = f64::from(self.effort.services) / f64::from(u32::try_from(self.cluster.ids().len())?);
        interrupt::wait(LIMIT, "the nodes to share the VIPs", || {
            let most = self.shares()?.into_values().max().unwrap_or_default();
            thread::sleep(LOOK);
            Ok((f64::from(u32::try_from(most)?) <= share * MOST).then_some(()))
        })
    }

    /// Returns the last lines of each agent's log, for failure messages.
    pub(super) fn logs(&self) -> String {
        const LINES: usize = 20;
        let log = |id: NodeId| {
            let agent = self.cluster.member(id).ok()?.agent()?;
            Some(format!("=== log of {id}\n{}\n", agent.log_tail(LINES)))
        };
        self.cluster.ids().into_iter().filter_map(log).collect()
    }
}

impl Writes {
    pub(super) fn of(stats: &Stats) -> Self {
        let count = |resource: &str, wanted: fn(Verb) -> bool| {
            stats.count(|kind: &RequestKind| {
                kind.resource == resource && kind.verb.is_write() && wanted(kind.verb)
            })
        };
        let all = |_: Verb| true;
        let mut writes = Self {
            new_claims: count("virtualips", |verb| verb == Verb::Create),
            changed_claims: count("virtualips", |verb| verb != Verb::Create),
            statuses: count("services/status", all),
            leases: count("leases", all),
            events: count("events", all),
            other: 0,
        };
        let Self { new_claims, changed_claims, statuses, leases, events, other: _ } = writes;
        writes.other = stats.writes() - new_claims - changed_claims - statuses - leases - events;
        writes
    }
}

/// The last number of the observer's address.
const OBSERVER: u8 = 2;

/// Returns an address in the subnet of the VIPs.
pub(super) fn segment(host: u8) -> Result<Ipv4Net> {
    Ok(Ipv4Net::new(Ipv4Addr::new(10, 64, 0, host), 16)?)
}

/// Returns the VIP with this number. The first is 10.64.1.0.
fn vip(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 64, 1, 0)) + number)
}
