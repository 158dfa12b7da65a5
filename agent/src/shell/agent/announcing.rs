//! Announcing: passes events to the announcer. Sends while the
//! maps say that this node holds the VIP.

use std::collections::BTreeSet;

use tracing::{debug, info, warn};
use vipward_common::{Event, EventKind, Fence, FenceState, MacAddr, Role, VipKey, WireState};
use vipward_core::{
    base::time::Monotonic,
    host::net::{Interface, NetView},
    segment::{announce, probing},
};

use super::{error::RunError, event_loop::EventLoop, source::Source, timing::now};
use crate::shell::{
    kernel::{
        bpf::{BpfError, Maps},
        clock,
        packet::Sent,
    },
    logging::causes::chain,
};

impl<S: Source> EventLoop<S> {
    /// Passes the VIPs that the pins hold to the announcer.
    pub(super) fn adopt(&mut self) -> Result<(), RunError> {
        for (key, mac) in self.plane.maps().held()? {
            self.tell_announcer(announce::Event::Taken { key, mac })?;
        }
        Ok(())
    }

    /// Reports interfaces that lost or got their carrier, or went, since `before`.
    pub(super) fn note_carrier(&mut self, before: &NetView) -> Result<(), RunError> {
        let carrier = |view: &NetView, ifindex| {
            view.interfaces.get(&ifindex).map(|interface: &Interface| interface.up && interface.carrier)
        };
        let all: BTreeSet<u32> =
            before.interfaces.keys().chain(self.view.interfaces.keys()).copied().collect();
        for ifindex in all {
            match (carrier(before, ifindex), carrier(&self.view, ifindex)) {
                (None | Some(false), Some(true)) => {
                    self.tell_prober(probing::Event::Restart { ifindex })?;
                    if self.held_back.iter().any(|key| key.ifindex == ifindex) {
                        self.settled = None;
                    }
                    self.tell_announcer(announce::Event::CarrierReturned { ifindex })?;
                }
                (None | Some(true), Some(false)) => {
                    // No probe reaches a host now, and silence means nothing.
                    let asked = self.held_back.iter().filter(|key| key.ifindex == ifindex).copied();
                    for key in asked.collect::<Vec<_>>() {
                        self.stop_asking(key)?;
                    }
                    self.tell_announcer(announce::Event::CarrierLost { ifindex })?;
                }
                (Some(_), None) => self.tell_announcer(announce::Event::InterfaceGone { ifindex })?,
                (None, None) | (Some(true), Some(true)) | (Some(false), Some(false)) => {}
            }
        }
        Ok(())
    }

    /// Announces the VIPs of these interfaces once, and logs their number.
    pub(super) fn announce_after_failover(
        &mut self,
        interfaces: &BTreeSet<u32>,
        heard: Monotonic,
    ) -> Result<(), RunError> {
        for ifindex in interfaces.iter().copied() {
            let vips = self.announcer.count_on(ifindex);
            if vips > 0 {
                let interface = self.name(ifindex);
                info!(interface, vips, "the interface has failed over; its VIPs are announced");
                self.tell_announcer(announce::Event::FailedOver { ifindex, heard })?;
            }
        }
        Ok(())
    }

    /// Defends a held VIP that a peer claims. The file is the only authority, so this node keeps
    /// it.
    pub(super) fn note_contested(&mut self, event: &Event) -> Result<(), RunError> {
        if event.kind != EventKind::Contested {
            return Ok(());
        }
        let key = event.key();
        match self.plane.maps().entry(&key)? {
            Some(entry) if entry.role == Role::Held => {
                self.tell_announcer(announce::Event::Challenged { key })
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn tell_announcer(&mut self, event: announce::Event) -> Result<(), RunError> {
        if !self.started {
            return Ok(());
        }
        let now = now()?;
        let commands = self.announcer.on_event(event, now);
        self.send(commands, now);
        Ok(())
    }

    /// Sends the announcements that are due.
    pub(super) fn announce(&mut self, now: Monotonic) {
        let commands = self.announcer.on_event(announce::Event::Tick, now);
        self.send(commands, now);
    }

    fn send(&mut self, commands: Vec<announce::Command>, now: Monotonic) {
        if commands.is_empty() {
            return;
        }
        let standing = self.standing();
        for command in commands {
            let (announce::Command::Send { key, mac, .. } | announce::Command::Repeat { key, mac, .. }) =
                command;
            let vip = key.addr;
            let maps = self.plane.maps();
            let taken_back = self.yields.taken_back().contains(&vip);
            let is_held =
                || standing.as_ref().is_ok_and(|standing| standing.is_held(maps, key, mac, taken_back));
            let round = match command {
                announce::Command::Send { round, .. } => round,
                announce::Command::Repeat { former, .. } => {
                    // The segment has been told; the next of these, or the next refresh, is another try.
                    if is_held() && self.packets.repeat_to(key.ifindex, former, mac, vip).is_err() {
                        self.metrics.announcements.failed();
                    }
                    continue;
                }
            };
            match self.packets.send(key.ifindex, mac, vip, is_held) {
                Ok(Sent::Both) => {
                    self.metrics.announcements.sent(vip);
                    if round == announce::Round::Taking(0) {
                        self.source.note_announced(vip, now);
                    }
                    debug!(%vip, interface = %self.name(key.ifindex), %mac, ?round, "announced");
                    if announce::is_followed_by_probe(key, round) {
                        self.ask(key, None);
                    }
                }
                Ok(Sent::Stopped { .. }) => {
                    self.metrics.announcements.stopped();
                    debug!(
                        %vip,
                        interface = %self.name(key.ifindex),
                        "not announced: not held, or the fence is not valid"
                    );
                }
                // The carrier's return, or the next refresh, announces again.
                Err(error) => {
                    self.metrics.announcements.failed();
                    warn!(%vip, interface = %self.name(key.ifindex), error = chain(&error), "not announced");
                }
            }
        }
    }

    /// Returns true if this node may announce a VIP, as the pinned maps say that are read now.
    pub(super) fn may_announce(&self, key: VipKey, standing: &Standing) -> bool {
        let mac = self.view.interfaces.get(&key.ifindex).map(|interface| interface.mac);
        let taken_back = self.yields.taken_back().contains(&key.addr);
        mac.is_some_and(|mac| standing.is_held(self.plane.maps(), key, mac, taken_back))
    }

    /// Returns the state that all VIPs share.
    pub(super) fn standing(&self) -> Result<Standing, BpfError> {
        let maps = self.plane.maps();
        let has_yielded = maps.yields()?.total != self.yields_settled;
        Ok(Standing { fence: maps.fence()?, told: maps.wire().told()?, has_yielded })
    }
}

/// The pinned state that all VIPs share, read once for those that are announced together. The agent
/// alone writes the fence, and the program yields no VIP while the fence is valid, unless a peer tells
/// it that the session has ended.
pub(super) struct Standing {
    fence: Fence,
    /// The last word of a peer that a session of this node has ended.
    told: WireState,
    /// True if the program has yielded a VIP whose entry does not say so yet.
    has_yielded: bool,
}

impl Standing {
    /// Returns true if the pinned maps, read now, say that this node holds the VIP with `mac` and
    /// the fence is valid. For a VIP that was taken back, the fence may be held over.
    fn is_held(&self, maps: &Maps, key: VipKey, mac: MacAddr, taken_back: bool) -> bool {
        let held = || -> Result<bool, BpfError> {
            let Ok(now_ns) = clock::monotonic_ns() else { return Ok(false) };
            let is_valid = match self.fence.state(now_ns, self.told) {
                FenceState::Valid => true,
                FenceState::HeldOver if taken_back => false,
                FenceState::HeldOver | FenceState::Over => return Ok(false),
            };
            let Some(entry) = maps.entry(&key)? else { return Ok(false) };
            if entry.role != Role::Held || entry.mac != mac.0 {
                return Ok(false);
            }
            if is_valid && !self.has_yielded {
                return Ok(true);
            }
            Ok(maps.state(entry.slot)?.yielded.yielded_to(entry.generation).is_none())
        };
        held().unwrap_or(false)
    }
}
