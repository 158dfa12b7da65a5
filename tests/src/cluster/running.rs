//! A running cluster: its parts, from the start to the removal of its objects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::{
    admin::{Admin, Kind, Object},
    api::{ClusterApi, Saved},
    forwarder::{Cut, Forwarder},
    install::{ACCOUNT, CONTROLLER, Installation, MOST_CONTROLLERS, controller_name},
    node::{MANAGEMENT, MOST_NODES, Member, NodeId, management_ip, management_net, nic},
    options::{ClusterOptions, PATIENCE, Switch},
};
use crate::{
    agent::Bpffs,
    frames::Mac,
    kit::{
        Process,
        interrupt::{self, poll},
    },
    lan::{Host, Lan, Nic},
};

const API_PORT: u16 = 6443;
const CONTROL: Ipv4Addr = management_ip(1);
/// Number of objects that are removed from a shared API server at a time.
const REMOVED_AT_ONCE: usize = 8;
/// Number of an agent's last log lines in a failure.
const LOG_TAIL: usize = 60;

/// Cluster. Fields are in the order of dropping: agents first.
#[derive(Debug)]
pub struct Cluster {
    pub(super) members: Vec<Member>,
    /// The controllers that were started, by number.
    pub(super) controllers: BTreeMap<u8, (Process, NamedTempFile)>,
    pub(super) options: ClusterOptions,
    /// Client whose kernel sends datagrams to VIPs.
    pub client: Host,
    /// Host that watches the wire.
    pub observer: Host,
    /// Rogue host, for tests that need one.
    pub rogue: Host,
    pub segment: Lan,
    /// Switch between the nodes and the API server.
    pub management: Lan,
    /// Path to the API server.
    pub forwarder: Forwarder,
    /// The nodes that have been API servers.
    pub(super) api_servers: BTreeSet<NodeId>,
    pub(super) installation: Installation,
    /// Namespace of the Services.
    pub(super) namespace: String,
    /// Prefix of the names of the Nodes.
    pub(super) node_prefix: String,
    /// Objects to remove from a shared API server.
    pub(super) made: Vec<Object>,
    pub(super) vips_before: Vec<Object>,
    pub(super) events_before: BTreeSet<Object>,
    pub(super) api: ClusterApi,
    pub(super) bpffs: Bpffs,
}

impl Cluster {
    /// Makes a cluster. Its agents run, unless the options keep them from it.
    pub fn start(name: &str, options: ClusterOptions) -> Result<Self> {
        ensure!(
            (1..=MOST_NODES).contains(&options.nodes),
            "a cluster has 1 to {MOST_NODES} nodes, not {}",
            options.nodes
        );
        let segment = match options.switch {
            Switch::Bridge => Lan::new(name)?,
            Switch::Managed => Lan::managed(name)?,
        };
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
            api_servers: BTreeSet::new(),
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
    pub(super) fn make(&mut self, manifest: &Value) -> Result<()> {
        let object = Object::of(manifest)?;
        self.api.admin().put(manifest)?;
        if !self.made.contains(&object) {
            self.made.push(object);
        }
        Ok(())
    }

    pub fn options(&self) -> &ClusterOptions {
        &self.options
    }

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

    pub fn cluster_role_of_the_controller(&self) -> Object {
        Object::cluster_scoped(Kind::CLUSTER_ROLE, self.installation.cluster_wide(CONTROLLER))
    }

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

    pub fn ids(&self) -> Vec<NodeId> {
        self.members.iter().map(|member| member.id).collect()
    }

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

    /// Starts the agents with kubeconfigs that name TLS: only then do agents connect to the endpoints of API
    /// servers. None may have started before.
    pub fn start_with_tls(&mut self) -> Result<()> {
        ensure!(!self.options.start_agents, "the agents run, and have their kubeconfigs");
        self.api.serve_tls()?;
        for id in self.ids() {
            self.restart_agent(id)?;
        }
        Ok(())
    }

    /// Makes these nodes the API servers, as in a cluster with a stacked control plane. They share one
    /// store. Connections by the configured address lead to one of them each, also while it has no power.
    pub fn run_api_servers_on(&mut self, ids: &[NodeId]) -> Result<()> {
        let addresses: Vec<Ipv4Addr> = ids.iter().map(|id| id.management_address()).collect();
        for id in ids {
            if self.api_servers.insert(*id) {
                self.forwarder.add_server(&self.member(*id)?.host, id.management_address())?;
                self.set_addresses(*id, &[id.management_address().into()])?;
            }
        }
        self.forwarder.set_servers(addresses.clone());
        let endpoints: Vec<Value> =
            addresses.iter().map(|address| serde_json::json!({"addresses": [address.to_string()]})).collect();
        self.make(&serde_json::json!({
            "apiVersion": Kind::ENDPOINT_SLICE.api_version(),
            "kind": Kind::ENDPOINT_SLICE.name(),
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "https", "port": API_PORT, "protocol": "TCP"}],
        }))
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

/// Returns an object in one line, without the API server's own fields.
fn brief(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|key, _| key != "managedFields" && key != "uid");
    }
    object.to_string()
}
