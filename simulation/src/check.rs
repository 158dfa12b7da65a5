//! Checks the promises of docs/internals/simulation.md whenever an answer may have changed.

mod events;
mod host;
mod liveness;
mod maps;
mod owner;
mod quiet;
mod restored;
mod safety;
mod tenants;
mod unheard;
mod wire;

use crate::world::World;

impl World {
    /// Checks the promises that hold at every instant.
    pub(crate) fn check(&mut self) {
        for vip in 0..self.plan.vips.len() {
            self.record_occupancy(vip);
            self.check_safety(vip);
            self.check_host(vip);
            self.check_planned(vip);
            self.check_dark(vip);
            self.check_begun(vip);
            self.check_goes_on(vip);
            self.check_wandering(vip);
        }
        self.check_mild();
        self.check_maps();
        self.check_tenants();
    }

    /// Checks the promises that time alone can break.
    pub(crate) fn sweep(&mut self) {
        for vip in 0..self.plan.vips.len() {
            self.record_occupancy(vip);
            self.check_grace_period(vip);
            self.check_host(vip);
            self.check_dark(vip);
            self.check_delivered(vip);
            self.check_unheard(vip);
            self.guard(vip);
        }
        self.check_announced();
        self.check_tenants();
        self.check_strangers();
        self.check_restored();
        self.check_quiet();
    }
}
