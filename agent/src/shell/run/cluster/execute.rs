//! Carrying out what the engine asks for.

use std::{collections::BTreeSet, net::Ipv4Addr};

use vipward_common::{Fence, MacAddr, Role, VipKey};

use super::{super::behind::Left, Assigned, Cluster, Driver, RunError, now};
use crate::core::{
    announce,
    cluster::{ClaimState, Session, Version},
    config::InterfacePattern,
    net::NetView,
    ownership::{self, ClaimWrite, Entry, LeaseWrite, Outcome},
    placement::Stance,
    services,
};

#[cfg(test)]
mod tests;

/// Why something was not sent, as the engine is told.
const NOT_SENT: &str = "not sent, since this node's own entry could not be changed";

/// What the engine has asked for and is not done yet.
#[derive(Default)]
struct Waiting {
    /// VIPs whose entries have changed.
    entries: BTreeSet<Ipv4Addr>,
    /// In the order in which it was asked for.
    claims: Vec<Claiming>,
    /// VIPs whose segments are to be asked, once the program tells what it hears about them.
    probes: Vec<Ipv4Addr>,
    /// What people are to be told, once it is so.
    notices: Vec<ownership::Notice>,
    /// What the engine is to be told of what was not sent.
    not_sent: Vec<ownership::Event>,
}

/// A request about a claim.
#[derive(Debug)]
enum Claiming {
    Write(ClaimWrite),
    Delete { vip: Ipv4Addr, expected: Version },
    Read(Ipv4Addr),
}

impl Claiming {
    fn vip(&self) -> Ipv4Addr {
        match self {
            Self::Write(write) => write.vip,
            Self::Delete { vip, expected: _ } | Self::Read(vip) => *vip,
        }
    }

    /// Whether it may be sent, by what a change of the VIP's entry that failed has left. Others answer when they read that this
    /// node does not; that it does, it says only when its entry can be changed.
    fn may_be_sent(&self, left: Option<Left>) -> bool {
        let Some(left) = left else { return true };
        match self {
            Self::Read(_) => true,
            Self::Write(write) => left == Left::Silent && !matches!(write.state, ClaimState::Held(_)),
            Self::Delete { .. } => left == Left::Silent,
        }
    }
}

/// Whether a write of this node's Lease goes on with the session that its entries answer in. Otherwise all VIPs are others' to
/// take as soon as it is written.
fn keeps_session(write: &LeaseWrite, session: Option<Session>) -> bool {
    write.session == session && !session.is_some_and(|session| write.ended.contains(&session))
}

impl Driver<Cluster> {
    pub(super) async fn decide(&mut self, event: ownership::Event) -> Result<(), RunError> {
        let commands = self.source.engine.on_event(event, now()?);
        self.execute(commands).await
    }

    /// Carries out what the engine asks for, and what follows from what could not be.
    pub(super) async fn execute(&mut self, mut commands: Vec<ownership::Command>) -> Result<(), RunError> {
        while !commands.is_empty() {
            let not_sent = self.carry_out(commands).await?;
            let now = now()?;
            let engine = &mut self.source.engine;
            commands = not_sent.into_iter().flat_map(|event| engine.on_event(event, now)).collect();
        }
        self.begin_if_known().await
    }

    /// In the engine's order, with one exception: entries are changed together, and what is to be written about claims
    /// waits for that. Many VIPs at once cost little more than one.
    async fn carry_out(
        &mut self,
        commands: Vec<ownership::Command>,
    ) -> Result<Vec<ownership::Event>, RunError> {
        use ownership::Command;

        let mut waiting = Waiting::default();
        for command in &commands {
            // Before its entry is written, and it is announced.
            if let Command::Notify(ownership::Notice::Holds { vip, from, .. }) = command {
                self.source.moves.on_holds(*vip, from.as_ref());
            }
        }
        for command in commands {
            match command {
                Command::SetEntry { vip, entry, home } => {
                    self.assign(vip, entry, home.as_deref());
                    waiting.entries.insert(vip);
                }
                Command::Probe { vip } => waiting.probes.push(vip),
                Command::StopProbing { vip } => {
                    waiting.probes.retain(|waiting| *waiting != vip);
                    self.stop_probing(vip)?;
                }
                Command::WriteClaim(write) => {
                    self.source.moves.on_write(&write, now()?);
                    waiting.claims.push(Claiming::Write(write));
                }
                Command::DeleteClaim { vip, expected } => {
                    waiting.claims.push(Claiming::Delete { vip, expected });
                }
                Command::ReadClaim(vip) => waiting.claims.push(Claiming::Read(vip)),
                Command::ReadLease(node) => self.source.requests.read_lease(node),
                Command::SetFence(fence) => {
                    self.catch_up(&mut waiting).await;
                    self.set_fence(fence)?;
                }
                Command::SetPeers(peers) => {
                    self.catch_up(&mut waiting).await;
                    self.config.peers = peers.into_iter().collect();
                    self.reconcile_peers().await;
                }
                Command::Announce { vip } => {
                    self.catch_up(&mut waiting).await;
                    self.announce_again(vip)?;
                }
                Command::WriteLease(write) => {
                    self.catch_up(&mut waiting).await;
                    self.write_lease(write, &mut waiting.not_sent).await?;
                }
                Command::Notify(ownership::Notice::NotAlone { session }) => {
                    self.catch_up(&mut waiting).await;
                    self.reconcile(false).await;
                    let node = self.source.settings.node.clone();
                    return Err(RunError::NotAlone { node, session });
                }
                Command::Notify(notice) => waiting.notices.push(notice),
                Command::Stopped => self.source.stopped = true,
            }
        }
        self.catch_up(&mut waiting).await;
        for vip in waiting.probes {
            self.begin_probing(vip)?;
        }
        Ok(waiting.not_sent)
    }

    /// Changes entries, and then tells and asks for what rests on them. Where an entry could not be changed, nobody is told
    /// that it was.
    async fn catch_up(&mut self, waiting: &mut Waiting) {
        let behind = |claiming: &Claiming| self.behind.left(claiming.vip()).map(|_| claiming.vip());
        waiting.entries.extend(waiting.claims.iter().filter_map(behind));
        self.change_entries(&mut waiting.entries).await;
        for notice in waiting.notices.drain(..) {
            let is_so =
                !matches!(&notice, ownership::Notice::Holds { vip, .. } if self.behind.left(*vip).is_some());
            if is_so {
                self.source.messages.notice(&self.source.services, &notice);
            }
        }
        for claiming in waiting.claims.drain(..) {
            let may_be_sent = claiming.may_be_sent(self.behind.left(claiming.vip()));
            match claiming {
                Claiming::Write(write) if may_be_sent => self.source.requests.write_claim(write),
                Claiming::Delete { vip, expected } if may_be_sent => {
                    self.source.requests.delete_claim(vip, expected);
                }
                Claiming::Read(vip) => self.source.requests.read_claim(vip),
                // Nothing was changed: an offer is held on, and everything is tried again, at the calm pace of what is refused.
                Claiming::Write(write) => {
                    let outcome = Outcome::Refused(NOT_SENT.into());
                    waiting.not_sent.push(ownership::Event::ClaimWritten { vip: write.vip, outcome });
                }
                Claiming::Delete { vip, expected: _ } => {
                    let outcome = Outcome::Refused(NOT_SENT.into());
                    waiting.not_sent.push(ownership::Event::ClaimDeleted { vip, outcome });
                }
            }
        }
    }

    /// Writes a Lease: one that ends the session, or begins another, when no entry answers in it any more.
    async fn write_lease(
        &mut self,
        write: LeaseWrite,
        not_sent: &mut Vec<ownership::Event>,
    ) -> Result<(), RunError> {
        let is_own = write.node == self.source.settings.node;
        if is_own && self.may_answer_wrongly() && !keeps_session(&write, self.pinned_session()?) {
            let mut answering = self.behind.answering().collect();
            self.change_entries(&mut answering).await;
            if self.may_answer_wrongly() {
                let outcome = Outcome::Refused(NOT_SENT.into());
                not_sent.push(ownership::Event::LeaseWritten { node: write.node, outcome });
                return Ok(());
            }
        }
        self.source.requests.write_lease(write);
        Ok(())
    }

    /// Whether an entry that could not be changed may still answer.
    fn may_answer_wrongly(&self) -> bool {
        self.behind.answering().next().is_some()
    }

    /// The session that entries answer in.
    fn pinned_session(&self) -> Result<Option<Session>, RunError> {
        Ok(Session::from_number(self.plane.maps().fence()?.session))
    }

    fn assign(&mut self, vip: Ipv4Addr, entry: Option<Entry>, home: Option<&str>) {
        let Some(entry) = entry else {
            self.source.assigned.remove(&vip);
            self.source.moves.on_gone(vip);
            return;
        };
        let is_own = |mac: &MacAddr| self.view.interfaces.values().any(|interface| interface.mac == *mac);
        let stance = match entry {
            Entry::Held => Stance::Held,
            Entry::Foreign { mac } if mac.is_zero() => Stance::Elsewhere,
            Entry::Foreign { mac } if is_own(&mac) => Stance::Coming,
            Entry::Foreign { mac } => Stance::At(mac),
            Entry::Handover { mac, until } => Stance::Handover { mac, until },
        };
        let home = home.map(InterfacePattern::exactly);
        self.source.assigned.insert(vip, Assigned { stance, home });
    }

    /// Changes the entries of VIPs to what they are assigned to be.
    async fn change_entries(&mut self, changed: &mut BTreeSet<Ipv4Addr>) {
        if changed.is_empty() {
            return;
        }
        let changed = std::mem::take(changed);
        self.reconcile_some(&changed).await;
        for vip in changed {
            let here = self.source.engine.holds(vip);
            let told = self.source.services.on_event(services::Event::Held { vip, here });
            let owned = now().map(|now| self.serve(told, now));
            debug_assert!(owned.is_ok_and(|owned| owned.is_empty()), "who holds a VIP changes no demand");
        }
    }

    /// The engine has said what entries are to be: those that it has not named go, and announcing begins.
    async fn begin_if_known(&mut self) -> Result<(), RunError> {
        if self.started || !self.source.engine.has_begun() {
            return Ok(());
        }
        self.started = true;
        self.source.known = true;
        self.reconcile(false).await;
        self.note_carrier(&NetView::default())?;
        self.adopt()
    }

    /// Moves the fence. While entries of the session before may still answer, it stays that session's and is over: what was
    /// held in it is others' to take.
    fn set_fence(&mut self, fenced: ownership::Fenced) -> Result<(), RunError> {
        self.source.beaten = now()?;
        let mut fence = Fence {
            deadline_ns: fenced.deadline.as_nanos(),
            hold_until_ns: fenced.hold_until.as_nanos(),
            yields_settled: self.yields_settled,
            session: fenced.session.map_or(0, Session::number),
            policy: self.source.settings.policy,
            _pad: 0,
        };
        if self.may_answer_wrongly() {
            let before = self.pinned_session()?;
            if fenced.session != before {
                let session = before.map_or(0, Session::number);
                fence = Fence { deadline_ns: 0, hold_until_ns: 0, session, ..fence };
            }
        }
        Ok(self.plane.maps_mut().set_fence(&fence)?)
    }

    /// Announces a VIP once more, where it is held.
    fn announce_again(&mut self, vip: Ipv4Addr) -> Result<(), RunError> {
        let attached: Vec<u32> = self.plane.attached().map(|(ifindex, _)| ifindex).collect();
        for ifindex in attached {
            let key = VipKey::untagged(ifindex, vip.octets());
            if self.plane.maps().entry(&key)?.is_some_and(|entry| entry.role == Role::Held) {
                self.tell_announcer(announce::Event::Challenged { key })?;
            }
        }
        Ok(())
    }
}
