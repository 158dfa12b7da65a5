//! Carrying out what the engine asks for.

use std::{collections::BTreeSet, net::Ipv4Addr};

use vipward_common::{Fence, MacAddr, Role, VipKey};

use super::{Assigned, Cluster, Driver, RunError, now};
use crate::core::{
    announce,
    cluster::{Session, Version},
    config::InterfacePattern,
    net::NetView,
    ownership::{self, ClaimWrite, Entry},
    placement::Stance,
    services,
};

/// What the engine has asked for and is not done yet.
#[derive(Default)]
struct Waiting {
    /// VIPs whose entries have changed.
    entries: BTreeSet<Ipv4Addr>,
    /// In the order in which it was asked for.
    claims: Vec<Claiming>,
}

/// A request about a claim.
enum Claiming {
    Write(ClaimWrite),
    Delete { vip: Ipv4Addr, expected: Version },
    Read(Ipv4Addr),
}

impl Driver<Cluster> {
    pub(super) async fn decide(&mut self, event: ownership::Event) -> Result<(), RunError> {
        let commands = self.source.engine.on_event(event, now()?);
        self.execute(commands).await
    }

    /// Carries out what the engine asks for, in its order, with one exception: entries are changed together, and what
    /// is to be written about claims waits for that. Many VIPs at once cost little more than one.
    pub(super) async fn execute(&mut self, commands: Vec<ownership::Command>) -> Result<(), RunError> {
        use ownership::Command;

        let mut waiting = Waiting::default();
        for command in commands {
            match command {
                Command::SetEntry { vip, entry, home } => {
                    self.assign(vip, entry, home.as_deref());
                    waiting.entries.insert(vip);
                }
                Command::WriteClaim(write) => waiting.claims.push(Claiming::Write(write)),
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
                    self.reconcile(false).await;
                }
                Command::Announce { vip } => {
                    self.catch_up(&mut waiting).await;
                    self.announce_again(vip)?;
                }
                Command::WriteLease(write) => {
                    self.catch_up(&mut waiting).await;
                    self.source.requests.write_lease(write);
                }
                Command::Notify(ownership::Notice::NotAlone { session }) => {
                    self.catch_up(&mut waiting).await;
                    self.reconcile(false).await;
                    let node = self.source.settings.node.clone();
                    return Err(RunError::NotAlone { node, session });
                }
                Command::Notify(notice) => self.source.messages.notice(&self.source.services, &notice),
                Command::Stopped => self.source.stopped = true,
            }
        }
        self.catch_up(&mut waiting).await;
        self.begin_if_known().await
    }

    /// Changes entries, and then asks for what rests on them.
    async fn catch_up(&mut self, waiting: &mut Waiting) {
        self.change_entries(&mut waiting.entries).await;
        for claiming in waiting.claims.drain(..) {
            match claiming {
                Claiming::Write(write) => self.source.requests.write_claim(write),
                Claiming::Delete { vip, expected } => self.source.requests.delete_claim(vip, expected),
                Claiming::Read(vip) => self.source.requests.read_claim(vip),
            }
        }
    }

    fn assign(&mut self, vip: Ipv4Addr, entry: Option<Entry>, home: Option<&str>) {
        let Some(entry) = entry else {
            self.source.assigned.remove(&vip);
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

    fn set_fence(&mut self, fence: ownership::Fenced) -> Result<(), RunError> {
        self.source.beaten = now()?;
        let fence = Fence {
            deadline_ns: fence.deadline.as_nanos(),
            hold_until_ns: fence.hold_until.as_nanos(),
            yields_settled: self.yields_settled,
            session: fence.session.map_or(0, Session::number),
            policy: self.source.settings.policy,
            _pad: 0,
        };
        Ok(self.plane.maps_mut().set_fence(&fence)?)
    }

    /// Announces a VIP once more, where it is held.
    fn announce_again(&mut self, vip: Ipv4Addr) -> Result<(), RunError> {
        let attached: Vec<u32> = self.plane.attached().map(|(ifindex, _)| ifindex).collect();
        for ifindex in attached {
            let key = VipKey::untagged(ifindex, vip.octets());
            if self.plane.maps().entry(&key)?.is_some_and(|entry| entry.role == Role::Held) {
                self.tell_announcer(announce::Event::Contested { key })?;
            }
        }
        Ok(())
    }
}
