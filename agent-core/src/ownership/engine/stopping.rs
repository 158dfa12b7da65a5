//! End of the agent, as the whole engine takes part in it.

use super::Engine;
use crate::ownership::{
    command::Command,
    decisions::{StopStep, Stopping, needs_no_session},
    event::StopReason,
    vip::{Busy, Vip},
};

impl Engine {
    pub(super) fn on_stop(&mut self, reason: StopReason) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(Stopping::new(reason, self.nodes.own.lives(), self.now));
        self.nodes.own.stop = Some(reason);
        self.nodes.own.renew_now(self.now);
        self.evaluate_all();
    }

    /// Returns true if the next write of the Lease ends the session:
    /// no VIP is held in it, and no request is left to make.
    pub(super) fn gives_up_session(&self) -> bool {
        let is_uninstall = match self.nodes.own.stop {
            Some(StopReason::Leave) => false,
            Some(StopReason::Uninstall) => true,
            Some(StopReason::Restart) | None => return false,
        };
        self.queue.is_empty() && self.vips.values().all(|vip| needs_no_session(vip, is_uninstall))
    }

    /// Records that the last write of the Lease was made.
    pub(super) fn on_last_lease(&mut self) {
        if let Some(stopping) = &mut self.stopping {
            stopping.on_last_lease();
        }
    }

    pub(super) fn tick_stopping(&mut self) {
        let may_give_up = self.gives_up_session() && !self.nodes.own.is_renewing();
        // The next process knows only the pins. So each claim that is
        // being written needs its entry first, and no VIP may be in doubt.
        let is_written = |vip: &Vip| !matches!(vip.requests.busy, Some(Busy::Hold(..)));
        let Some(stopping) = &mut self.stopping else { return };
        let is_settled = self.doubt.is_over() && self.vips.values().all(|vip| is_written(vip));
        match stopping.step(is_settled, may_give_up, self.now) {
            StopStep::Wait => {}
            StopStep::GiveUpSession => {
                self.nodes.own.renew_now(self.now);
                self.tick_lease();
            }
            StopStep::End => self.command(Command::Stopped),
        }
    }
}
