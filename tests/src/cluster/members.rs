//! The nodes of a cluster: their hosts, their agents, and what befalls them.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::process::ExitStatus;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::admin::Object;
use super::{Cluster, MANAGEMENT, MOST_NODES, NodeId, PATIENCE, SEGMENT, management_net, poll};
use crate::agent::{Agent, ClusterMember};
use crate::datagrams::{bind_locally, unbind_locally};
use crate::lan::{Host, Nic};
use crate::process::{Process, SpawnOptions};
use crate::scene::{net, vip_status};

/// A node: its host, and its agent once that was started.
#[derive(Debug)]
pub struct Member {
    agent: Option<Agent>,
    /// Which.
    pub id: NodeId,
    /// Its host.
    pub host: Host,
    powered: bool,
    /// The VIPs that its kernel delivers.
    bound: BTreeSet<Ipv4Addr>,
}

impl Member {
    /// Its agent, if that was ever started since the node has power.
    pub fn agent(&self) -> Option<&Agent> {
        self.agent.as_ref()
    }

    /// Its agent, to do something with that the cluster has no word for.
    pub fn agent_mut(&mut self) -> Result<&mut Agent> {
        let id = self.id;
        self.agent.as_mut().with_context(|| format!("no agent was started on {id}"))
    }

    /// Whether its agent runs; a stopped one does.
    pub fn agent_runs(&mut self) -> Result<bool> {
        self.agent.as_mut().map_or(Ok(false), Agent::is_running)
    }

    fn bind(&mut self, vip: Ipv4Addr) -> Result<()> {
        if self.bound.insert(vip) { bind_locally(&self.host, vip) } else { Ok(()) }
    }

    fn unbind(&mut self, vip: Ipv4Addr) -> Result<()> {
        if self.bound.remove(&vip) { unbind_locally(&self.host, vip) } else { Ok(()) }
    }
}

impl Cluster {
    /// Adds a node without an agent, and returns which.
    pub fn add_node(&mut self) -> Result<NodeId> {
        let number = u8::try_from(self.members.len() + 1).unwrap_or(u8::MAX);
        ensure!(number <= MOST_NODES, "a cluster has at most {MOST_NODES} nodes");
        let id = NodeId(number);
        let host = self.segment.host(&id.to_string(), Nic::new(net(10 + number)).mac(id.mac()))?;
        self.management.plug(&host, Nic::new(management_net(id.management_address())).named(MANAGEMENT))?;
        self.members.push(Member { agent: None, id, host, powered: true, bound: BTreeSet::new() });
        self.make_node(id)?;
        Ok(id)
    }

    /// Starts a node's agent, for the first time or again after it has ended, with the pins that are there.
    pub fn start_agent(&mut self, id: NodeId) -> Result<()> {
        let member = ClusterMember {
            node_name: self.node_name(id),
            lease_namespace: self.installation.namespace.clone(),
            pod_name: Some(self.make_pod(id)?),
            kubeconfig: self.kubeconfig_of(id)?,
        };
        let mut options = self.options.of_agent(self.bpffs.pin_dir(&id.to_string()));
        // As the manifests have it from the downward API.
        options.env.push(("POD_IP".to_owned(), id.management_address().to_string()));
        let node = self.member_mut(id)?;
        ensure!(node.powered, "{id} has no power");
        if let Some(agent) = &mut node.agent {
            return agent.restart();
        }
        node.agent = Some(Agent::start_in_cluster(&node.host, member, options)?);
        Ok(())
    }

    /// Starts an agent again after it has ended, and waits until it renews its Lease.
    pub fn restart_agent(&mut self, id: NodeId) -> Result<()> {
        self.start_agent(id)?;
        self.wait_until_renewing(id)
    }

    /// `kill -9` of a node's agent. Its program and pins stay.
    pub fn kill9(&mut self, id: NodeId) -> Result<()> {
        self.member_mut(id)?.agent_mut()?.kill9()
    }

    /// SIGTERM to a node's agent, and waits until it has ended.
    pub fn terminate(&mut self, id: NodeId) -> Result<ExitStatus> {
        self.member_mut(id)?.agent_mut()?.terminate()
    }

    /// SIGSTOP to a node's agent.
    pub fn pause(&mut self, id: NodeId) -> Result<()> {
        self.member_mut(id)?.agent_mut()?.signal(Signal::SIGSTOP)
    }

    /// SIGCONT to a node's agent.
    pub fn resume(&mut self, id: NodeId) -> Result<()> {
        self.member_mut(id)?.agent_mut()?.signal(Signal::SIGCONT)
    }

    /// `vipward unload` on a node whose agent does not run: program and pins go, and the VIPs from `lo` before, for
    /// which the kernel would answer then.
    pub fn unload(&mut self, id: NodeId) -> Result<()> {
        let member = self.member_mut(id)?;
        for vip in std::mem::take(&mut member.bound) {
            unbind_locally(&member.host, vip)?;
        }
        member.agent_mut()?.unload().map(drop)
    }

    /// Switches a node off: nothing leaves it from one instant on, and its agent, program and pins are gone.
    pub fn power_off(&mut self, id: NodeId) -> Result<()> {
        let member = self.member_mut(id)?;
        ensure!(member.powered, "{id} has no power already");
        member.powered = false;
        let runs = member.agent_runs()?;
        if runs {
            // Its last words would be what no node says that loses power: that it has no carrier, or that its
            // connections are closed.
            member.agent_mut()?.signal(Signal::SIGSTOP)?;
        }
        for cable in [MANAGEMENT, SEGMENT] {
            member.host.set_carrier(cable, false)?;
        }
        if runs {
            member.agent_mut()?.kill9()?;
        }
        if member.agent.is_some() { self.unload(id) } else { Ok(()) }
    }

    /// Switches a node on again. Its kernel knows no neighbours and delivers no VIP; its agent is not started.
    pub fn power_on(&mut self, id: NodeId) -> Result<()> {
        let member = self.member_mut(id)?;
        ensure!(!member.powered, "{id} has power already");
        for cable in [MANAGEMENT, SEGMENT] {
            member.host.flush_neighbours(cable)?;
            member.host.set_carrier(cable, true)?;
        }
        member.powered = true;
        Ok(())
    }

    /// Gives or takes carrier on the interface of the VIPs only.
    pub fn set_carrier(&self, id: NodeId, carrier: bool) -> Result<()> {
        self.member(id)?.host.set_carrier(SEGMENT, carrier)
    }

    /// `vipward move` on the first node that has power, with its rights: the exit code, and what it printed.
    pub fn vipward_move(&self, vip: Ipv4Addr, to: &str) -> Result<(Option<i32>, String)> {
        let member = self.members.iter().find(|member| member.powered).context("no node has power")?;
        let kubeconfig = NamedTempFile::new().context("failed to make a kubeconfig")?;
        fs::write(kubeconfig.path(), self.kubeconfig_of(member.id)?)?;
        let mut command = member.host.command(Agent::default_binary());
        command.args(["move", &vip.to_string(), "--to", to, "--timeout", "15s", "--kubeconfig"]);
        command.arg(kubeconfig.path());
        let mut process = Process::spawn(command, &SpawnOptions::default())?;
        let status = process.wait(PATIENCE)?;
        Ok((status.code(), process.transcript()))
    }

    /// What `vipward status -o json` prints on a node.
    pub fn status(&self, id: NodeId) -> Result<Value> {
        self.member(id)?.agent().with_context(|| format!("no agent was started on {id}"))?.status()
    }

    /// Waits until a node's entry for a VIP, as its kernel has it, `matches`; the failure shows it as it was last.
    pub fn wait_for_entry(
        &self,
        id: NodeId,
        vip: Ipv4Addr,
        what: &str,
        matches: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let agent = self.member(id)?.agent().with_context(|| format!("no agent was started on {id}"))?;
        let mut last = None;
        let found = poll(PATIENCE, &format!("the entry of {id} for {vip} {what}"), || {
            last = vip_status(agent, vip, SEGMENT).ok();
            Ok(last.clone().filter(|entry| matches(entry)))
        });
        found.with_context(|| format!("it was last: {last:#?}"))
    }

    /// Waits until a node's agent renews its Lease: until the Lease changes twice.
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
            // The first one may be from before.
            Ok((versions.len() >= 3).then_some(()))
        });
        renewed.with_context(|| format!("{} versions of it were seen", versions.len()))
    }

    /// Whether a node's program has an entry for an address, held or guarded, on whatever interface.
    pub fn knows(&self, id: NodeId, address: Ipv4Addr) -> Result<bool> {
        let status = self.status(id)?;
        let vips = status["vips"].as_array().with_context(|| format!("no VIPs in {status:#}"))?;
        Ok(vips.iter().any(|entry| entry["address"] == address.to_string()))
    }

    /// Waits until no node's program has an entry for an address.
    pub fn wait_until_forgotten(&self, address: Ipv4Addr) -> Result<()> {
        for id in self.ids() {
            // An agent that has only begun has no status yet.
            let forgotten = || Ok(self.knows(id, address).is_ok_and(|knows| !knows).then_some(()));
            poll(PATIENCE, &format!("the program on {id} to forget {address}"), forgotten)?;
        }
        Ok(())
    }

    /// Waits until every node's agent renews its Lease.
    pub fn wait_until_all_renew(&self) -> Result<()> {
        self.ids().into_iter().try_for_each(|id| self.wait_until_renewing(id))
    }

    /// The lines that the agents have logged as errors, and how many as warnings.
    pub fn complaints(&self) -> Result<(Vec<String>, usize)> {
        let (mut errors, mut warnings) = (Vec::new(), 0);
        for agent in self.members.iter().filter_map(Member::agent) {
            for line in agent.logs()? {
                match line.level() {
                    "ERROR" => errors.push(format!("{line:?}")),
                    "WARN" => warnings += 1,
                    _ => {}
                }
            }
        }
        Ok((errors, warnings))
    }

    /// Has every node's kernel deliver a VIP, once its program knows of the VIP: a kernel that has the address answers
    /// for it where no program keeps it from that. Nodes without power, or without an agent, are left out.
    pub fn deliver(&mut self, vip: Ipv4Addr) -> Result<()> {
        for member in &mut self.members {
            let Some(agent) = member.agent.as_ref().filter(|_| member.powered) else { continue };
            let what = format!("the program on {} to know {vip}", member.id);
            poll(PATIENCE, &what, || Ok(vip_status(agent, vip, SEGMENT).ok()))?;
            member.bind(vip)?;
        }
        Ok(())
    }

    /// Undoes [`Cluster::deliver`]: to be called before a VIP goes, or the kernels answer for it then.
    pub fn stop_delivering(&mut self, vip: Ipv4Addr) -> Result<()> {
        self.members.iter_mut().try_for_each(|member| member.unbind(vip))
    }

    /// The Node object of a node.
    pub fn node_object(&self, id: NodeId) -> Object {
        Object::cluster_scoped(super::Kind::NODE, self.node_name(id))
    }
}
