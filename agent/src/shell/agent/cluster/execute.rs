//! Carries out the engine's commands.

use std::{collections::BTreeSet, net::IpAddr};

use vipward_common::{Fence, VipKey};
use vipward_core::{
    agent::segment::Input,
    base::pattern::InterfacePattern,
    host::{net::NetView, placement::Entry},
    ownership::{self, Command, Notice, Step},
    records::Session,
    services,
};

use super::source::{Assigned, Cluster};
use crate::shell::agent::{error::RunError, event_loop::EventLoop, timing::now};

impl EventLoop<Cluster> {
    pub(super) async fn decide(&mut self, event: ownership::Event) -> Result<(), RunError> {
        let commands = self.source.engine.on_event(event, now()?);
        self.execute(commands).await
    }

    /// Carries out commands, and the commands that follow from requests that could not be sent.
    pub(super) async fn execute(&mut self, commands: Vec<Command>) -> Result<(), RunError> {
        self.note_moves(&commands);
        self.source.interlock.push(commands);
        while let Some(step) = self.source.interlock.next(&self.stale) {
            match step {
                Step::WriteEntries(vips) => self.write_entries(vips).await?,
                Step::Do(command) => self.carry_out(command).await?,
                Step::NotSent(event) => {
                    let commands = self.source.engine.on_event(event, now()?);
                    self.note_moves(&commands);
                    self.source.interlock.push(commands);
                }
            }
        }
        self.begin_if_known().await
    }

    /// Counts the VIPs that this node gets, before their entries are written and announced.
    fn note_moves(&mut self, commands: &[Command]) {
        for command in commands {
            if let Command::Notify(Notice::Holds { vip, from, .. }) = command
                && let Some(cause) = self.source.moves.on_holds(*vip, from.as_ref())
            {
                self.source.move_metrics.moved(cause);
            }
        }
    }

    async fn carry_out(&mut self, command: Command) -> Result<(), RunError> {
        match command {
            Command::SetEntry { vip, entry, home } => self.assign(vip, entry, home.as_deref()),
            Command::SetFence(fence) => self.set_fence(fence)?,
            Command::SetPeers(peers) => {
                self.config.peers = peers.into_iter().collect();
                self.reconcile_peers().await;
            }
            Command::SetSuccessor { vip, hears } => self.hear_ahead(vip, hears)?,
            Command::Announce { vip } => self.on_segment(Input::AnnounceAgain(vip))?,
            Command::Probe { vip, often } => self.begin_probing(vip, often)?,
            Command::StopProbing { vip } => self.on_segment(Input::Unwanted(vip))?,
            Command::WriteLease(write) => self.source.requests.write_lease(write),
            Command::ReadLease(node) => self.source.requests.read_lease(node),
            Command::WriteClaim(write) => {
                self.source.moves.on_write(&write, now()?);
                self.source.requests.write_claim(write);
            }
            Command::DeleteClaim { vip, expected } => self.source.requests.delete_claim(vip, expected),
            Command::ReadClaim(vip) => self.source.requests.read_claim(vip),
            Command::SetWire(plan) => self.source.set_wire(plan),
            Command::SetHeeding(heeds) => self.set_heeding(heeds)?,
            Command::TellFormer { vip, session, mac } => self.source.note_former(vip, session, mac),
            Command::ListAnew => self.source.kube.list_anew(),
            Command::Notify(Notice::NotAlone { session }) => {
                self.reconcile(false).await;
                let node = self.source.settings.node.clone();
                return Err(RunError::NotAlone { node, session });
            }
            Command::Notify(notice) => {
                self.source.forget_holder(&notice, now()?);
                self.source.messages.notice(self.source.services.index(), &notice, now()?);
            }
            Command::Stopped => self.source.stopped = true,
        }
        Ok(())
    }

    fn assign(&mut self, vip: IpAddr, entry: Option<Entry>, home: Option<&str>) {
        let Some(entry) = entry else {
            self.source.assigned.remove(&vip);
            self.source.moves.on_gone(vip);
            return;
        };
        let home = home.map(InterfacePattern::exactly);
        self.source.assigned.insert(vip, Assigned { entry, home });
    }

    /// Writes the entries of VIPs as the engine has assigned them.
    async fn write_entries(&mut self, vips: BTreeSet<IpAddr>) -> Result<(), RunError> {
        self.reconcile_some(&vips).await;
        for vip in vips {
            let here = self.source.engine.holds(vip);
            let served = self.source.services.on_event(services::Event::Held { vip, here });
            let owned = self.serve(served, now()?);
            self.source.show_holder(vip);
            self.note_moves(&owned);
            self.source.interlock.push(owned);
        }
        Ok(())
    }

    /// Begins after the engine has said which entries it wants:
    /// removes all others, and starts announcing.
    async fn begin_if_known(&mut self) -> Result<(), RunError> {
        if self.segment.is_started() || !self.source.engine.has_begun() {
            return Ok(());
        }
        self.on_segment(Input::Started)?;
        self.source.known = true;
        self.reconcile(false).await;
        self.on_segment(Input::Network(&NetView::default()))?;
        self.adopt()
    }

    fn set_fence(&mut self, fenced: ownership::Fenced) -> Result<(), RunError> {
        self.source.beaten = now()?;
        let fence = Fence {
            deadline_ns: fenced.deadline.as_nanos(),
            hold_until_ns: fenced.hold_until.as_nanos(),
            yields_settled: self.host.yields_settled(),
            session: fenced.session.map_or(0, Session::number),
            words_settled: fenced.words_settled,
            policy: self.source.settings.policy,
            defence: self.config.conflicts.defend.in_program(),
        };
        Ok(self.plane.maps_mut().set_fence(&fence)?)
    }

    /// Hears the questions for a VIP of another node, or no longer.
    fn hear_ahead(&mut self, vip: IpAddr, hears: bool) -> Result<(), RunError> {
        self.memberships.on_successor(vip, hears);
        let attached: Vec<u32> = self.plane.attachments().attached().map(|(ifindex, _)| ifindex).collect();
        attached.into_iter().try_for_each(|ifindex| self.hear_questions(VipKey::new(ifindex, vip)))
    }
}
