//! Carries out the commands of the engine and of the index of Services.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::VipFault;

use super::{Assigned, Cluster};
use crate::{
    agent::effect::{self, Effect, HeldVip, Line, Request},
    base::{pattern::InterfacePattern, time::Monotonic},
    host::{net::Vital, placement::Entry, stale::Stale},
    ownership::{self, Command, NewDeadline, Notice, Outcome, Step, StopReason},
    records::ServiceName,
    segment::probing::Manner,
    services::{self, Problem},
};

/// The part of a step of the interlock that the composed agent carries out.
pub(in crate::agent) enum Todo {
    /// Write the entries of these VIPs.
    WriteEntries(BTreeSet<IpAddr>),
    /// Move the lease deadline.
    SetDeadline(NewDeadline),
    SetPeers(BTreeSet<vipward_common::MacAddr>),
    /// Record the VIPs whose clients do not reach this node, as other nodes found.
    SetUnreached(BTreeMap<IpAddr, VipFault>),
    /// Join or leave the solicited-node group of another node's VIP (group pre-join).
    SetSuccessor(IpAddr, bool),
    /// Announce a VIP once more.
    Announce(IpAddr),
    /// Probe an address.
    Probe(IpAddr, Manner),
    StopProbing(IpAddr),
    /// End, since another agent has this node's name.
    NotAlone(crate::records::Session),
    Stop(Option<StopReason>),
    /// Nothing: the cluster's part has done it.
    Nothing,
}

impl Cluster {
    /// Takes the next step of the interlock.
    pub(in crate::agent) fn step(&mut self, stale: &Stale, now: Monotonic) -> Option<Todo> {
        Some(match self.interlock.next(stale)? {
            Step::WriteEntries(vips) => Todo::WriteEntries(vips),
            Step::Do(command) => self.carry_out(command, now),
            Step::NotSent(event) => {
                self.decide(event, now);
                Todo::Nothing
            }
        })
    }

    fn carry_out(&mut self, command: Command, now: Monotonic) -> Todo {
        match command {
            Command::SetEntry { vip, entry, home } => self.assign(vip, entry, home.as_deref()),
            Command::SetDeadline(new_deadline) => {
                self.beaten = now;
                return Todo::SetDeadline(new_deadline);
            }
            Command::SetPeers(peers) => return Todo::SetPeers(peers),
            Command::SetUnreached(vips) => return Todo::SetUnreached(vips),
            Command::SetSuccessor { vip, receives } => return Todo::SetSuccessor(vip, receives),
            Command::Announce { vip } => return Todo::Announce(vip),
            Command::Probe { vip, manner } => return Todo::Probe(vip, manner),
            Command::StopProbing { vip } => return Todo::StopProbing(vip),
            Command::WriteLease(write) => self.ask(Request::WriteLease(write)),
            Command::ReadLease(node) => self.ask(Request::ReadLease(node)),
            Command::WriteClaim(write) => {
                self.moves.on_write(&write, now);
                self.ask(Request::WriteClaim(write));
            }
            Command::DeleteClaim { vip, expected } => self.ask(Request::DeleteClaim(vip, expected)),
            Command::ReadClaim(vip) => self.ask(Request::ReadClaim(vip)),
            Command::SetWire(plan) => self.emit(effect::Cluster::Watch(plan)),
            Command::SetHeeding(heeds) => self.emit(effect::Cluster::SetHeeding(heeds)),
            Command::NotifyFormer { vip, session, mac } => self.succession.on_former(vip, session, mac),
            Command::ListAnew => self.emit(effect::Cluster::ListAnew),
            Command::AvoidServer(node) => self.emit(effect::Cluster::AvoidServer(node)),
            Command::Notify(Notice::NotAlone { session }) => return Todo::NotAlone(session),
            Command::Notify(notice) => self.on_notice(notice, now),
            Command::Stopped => return Todo::Stop(self.stopping),
        }
        Todo::Nothing
    }

    pub(super) fn ask(&mut self, request: Request) {
        self.emit(effect::Cluster::Ask(request));
    }

    fn assign(&mut self, vip: IpAddr, entry: Option<Entry>, home: Option<&str>) {
        let Some(entry) = entry else {
            self.assigned.remove(&vip);
            self.succession.forget(vip);
            self.moves.on_gone(vip);
            return;
        };
        let home = home.map(InterfacePattern::exactly);
        self.assigned.insert(vip, Assigned { entry, home });
    }

    /// Passes an event to the index of Services, and carries out its commands.
    pub(in crate::agent) fn notify_services(&mut self, event: services::Event, now: Monotonic) {
        let commands = self.services.on_event(event);
        self.serve(commands, now);
    }

    fn serve(&mut self, commands: Vec<services::Command>, now: Monotonic) {
        for command in commands {
            match command {
                services::Command::ListSlices { service } => {
                    self.awaits_slices = true;
                    self.emit(effect::Cluster::ListSlices(service));
                }
                services::Command::Demand(vip, demand) => {
                    let us = &self.settings.node;
                    let port = demand.as_ref().and_then(|demand| demand.reach.health_port(us));
                    self.delivery.on_demand(vip, port, now);
                    self.deliver(now);
                    self.decide(ownership::Event::Demand(vip, demand), now);
                    self.show_holder(vip);
                }
                services::Command::WriteIngress { service, addresses } => {
                    self.statuses.begin(service, Some(addresses), now);
                }
                services::Command::ClearIngress { service } => self.statuses.begin(service, None, now),
                services::Command::LeaveIngress { service } => {
                    self.statuses.leave(&service);
                    let over = self.news.statuses.end(&service);
                    self.report_status(&service, over, None);
                    self.emit(effect::Cluster::LeaveStatus(service));
                }
                services::Command::Report { service, problem } => {
                    self.on_dispute(&problem, now);
                    self.emit(effect::Cluster::Problem(service, problem));
                }
                services::Command::ProblemOver { service, problem } => {
                    self.on_dispute(&problem, now);
                    self.emit(effect::Cluster::ProblemOver(service, problem));
                }
            }
        }
        self.write_statuses_due(now);
    }

    /// Records the outcome of writing a status. One that was left or changed meanwhile is no problem.
    pub(super) fn on_status_answered(
        &mut self,
        service: &ServiceName,
        outcome: &Outcome<()>,
        jitter: f64,
        now: Monotonic,
    ) {
        let done = *outcome == Outcome::Done(());
        self.statuses.on_result(service, done, jitter, now);
        if done || self.statuses.failures(service) > 0 {
            let (over, begins) = self.news.statuses.on_answer(service, outcome);
            self.report_status(service, over, begins);
        }
    }

    fn report_status(&mut self, service: &ServiceName, over: Option<Problem>, begins: Option<Problem>) {
        if let Some(problem) = over {
            self.emit(effect::Cluster::ProblemOver(service.clone(), problem));
        }
        if let Some(problem) = begins {
            self.emit(effect::Cluster::Problem(service.clone(), problem));
        }
    }

    fn write_statuses_due(&mut self, now: Monotonic) {
        for (service, addresses) in self.statuses.due(now) {
            let over = self.services.index().overwrites(&service);
            self.ask(Request::WriteStatus { service, addresses, over });
        }
    }

    /// Lets time pass: for the engine, for contests over statuses that have been quiet for long enough,
    /// and for the guards. Returns VIPs whose entries must be written again.
    pub(in crate::agent) fn on_time(&mut self, now: Monotonic) -> BTreeSet<IpAddr> {
        self.deliver(now);
        self.decide(ownership::Event::Tick, now);
        let quiet = self.services.on_time(now);
        self.serve(quiet, now);
        let vips = self.heed_deadline(now);
        self.write_statuses_due(now);
        vips
    }

    /// Lifts the guards over what leads to the API server while this node may be behind: what it knows
    /// of holders may be untrue by now, and it must be able to learn that. Returns the guarded VIPs.
    fn heed_deadline(&mut self, now: Monotonic) -> BTreeSet<IpAddr> {
        let is_behind = self.engine.is_behind(now);
        if self.services.index().is_behind() == is_behind {
            return BTreeSet::new();
        }
        self.notify_services(services::Event::Behind(is_behind), now);
        let Vital { api_servers, next_hops } = self.services.index().vital();
        let vital = api_servers.union(&next_hops).copied();
        vital.filter(|vip| self.assigned.contains_key(vip)).collect()
    }

    /// Shows in `MetalLB`'s objects that this node holds a VIP, or that it does not.
    pub(super) fn show_holder(&mut self, vip: IpAddr) {
        if !self.has_l2_statuses {
            return;
        }
        let home = self.assigned.get(&vip).and_then(|assigned| assigned.home.as_ref());
        let held = home.filter(|_| self.engine.holds(vip)).map(|home| HeldVip {
            services: self.services.index().having(vip).to_vec(),
            interface: home.to_string().into(),
            uid: self.engine.claim(vip).and_then(|claim| claim.uid.clone()),
        });
        self.emit(effect::Cluster::ShowHolder(vip, held));
    }

    fn on_notice(&mut self, notice: Notice, now: Monotonic) {
        if let Notice::Holds { services, from: Some(from), .. } = &notice
            && self.has_l2_statuses
            && !self.engine.alive(now).contains(from)
        {
            self.emit(effect::Cluster::ForgetHolder(services.clone(), from.clone()));
        }
        self.report_notice(&notice);
        let not_logged = match &notice {
            Notice::Repaired { what, .. } => match self.news.repairs.on(what.clone(), (), now) {
                Some(not_logged) => Some(not_logged),
                None => return,
            },
            _ => None,
        };
        self.effects.push(Effect::Log(Line::Notice(notice, not_logged)));
    }
}
