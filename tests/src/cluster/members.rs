//! Controls the nodes of a cluster: their agents, power and cables.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::process::ExitStatus;

use anyhow::{Context, Result, ensure};
use kube::config::Kubeconfig;
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::{
    admin::{Admin, Kind, Object},
    forwarder::Cut,
    node::{MANAGEMENT, MOST_NODES, Member, NodeId, SEGMENT, management_net, nic},
    options::PATIENCE,
    running::Cluster,
};
use crate::{
    agent::{Agent, ClusterMember, vip_status},
    frames::Mac,
    kit::{Process, SpawnOptions, interrupt::poll},
    lan::{Nic, http},
    measure::unbind_locally,
};

impl Cluster {
    /// Adds a node without an agent, and returns its number.
    pub fn add_node(&mut self) -> Result<NodeId> {
        let number = u8::try_from(self.members.len() + 1).unwrap_or(u8::MAX);
        ensure!(number <= MOST_NODES, "a cluster has at most {MOST_NODES} nodes");
        let id = NodeId(number);
        let host = self.segment.host(&id.to_string(), nic(10 + number).mac(id.mac()))?;
        self.management.plug(&host, Nic::new(management_net(id.management_address())).named(MANAGEMENT))?;
        self.members.push(Member { agent: None, id, host, powered: true, bound: BTreeSet::new() });
        self.make_node(id)?;
        self.make_pod(id)?;
        Ok(id)
    }

    /// Plugs another interface of a node into the segment, and returns its MAC. `last` is the last byte
    /// of its addresses.
    pub fn plug_in(&self, id: NodeId, interface: &str, last: u8) -> Result<Mac> {
        let host = &self.member(id)?.host;
        self.segment.plug(host, nic(last).named(interface))?;
        host.mac(interface)
    }

    /// Starts a node's agent with the existing pins, for the first time or after its end.
    pub fn start_agent(&mut self, id: NodeId) -> Result<()> {
        let member = ClusterMember {
            node_name: self.node_name(id),
            lease_namespace: self.installation.namespace.clone(),
            pod_name: Some(self.make_pod(id)?),
            kubeconfig: self.kubeconfig_of(id)?,
        };
        let mut options = self.options.of_agent(self.bpffs.pin_dir(&id.to_string()));
        // The manifests take it from the downward API.
        options.env.push(("POD_IP".to_owned(), id.management_address().to_string()));
        let node = self.member_mut(id)?;
        ensure!(node.powered, "{id} has no power");
        if let Some(agent) = &mut node.agent {
            agent.set_args(options.args);
            return agent.restart();
        }
        node.agent = Some(Agent::start_in_cluster(&node.host, member, options)?);
        Ok(())
    }

    /// Starts an agent after its end, and waits until it renews its Lease.
    pub fn restart_agent(&mut self, id: NodeId) -> Result<()> {
        self.start_agent(id)?;
        self.wait_until_renewing(id)
    }

    /// Sets the options with which agents are started from now on.
    pub fn set_args(&mut self, args: &[&str]) {
        self.options.args = args.iter().map(|arg| (*arg).to_owned()).collect();
    }

    /// Restarts one agent after the other, beside a controller or without one.
    pub fn restart_agents_with(&mut self, controller: bool) -> Result<()> {
        self.options.with_controller = controller;
        self.installation.let_agents_write_statuses(self.api.admin(), !controller)?;
        for id in self.ids() {
            self.terminate(id)?;
            self.restart_agent(id)?;
        }
        Ok(())
    }

    /// Sends SIGKILL to a node's agent. Its program and pins stay.
    pub fn kill9(&mut self, id: NodeId) -> Result<()> {
        self.member_mut(id)?.agent_mut()?.kill9()
    }

    /// Sends SIGTERM to a node's agent and waits for the end.
    pub fn terminate(&mut self, id: NodeId) -> Result<ExitStatus> {
        self.member_mut(id)?.agent_mut()?.terminate()
    }

    /// Sends SIGSTOP to a node's agent.
    pub fn pause(&mut self, id: NodeId) -> Result<()> {
        self.member_mut(id)?.agent_mut()?.signal(Signal::SIGSTOP)
    }

    /// Sends SIGCONT to a node's agent.
    pub fn resume(&mut self, id: NodeId) -> Result<()> {
        self.member_mut(id)?.agent_mut()?.signal(Signal::SIGCONT)
    }

    /// Runs `vipward unload` on a node without a running agent. Removes
    /// the VIPs from `lo` first, because the kernel would answer for them.
    pub fn unload(&mut self, id: NodeId) -> Result<()> {
        let member = self.member_mut(id)?;
        for vip in std::mem::take(&mut member.bound) {
            unbind_locally(&member.host, vip)?;
        }
        member.agent_mut()?.unload().map(drop)
    }

    /// Switches a node off: from one instant on no frame
    /// leaves it, and agent, program and pins are gone.
    pub fn power_off(&mut self, id: NodeId) -> Result<()> {
        let member = self.member_mut(id)?;
        ensure!(member.powered, "{id} has no power already");
        member.powered = false;
        let runs = member.agent_runs()?;
        if runs {
            // A node without power sends no last message about carrier or closed connections.
            member.agent_mut()?.signal(Signal::SIGSTOP)?;
        }
        for cable in [MANAGEMENT, SEGMENT] {
            member.host.set_carrier(cable, false)?;
        }
        if self.api_servers.contains(&id) {
            self.cut_off(id, Cut::Silent);
        }
        let member = self.member_mut(id)?;
        if runs {
            member.agent_mut()?.kill9()?;
        }
        if member.agent.is_some() { self.unload(id) } else { Ok(()) }
    }

    /// Switches a node on without its agent. Its kernel has no neighbours and delivers no VIP.
    pub fn power_on(&mut self, id: NodeId) -> Result<()> {
        let member = self.member_mut(id)?;
        ensure!(!member.powered, "{id} has power already");
        for cable in [MANAGEMENT, SEGMENT] {
            member.host.flush_neighbours(cable)?;
            member.host.set_carrier(cable, true)?;
        }
        member.powered = true;
        if self.api_servers.contains(&id) {
            self.reconnect(id);
        }
        Ok(())
    }

    /// Gives or takes carrier on the segment's interface only.
    pub fn set_carrier(&self, id: NodeId, carrier: bool) -> Result<()> {
        self.member(id)?.host.set_carrier(SEGMENT, carrier)
    }

    /// Runs `work` on a node with the rights of its agent.
    pub fn as_agent<T: Send>(&self, id: NodeId, work: impl FnOnce(&Admin) -> Result<T> + Send) -> Result<T> {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig_of(id)?)?;
        self.member(id)?.host.run(|| work(&Admin::new(kubeconfig)?))
    }

    /// Runs `vipward move`. `vip` is what the command is given. Returns the exit code and the output.
    pub fn vipward_move(&self, vip: impl fmt::Display, to: &str) -> Result<(Option<i32>, String)> {
        self.vipward(&["move", &vip.to_string(), "--to", to, "--timeout", "15s"])
    }

    /// Runs `vipward` on the first node with power, with the rights of the administrator. Returns the
    /// exit code and the output.
    pub fn vipward(&self, args: &[&str]) -> Result<(Option<i32>, String)> {
        let member = self.members.iter().find(|member| member.powered).context("no node has power")?;
        let kubeconfig = NamedTempFile::new().context("failed to make a kubeconfig")?;
        fs::write(kubeconfig.path(), self.api.kubeconfig_of_admin(self.forwarder.address())?)?;
        let mut command = member.host.command(Agent::default_binary());
        command.args(args).arg("--kubeconfig").arg(kubeconfig.path());
        let mut process = Process::spawn(command, &SpawnOptions::default())?;
        let status = process.wait(PATIENCE)?;
        Ok((status.code(), process.transcript()))
    }

    /// Requests a page of a node's agent.
    pub fn page(&self, id: NodeId, path: &str) -> Result<http::Answer> {
        http::get(&self.member(id)?.host, http::PAGES, path)
    }

    /// Returns the output of `vipward status -o json` on a node.
    pub fn status(&self, id: NodeId) -> Result<Value> {
        self.member(id)?.agent().with_context(|| format!("no agent was started on {id}"))?.status()
    }

    /// Waits until the entry of a VIP in a node's kernel `matches`. The failure shows the last one.
    pub fn wait_for_entry(
        &self,
        id: NodeId,
        vip: impl Into<IpAddr>,
        what: &str,
        matches: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let vip = vip.into();
        let agent = self.member(id)?.agent().with_context(|| format!("no agent was started on {id}"))?;
        let mut last = None;
        let found = poll(PATIENCE, &format!("the entry of {id} for {vip} {what}"), || {
            last = vip_status(agent, vip, SEGMENT).ok();
            Ok(last.clone().filter(|entry| matches(entry)))
        });
        found.with_context(|| format!("it was last: {last:#?}"))
    }

    /// Waits until a node's agent renews its Lease: two changes of the Lease.
    pub fn wait_until_renewing(&self, id: NodeId) -> Result<()> {
        let holder = format!("{}/", self.node_name(id));
        let mut versions = BTreeSet::new();
        let renewed = poll(PATIENCE, &format!("{id} to renew its Lease"), || {
            for lease in self.leases()? {
                let of_node =
                    lease["spec"]["holderIdentity"].as_str().is_some_and(|it| it.starts_with(&holder));
                if of_node {
                    versions.insert(lease["metadata"]["resourceVersion"].to_string());
                }
            }
            // The first change may be older than this call.
            Ok((versions.len() >= 3).then_some(()))
        });
        renewed.with_context(|| format!("{} versions of it were seen", versions.len()))
    }

    /// Returns true if a node's program has an entry for an address on any interface.
    pub fn knows(&self, id: NodeId, address: impl Into<IpAddr>) -> Result<bool> {
        let address = address.into();
        let status = self.status(id)?;
        let vips = status["vips"].as_array().with_context(|| format!("no VIPs in {status:#}"))?;
        Ok(vips.iter().any(|entry| entry["address"] == address.to_string()))
    }

    /// Waits until no node's program has an entry for an address.
    pub fn wait_until_forgotten(&self, address: impl Into<IpAddr>) -> Result<()> {
        let address = address.into();
        for id in self.ids() {
            // An agent that has just started has no status.
            let forgotten = || Ok(self.knows(id, address).is_ok_and(|knows| !knows).then_some(()));
            poll(PATIENCE, &format!("the program on {id} to forget {address}"), forgotten)?;
        }
        Ok(())
    }

    /// Waits until every node's agent renews its Lease.
    pub fn wait_until_all_renew(&self) -> Result<()> {
        self.ids().into_iter().try_for_each(|id| self.wait_until_renewing(id))
    }

    /// Returns the lines that the agents have logged as errors, and as warnings.
    pub fn complaints(&self) -> Result<(Vec<String>, Vec<String>)> {
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        for agent in self.members.iter().filter_map(Member::agent) {
            for line in agent.logs()? {
                match line.level() {
                    "ERROR" => errors.push(line.to_string()),
                    "WARN" => warnings.push(line.to_string()),
                    _ => {}
                }
            }
        }
        Ok((errors, warnings))
    }

    /// Makes every node's kernel deliver a VIP as soon as the node's program has an entry for it. Without
    /// the entry, the kernel would answer for the address. Skips nodes without power or agent.
    pub fn deliver(&mut self, vip: impl Into<IpAddr>) -> Result<()> {
        let vip = vip.into();
        for member in &mut self.members {
            let Some(agent) = member.agent.as_ref().filter(|_| member.powered) else { continue };
            let what = format!("the program on {} to know {vip}", member.id);
            poll(PATIENCE, &what, || Ok(vip_status(agent, vip, SEGMENT).ok()))?;
            member.bind(vip)?;
        }
        Ok(())
    }

    /// Undoes [`Cluster::deliver`]. Call it before a VIP is removed, or the kernels answer for it.
    pub fn stop_delivering(&mut self, vip: impl Into<IpAddr>) -> Result<()> {
        let vip = vip.into();
        self.members.iter_mut().try_for_each(|member| member.unbind(vip))
    }

    pub fn node_object(&self, id: NodeId) -> Object {
        Object::cluster_scoped(Kind::NODE, self.node_name(id))
    }
}
