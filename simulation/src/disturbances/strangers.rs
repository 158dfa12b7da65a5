//! A stranger's Services, which request VIPs of another namespace.

use super::marks::CREATED;
use crate::{
    api::{Service, Stranger},
    schedule::{What, names},
    world::World,
};

impl World {
    /// Begins or ends a stranger's Service. It requests only VIPs whose claims name their owner: others
    /// belong to the first Service that requests them.
    pub(crate) fn change_stranger(&mut self, disturbance: usize, what: What, begins: bool) {
        let What::Stranger { number, vips, on, older, for_ms: _ } = what else { return };
        self.record.people.strangers = self.now;
        if begins {
            let mut asked = 0;
            for vip in (0..self.plan.vips.len()).filter(|vip| vips >> vip & 1 == 1) {
                let claim = self.api.claims.get(&names::vip(vip));
                if claim.is_some_and(|claim| claim.note.services == [names::service(vip)]) {
                    asked |= 1 << vip;
                    self.record.people.unrecorded[vip] &= self.is_requested(vip);
                }
            }
            self.record.facts.strangers |= asked != 0;
            self.desired.strangers.push(Stranger { disturbance, number, vips: asked, on, older });
        } else {
            self.desired.strangers.retain(|known| known.disturbance != disturbance);
        }
        let latest = self.desired.strangers.iter().rev().find(|known| known.number == number);
        let service = latest.map(|stranger| self.service_of(*stranger));
        self.api.put_service(&names::strangers_service(number), service);
        self.spread();
    }

    /// Returns true if a stranger's Service requests a VIP.
    fn is_requested(&self, vip: usize) -> bool {
        self.desired.strangers.iter().any(|stranger| stranger.vips >> vip & 1 == 1)
    }

    fn service_of(&self, stranger: Stranger) -> Service {
        let vips = (0..self.plan.vips.len()).filter(|vip| stranger.vips >> vip & 1 == 1);
        let addresses: Vec<_> = vips.map(|vip| names::vip(vip).to_string()).collect();
        let created = if stranger.older { CREATED - 1 } else { CREATED + 1 };
        let name = names::strangers_service(stranger.number);
        // Its port is free, so that only the lack of consent keeps it from the VIPs.
        let port = 8_080 + u16::from(stranger.number);
        Service::new(name, &addresses.join(","), (created, port), Some(self.nodes_of(stranger.on)))
    }
}
