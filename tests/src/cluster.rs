//! A cluster: nodes in network namespaces whose agents share an API server, a client and an observer beside them.
//!
//! ```text
//!   client .1   observer .2   rogue .3        n1 .11   n2 .12   n3 .13
//!      └────────────┴────────────┴── eth0 ───────┴────────┴────────┘      192.0.2.0/24, the segment of the VIPs
//!                                                │        │        │
//!                     control .1 ──── mgmt0 ─────┴────────┴────────┘      198.51.100.0/24
//!                        └── forwarder ── API server, in this process or the one of KUBECONFIG
//! ```
//!
//! A scenario reads as a table of steps. An agent is killed and nobody starts it again:
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
//!
//! A node is cordoned, which nobody may notice:
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
//!
//! The API server goes away for everybody, and nothing changes:
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
//!     watch.step("nobody reaches the API server");
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
pub mod forwarder;
mod install;
mod members;
mod objects;
mod watch;

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ipnet::Ipv4Net;
use serde_json::Value;

pub use members::Member;
pub use objects::{Endpoint, EventNote, ServiceSpec};
pub use watch::{Seen, Watch};

use crate::agent::AgentOptions;
use crate::arp::Mac;
use crate::bpffs::Bpffs;
use crate::interrupt;
use crate::lan::{Host, Lan, Nic};
use crate::scene::{ip, net};

use admin::{Admin, Kind, Object};
use api::ClusterApi;
use forwarder::{Cut, Forwarder};
use install::{ACCOUNT, Installation};

/// The interface on the segment of the VIPs.
pub const SEGMENT: &str = "eth0";
/// The interface towards the API server.
pub const MANAGEMENT: &str = "mgmt0";
/// Longer than anything takes that is not made to take long.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The first three nodes.
pub const N1: NodeId = NodeId(1);
/// The second.
pub const N2: NodeId = NodeId(2);
/// The third.
pub const N3: NodeId = NodeId(3);

/// Their addresses are .11 to .19.
const MOST_NODES: u8 = 9;
const API_PORT: u16 = 6443;
const CONTROL: Ipv4Addr = management_ip(1);
/// What is asked of the API server, or of a process, takes it milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How many of an agent's last lines a failure shows.
const LOG_TAIL: usize = 60;

/// A node, by its number from 1 on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u8);

impl NodeId {
    /// Its MAC on the segment.
    pub fn mac(self) -> Mac {
        Mac([0x02, 0, 0, 0, 0x01, self.0])
    }

    /// Its address on the segment.
    pub fn address(self) -> Ipv4Addr {
        ip(10 + self.0)
    }

    /// Its address on the way to the API server.
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

/// What a cluster is to be like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterOptions {
    /// How many nodes it has, at most nine.
    pub nodes: u8,
    /// Whether the API server is one in this process, whatever `KUBECONFIG` says.
    pub api_in_process: bool,
    /// Whether their agents run from the start.
    pub start_agents: bool,
    /// More arguments of every agent, beside those of the times below.
    pub args: Vec<String>,
    /// More environment of every agent.
    pub env: Vec<(String, String)>,
    /// The agents' binary, if not the default.
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
    /// How long after a crash a client's datagrams may be lost.
    pub fn failover_limit(&self) -> Duration {
        self.lease + self.margin + Duration::from_secs(1)
    }

    /// How every agent is started.
    fn of_agent(&self, pin_dir: PathBuf) -> AgentOptions {
        let (env, binary) = (self.env.clone(), self.binary.clone());
        AgentOptions { args: self.agent_args(), env, binary, ..AgentOptions::new(pin_dir) }
    }

    fn agent_args(&self) -> Vec<String> {
        let times =
            [("--lease-duration", self.lease), ("--lease-renewal", self.renewal), ("--margin", self.margin)];
        let times =
            times.into_iter().flat_map(|(flag, time)| [flag.to_owned(), format!("{}ms", time.as_millis())]);
        times.chain(self.args.iter().cloned()).collect()
    }
}

/// A cluster. What is dropped first comes first: agents, then what they are part of.
#[derive(Debug)]
pub struct Cluster {
    members: Vec<Member>,
    options: ClusterOptions,
    /// Its kernel sends datagrams to VIPs.
    pub client: Host,
    /// Watches the wire.
    pub observer: Host,
    /// Claims what is not its own, if a test has it do so.
    pub rogue: Host,
    /// The switch of the segment.
    pub segment: Lan,
    /// The switch between the nodes and the API server.
    pub management: Lan,
    /// The way to the API server.
    pub forwarder: Forwarder,
    installation: Installation,
    /// The namespace of the Services.
    namespace: String,
    /// Put before the names of the Nodes.
    node_prefix: String,
    /// What is removed from an API server that others use too.
    made: Vec<Object>,
    vips_before: Vec<Object>,
    events_before: BTreeSet<Object>,
    api: ClusterApi,
    bpffs: Bpffs,
}

/// Runs a scenario on a new cluster; a failure shows what the agents logged and what the cluster's objects are.
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

/// Ends a scenario that needs what only an API server in this process can be made to do. It says so where a test's
/// output is shown that passes.
pub fn skip(needed: &str) -> Result<()> {
    writeln!(io::stderr(), "skipped: {needed}, which only an API server in this process can be made to do")
        .context("failed to write to stderr")
}

impl Cluster {
    /// A cluster whose agents run, unless the options say otherwise.
    pub fn start(name: &str, options: ClusterOptions) -> Result<Self> {
        ensure!(
            (1..=MOST_NODES).contains(&options.nodes),
            "a cluster has 1 to {MOST_NODES} nodes, not {}",
            options.nodes
        );
        let segment = Lan::new(name)?;
        let client = segment.host("client", Nic::new(net(1)).mac(Mac::local(1)))?;
        let observer = segment.host("observer", Nic::new(net(2)).mac(Mac::local(2)))?;
        let rogue = segment.host("rogue", Nic::new(net(3)).mac(Mac::local(3)))?;
        let management = Lan::new(&format!("{name}-m"))?;
        let control = management.host("control", Nic::new(management_net(CONTROL)).named(MANAGEMENT))?;

        let api = if options.api_in_process { ClusterApi::in_process() } else { ClusterApi::start() }?;
        let forwarder = Forwarder::start(&control, SocketAddrV4::new(CONTROL, API_PORT), api.upstream())?;
        let (installation, namespace, node_prefix) = if api.is_shared() {
            // Scenarios may be of the same name, and namespaces of that name still be ending.
            static CLUSTERS: AtomicU32 = AtomicU32::new(1);
            let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
            let prefix = format!("vw-{name}-{}-{number}", std::process::id());
            (Installation::apart(&prefix), prefix.clone(), format!("{prefix}-"))
        } else {
            let users = (1..=MOST_NODES).map(|number| api.user("", ACCOUNT, &NodeId(number).to_string()));
            (Installation::plain(users.collect()), "apps".to_owned(), String::new())
        };
        let mut cluster = Self {
            members: Vec::new(),
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
        // Whatever fails from here on, dropping the cluster removes what was made.
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

    /// Puts an object there that is removed with the cluster.
    fn make(&mut self, manifest: &Value) -> Result<()> {
        let object = Object::of(manifest)?;
        self.api.admin().put(manifest)?;
        if !self.made.contains(&object) {
            self.made.push(object);
        }
        Ok(())
    }

    /// What it was asked to be like.
    pub fn options(&self) -> &ClusterOptions {
        &self.options
    }

    /// The API server.
    pub fn api(&self) -> &ClusterApi {
        &self.api
    }

    /// The API server, to stop it or to make trouble there.
    pub fn api_mut(&mut self) -> &mut ClusterApi {
        &mut self.api
    }

    /// Who may do all at the API server, without the way over the forwarder.
    pub fn admin(&self) -> &Admin {
        self.api.admin()
    }

    /// The namespace of the Services.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The agents' own namespace.
    pub fn system_namespace(&self) -> &str {
        &self.installation.namespace
    }

    /// The `ClusterRole` of the agents.
    pub fn cluster_role(&self) -> Object {
        Object::cluster_scoped(Kind::CLUSTER_ROLE, self.installation.cluster_wide(ACCOUNT))
    }

    /// The name of a node's Node object.
    pub fn node_name(&self, id: NodeId) -> String {
        format!("{}{id}", self.node_prefix)
    }

    /// The name that a node's agent has at the API server: at one in this process each has its own, so that trouble can
    /// be made for one of them.
    pub fn user_of(&self, id: NodeId) -> String {
        self.api.user(&self.installation.namespace, ACCOUNT, &id.to_string())
    }

    /// A kubeconfig with a node's rights, which reaches the API server over the forwarder.
    pub fn kubeconfig_of(&self, id: NodeId) -> Result<String> {
        self.api.kubeconfig(self.forwarder.address(), &self.installation.namespace, ACCOUNT, &id.to_string())
    }

    /// All nodes.
    pub fn ids(&self) -> Vec<NodeId> {
        self.members.iter().map(|member| member.id).collect()
    }

    /// A node.
    pub fn member(&self, id: NodeId) -> Result<&Member> {
        self.members.iter().find(|member| member.id == id).with_context(|| format!("there is no node {id}"))
    }

    /// A node, to do something with that the cluster has no word for.
    pub fn member_mut(&mut self, id: NodeId) -> Result<&mut Member> {
        self.members
            .iter_mut()
            .find(|member| member.id == id)
            .with_context(|| format!("there is no node {id}"))
    }

    /// Cuts a node off from the API server; its segment stays as it is.
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

    /// Lets everybody reach the API server again.
    pub fn heal(&self) -> Result<()> {
        self.forwarder.heal()
    }

    /// What the agents logged last, and the claims and Leases, for failure messages.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for member in &self.members {
            let log = member.agent().map(|agent| agent.log_tail(LOG_TAIL));
            let log = log.unwrap_or_else(|| "it was never started".to_owned());
            text.extend([
                format!(
                    "=== log of {}
",
                    member.id
                ),
                log,
                "
"
                .to_owned(),
            ]);
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

    /// Removes what this test has put into an API server that others use too.
    fn remove_objects(&self) -> Result<()> {
        let made_since = self.virtual_ips()?.iter().map(Object::of).collect::<Result<Vec<_>>>()?;
        for vip in made_since.iter().filter(|vip| !self.vips_before.contains(vip)) {
            self.admin().delete_for_good(vip)?;
        }
        // The namespaces' end is others' to bring about, if anybody's: nothing of this test may be seen until then.
        for (kind, namespace) in [
            (Kind::SERVICE, &self.namespace),
            (Kind::ENDPOINT_SLICE, &self.namespace),
            (Kind::LEASE, &self.installation.namespace),
        ] {
            for object in self.admin().list(kind, Some(namespace))? {
                self.admin().delete_for_good(&Object::of(&object)?)?;
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
        // Agents first: they would put back what is removed.
        self.members.clear();
        if self.api.is_shared()
            && let Err(error) = self.remove_objects()
        {
            eprintln!("failed to remove the objects of a test: {error:#}");
        }
    }
}

/// [`interrupt::wait`], with pauses that leave the machine to those who are waited for.
fn poll<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    interrupt::wait(limit, what, || {
        let found = look()?;
        if found.is_none() {
            thread::sleep(POLL_INTERVAL);
        }
        Ok(found)
    })
}

/// An object in one line, without what only the API server cares for.
fn brief(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|key, _| key != "managedFields" && key != "uid");
    }
    object.to_string()
}

const fn management_ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, last)
}

fn management_net(address: Ipv4Addr) -> Ipv4Net {
    Ipv4Net::new(address, 24).expect("24 is a prefix length")
}
