//! Watches VIPs of a cluster on the wire and from an application, and checks the results.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    node::{NodeId, SEGMENT},
    options::PATIENCE,
    running::Cluster,
};
use crate::{
    agent::ask,
    kit::interrupt::{self, poll},
    lan::Host,
    measure::{DatagramReport, Datagrams, Double, Monitor, MonitorReport},
};

/// Destination port of the datagrams.
const PORT: u16 = 5000;

/// Watch of VIPs, until it is stopped.
#[derive(Debug)]
pub struct Watch {
    monitor: Monitor,
    flows: BTreeMap<IpAddr, Datagrams>,
}

/// Result of a [`Watch`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub wire: MonitorReport,
    /// Reports of applications.
    felt: BTreeMap<IpAddr, DatagramReport>,
}

/// The time after a first take within which an answer gives the VIP back (RFC 5227, `ANNOUNCE_WAIT`).
const PROVISIONAL: Duration = Duration::from_secs(2);

impl Cluster {
    /// Watches VIPs on the observer's wire and with datagrams of the client. Each VIP must be
    /// held. Every node delivers it from now on. Returns after the first datagram has arrived.
    pub fn watch(&mut self, vips: &[impl Into<IpAddr> + Copy]) -> Result<Watch> {
        let vips: Vec<IpAddr> = vips.iter().map(|vip| (*vip).into()).collect();
        for vip in &vips {
            self.deliver(*vip)?;
        }
        let monitor = self.monitor(&vips)?;
        let mut flows = BTreeMap::new();
        for vip in vips {
            monitor.wait_until_answered(vip, PATIENCE)?;
            flows.insert(vip, self.datagrams(vip)?);
        }
        Ok(Watch { monitor, flows })
    }

    /// Watches VIPs on the observer's wire only.
    pub fn monitor(&self, vips: &[impl Into<IpAddr> + Copy]) -> Result<Monitor> {
        Monitor::start(&self.observer, SEGMENT, vips)
    }

    /// Starts datagrams of the client to a VIP that the
    /// nodes deliver. Returns after the first has arrived.
    pub fn datagrams(&self, vip: impl Into<IpAddr>) -> Result<Datagrams> {
        let vip = vip.into();
        let hosts: Vec<&Host> = self.members.iter().map(|member| &member.host).collect();
        let datagrams = Datagrams::start(&self.client, SocketAddr::new(vip, PORT), &hosts)?;
        datagrams.wait_until_received(PATIENCE)?;
        Ok(datagrams)
    }

    /// Returns the node that answers for a VIP on the wire, if one does.
    pub fn answered_by(&self, vip: impl Into<IpAddr>) -> Result<Option<NodeId>> {
        let vip = vip.into();
        let mac = ask(&self.observer, SEGMENT, vip)?;
        Ok(self.ids().into_iter().find(|id| Some(id.mac()) == mac))
    }

    /// Waits until the node that answers for a VIP is the holder in its claim, and returns it.
    pub fn wait_until_held(&self, vip: impl Into<IpAddr>) -> Result<NodeId> {
        self.wait_for_holder(vip.into(), "to be held", |_| true)
    }

    /// Waits until a VIP is held for good: before, a host that answers had its address first.
    pub fn wait_until_kept(&self, vip: impl Into<IpAddr>) -> Result<NodeId> {
        let holder = self.wait_until_held(vip)?;
        thread::sleep(PROVISIONAL);
        Ok(holder)
    }

    pub fn conflict_of(claim: &Value) -> Option<&Value> {
        claim["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == "Conflict")
    }

    /// Waits until a VIP's condition `Conflict` has this status, and this text in its message.
    /// Returns the claim.
    pub fn wait_for_conflict(&self, vip: impl Into<IpAddr>, status: &str, part: &str) -> Result<Value> {
        let what = format!("to have the condition Conflict {status}, with {part:?}");
        let found = self.admin().wait_for(PATIENCE, &self.virtual_ip(vip), &what, |claim| {
            claim.and_then(Self::conflict_of).is_some_and(|condition| {
                let message = condition["message"].as_str().unwrap_or_default();
                condition["status"] == status && message.contains(part)
            })
        })?;
        found.context("it was there")
    }

    /// Waits until this node answers for a VIP and is the holder in its claim.
    pub fn wait_until_held_by(&self, vip: impl Into<IpAddr>, id: NodeId) -> Result<()> {
        self.wait_for_holder(vip.into(), &format!("to be held by {id}"), |holder| holder == id).map(drop)
    }

    /// Waits until another node answers for a VIP and
    /// is the holder in its claim. Returns that node.
    pub fn wait_until_held_by_another(&self, vip: impl Into<IpAddr>, old: NodeId) -> Result<NodeId> {
        self.wait_for_holder(vip.into(), &format!("to be held by another than {old}"), |holder| holder != old)
    }

    /// Waits until one node holds all of these VIPs, and returns it.
    pub fn wait_until_all_held(&self, vips: &[IpAddr]) -> Result<NodeId> {
        self.wait_until_together(vips, |first| self.wait_until_held(first))
    }

    /// Waits until one other node holds all of these VIPs, and returns it.
    pub fn wait_until_all_held_by_another(&self, vips: &[IpAddr], old: NodeId) -> Result<NodeId> {
        self.wait_until_together(vips, |first| self.wait_until_held_by_another(first, old))
    }

    /// Waits until the VIPs are where the first is found.
    fn wait_until_together(
        &self,
        vips: &[IpAddr],
        find: impl FnOnce(IpAddr) -> Result<NodeId>,
    ) -> Result<NodeId> {
        let (first, others) = vips.split_first().context("there is no VIP to wait for")?;
        let id = find(*first)?;
        others.iter().try_for_each(|vip| self.wait_until_held_by(*vip, id))?;
        Ok(id)
    }

    /// Waits until no node answers for a VIP and its claim is gone.
    pub fn wait_until_gone(&self, vip: impl Into<IpAddr>) -> Result<()> {
        let vip = vip.into();
        self.admin().wait_for(PATIENCE, &self.virtual_ip(vip), "to be gone", |claim| claim.is_none())?;
        let silent = || Ok(ask(&self.observer, SEGMENT, vip)?.is_none().then_some(()));
        poll(PATIENCE, &format!("silence about {vip}"), silent)
    }

    fn wait_for_holder(&self, vip: IpAddr, what: &str, is_it: impl Fn(NodeId) -> bool) -> Result<NodeId> {
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
    /// Records a step in the timeline, and returns the time.
    pub fn step(&self, what: impl Into<String>) -> SystemTime {
        self.monitor.note(what)
    }

    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    pub fn let_pass(&self, duration: Duration) -> Result<()> {
        let end = Instant::now() + duration;
        interrupt::wait(duration, "time to pass", || Ok((Instant::now() >= end).then_some(())))
    }

    /// Waits until a node receives a datagram to a VIP that is sent from now on.
    pub fn wait_until_received_by(&self, vip: impl Into<IpAddr>, id: NodeId) -> Result<()> {
        let vip = vip.into();
        let flow = self.flows.get(&vip).with_context(|| format!("{vip} is not watched"))?;
        flow.wait_until_received_by(&id.to_string(), PATIENCE)?;
        Ok(())
    }

    /// Waits until a node receives a datagram to each VIP that is sent from now on.
    pub fn wait_until_all_received_by(&self, vips: &[IpAddr], id: NodeId) -> Result<()> {
        vips.iter().try_for_each(|vip| self.wait_until_received_by(*vip, id))
    }

    pub fn stop(self) -> Result<Seen> {
        let flows = self.flows.into_iter().map(|(vip, flow)| Ok((vip, flow.stop()?)));
        let felt = flows.collect::<Result<_>>()?;
        Ok(Seen { wire: self.monitor.stop()?, felt })
    }
}

impl Seen {
    /// Fails unless every request was answered, never by
    /// two nodes at once, and every datagram arrived.
    pub fn check_seamless(&self, vip: impl Into<IpAddr>) -> Result<()> {
        let vip = vip.into();
        let wire = self.wire.vip(vip)?;
        let felt = self.felt(vip)?;
        ensure!(wire.answered() > 0 && !felt.received.is_empty(), "nothing was seen of {vip}:\n{self}");
        ensure!(wire.gaps().is_empty(), "{vip} was not answered throughout:\n{self}");
        ensure!(wire.doubles().is_empty(), "two hosts answered for {vip} at once:\n{self}");
        ensure!(felt.lost().is_empty(), "datagrams to {vip} were lost:\n{self}");
        Ok(())
    }

    /// Panics unless the check succeeds.
    #[track_caller]
    pub fn assert_seamless(&self, vip: impl Into<IpAddr>) {
        held(self.check_seamless(vip));
    }

    /// Panics unless the check succeeds for every VIP that was watched.
    #[track_caller]
    pub fn assert_all_seamless(&self) {
        for vip in self.felt.keys() {
            held(self.check_seamless(*vip));
        }
    }

    /// Fails unless datagrams flowed again within `limit` of an instant, and went on.
    pub fn check_flows_again(&self, vip: impl Into<IpAddr>, from: SystemTime, limit: Duration) -> Result<()> {
        let vip = vip.into();
        let again = self.felt(vip)?.flows_for_good_after(from);
        let again = again.with_context(|| format!("datagrams to {vip} never flowed again:\n{self}"))?;
        ensure!(
            again <= limit,
            "datagrams to {vip} flowed again after {again:?} only, not {limit:?}:\n{self}"
        );
        Ok(())
    }

    /// Panics unless the check succeeds.
    #[track_caller]
    pub fn assert_flows_again(&self, vip: impl Into<IpAddr>, from: SystemTime, limit: Duration) {
        held(self.check_flows_again(vip, from, limit));
    }

    /// Fails if two nodes answered at once.
    pub fn check_no_doubles(&self, vip: impl Into<IpAddr>) -> Result<()> {
        let vip = vip.into();
        ensure!(self.wire.vip(vip)?.doubles().is_empty(), "two hosts answered for {vip} at once:\n{self}");
        Ok(())
    }

    /// Panics unless the check succeeds. It must under the policy `stop`.
    #[track_caller]
    pub fn assert_no_doubles(&self, vip: impl Into<IpAddr>) {
        held(self.check_no_doubles(vip));
    }

    /// Fails if `new` has not announced the VIP since an instant, or if two nodes answered a
    /// request that was sent after the announcement. Allows for the time in which the machine stood
    /// still then, because the switch may deliver the announcement to others later than to the
    /// observer.
    pub fn check_no_doubles_after_announcement(
        &self,
        vip: impl Into<IpAddr>,
        new: NodeId,
        from: SystemTime,
    ) -> Result<()> {
        let vip = vip.into();
        let wire = self.wire.vip(vip)?;
        let announced = wire.first_announced_after(from, new.mac());
        let announced = announced.with_context(|| format!("{new} has not announced {vip}:\n{self}"))?;
        let arrived = announced + wire.delay_of_monitor_about(announced);
        let later: Vec<Double> = wire.doubles().into_iter().filter(|double| double.at > arrived).collect();
        ensure!(
            later.is_empty(),
            "two hosts answered for {vip} after {new} had announced it: {later:?}\n{self}"
        );
        Ok(())
    }

    /// Panics unless the check succeeds. It must under the policy `hold`.
    #[track_caller]
    pub fn assert_no_doubles_after_announcement(
        &self,
        vip: impl Into<IpAddr>,
        new: NodeId,
        from: SystemTime,
    ) {
        held(self.check_no_doubles_after_announcement(vip, new, from));
    }

    /// Returns the report of an application.
    pub fn felt(&self, vip: impl Into<IpAddr>) -> Result<&DatagramReport> {
        let vip = vip.into();
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

/// Panics at the caller's place if a check failed.
#[track_caller]
fn held(checked: Result<()>) {
    if let Err(failure) = checked {
        panic!("{failure:#}");
    }
}
