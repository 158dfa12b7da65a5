//! Watching VIPs of a cluster from the wire and from an application at once, and what must hold of what was seen.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};

use super::{Cluster, NodeId, PATIENCE, SEGMENT, poll};
use crate::datagrams::{DatagramReport, Datagrams};
use crate::interrupt;
use crate::lan::Host;
use crate::monitor::{Double, Monitor, MonitorReport};
use crate::node;

/// Where the datagrams go.
const PORT: u16 = 5000;

/// What watches VIPs until it is stopped.
#[derive(Debug)]
pub struct Watch {
    monitor: Monitor,
    flows: BTreeMap<Ipv4Addr, Datagrams>,
}

/// What a [`Watch`] saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// On the wire.
    pub wire: MonitorReport,
    /// By applications.
    pub felt: BTreeMap<Ipv4Addr, DatagramReport>,
}

impl Cluster {
    /// Watches VIPs from the observer's wire and with datagrams of the client. Each VIP must be held: every node
    /// delivers it from now on, and a first datagram has arrived when this returns.
    pub fn watch(&mut self, vips: &[Ipv4Addr]) -> Result<Watch> {
        for vip in vips {
            self.deliver(*vip)?;
        }
        let monitor = self.monitor(vips)?;
        let mut flows = BTreeMap::new();
        for vip in vips {
            monitor.wait_until_answered(*vip, PATIENCE)?;
            flows.insert(*vip, self.datagrams(*vip)?);
        }
        Ok(Watch { monitor, flows })
    }

    /// Watches VIPs from the observer's wire only.
    pub fn monitor(&self, vips: &[Ipv4Addr]) -> Result<Monitor> {
        Monitor::start(&self.observer, SEGMENT, vips)
    }

    /// The client's datagrams to a VIP that the nodes deliver; a first one has arrived when this returns.
    pub fn datagrams(&self, vip: Ipv4Addr) -> Result<Datagrams> {
        let hosts: Vec<&Host> = self.members.iter().map(|member| &member.host).collect();
        let datagrams = Datagrams::start(&self.client, SocketAddrV4::new(vip, PORT), &hosts)?;
        datagrams.wait_until_received(PATIENCE)?;
        Ok(datagrams)
    }

    /// Who answers for a VIP on the wire; none when nobody does, or somebody who is no node.
    pub fn answered_by(&self, vip: Ipv4Addr) -> Result<Option<NodeId>> {
        let mac = node::ask(&self.observer, SEGMENT, vip)?;
        Ok(self.ids().into_iter().find(|id| Some(id.mac()) == mac))
    }

    /// Waits until a VIP's claim names the node that answers for it, and returns that node.
    pub fn wait_until_held(&self, vip: Ipv4Addr) -> Result<NodeId> {
        self.wait_for_holder(vip, "to be held", |_| true)
    }

    /// The same for a given node.
    pub fn wait_until_held_by(&self, vip: Ipv4Addr, id: NodeId) -> Result<()> {
        self.wait_for_holder(vip, &format!("to be held by {id}"), |holder| holder == id).map(drop)
    }

    /// The same for any node but one.
    pub fn wait_until_held_by_another(&self, vip: Ipv4Addr, old: NodeId) -> Result<NodeId> {
        self.wait_for_holder(vip, &format!("to be held by another than {old}"), |holder| holder != old)
    }

    /// Waits until nobody answers for a VIP and no claim for it is there.
    pub fn wait_until_gone(&self, vip: Ipv4Addr) -> Result<()> {
        self.admin().wait_for(PATIENCE, &self.virtual_ip(vip), "to be gone", |claim| claim.is_none())?;
        let silent = || Ok(node::ask(&self.observer, SEGMENT, vip)?.is_none().then_some(()));
        poll(PATIENCE, &format!("silence about {vip}"), silent)
    }

    fn wait_for_holder(&self, vip: Ipv4Addr, what: &str, is_it: impl Fn(NodeId) -> bool) -> Result<NodeId> {
        let (mut claimed, mut answered) = (None, None);
        let found = poll(PATIENCE, &format!("{vip} {what}"), || {
            claimed = self.holder(vip)?;
            let Some(holder) = claimed.filter(|holder| is_it(*holder)) else { return Ok(None) };
            answered = self.answered_by(vip)?;
            Ok((answered == claimed).then_some(holder))
        });
        found.with_context(|| format!("it was last claimed by {claimed:?} and answered by {answered:?}"))
    }
}

impl Watch {
    /// Notes in the timeline what is done now, and returns the instant.
    pub fn step(&self, what: impl Into<String>) -> SystemTime {
        self.monitor.note(what)
    }

    /// What watches the wire.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Lets time pass in which nothing is to happen, or something that is judged afterwards.
    pub fn let_pass(&self, duration: Duration) -> Result<()> {
        let end = Instant::now() + duration;
        interrupt::wait(duration, "time to pass", || Ok((Instant::now() >= end).then_some(())))
    }

    /// Waits until a datagram to a VIP that is sent from now on is received by a node.
    pub fn wait_until_received_by(&self, vip: Ipv4Addr, id: NodeId) -> Result<()> {
        let flow = self.flows.get(&vip).with_context(|| format!("{vip} is not watched"))?;
        flow.wait_until_received_by(&id.to_string(), PATIENCE)?;
        Ok(())
    }

    /// Ends it, and returns what was seen.
    pub fn stop(self) -> Result<Seen> {
        let flows = self.flows.into_iter().map(|(vip, flow)| Ok((vip, flow.stop()?)));
        let felt = flows.collect::<Result<_>>()?;
        Ok(Seen { wire: self.monitor.stop()?, felt })
    }
}

impl Seen {
    /// Fails unless every request was answered, never by two at once, and every datagram arrived.
    pub fn check_seamless(&self, vip: Ipv4Addr) -> Result<()> {
        let wire = self.wire.vip(vip)?;
        let felt = self.felt(vip)?;
        ensure!(wire.answered() > 0 && !felt.received.is_empty(), "nothing was seen of {vip}:\n{self}");
        ensure!(wire.gaps().is_empty(), "{vip} was not answered throughout:\n{self}");
        ensure!(wire.doubles().is_empty(), "{vip} was answered by two at once:\n{self}");
        ensure!(felt.lost().is_empty(), "datagrams to {vip} were lost:\n{self}");
        Ok(())
    }

    /// The same as an assertion.
    #[track_caller]
    pub fn assert_seamless(&self, vip: Ipv4Addr) {
        held(self.check_seamless(vip));
    }

    /// Fails unless datagrams flowed again, for good, within `limit` from an instant on.
    pub fn check_flows_again(&self, vip: Ipv4Addr, from: SystemTime, limit: Duration) -> Result<()> {
        let again = self.felt(vip)?.flows_for_good_after(from);
        let again = again.with_context(|| format!("datagrams to {vip} never flowed again:\n{self}"))?;
        ensure!(
            again <= limit,
            "datagrams to {vip} flowed again after {again:?} only, not {limit:?}:\n{self}"
        );
        Ok(())
    }

    /// The same as an assertion.
    #[track_caller]
    pub fn assert_flows_again(&self, vip: Ipv4Addr, from: SystemTime, limit: Duration) {
        held(self.check_flows_again(vip, from, limit));
    }

    /// Fails when two answered at once.
    pub fn check_no_doubles(&self, vip: Ipv4Addr) -> Result<()> {
        ensure!(self.wire.vip(vip)?.doubles().is_empty(), "{vip} was answered by two at once:\n{self}");
        Ok(())
    }

    /// The same as an assertion: what must hold under the policy `stop`.
    #[track_caller]
    pub fn assert_no_doubles(&self, vip: Ipv4Addr) {
        held(self.check_no_doubles(vip));
    }

    /// Fails when a request was answered by two that was sent after `new` had announced the VIP, from an instant on,
    /// or when `new` never did. That the observer has heard the announcement does not say that the switch has brought it
    /// to everybody: where the machine stood still then, that time is allowed for.
    pub fn check_no_doubles_after_announcement(
        &self,
        vip: Ipv4Addr,
        new: NodeId,
        from: SystemTime,
    ) -> Result<()> {
        let wire = self.wire.vip(vip)?;
        let announced = wire.first_announced_after(from, new.mac());
        let announced = announced.with_context(|| format!("{new} has not announced {vip}:\n{self}"))?;
        let arrived = announced + wire.delay_of_monitor_about(announced);
        let later: Vec<Double> = wire.doubles().into_iter().filter(|double| double.at > arrived).collect();
        ensure!(later.is_empty(), "two answered for {vip} after {new} had announced it: {later:?}\n{self}");
        Ok(())
    }

    /// The same as an assertion: what must hold under the policy `hold`.
    #[track_caller]
    pub fn assert_no_doubles_after_announcement(&self, vip: Ipv4Addr, new: NodeId, from: SystemTime) {
        held(self.check_no_doubles_after_announcement(vip, new, from));
    }

    fn felt(&self, vip: Ipv4Addr) -> Result<&DatagramReport> {
        self.felt.get(&vip).with_context(|| format!("no datagrams were sent to {vip}"))
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for report in self.felt.values() {
            writeln!(f, "{report}")?;
        }
        self.wire.fmt(f)
    }
}

/// Turns what does not hold into a failed assertion, at the caller's place.
#[track_caller]
fn held(checked: Result<()>) {
    if let Err(failure) = checked {
        panic!("{failure:#}");
    }
}
