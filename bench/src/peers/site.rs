//! A place where hosts share a VIP: a cluster of Vipward, or a LAN with another system's daemons.

use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{
    daemons::{Daemons, NIC},
    seen::Seen,
    system::System,
};
use vipward_tests::{
    agent::{PATIENCE, VIP, ask},
    cluster::{Cluster, ClusterOptions, NodeId, ServiceSpec},
    frames::Mac,
    kit::interrupt,
    lan::Host,
    measure::{ArpProbe, Datagrams, INTERVAL, ProbeMode},
};

/// Hosts that share the VIP.
pub(super) const HOSTS: u8 = 3;
pub(super) const TARGET: SocketAddrV4 = SocketAddrV4::new(VIP, 5000);
/// Time in which the other hosts learn who the holder is.
const SETTLING: Duration = Duration::from_millis(1_500);
/// Range of the random time after that: the longest interval between two advertisements.
const PHASE: Duration = Duration::from_secs(1);

/// Answers that show who has the VIP now.
const ANSWERS: usize = 100;

/// Hosts that share a VIP.
pub(super) enum Site {
    Vipward(Box<Cluster>),
    Daemons(Daemons),
}

/// Host that answers for the VIP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Holder {
    /// Its place among the hosts, from zero.
    pub(super) place: usize,
    pub(super) name: String,
    pub(super) mac: Mac,
}

impl Site {
    /// Makes a site with so many hosts, which have agreed on a holder, at a random point of their interval.
    pub(super) fn start(system: System, hosts: u8) -> Result<Self> {
        let site = match system {
            System::Vipward => {
                let options =
                    ClusterOptions { api_in_process: true, nodes: hosts, ..ClusterOptions::default() };
                let mut cluster = Cluster::start("peers", options)?;
                cluster.create_service(&ServiceSpec::new("web", VIP))?;
                cluster.wait_until_held(VIP)?;
                cluster.wait_until_all_renew()?;
                cluster.deliver(VIP)?;
                Self::Vipward(Box::new(cluster))
            }
            System::Keepalived | System::KeepalivedFast | System::Ucarp | System::Kernel => {
                Self::Daemons(Daemons::start(system, hosts)?)
            }
        };
        site.holder()?;
        interrupt::pass(SETTLING + PHASE.mul_f64(fastrand::f64()))?;
        Ok(site)
    }

    pub(super) fn client(&self) -> &Host {
        match self {
            Self::Vipward(cluster) => &cluster.client,
            Self::Daemons(daemons) => &daemons.client,
        }
    }

    fn observer(&self) -> &Host {
        match self {
            Self::Vipward(cluster) => &cluster.observer,
            Self::Daemons(daemons) => &daemons.observer,
        }
    }

    pub(super) fn rogue(&self) -> &Host {
        match self {
            Self::Vipward(cluster) => &cluster.rogue,
            Self::Daemons(daemons) => &daemons.rogue,
        }
    }

    pub(super) fn hosts(&self) -> Result<Vec<&Host>> {
        match self {
            Self::Vipward(cluster) => {
                cluster.ids().into_iter().map(|id| Ok(&cluster.member(id)?.host)).collect()
            }
            Self::Daemons(daemons) => Ok(daemons.hosts()),
        }
    }

    /// Waits until a host answers, and returns it.
    pub(super) fn holder(&self) -> Result<Holder> {
        let mac = interrupt::wait(PATIENCE, "a host to answer", || ask(self.observer(), NIC, VIP))?;
        for (place, host) in self.hosts()?.into_iter().enumerate() {
            if host.mac(NIC)? == mac {
                return Ok(Holder { place, name: host.name().to_owned(), mac });
            }
        }
        anyhow::bail!("{mac} answers for {VIP}, and is none of the hosts")
    }

    /// Starts the requests and the datagrams. Returns after the first datagram has arrived.
    pub(super) fn watch(&self) -> Result<Watch> {
        let flow = Datagrams::start(self.client(), TARGET, &self.hosts()?)?;
        flow.wait_until_received(PATIENCE)?;
        let probe = ArpProbe::start(self.observer(), NIC, VIP, INTERVAL, ProbeMode::Broadcast)?;
        probe.wait_for_answers(1, PATIENCE)?;
        Ok(Watch { probe, flow })
    }

    /// Takes the power from a host.
    pub(super) fn power_off(&mut self, holder: &Holder) -> Result<()> {
        match self {
            Self::Vipward(cluster) => {
                let id = id_of(cluster, holder)?;
                cluster.power_off(id)
            }
            Self::Daemons(daemons) => daemons.power_off(holder.place),
        }
    }

    /// Kills every process of a host's daemon with SIGKILL.
    pub(super) fn kill9(&mut self, holder: &Holder) -> Result<()> {
        match self {
            Self::Vipward(cluster) => {
                let id = id_of(cluster, holder)?;
                cluster.kill9(id)
            }
            Self::Daemons(daemons) => daemons.daemon(holder.place)?.kill9(),
        }
    }

    pub(super) fn restart(&mut self, holder: &Holder) -> Result<()> {
        match self {
            Self::Vipward(cluster) => {
                let id = id_of(cluster, holder)?;
                cluster.start_agent(id)
            }
            Self::Daemons(daemons) => daemons.daemon(holder.place)?.start(),
        }
    }

    /// Ends a host's daemon with SIGTERM.
    pub(super) fn terminate(&mut self, holder: &Holder) -> Result<()> {
        match self {
            Self::Vipward(cluster) => {
                let id = id_of(cluster, holder)?;
                cluster.terminate(id).map(drop)
            }
            Self::Daemons(daemons) => daemons.daemon(holder.place)?.terminate(),
        }
    }

    /// Moves the VIP away from a host as planned.
    pub(super) fn give_away(&mut self, holder: &Holder) -> Result<()> {
        match self {
            Self::Vipward(cluster) => {
                let from = id_of(cluster, holder)?;
                let to = cluster.ids().into_iter().find(|id| *id != from).context("there is one node")?;
                let (code, printed) = cluster.vipward_move(VIP, &cluster.node_name(to))?;
                ensure!(code == Some(0), "vipward move failed: {printed}");
                Ok(())
            }
            Self::Daemons(daemons) => daemons.daemon(holder.place)?.give_away(),
        }
    }

    /// Returns what the daemons have printed, for failure messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Vipward(cluster) => cluster.describe(),
            Self::Daemons(daemons) => daemons.transcripts(),
        }
    }
}

fn id_of(cluster: &Cluster, holder: &Holder) -> Result<NodeId> {
    cluster.ids().get(holder.place).copied().context("there is no such node")
}

/// Observer that sends requests and client that sends datagrams, until they are stopped.
pub(super) struct Watch {
    probe: ArpProbe,
    flow: Datagrams,
}

impl Watch {
    /// Waits until another host than `old` receives a datagram that is sent from now on, and the
    /// observer has answers too.
    pub(super) fn wait_for_another(&self, old: &Holder, others: &[String]) -> Result<()> {
        interrupt::wait(PATIENCE, &format!("a datagram to arrive elsewhere than at {}", old.name), || {
            let received = self.flow.wait_until_received(PATIENCE)?;
            Ok(others.contains(&received.node).then_some(()))
        })?;
        // An announcement may have led the client there before the observer had an answer.
        self.probe.wait_for_answers(ANSWERS, PATIENCE)
    }

    /// Stops both, and returns what they have seen.
    pub(super) fn stop(self) -> Result<Seen> {
        Ok(Seen { wire: self.probe.stop()?, felt: self.flow.stop()? })
    }
}
