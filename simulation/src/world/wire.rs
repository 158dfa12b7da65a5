//! The segments: which station receives whose frames, and when.

use std::time::Duration;

use vipward_common::{DeadlineState, EventKind, MacAddr};

use super::{Happening, World};
use crate::{
    machine::{Frame, Handled, Oper},
    schedule::names,
};

/// The events that the ring of a program keeps.
const RING: usize = 4_096;

impl World {
    /// Sends a frame of a station: to all others, or to the one that has the MAC.
    pub(super) fn transmit(&mut self, segment: usize, from: usize, frame: Frame) {
        if self.network.segments[segment].reflecting.any() && from < self.nodes.len() {
            self.send_frame(segment, from, from, frame);
        }
        if frame.to.is_multicast() {
            for to in (0..self.nodes.len()).filter(|to| *to != from) {
                self.send_frame(segment, from, to, frame);
            }
            if let Some(vip) = self.host_of(segment, &frame).filter(|vip| names::host(*vip) != from) {
                self.send_frame(segment, from, names::host(vip), frame);
            }
            return;
        }
        if let Some(vip) = self.host_of(segment, &frame).filter(|_| frame.to == names::HOST) {
            self.send_frame(segment, from, names::host(vip), frame);
        }
        let to = names::mac_node(frame.to);
        if self.nodes.get(to).is_some_and(|node| node.links[segment].mac == frame.to) {
            self.send_frame(segment, from, to, frame);
        }
    }

    fn send_frame(&mut self, segment: usize, from: usize, to: usize, frame: Frame) {
        let nodes = self.nodes.len();
        let wire = &self.network.segments[segment];
        let passes = match (from < nodes, to < nodes) {
            (true, true) => wire.passes(from, to),
            (is_node, _) => !wire.is_dead(if is_node { from } else { to }),
        };
        if !passes {
            return;
        }
        let lossy = wire.lossy.iter().map(|(_, percent)| *percent).max();
        let late = wire.late.iter().map(|(_, by)| *by).max();
        let noise = &mut self.nodes[if from < nodes { from } else { to }].rng.frames;
        let lost = lossy.is_some_and(|percent| noise.u8(0..100) < percent);
        let lateness = late.map_or(0, |by| noise.u32(0..=by));
        let delay = Duration::from_micros(noise.u64(30..1_000)) + Duration::from_millis(lateness.into());
        if !lost {
            self.after(delay, Happening::Frame { segment, to, frame });
        }
    }

    pub(super) fn frame(&mut self, segment: usize, to: usize, frame: &Frame) {
        if let Some(vip) = to.checked_sub(names::host(0)) {
            return self.frame_to_host(segment, vip, frame);
        }
        let now = self.now;
        let it = &mut self.nodes[to];
        let link = &it.links[segment];
        let is_its = frame.to.is_multicast() || frame.to == link.mac;
        if !it.kernel_runs() || link.no_carrier.any() || !is_its {
            return;
        }
        let (ifindex, local) = (names::ifindex(segment), it.program_now(now));
        let lapsed = it.program.lease_deadline_state(local) != DeadlineState::Valid;
        let announces = frame.announces() && frame.source == frame.sha && it.peers_due.contains(&frame.sha);
        let handled = if it.program.attached.contains(&ifindex) {
            it.program.handle(ifindex, frame, local)
        } else {
            Handled { passes: true, sent: None, event: None }
        };
        if let Some(vip) = frame.claimed().filter(|_| announces && lapsed) {
            self.announcement_reached(names::vip_index(vip), to, names::mac_node(frame.sha));
        }
        let it = &mut self.nodes[to];
        if let Some(event) = handled.event {
            self.stirred = true;
            let (vip, sha) = (event.key().addr, frame.sha);
            if event.kind == EventKind::Yielded {
                self.record.facts.yielded = true;
                it.yielded.insert(names::vip_index(vip));
            }
            if it.ring.len() < RING {
                it.ring.push_back(event);
            }
            let delay = Duration::from_micros(it.rng.frames.u64(50..3_000));
            self.say(to, || format!("its program receives {sha} speak of {vip}: {:?}", event.kind));
            self.after(delay, Happening::Ring { node: to });
        }
        let kernel = handled.passes.then(|| self.kernel_answers(to, segment, frame)).flatten();
        for answer in handled.sent.into_iter().chain(kernel) {
            self.transmit(segment, to, answer);
        }
    }

    /// Returns the answer that a node receives from another host to a request for a VIP.
    pub(super) fn answer_of_another(&self, node: usize, vip: usize) -> Option<MacAddr> {
        let segment = self.segment_of(vip);
        let receives = |other: usize| {
            let wire = &self.network.segments[segment];
            let links = [node, other].map(|of| self.nodes[of].links[segment].no_carrier.any());
            other != node && links == [false, false] && wire.passes(node, other) && wire.passes(other, node)
        };
        let programs = (0..self.nodes.len()).filter(|other| receives(*other));
        let mut answers = programs.filter_map(|other| self.nodes[other].answer(vip, segment, self.now));
        answers.next().or_else(|| self.answer_of_host(node, vip, receives))
    }

    /// Lets an unknown host announce a VIP in a node's name.
    pub(crate) fn forge(&mut self, vip: usize, name: usize) {
        let segment = self.segment_of(vip);
        let mac = self.nodes[name].links[segment].known_mac;
        for oper in [Oper::Request, Oper::Reply] {
            self.transmit(segment, name, Frame::announcement(oper, mac, names::v4(vip)));
        }
    }
}
