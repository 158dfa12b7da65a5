//! The segments: which node hears whose announcements, and when.

use std::time::Duration;

use vipward_common::MacAddr;
use vipward_core::ownership::{Event, Probed, Wire};

use super::{Happening, World};
use crate::{
    api::Incoming,
    machine::{FenceState, Role},
    schedule::{Step, names},
};

/// The rounds after a VIP was taken, the first included.
const ROUNDS: u8 = 6;
pub(crate) const ROUND_INTERVAL: Duration = Duration::from_millis(1_100);
/// The time between two refreshes; shorter than the default, so that runs are short.
pub(crate) const REFRESH: Duration = Duration::from_secs(15);
/// The time until an agent that was stopped finds out that it may send.
pub(super) const AGAIN: Duration = Duration::from_millis(100);

/// The time that an attempt to find an address free takes, in milliseconds.
const PROBED_MS: std::ops::Range<u64> = 600..700;
/// The time between two attempts.
const ASKED_AGAIN: Duration = Duration::from_millis(2_650);

impl World {
    pub(super) fn begin_rounds(&mut self, node: usize, vip: usize) {
        let it = &mut self.nodes[node];
        let pinger = it.process.as_ref().and_then(|process| process.pinger.as_ref());
        let former = pinger.and_then(|pinger| pinger.formers.get(&vip)).map(|(_, mac)| *mac);
        let rounds = &mut it.rounds[vip];
        rounds.life += 1;
        rounds.is_running = true;
        (rounds.began, rounds.former) = (self.now, former);
        let life = rounds.life;
        let delay = Duration::from_micros(self.nodes[node].wire_noise.u64(20..300));
        self.after(delay, Happening::Announce { node, vip, life, round: 0 });
    }

    /// Refreshes the VIPs that a new agent finds held.
    pub(super) fn begin_refreshing(&mut self, node: usize, vip: usize) {
        let rounds = &mut self.nodes[node].rounds[vip];
        rounds.life += 1;
        rounds.is_running = true;
        let life = rounds.life;
        let delay = Duration::from_millis(self.nodes[node].wire_noise.u64(1..15_000));
        self.after(delay, Happening::Announce { node, vip, life, round: ROUNDS });
    }

    pub(super) fn announce(&mut self, node: usize, vip: usize, life: u32, round: u8) {
        let it = &mut self.nodes[node];
        if it.rounds[vip].life != life || it.process.is_none() {
            return;
        }
        if !it.program.slot(vip).is_some_and(|slot| slot.role == Role::Held) {
            it.rounds[vip].is_running = false;
            return;
        }
        if !it.agent_runs() {
            self.after(AGAIN, Happening::Announce { node, vip, life, round });
            return;
        }
        let next = if round + 1 < ROUNDS { ROUND_INTERVAL } else { REFRESH };
        let round = (round + 1).min(ROUNDS);
        self.after(next, Happening::Announce { node, vip, life, round });
        self.tell_former(node, vip, life);
        self.send_announcement(node, vip);
    }

    /// Returns the MAC with which a node may announce a VIP.
    fn announced_mac(&self, node: usize, vip: usize) -> Option<MacAddr> {
        let it = &self.nodes[node];
        let link = &it.links[self.segment_of(vip)];
        let is_taken_back =
            it.process.as_ref().is_some_and(|process| process.yields.taken_back().contains(&names::vip(vip)));
        let may = it.program.may_announce(vip, is_taken_back, it.program_now(self.now));
        (may && !link.no_carrier.any()).then_some(link.known_mac)
    }

    /// Repeats an announcement for a former holder alone.
    pub(super) fn repeat(&mut self, node: usize, vip: usize, life: u32, to: MacAddr) {
        let it = &self.nodes[node];
        let (segment, former) = (self.segment_of(vip), names::mac_node(to));
        if it.rounds[vip].life != life || !it.agent_runs() || self.nodes[former].links[segment].mac != to {
            return;
        }
        if let Some(sha) = self.announced_mac(node, vip) {
            self.say(node, || format!("announces {} at {sha} to {to} alone", names::vip(vip)));
            self.send_frame(segment, node, former, vip, sha);
        }
    }

    pub(super) fn send_announcement(&mut self, node: usize, vip: usize) {
        let segment = self.segment_of(vip);
        let Some(sha) = self.announced_mac(node, vip) else { return };
        self.say(node, || format!("announces {} at {sha}", names::vip(vip)));
        for to in (0..self.nodes.len()).filter(|to| *to != node) {
            self.send_frame(segment, node, to, vip, sha);
        }
        if let Some((giver, taker)) = self.under_way.handing[vip].filter(|(_, taker)| *taker == node) {
            self.step(Step::Announced, giver, taker);
        }
    }

    fn send_frame(&mut self, segment: usize, from: usize, to: usize, vip: usize, sha: MacAddr) {
        let wire = &self.network.segments[segment];
        if !wire.passes(from, to) {
            return;
        }
        let lossy = wire.lossy.iter().map(|(_, percent)| *percent).max();
        let late = wire.late.iter().map(|(_, by)| *by).max();
        let noise = &mut self.nodes[from].wire_noise;
        let lost = lossy.is_some_and(|percent| noise.u8(0..100) < percent);
        let lateness = late.map_or(0, |by| noise.u32(0..=by));
        let delay = Duration::from_micros(noise.u64(30..1_000)) + Duration::from_millis(lateness.into());
        if !lost {
            self.after(delay, Happening::Frame { segment, to, vip, sha });
        }
    }

    pub(super) fn frame(&mut self, segment: usize, to: usize, vip: usize, sha: MacAddr) {
        let now = self.now;
        let it = &mut self.nodes[to];
        let link = &it.links[segment];
        if !it.kernel_runs() || link.no_carrier.any() {
            return;
        }
        let (own, local) = (link.known_mac, it.program_now(now));
        let knows = it.peers_due.contains(&sha);
        let lapsed = it.program.fence(local) != FenceState::Valid;
        let told = it.program.hear(vip, sha, own, local);
        let life = it.life;
        let delay = Duration::from_micros(it.wire_noise.u64(50..3_000));
        if knows && lapsed {
            self.announcement_reached(vip, to, names::mac_node(sha));
        }
        let Some(wire) = told else { return };
        self.stirred = true;
        self.say(to, || format!("its program hears {sha} announce {}: {wire:?}", names::vip(vip)));
        if matches!(wire, Wire::Yielded { .. }) {
            self.record.facts.yielded = true;
        }
        self.after(delay, Happening::Heard { node: to, life, vip, wire: wire.into() });
    }

    /// Probes a VIP's address.
    pub(super) fn probe(&mut self, node: usize, vip: usize) {
        let it = &mut self.nodes[node];
        it.asked[vip] += 1;
        let (life, asked) = (it.life, it.asked[vip]);
        let delay = Duration::from_millis(it.wire_noise.u64(PROBED_MS));
        self.after(delay, Happening::Probed { node, vip, life, asked });
    }

    /// Reports the result of an attempt: all probes have been sent, and are answered at once.
    pub(super) fn probed(&mut self, node: usize, vip: usize, life: u32, asked: u32) {
        let it = &self.nodes[node];
        if it.life != life || it.asked[vip] != asked {
            return;
        }
        let probed = match self.answer_of_another(node, vip) {
            Some(mac) => Probed::InUse { mac, by_peer: it.program.peers.contains(&mac) },
            None => Probed::Free,
        };
        if self.asks_about_yield(node, vip) {
            if !self.nodes[node].agent_runs() {
                return self.after(AGAIN, Happening::Probed { node, vip, life, asked });
            }
            return self.on_yield_probed(node, vip, probed);
        }
        if probed != Probed::Free {
            self.after(ASKED_AGAIN, Happening::Probed { node, vip, life, asked });
        }
        self.say(node, || format!("has probed {}: {probed:?}", names::vip(vip)));
        self.incoming(node, life, Incoming::Event(Event::Probed { vip: names::vip(vip), probed }.into()));
    }

    /// Returns the answer that a node hears from another when it asks for a VIP.
    pub(super) fn answer_of_another(&self, node: usize, vip: usize) -> Option<MacAddr> {
        let segment = self.segment_of(vip);
        let hears = |other: usize| {
            let wire = &self.network.segments[segment];
            let links = [node, other].map(|of| self.nodes[of].links[segment].no_carrier.any());
            other != node && links == [false, false] && wire.passes(node, other) && wire.passes(other, node)
        };
        let programs = (0..self.nodes.len()).filter(|other| hears(*other));
        let mut answers = programs.filter_map(|other| self.nodes[other].answer(vip, segment, self.now));
        answers.next().or_else(|| self.answer_of_host(node, vip, hears))
    }

    /// Lets a stranger announce a VIP in a node's name.
    pub(crate) fn forge(&mut self, vip: usize, name: usize) {
        let segment = self.segment_of(vip);
        let sha = self.nodes[name].links[segment].known_mac;
        for to in (0..self.nodes.len()).filter(|to| *to != name) {
            self.send_frame(segment, name, to, vip, sha);
        }
    }

    pub(super) fn heard(&mut self, node: usize, life: u32, vip: usize, wire: Wire) {
        if matches!(wire, Wire::Moved { .. })
            && let Some((giver, taker)) = self.under_way.handing[vip].filter(|(giver, _)| *giver == node)
        {
            self.step(Step::Heard, giver, taker);
        }
        self.incoming(node, life, Incoming::Event(Event::Wire { vip: names::vip(vip), heard: wire }.into()));
    }
}
