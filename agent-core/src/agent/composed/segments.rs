//! The steps on the segments: what they want done, what the program reports, and whether it sees frames.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::{Event, EventKind, MacAddr, Proof, VipKey};

use super::{Agent, context};
use crate::{
    agent::{
        effect::{Effect, Line, Reading},
        input::{Changed, Listened},
        segment::{self, Input},
        source::Source,
        work::{Waiting, Work},
    },
    base::time::Monotonic,
    host::net::NetView,
    ownership::Wire,
    segment::{
        conflict,
        proving::{self, Stack},
    },
};

impl Agent {
    /// Passes an input to the segments, and handles the effects.
    pub(super) fn on_segment(&mut self, input: Input<'_>, now: Monotonic) {
        let context = context((&self.view, &self.config, &self.stale), &self.source, now);
        let effects = self.segment.on(input, &context);
        self.on_segment_effects(effects, now);
    }

    pub(super) fn on_segment_effects(&mut self, effects: Vec<segment::Effect>, now: Monotonic) {
        let (mut succeeded, mut members, mut given_back) = (Vec::new(), Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                segment::Effect::Announce(command) => {
                    let is_taken_back = self.segment.is_taken_back(command.key().addr);
                    self.effects.push(Effect::Announce { command, is_taken_back });
                }
                segment::Effect::Probe(key) => self.effects.push(Effect::Probe(key)),
                segment::Effect::ShowPort(key) => self.effects.push(Effect::ShowPort(key)),
                segment::Effect::ProbeHeld(key) => {
                    let is_taken_back = self.segment.is_taken_back(key.addr);
                    self.effects.push(Effect::ProbeHeld { key, is_taken_back });
                }
                segment::Effect::Count => self.effects.push(Effect::Count),
                segment::Effect::Report(line) => self.report_conflict(line, now),
                segment::Effect::Probed { key, probed } => match &mut self.source {
                    Source::File(file) => file.on_probed(key.addr, probed, now),
                    Source::Cluster(cluster) => cluster.on_probed(key.addr, probed),
                },
                segment::Effect::GiveBack(key) => given_back.push(key.addr),
                segment::Effect::Taken(key) => {
                    let former = self.with_cluster(|cluster| cluster.notify_former(key, now)).flatten();
                    succeeded.extend(former.map(|former| Input::Succeeded { key, former }));
                }
                segment::Effect::FirstAnnounced(vip) => {
                    self.with_cluster(|cluster| cluster.on_announced(vip, now));
                }
                segment::Effect::JoinGroups(key) => members.push(key),
                segment::Effect::TakeBack(vips) => self.begin_to_take_back(vips),
                segment::Effect::Reconcile => self.host.verify_by(now),
                segment::Effect::Unsettle => self.host.unsettle(),
                segment::Effect::Note(note) => self.log(Line::Segment(note)),
            }
        }
        if !members.is_empty() {
            self.work.next([Work::Memberships(members)]);
        }
        if !given_back.is_empty() && matches!(self.source, Source::File(_)) {
            let work = self.reconciliation_of(given_back.into_iter().collect());
            self.work.next([work]);
        }
        for input in succeeded {
            self.on_segment(input, now);
        }
    }

    fn begin_to_take_back(&mut self, vips: BTreeMap<IpAddr, MacAddr>) {
        self.log(Line::TakesBack(vips.clone()));
        for (vip, mac) in vips {
            self.with_cluster(|cluster| cluster.report_taken_back(vip, mac));
            self.host.take_back([vip]);
        }
    }

    fn report_conflict(&mut self, line: Box<conflict::Line>, now: Monotonic) {
        if line.is_shown()
            && let Source::Cluster(cluster) = &mut self.source
        {
            cluster.report_conflict(&line, &self.view, now);
            self.effects.extend(cluster.take_effects());
        }
        self.log(Line::Conflict(line));
    }

    pub(super) fn on_program(&mut self, events: &[Event], now: Monotonic) {
        for event in events {
            self.on_segment(Input::Program(event), now);
        }
        let context = self.context(now);
        let awaits_hosts = |event: &&Event| self.visibility.proving.awaits_hosts(event.ifindex);
        let heard = events.iter().filter(awaits_hosts).filter(|event| !context.is_own(event));
        for segment in heard.map(|event| event.ifindex).collect::<BTreeSet<_>>() {
            self.on_heard(segment, now);
        }
        for event in events {
            let (key, mac) = (event.key(), MacAddr(event.sha));
            let received = match event.kind {
                EventKind::Contested => Wire::Contested { mac },
                EventKind::Moved if self.context(now).is_forged(event) => continue,
                EventKind::Moved => Wire::Moved { mac },
                // A yield is passed on after it has been read back.
                EventKind::Yielded | EventKind::Conflict | EventKind::Sighted | EventKind::Probed => continue,
            };
            match &self.source {
                // The file is the only authority, so this node keeps a VIP that a peer claims.
                Source::File(_) if event.kind == EventKind::Contested => {
                    self.on_segment(Input::Challenged(key), now);
                }
                Source::File(_) => {}
                Source::Cluster(_) => self.on_wire(key.addr, received, now),
            }
        }
        self.work.add([Work::SettleYields]);
    }

    /// Handles notifications of the network.
    pub(super) fn on_changed(&mut self, changed: Changed, now: Monotonic) {
        if changed.overrun || !self.visibility.segments.is_disjoint(&changed.downs) {
            self.memberships.on_down(now);
        }
        if changed.overrun {
            self.log(Line::Overrun);
        }
        self.work.add([Work::Observe(Some((changed, now)))]);
    }

    /// Passes notifications of failovers on. The network has been read again by now.
    pub(super) fn on_notices(&mut self, changed: &Changed, at: Monotonic, before: &NetView, now: Monotonic) {
        let lost_since = changed.overrun.then_some(before);
        self.on_segment(Input::Notices { notices: &changed.notices, lost_since, at }, now);
    }

    /// Handles a frame of another host: the first in a round of listening, or one that the program reports.
    pub(super) fn on_heard(&mut self, segment: u32, now: Monotonic) {
        self.notify_proving(proving::Event::Heard { segment }, now);
    }

    /// Passes the segments, with the links below them, to the proving.
    pub(super) fn observe_segments(&mut self, now: Monotonic) {
        let modes: BTreeMap<_, _> = self.attachments.attached().collect();
        let stack = |segment: &u32| {
            Some((*segment, Stack::of(&self.view, *segment, |index| modes.get(&index).copied())?))
        };
        let stacks = self.visibility.segments.iter().filter_map(stack).collect();
        self.notify_proving(proving::Event::Observed(stacks), now);
    }

    fn notify_proving(&mut self, event: proving::Event, now: Monotonic) {
        let commands = self.visibility.proving.on_event(event, now);
        let unheard = self.visibility.proving.unheard();
        if unheard != *self.segment.unheard() {
            self.on_segment(Input::Unheard(unheard), now);
        }
        for command in commands {
            match command {
                proving::Command::HeardAgain { segment } => {
                    self.log(Line::HeardAgain(segment));
                    self.on_segment(Input::HeardAgain(segment), now);
                }
                proving::Command::Listen { segment, round } => self.listen(segment, round),
                proving::Command::Found { segment, from, to, received } => {
                    self.effects.push(Effect::PutProof(segment, to));
                    self.log(Line::Proof { segment, from, to, received });
                    if to == Proof::Blind {
                        self.effects.push(Effect::AttachAgain(segment));
                    }
                }
            }
        }
    }

    fn listen(&mut self, segment: u32, round: u64) {
        // A round that cannot begin counts as ended when its time is over.
        if !self.view.interfaces.contains_key(&segment) {
            return;
        }
        // A round without a result is over by now.
        let others = |other: &u32, _: &mut u64| *other != segment && self.view.interfaces.contains_key(other);
        self.visibility.listening.retain(others);
        if self.visibility.listening.is_empty() {
            self.visibility.changed.clear();
        }
        self.visibility.listening.insert(segment, round);
        let peers = self.source.peer_addresses();
        self.effects.push(Effect::Listen { segment, round, peers });
    }

    /// Ends a round of listening.
    pub(super) fn on_listened(&mut self, listened: &Listened, now: Monotonic) {
        let Listened { segment, round, frames, counted, ref answered } = *listened;
        if self.visibility.listening.get(&segment) == Some(&round) {
            self.visibility.listening.remove(&segment);
        }
        // Only an entry that was held all the time shows that a request got past the program.
        let passed = answered.difference(&self.visibility.changed).next().copied();
        let passed = passed.filter(|_| self.segment.is_started());
        let received = proving::Received { frames, counted, passed };
        self.notify_proving(proving::Event::Received { segment, round, received }, now);
    }

    /// Ends the rounds of listening whose time is over, and begins those that are due.
    pub(super) fn tick_proving(&mut self, now: Monotonic) {
        if self.visibility.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.notify_proving(proving::Event::Tick, now);
        }
    }

    /// Has the memberships of VIPs follow their entries, their probes and the succession.
    pub(super) fn read_members(&mut self, mut keys: Vec<VipKey>) {
        keys.retain(|key| key.addr.is_ipv6());
        if !keys.is_empty() {
            self.read(Reading::Entries(keys.clone()), Waiting::Memberships(keys));
        }
    }
}
