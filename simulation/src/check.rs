//! Checks the promises of docs/SIMULATION.md whenever an answer may have changed.

mod host;
mod liveness;
mod quiet;
mod restored;
mod safety;
mod wire;

use std::mem;

pub(crate) use self::wire::WireRecord;
use crate::world::{Happening, World};

/// Plays the world until the cluster is quiet, or a promise is broken.
pub(crate) fn play(world: &mut World) {
    while let Some(happening) = world.advance() {
        if happening == Happening::Sweep {
            world.sweep();
        }
        if mem::take(&mut world.stirred) {
            world.check();
        }
        if world.violation.is_some() || world.record.is_done() {
            break;
        }
    }
}

impl World {
    /// Checks the promises that hold at every instant.
    fn check(&mut self) {
        for vip in 0..self.plan.vips.len() {
            self.note_vacancy(vip);
            self.check_safety(vip);
            self.check_host(vip);
            self.check_planned(vip);
            self.check_dark(vip);
            self.check_goes_on(vip);
        }
        self.check_mild();
    }

    /// Checks the promises that time alone can break.
    fn sweep(&mut self) {
        for vip in 0..self.plan.vips.len() {
            self.note_vacancy(vip);
            self.check_holding_over(vip);
            self.check_host(vip);
            self.check_dark(vip);
            self.guard(vip);
        }
        self.check_restored();
        self.check_quiet();
    }
}
