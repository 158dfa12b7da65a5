//! Checks M1 and M2: the maps of each node agree with themselves; and A1: a VIP that is taken is announced.

use std::{collections::BTreeSet, time::Duration};

use vipward_common::{DeadlineState, MacAddr, Role};

use crate::{machine::Node, schedule::names, world::World};

/// The longest time from the entry to the first announcement.
const ANNOUNCED: Duration = Duration::from_millis(50);

impl World {
    /// Checks that no two entries share a slot, and that a held entry has a MAC and a generation. Checks
    /// also that no entry answers again after a yield because the yield counts as settled.
    pub(super) fn check_maps(&mut self) {
        let fault = self.nodes.iter().find_map(|it| {
            let program = &it.program;
            let is_settled = program.lease_deadline().yields_settled == program.yields_total();
            let mut slots = BTreeSet::new();
            let fault = program.entries().iter().find_map(|(key, entry)| {
                if !slots.insert(entry.slot) {
                    return Some(("M1", *key, "shares its slot"));
                }
                let answers = entry.role != Role::Foreign;
                if answers && (entry.generation == 0 || entry.mac == [0; 6]) {
                    return Some(("M1", *key, "answers without a MAC or a generation"));
                }
                let is_revived = answers && is_settled && program.recorded(entry).is_some();
                is_revived.then_some(("M2", *key, "answers again after a yield"))
            });
            fault.map(|(rule, key, what)| (rule, it.index, key.addr, what))
        });
        if let Some((rule, node, vip, what)) = fault {
            self.violate(rule, format!("the entry of {vip} on {} {what}", names::node(node)));
        }
    }

    /// Checks A1 for VIPs that were taken lately, on nodes that could do everything since.
    pub(super) fn check_announced(&mut self) {
        let fault = self.nodes.iter().find_map(|it| {
            let could_act = |taken| {
                let began = it.process.as_ref().map(|process| process.began);
                let since = [began.unwrap_or(self.now), it.times.runs, it.times.steady, it.times.valid];
                it.agent_runs() && since.into_iter().all(|since| since < taken)
            };
            (0..self.plan.vips.len()).find_map(|vip| {
                let link = &it.links[self.segment_of(vip)];
                let taken = it.held_since[vip].filter(|taken| {
                    could_act(*taken)
                        && !link.no_carrier.any()
                        && it.lease_deadline(self.now) == DeadlineState::Valid
                })?;
                let is_late = self.now.since(taken) > ANNOUNCED && it.announced_at[vip] < taken;
                (is_late && !it.yielded.contains(&vip)).then_some((it.index, vip))
            })
        });
        if let Some((node, vip)) = fault {
            let what =
                format!("{} has taken {}, and does not announce it", names::node(node), names::vip(vip));
            self.violate("A1", what);
        }
    }

    /// Returns what is wrong with the maps of a node that could do everything, besides the entries of its
    /// VIPs' interfaces.
    pub(super) fn unsettled_maps(&self) -> Option<String> {
        let fit = || self.nodes.iter().filter(|it| it.times.fit.is_some());
        let segments = 0..self.network.segments.len();
        let wrong = |it: &Node, segment: usize| {
            let (ifindex, name) = (names::ifindex(segment), names::node(it.index));
            if it.program.own_macs().get(&ifindex) != Some(&it.links[segment].mac) {
                return Some(format!("{name} does not know its own MAC"));
            }
            let others = fit().filter(|other| other.index != it.index);
            let unknown = others
                .map(|other| other.links[segment].mac)
                .find(|mac| !it.program.peers.contains(&(ifindex, *mac)));
            if let Some(mac) = unknown {
                return Some(format!("{name} does not know its peer {mac}"));
            }
            // The Lease of a node that is gone has the MACs that it had.
            let is_old = |mac: &&MacAddr| {
                let node = fit().find(|other| other.index == names::mac_node(**mac));
                node.is_some_and(|node| node.links.iter().all(|link| link.mac != **mac))
            };
            let mut peers = it.program.peers.iter().filter(|(of, _)| *of == ifindex).map(|(_, mac)| mac);
            if let Some(mac) = peers.find(is_old) {
                return Some(format!("{name} takes {mac} for a peer, which is an old MAC"));
            }
            let elsewhere = (0..self.plan.vips.len()).filter(|vip| self.segment_of(*vip) != segment);
            let is_silent = |vip: usize| {
                let entry = it.program.entry(names::key(vip, segment));
                entry.is_some_and(|entry| entry.role == Role::Foreign && entry.mac == [0; 6])
            };
            let vip = elsewhere
                .filter(|vip| self.is_wanted(*vip) && !self.is_listed(*vip))
                .find(|vip| !is_silent(*vip))?;
            Some(format!("{name} does not silence {} on another segment", names::vip(vip)))
        };
        fit().find_map(|it| segments.clone().find_map(|segment| wrong(it, segment)))
    }
}
