//! Runs a cluster: nodes in network namespaces whose agents
//! share an API server, with a client and an observer.
//!
//! ```text
//!   client .1   observer .2   rogue .3        n1 .11   n2 .12   n3 .13
//!      └────────────┴────────────┴── eth0 ───────┴────────┴────────┘      the segment of the VIPs:
//!                                                │        │        │       192.0.2.0/24, 2001:db8::/64
//!                                                │        │        │
//!                     control .1 ──── mgmt0 ─────┴────────┴────────┘      198.51.100.0/24
//!                        └── forwarder ── API server, in this process or the one of KUBECONFIG
//! ```
//! A scenario reads as a table of steps. This one kills an agent for good:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use vipward_tests::cluster::{ClusterOptions, ServiceSpec, scenario};
//! # use vipward_tests::scene::VIP;
//! # fn main() -> anyhow::Result<()> {
//! scenario("crash", ClusterOptions::default(), |cluster| {
//!     cluster.create_service(&ServiceSpec::new("web", VIP))?;
//!     let old = cluster.wait_until_held(VIP)?;
//!     let watch = cluster.watch(&[VIP])?;
//!
//!     let crashed = watch.step(format!("kill -9 on {old}"));
//!     cluster.kill9(old)?;
//!     let new = cluster.wait_until_held_by_another(VIP, old)?;
//!     watch.wait_until_received_by(VIP, new)?;
//!
//!     let seen = watch.stop()?;
//!     seen.assert_flows_again(VIP, crashed, cluster.options().failover_limit());
//!     seen.assert_no_doubles_after_announcement(VIP, new, crashed);
//!     Ok(())
//! })
//! # }
//! ```
//! This one cordons a node, which no client may notice:
//!
//! ```no_run
//! # use vipward_tests::cluster::{ClusterOptions, ServiceSpec, scenario};
//! # use vipward_tests::scene::VIP;
//! # fn main() -> anyhow::Result<()> {
//! scenario("cordon", ClusterOptions::default(), |cluster| {
//!     cluster.create_service(&ServiceSpec::new("web", VIP))?;
//!     let old = cluster.wait_until_held(VIP)?;
//!     let watch = cluster.watch(&[VIP])?;
//!     watch.step(format!("cordon {old}"));
//!     cluster.cordon(old)?;
//!     let new = cluster.wait_until_held_by_another(VIP, old)?;
//!     watch.wait_until_received_by(VIP, new)?;
//!     watch.stop()?.assert_seamless(VIP);
//!     Ok(())
//! })
//! # }
//! ```
//! This one cuts all nodes off from the API server, which must change nothing:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use vipward_tests::cluster::{ClusterOptions, ServiceSpec, scenario};
//! # use vipward_tests::scene::VIP;
//! # fn main() -> anyhow::Result<()> {
//! scenario("outage", ClusterOptions::default(), |cluster| {
//!     cluster.create_service(&ServiceSpec::new("web", VIP))?;
//!     let holder = cluster.wait_until_held(VIP)?;
//!     let watch = cluster.watch(&[VIP])?;
//!     watch.step("no node reaches the API server");
//!     cluster.cut_everyone_off();
//!     watch.let_pass(Duration::from_secs(30))?;
//!     watch.step("everybody does again");
//!     cluster.heal()?;
//!     for id in cluster.ids() {
//!         cluster.wait_until_renewing(id)?;
//!     }
//!     let seen = watch.stop()?;
//!     seen.assert_seamless(VIP);
//!     assert_eq!(cluster.holder(VIP)?, Some(holder));
//!     Ok(())
//! })
//! # }
//! ```

pub mod admin;
pub mod api;
mod controllers;
pub mod forwarder;
mod install;
mod members;
mod objects;
mod tenants;
mod watch;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ipnet::Ipv4Net;
use serde_json::Value;
use tempfile::NamedTempFile;

pub use members::Member;
pub use objects::{Endpoint, EventNote, ServiceSpec};
pub use watch::{Seen, Watch};

use crate::agent::AgentOptions;
use crate::arp::Mac;
use crate::bpffs::Bpffs;
use crate::family::Family;
use crate::interrupt;
use crate::lan::{Host, Lan, Nic};
use crate::process::Process;
use crate::scene::{ip, net};

use admin::{Admin, Kind, Object};
use api::{ClusterApi, Saved};
use controllers::{MOST_CONTROLLERS, controller_name};
use forwarder::{Cut, Forwarder};
use install::{ACCOUNT, CONTROLLER, Installation};

/// Interface on the segment of the VIPs.
pub const SEGMENT: &str = "eth0";
/// Interface towards the API server.
pub const MANAGEMENT: &str = "mgmt0";
/// Time limit of everything that no test delays on purpose.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// First node.
pub const N1: NodeId = NodeId(1);
/// Second node.
pub const N2: NodeId = NodeId(2);
/// Third node.
pub const N3: NodeId = NodeId(3);

/// Most nodes of a cluster: their addresses are .11 to .19.
const MOST_NODES: u8 = 9;
const API_PORT: u16 = 6443;
const CONTROL: Ipv4Addr = management_ip(1);
/// Pause between two looks at the API server or a process.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Number of objects that are removed from a shared API server at a time.
const REMOVED_AT_ONCE: usize = 8;
/// Number of an agent's last log lines in a failure.
const LOG_TAIL: usize = 60;

/// Node, by its number from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u8);

impl NodeId {
    /// Returns the node's MAC on the segment.
    pub fn mac(self) -> Mac {
        Mac([0x02, 0, 0, 0, 0x01, self.0])
    }

    /// Returns the node's address on the segment.
    pub fn address(self) -> Ipv4Addr {
        ip(10 + self.0)
    }

    /// Returns the node's address of a family on the segment.
    pub fn address_in(self, family: Family) -> IpAddr {
        family.ip(10 + self.0)
    }

    /// Returns the node's address towards the API server.
    pub fn management_address(self) -> Ipv4Addr {
        management_ip(10 + self.0)
    }
}

/// The name of its host.
impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// Options of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterOptions {
    /// Number of nodes, at most nine.
    pub nodes: u8,
    /// True for an API server in this process, even with `KUBECONFIG`.
    pub api_in_process: bool,
    /// True if the agents are started.
    pub start_agents: bool,
    /// True if the agents leave the statuses to a controller. The scenario starts it.
    pub with_controller: bool,
    /// Further arguments of every agent, besides the times below.
    pub args: Vec<String>,
    /// Further environment variables of every agent.
    pub env: Vec<(String, String)>,
    /// Binary of the agents, unless the default.
    pub binary: Option<PathBuf>,
    /// `--lease-duration`
    pub lease: Duration,
    /// `--lease-renewal`
    pub renewal: Duration,
    /// `--margin`
    pub margin: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            nodes: 3,
            api_in_process: false,
            start_agents: true,
            with_controller: false,
            args: Vec::new(),
            env: Vec::new(),
            binary: None,
            lease: Duration::from_secs(4),
            renewal: Duration::from_secs(1),
            margin: Duration::from_millis(500),
        }
    }
}

impl ClusterOptions {
    /// Returns the longest time after a crash in which a client's datagrams may be lost.
    pub fn failover_limit(&self) -> Duration {
        self.lease + self.margin + Duration::from_secs(1)
    }

    /// Returns the options to start an agent.
    fn of_agent(&self, pin_dir: PathBuf) -> AgentOptions {
        let (env, binary) = (self.env.clone(), self.binary.clone());
        AgentOptions { args: self.agent_args(), env, binary, ..AgentOptions::new(pin_dir) }
    }

    fn agent_args(&self) -> Vec<String> {
        let times =
            [("--lease-duration", self.lease), ("--lease-renewal", self.renewal), ("--margin", self.margin)];
        let times =
            times.into_iter().flat_map(|(flag, time)| [flag.to_owned(), format!("{}ms", time.as_millis())]);
        let alone = (!self.with_controller).then(|| "--without-controller".to_owned());
        times.chain(alone).chain(self.args.iter().cloned()).collect()
    }
}

/// Cluster. Fields are in the order of dropping: agents first.
#[derive(Debug)]
pub struct Cluster {
    members: Vec<Member>,
    /// The controllers that were started, by number.
    controllers: BTreeMap<u8, (Process, NamedTempFile)>,
    options: ClusterOptions,
    /// Client whose kernel sends datagrams to VIPs.
    pub client: Host,
    /// Host that watches the wire.
    pub observer: Host,
    /// Rogue host, for tests that need one.
    pub rogue: Host,
    /// Switch of the segment.
    pub segment: Lan,
    /// Switch between the nodes and the API server.
    pub management: Lan,
    /// Path to the API server.
    pub forwarder: Forwarder,
    installation: Installation,
    /// Namespace of the Services.
    namespace: String,
    /// Prefix of the names of the Nodes.
    node_prefix: String,
    /// Objects to remove from a shared API server.
    made: Vec<Object>,
    vips_before: Vec<Object>,
    events_before: BTreeSet<Object>,
    api: ClusterApi,
    bpffs: Bpffs,
}

/// Runs a scenario on a new cluster. A failure shows the agents' logs and the cluster's objects.
pub fn scenario(
    name: &str,
    options: ClusterOptions,
    steps: impl FnOnce(&mut Cluster) -> Result<()>,
) -> Result<()> {
    let mut cluster = Cluster::start(name, options)?;
    let done = steps(&mut cluster);
    if done.is_err() {
        eprintln!("{}", cluster.describe());
    }
    done
}

/// Skips a scenario that needs an API server in this
/// process. Prints so past the capture of test output.
pub fn skip(needed: &str) -> Result<()> {
    say_skipped(&format!("{needed}, which only an API server in this process can be made to do"))
}

/// Skips a scenario whose real API server cannot restore a backup.
pub fn skip_without_backup() -> Result<()> {
    say_skipped("the API server is a real one, and VIPWARD_API_BACKUP names no program that has it go back")
}

/// Skips a scenario that needs the admission policies of a real API server.
pub fn skip_without_admission() -> Result<()> {
    say_skipped("the API server in this process has no admission policies; KUBECONFIG names none")
}

fn say_skipped(why: &str) -> Result<()> {
    writeln!(io::stderr(), "skipped: {why}").context("failed to write to stderr")
}

impl Cluster {
    /// Makes a cluster. Its agents run, unless the options say otherwise.
    pub fn start(name: &str, options: ClusterOptions) -> Result<Self> {
        ensure!(
            (1..=MOST_NODES).contains(&options.nodes),
            "a cluster has 1 to {MOST_NODES} nodes, not {}",
            options.nodes
        );
        let segment = Lan::new(name)?;
        let client = segment.host("client", nic(1).mac(Mac::local(1)))?;
        let observer = segment.host("observer", nic(2).mac(Mac::local(2)))?;
        let rogue = segment.host("rogue", nic(3).mac(Mac::local(3)))?;
        let management = Lan::new(&format!("{name}-m"))?;
        let control = management.host("control", Nic::new(management_net(CONTROL)).named(MANAGEMENT))?;

        let api = if options.api_in_process { ClusterApi::in_process() } else { ClusterApi::start() }?;
        let forwarder = Forwarder::start(&control, SocketAddrV4::new(CONTROL, API_PORT), api.upstream())?;
        let (installation, namespace, node_prefix) = if api.is_shared() {
            // Another scenario may have the same name, and its namespaces may still be terminating.
            static CLUSTERS: AtomicU32 = AtomicU32::new(1);
            let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
            let prefix = format!("vw-{name}-{}-{number}", std::process::id());
            (Installation::apart(&prefix), prefix.clone(), format!("{prefix}-"))
        } else {
            let user = |account, name: String| (account, api.user("", account, &name));
            let agents = (1..=MOST_NODES).map(|number| user(ACCOUNT, NodeId(number).to_string()));
            let controllers = (1..=MOST_CONTROLLERS).map(|number| user(CONTROLLER, controller_name(number)));
            (Installation::plain(agents.chain(controllers).collect()), "apps".to_owned(), String::new())
        };
        let mut cluster = Self {
            members: Vec::new(),
            controllers: BTreeMap::new(),
            options,
            client,
            observer,
            rogue,
            segment,
            management,
            forwarder,
            installation,
            namespace,
            node_prefix,
            made: Vec::new(),
            vips_before: Vec::new(),
            events_before: BTreeSet::new(),
            api,
            bpffs: Bpffs::mount()?,
        };
        // From here on, dropping the cluster removes the objects after a failure.
        cluster.prepare_objects()?;
        for number in 1..=cluster.options.nodes {
            cluster.add_node()?;
            if cluster.options.start_agents {
                cluster.start_agent(NodeId(number))?;
            }
        }
        Ok(cluster)
    }

    fn prepare_objects(&mut self) -> Result<()> {
        let made = self.installation.apply(self.api.admin())?;
        self.made.extend(made);
        self.installation.let_agents_write_statuses(self.api.admin(), !self.options.with_controller)?;
        let namespace = Object::cluster_scoped(Kind::NAMESPACE, &self.namespace);
        self.make(&serde_json::json!({
            "apiVersion": namespace.kind.api_version(),
            "kind": namespace.kind.name(),
            "metadata": {"name": namespace.name},
        }))?;
        self.vips_before = self.virtual_ips()?.iter().map(Object::of).collect::<Result<_>>()?;
        self.events_before = self.events()?.iter().map(Object::of).collect::<Result<_>>()?;
        self.make_daemon_set()
    }

    /// Creates an object that is removed with the cluster.
    fn make(&mut self, manifest: &Value) -> Result<()> {
        let object = Object::of(manifest)?;
        self.api.admin().put(manifest)?;
        if !self.made.contains(&object) {
            self.made.push(object);
        }
        Ok(())
    }

    /// Returns its options.
    pub fn options(&self) -> &ClusterOptions {
        &self.options
    }

    /// Returns the API server.
    pub fn api(&self) -> &ClusterApi {
        &self.api
    }

    /// Returns the API server, to change its behaviour.
    pub fn api_mut(&mut self) -> &mut ClusterApi {
        &mut self.api
    }

    /// Returns the administrator, who does not use the forwarder.
    pub fn admin(&self) -> &Admin {
        self.api.admin()
    }

    /// Returns the namespace of the Services.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the agents' own namespace.
    pub fn system_namespace(&self) -> &str {
        &self.installation.namespace
    }

    /// Returns the `ClusterRole` of the agents.
    pub fn cluster_role(&self) -> Object {
        Object::cluster_scoped(Kind::CLUSTER_ROLE, self.installation.cluster_wide(ACCOUNT))
    }

    /// Returns the `ClusterRole` of the controller.
    pub fn cluster_role_of_the_controller(&self) -> Object {
        Object::cluster_scoped(Kind::CLUSTER_ROLE, self.installation.cluster_wide(CONTROLLER))
    }

    /// Returns the name of a node's Node object.
    pub fn node_name(&self, id: NodeId) -> String {
        format!("{}{id}", self.node_prefix)
    }

    /// Returns the user name of a node's agent at the API server. In this process
    /// each agent has its own, so that a test can make trouble for one of them.
    pub fn user_of(&self, id: NodeId) -> String {
        self.api.user(&self.installation.namespace, ACCOUNT, &id.to_string())
    }

    /// Returns a kubeconfig with a node's rights, which uses the forwarder.
    pub fn kubeconfig_of(&self, id: NodeId) -> Result<String> {
        let (address, namespace) = (self.forwarder.address(), &self.installation.namespace);
        self.api.kubeconfig(address, namespace, ACCOUNT, &id.to_string(), &self.pod(id))
    }

    /// Returns all nodes.
    pub fn ids(&self) -> Vec<NodeId> {
        self.members.iter().map(|member| member.id).collect()
    }

    /// Returns a node.
    pub fn member(&self, id: NodeId) -> Result<&Member> {
        self.members.iter().find(|member| member.id == id).with_context(|| format!("there is no node {id}"))
    }

    /// Returns a node for operations that the cluster does not offer.
    pub fn member_mut(&mut self, id: NodeId) -> Result<&mut Member> {
        self.members
            .iter_mut()
            .find(|member| member.id == id)
            .with_context(|| format!("there is no node {id}"))
    }

    /// Cuts a node off from the API server, but not from the segment.
    pub fn cut_off(&self, id: NodeId, cut: Cut) {
        self.forwarder.cut_off(id.management_address(), cut);
    }

    /// Undoes [`Cluster::cut_off`].
    pub fn reconnect(&self, id: NodeId) {
        self.forwarder.reconnect(id.management_address());
    }

    /// Cuts every node off from the API server, silently.
    pub fn cut_everyone_off(&self) {
        for id in self.ids() {
            self.cut_off(id, Cut::Silent);
        }
    }

    /// Lets every node reach the API server again.
    pub fn heal(&self) -> Result<()> {
        self.forwarder.heal()
    }

    /// Restores the store of the API server from a backup, as after a
    /// restore of etcd. No node reaches the server for at least `down`;
    /// a real one may need longer. Returns when it is ready again.
    pub fn go_back(&mut self, saved: &Saved, down: Duration) -> Result<()> {
        self.forwarder.refuse_all();
        let going_back = self.api.restore(saved)?;
        interrupt::pass(down)?;
        self.forwarder.heal()?;
        going_back.wait()?;
        // The server closes the administrator's connections too.
        poll(PATIENCE, "the API server to answer", || Ok(self.leases().ok()))?;
        Ok(())
    }

    /// Returns the agents' last log lines, the claims and the Leases, for failure messages.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for member in &self.members {
            let log = member.agent().map(|agent| agent.log_tail(LOG_TAIL));
            let log = log.unwrap_or_else(|| "it was never started".to_owned());
            text.extend([format!("=== log of {}\n", member.id), log, "\n".to_owned()]);
        }
        for (number, (process, _)) in &self.controllers {
            text.extend([format!("=== log of controller {number}\n{}\n", process.transcript())]);
        }
        for (what, listed) in [("VirtualIPs", self.virtual_ips()), ("Leases", self.leases())] {
            text.extend(["=== ", what, "\n"]);
            match listed {
                Ok(objects) => text.extend(objects.iter().map(|object| format!("{}\n", brief(object)))),
                Err(error) => text.extend([format!("{error:#}\n")]),
            }
        }
        text
    }

    /// Removes this test's objects from a shared API server.
    fn remove_objects(&self) -> Result<()> {
        let mut vips = self.virtual_ips()?.iter().map(Object::of).collect::<Result<Vec<_>>>()?;
        vips.retain(|vip| !self.vips_before.contains(vip));
        self.admin().delete_all_for_good(&vips, REMOVED_AT_ONCE)?;
        // The objects go first, because a namespace may take long to end or never end.
        for namespace in self.made.iter().filter(|made| made.kind == Kind::NAMESPACE) {
            for kind in [Kind::SERVICE, Kind::ENDPOINT_SLICE, Kind::LEASE] {
                let within = self.admin().list(kind, Some(&namespace.name))?;
                let within = within.iter().map(Object::of).collect::<Result<Vec<_>>>()?;
                self.admin().delete_all_for_good(&within, REMOVED_AT_ONCE)?;
            }
        }
        for object in self.made.iter().rev() {
            self.admin().delete_for_good(object)?;
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.describe());
        }
        // Agents go first, because they would recreate removed objects.
        self.members.clear();
        if self.api.is_shared()
            && let Err(error) = self.remove_objects()
        {
            eprintln!("failed to remove the objects of a test: {error:#}");
        }
    }
}

/// Waits like [`interrupt::wait`], with pauses that leave the machine to other processes.
fn poll<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    interrupt::wait(limit, what, || {
        let found = look()?;
        if found.is_none() {
            thread::sleep(POLL_INTERVAL);
        }
        Ok(found)
    })
}

/// Returns an object in one line, without the API server's own fields.
fn brief(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|key, _| key != "managedFields" && key != "uid");
    }
    object.to_string()
}

/// Returns an interface on the segment, with an address of each family.
fn nic(last: u8) -> Nic {
    Nic::new(net(last)).address(Family::V6.net(last))
}

const fn management_ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, last)
}

fn management_net(address: Ipv4Addr) -> Ipv4Net {
    Ipv4Net::new(address, 24).expect("24 is a prefix length")
}
