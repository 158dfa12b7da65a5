//! The steps on the segments: what they want done, what the program reports, and whether it sees frames.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::{Event, EventKind, MacAddr, Proof, Role, Twin, VipEntry, VipFault, VipKey};

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
        announce::Round,
        conflict, egress,
        inquiry::{Answered, Question},
        own_frames,
        proving::{self, Stack},
    },
};

impl Agent {
    /// Passes an input to the segments, and handles the effects.
    pub(super) fn on_segment(&mut self, input: Input<'_>, now: Monotonic) {
        self.note_for_egress(&input, now);
        let context = context((&self.view, &self.config, &self.stale), &self.source, now);
        let effects = self.segment.on(input, &context);
        self.on_segment_effects(effects, now);
    }

    /// Passes to the proof of the way out which VIPs this node holds and has announced.
    fn note_for_egress(&mut self, input: &Input<'_>, now: Monotonic) {
        let held =
            |entry: Option<&VipEntry>| entry.filter(|it| it.role == Role::Held).map(|it| it.generation);
        let event = match input {
            Input::Adopted { key, entry } => {
                match entry.fault() {
                    None => {}
                    Some(VipFault::Unheard) => {
                        self.visibility.resting.find(*key, now);
                        self.work.add([Work::Interfaces]);
                    }
                    // Another node finds it again.
                    Some(VipFault::Blind) => self.effects.push(Effect::PutFault(*key, None)),
                }
                egress::Event::Held { key: *key, fault: entry.fault() }
            }
            Input::Announced { key, round: Round::Taking(0) } => {
                egress::Event::Held { key: *key, fault: None }
            }
            Input::Entry { key, from, to } if held(*from) != held(*to) => egress::Event::Released(*key),
            _ => return,
        };
        self.on_egress(event, now);
    }

    pub(super) fn on_egress(&mut self, event: egress::Event, now: Monotonic) {
        if let egress::Event::Anew(segment) = event
            && self.visibility.begin_anew(segment)
        {
            self.report_interfaces(now);
        }
        for command in self.visibility.on_egress(event, now) {
            match command {
                egress::Command::Ask { segment, round, host, mac, vips, own } => {
                    self.effects.push(Effect::AskAs { segment, round, host, mac, vips, own });
                }
                egress::Command::Found { segment, begun, over, host } => {
                    let key = |vip: &IpAddr| VipKey::new(segment, *vip);
                    let keys: Vec<VipKey> = begun.iter().chain(&over).map(key).collect();
                    self.put_faults(&keys, now);
                    self.log(Line::Egress { segment, begun, over, host });
                }
            }
        }
    }

    /// Handles what other nodes found about VIPs of this one.
    pub(super) fn on_unreached(&mut self, unreached: BTreeMap<IpAddr, VipFault>, now: Monotonic) {
        let before = std::mem::replace(&mut self.visibility.unreached, unreached);
        let unreached = &self.visibility.unreached;
        let is_other = |vip: &&IpAddr| before.get(*vip) != unreached.get(*vip);
        let changed: BTreeSet<&IpAddr> = before.keys().chain(unreached.keys()).filter(is_other).collect();
        // A VIP that this node has let go of is not reached again for that.
        let holds = |vip: &&IpAddr| {
            unreached.contains_key(*vip) || self.cluster().is_some_and(|it| it.engine().holds(**vip))
        };
        let held = changed.into_iter().filter(holds);
        let keys: Vec<VipKey> = held.flat_map(|vip| self.visibility.egress.keys_of(*vip)).collect();
        if !keys.is_empty() {
            let found = keys.iter().map(|key| (key.addr, unreached.get(&key.addr).copied())).collect();
            self.log(Line::Unreached(found));
            self.put_faults(&keys, now);
        }
    }

    /// Records the faults of VIPs of which something else was found.
    fn put_faults(&mut self, keys: &[VipKey], now: Monotonic) {
        for key in keys {
            let fault = self.visibility.fault(*key);
            match fault {
                Some(_) => self.visibility.resting.find(*key, now),
                None => self.visibility.resting.end(*key),
            }
            self.effects.push(Effect::PutFault(*key, fault));
        }
        self.report_interfaces(now);
        self.answers.examine_some(keys.iter().map(|key| key.addr));
    }

    /// Handles the first answer of a host in a round of listening.
    pub(super) fn on_answered(
        &mut self,
        (segment, round): (u32, u64),
        (address, mac, own): (IpAddr, MacAddr, IpAddr),
        now: Monotonic,
    ) {
        if self.visibility.inquiry.asks_for(segment, address) {
            return;
        }
        let Some(interface) = self.view.interfaces.get(&segment) else { return };
        let subnets = interface.foreign_addresses().collect();
        let kind = if self.config.peers.contains(&mac) || self.source.peer_addresses().contains(&address) {
            egress::Kind::Peer
        } else if self.view.next_hops.contains(&address) {
            egress::Kind::Gateway
        } else {
            egress::Kind::Other
        };
        let host = egress::Host { address, mac, own, kind };
        self.on_egress(egress::Event::Answered { segment, round, host, subnets }, now);
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
                segment::Effect::AskHost { key, mac } => self.effects.push(Effect::AskHost { key, mac }),
                segment::Effect::TellApart { key, mac } => self.effects.push(Effect::TellApart { key, mac }),
                segment::Effect::ShowPort(key) => self.effects.push(Effect::ShowPort(key)),
                segment::Effect::ProbeHeld(key) => {
                    let is_taken_back = self.segment.is_taken_back(key.addr);
                    self.effects.push(Effect::ProbeHeld { key, is_taken_back });
                }
                segment::Effect::State { ifindex, to, holds } => {
                    self.effects.push(Effect::State { ifindex, to, holds });
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
        if let conflict::Line::Doubled { conflict } | conflict::Line::Ended { conflict, .. } = &*line {
            self.answers.examine_some([conflict.key.addr]);
        }
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
        if changed.overrun || !self.visibility.segments.is_disjoint(&changed.may_have_left) {
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
                proving::Command::Anew { segment } => self.on_egress(egress::Event::Anew(segment), now),
                proving::Command::HeardAgain { segment } => {
                    self.on_egress(egress::Event::Anew(segment), now);
                    self.log(Line::HeardAgain(segment));
                    self.on_segment(Input::HeardAgain(segment), now);
                }
                proving::Command::Listen { segment, round } => {
                    self.on_egress(egress::Event::Began { segment, round }, now);
                    self.listen(segment, round, now);
                }
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

    fn listen(&mut self, segment: u32, round: u64, now: Monotonic) {
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
        let questions = self.questions(segment, now);
        self.visibility.inquiry.begin(segment, round, questions.clone());
        self.effects.push(Effect::Listen { segment, round, peers, questions });
    }

    /// Returns the VIPs of others that a round asks for: those in doubt, and the next in turn. A round that
    /// begins for those in doubt asks for no others.
    fn questions(&mut self, segment: u32, now: Monotonic) -> Vec<Question> {
        let Source::Cluster(cluster) = &self.source else { return Vec::new() };
        let Some(interface) = self.view.interfaces.get(&segment) else { return Vec::new() };
        let visibility = &mut self.visibility;
        let suspects: BTreeSet<IpAddr> = visibility.inquiry.suspects(segment).collect();
        let question = |vip: &IpAddr| cluster.engine().question(*vip, &interface.name, now);
        if visibility.inquiry.is_open(segment) {
            return suspects.iter().filter_map(question).collect();
        }
        let (next, last) =
            cluster.engine().questions(&interface.name, visibility.inquired.get(&segment).copied(), now);
        visibility.inquired.extend(last.map(|last| (segment, last)));
        let others = next.into_iter().filter(|question| !suspects.contains(&question.vip));
        suspects.iter().filter_map(question).chain(others).collect()
    }

    /// Judges the answers to the questions about VIPs of others.
    fn on_questions_answered(
        &mut self,
        round: (u32, u64),
        answers: &BTreeMap<IpAddr, Option<Answered>>,
        hosts: &BTreeSet<IpAddr>,
        now: Monotonic,
    ) {
        let (Source::Cluster(cluster), Some(interface)) = (&self.source, self.view.interfaces.get(&round.0))
        else {
            return;
        };
        let question = |vip| cluster.engine().question(vip, &interface.name, now);
        if self.visibility.inquiry.end(round, answers, hosts, question) {
            self.report_interfaces(now);
        }
        self.visibility.want_round(round.0, now);
    }

    /// Handles what a round shows about frames with this host's own MAC.
    fn on_twin(&mut self, segment: u32, twin: Twin) {
        let Some(from) = self.visibility.twins.on_round(segment, twin) else { return };
        self.effects.push(Effect::PutTwin(segment, twin));
        self.log(Line::Twin { segment, from, to: twin });
        let (interface, view) = (self.view.name_of(segment), &self.view);
        if let (Source::Cluster(cluster), Some(words)) = (&mut self.source, own_frames::in_words(twin)) {
            cluster.report_twin(&format!("{interface}: {words}"), segment, view);
            self.effects.extend(cluster.take_effects());
        }
    }

    /// Ends a round of listening.
    pub(super) fn on_listened(&mut self, listened: Listened, now: Monotonic) {
        let Listened { segment, round, frames, counted, answered, egress: result, of_others, twin } =
            listened;
        self.on_twin(segment, twin);
        if self.visibility.listening.get(&segment) == Some(&round) {
            self.visibility.listening.remove(&segment);
        }
        // Only an entry that was held all the time shows that a request got past the program.
        let passed = answered.difference(&self.visibility.changed).next().copied();
        let passed = passed.filter(|_| self.segment.is_started());
        let is_own_asked = |(host, answers): (&IpAddr, &egress::Answers)| (answers.own > 0).then_some(*host);
        let hosts = result.answers.iter().filter_map(is_own_asked).collect();
        let has_lost = result.has_lost;
        self.on_egress(egress::Event::Ended { segment, round, result }, now);
        if !has_lost {
            self.on_questions_answered((segment, round), &of_others, &hosts, now);
        }
        let received = proving::Received { frames, counted, passed };
        self.notify_proving(proving::Event::Received { segment, round, received }, now);
    }

    /// Ends the rounds of listening whose time is over, and begins those that are due.
    pub(super) fn tick_proving(&mut self, now: Monotonic) {
        if self.visibility.end_rests(now) {
            self.report_interfaces(now);
        }
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
