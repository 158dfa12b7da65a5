//! Sends announcements, while the maps say that this node holds the VIP.

use tracing::{debug, warn};
use vipward_common::{Fence, FenceState, MacAddr, Role, VipKey, WireState};
use vipward_core::{agent::segment::Input, segment::announce::Command};

use super::{error::RunError, event_loop::EventLoop, source::Source};
use crate::shell::{
    kernel::{
        bpf::{BpfError, Maps},
        clock,
        packet::Sent,
    },
    logging::causes::chain,
};

impl<S: Source> EventLoop<S> {
    /// Sends an announcement, unless the maps say that this node does not hold the VIP. Sends nothing
    /// if the maps could not be read.
    pub(super) fn send(&mut self, command: Command, standing: Option<&Standing>) -> Result<(), RunError> {
        let (Command::Send { key, mac, .. } | Command::Repeat { key, mac, .. }) = command;
        let vip = key.addr;
        let maps = self.plane.maps();
        let taken_back = self.segment.is_taken_back(vip);
        let is_held = || standing.is_some_and(|standing| standing.is_held(maps, key, mac, taken_back));
        let round = match command {
            Command::Send { round, .. } => round,
            Command::Repeat { former, .. } => {
                // The segment has been told; the next of these, or the next refresh, is another try.
                if is_held() && self.packets.repeat_to(key.ifindex, former, mac, vip).is_err() {
                    self.metrics.announcements.failed();
                }
                return Ok(());
            }
        };
        let interface = self.name(key.ifindex);
        match self.packets.send(key.ifindex, mac, vip, is_held) {
            Ok(Sent::Both) => {
                self.metrics.announcements.sent(vip);
                debug!(%vip, interface, %mac, ?round, "announced");
                return self.on_segment(Input::Announced { key, round });
            }
            Ok(Sent::Stopped { .. }) => {
                self.metrics.announcements.stopped();
                debug!(%vip, interface, "not announced: not held, or the fence is not valid");
            }
            // The carrier's return, or the next refresh, announces again.
            Err(error) => {
                self.metrics.announcements.failed();
                warn!(%vip, interface, error = chain(&error), "not announced");
            }
        }
        Ok(())
    }

    /// Returns true if this node may announce a VIP, as the pinned maps say that are read now.
    pub(super) fn may_announce(&self, key: VipKey, standing: &Standing) -> bool {
        let mac = self.view.interfaces.get(&key.ifindex).map(|interface| interface.mac);
        let taken_back = self.segment.is_taken_back(key.addr);
        mac.is_some_and(|mac| standing.is_held(self.plane.maps(), key, mac, taken_back))
    }

    /// Returns the state that all VIPs share.
    pub(super) fn standing(&self) -> Result<Standing, BpfError> {
        let maps = self.plane.maps();
        let has_yielded = maps.yields()?.total != self.host.yields_settled();
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
