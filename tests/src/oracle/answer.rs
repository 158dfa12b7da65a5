//! Frames that are sent in the place of another one: answers, and announcements of VIPs.

use super::{
    arp,
    expected::{Oracle, Outcome, Seen},
    nd,
    table::{self, Cell, Effect, Flip, expect},
    world::{Mac, Protocol, Role},
};
use crate::oracle::kernel::Action;

impl Oracle<'_> {
    /// Returns the defence of the VIP that the frame counts for.
    pub(super) fn announcement(&self, seen: &Seen<'_>, cell: Cell, counter: &'static str) -> Option<Outcome> {
        let (vip, entry) = seen.about?;
        let mac = if self.flips(seen.protocol, cell, Flip::Bytes) { [0; 6] } else { entry.mac };
        let bytes = match seen.protocol {
            Protocol::Arp => arp::announcement(seen.frame, mac),
            Protocol::Nd => nd::announcement(vip, mac),
        };
        let counters = [counter, "claims_defended"].map(|name| ((seen.protocol, name), 1));
        Some(Outcome { action: Action::Send, bytes, counters: counters.to_vec() })
    }

    /// Counts a claim. Returns true if certainly no limit refuses its defence: 10 for a claimant in a row,
    /// 20 a second for a VIP, 1,000 for all.
    pub(super) fn is_within_limits(&mut self, seen: &Seen<'_>) -> bool {
        let (Some((_, entry)), Some(question)) = (&seen.about, &seen.question) else { return false };
        let (slot, sender) = (entry.slot, question.sender);
        *self.claims.entry((slot, sender)).or_default() += 1;
        let count = |of: &dyn Fn(u32, Mac) -> bool| -> u64 {
            self.claims.iter().filter(|((slot, mac), _)| of(*slot, *mac)).map(|(_, count)| count).sum()
        };
        count(&|at, mac| (at, mac) == (slot, sender)) <= 10
            && count(&|at, _| at == slot) <= 20
            && count(&|_, _| true) <= 1_000
    }

    /// Returns the answer, if the cell is one of a request that is answered. One to a neighbour
    /// solicitation meets the third table.
    pub(super) fn answer(&self, seen: &mut Seen<'_>, cell: Cell) -> Option<Vec<u8>> {
        let (_, entry) = seen.about?;
        let sender = seen.question.as_ref()?.sender;
        if expect(cell).effect != Effect::Answer {
            return None;
        }
        let (role, mac) = self.in_force(&entry);
        let source = match role {
            Role::Held => mac,
            Role::Handover | Role::Foreign => self.world.own.unwrap_or_default(),
        };
        let mac = if self.flips(seen.protocol, cell, Flip::Bytes) { [0; 6] } else { mac };
        Some(match seen.protocol {
            Protocol::Arp => arp::reply(seen.frame, mac, source),
            Protocol::Nd => {
                let row = nd::row(seen.frame, role == Role::Handover);
                seen.cells.push(Cell::Answer(row));
                let mut content = table::advertise(row);
                if let Some((flipped, flip)) = self.flip
                    && flipped == (Protocol::Nd, Cell::Answer(row))
                {
                    content = flip.of_advertisement(content);
                }
                nd::reply(seen.frame, sender, content, mac, source)
            }
        })
    }
}
