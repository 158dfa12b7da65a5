//! The machine for the segments. It composes announcing, probing, conflicts and yielded VIPs.
//!
//! [`Segment::on`] takes an input and returns the effects. The caller carries them out in their order.
//! The result of an effect, where it has one, is the next input.

mod confirming;
mod giving_back;
mod held_back;
#[cfg(test)]
mod tests;
mod types;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::{
    Event, EventKind, MacAddr, OPER_REPLY, Offender, OffenderKey, Role, TYPE_ADVERTISEMENT, VipEntry, VipKey,
};

pub use self::types::{Authority, Context, Effect, Input, Note, Settings};
use crate::{
    base::time::Monotonic,
    host::{
        net::{Interface, NetView},
        placement::Desired,
        plan::Observed,
    },
    segment::{
        announce::{self, Announcer, Round},
        confirming::{self as proxies, Confirming},
        conflict::{self, Conflict, Conflicts, Counted, Sight, What},
        failover::{self, Failovers, Notice},
        probing::{self, Manner, Probed, Prober},
        provisional::Provisional,
        rivals::Rivals,
        yields::{self, NoPeer, Yields},
    },
};

/// The parts that speak to the segments.
pub struct Segment {
    announcer: Announcer,
    conflicts: Conflicts,
    failovers: Failovers,
    prober: Prober,
    confirming: Confirming,
    provisional: Provisional,
    rivals: Rivals,
    yields: Yields,
    /// VIPs that wait until their addresses are known to be free.
    held_back: BTreeSet<VipKey>,
    /// Interfaces on which VIPs wait until another host is heard. This was noted.
    noted: BTreeSet<u32>,
    /// True if the agent has the lease deadline.
    started: bool,
    asks: bool,
    /// The effects of the present input.
    effects: Vec<Effect>,
}

impl Segment {
    /// Starts with no VIP. `seed` spreads the frames of different agents.
    pub fn start(settings: &Settings, seed: u64, now: Monotonic) -> Self {
        Self {
            announcer: Announcer::start(&settings.announce, seed, now),
            conflicts: Conflicts::start(&settings.conflicts, now),
            failovers: Failovers::default(),
            prober: Prober::start(&settings.probe, seed, now),
            confirming: Confirming::start(settings.probe.proxied, settings.probe.rate, now),
            provisional: Provisional::default(),
            rivals: Rivals::default(),
            yields: Yields::default(),
            held_back: BTreeSet::new(),
            noted: BTreeSet::new(),
            started: false,
            asks: settings.probe.count > 0,
            effects: Vec::new(),
        }
    }

    /// Applies other settings.
    pub fn configure(&mut self, settings: &Settings, now: Monotonic) {
        self.announcer.configure(&settings.announce, now);
        self.prober.configure(&settings.probe, now);
        self.confirming.configure(settings.probe.proxied, settings.probe.rate);
        self.conflicts.configure(&settings.conflicts);
        self.rivals.on_configured(now);
        self.asks = settings.probe.count > 0;
    }

    pub fn on(&mut self, input: Input<'_>, context: &Context<'_>) -> Vec<Effect> {
        match input {
            Input::Started => self.started = true,
            Input::Withdrawn => self.started = false,
            Input::Adopted { key, entry } => {
                self.rivals.on_taken(key, context.now);
                self.announce(announce::Event::Taken { key, mac: MacAddr(entry.mac) }, context);
            }
            Input::Program(event) => self.on_program(event, context),
            Input::Counted(counts) => self.on_counted(counts, context),
            Input::Network(before) => self.on_network(before, context),
            Input::Notices { notices, lost_since, at } => self.on_notices(notices, lost_since, at, context),
            Input::Entry { key, from, to } => self.on_entry(key, from, to, context),
            Input::Succeeded { key, former } => {
                self.announce(announce::Event::Succeeded { key, former }, context);
            }
            Input::Peer { ifindex, mac } => {
                self.conflict(conflict::Event::Recognised { ifindex, mac }, context);
                self.probe(probing::Event::Recognised { ifindex, mac }, context);
            }
            Input::Written => self.probe_held_back(context),
            Input::Freed(vips) => self.held_back.retain(|key| !vips.contains(&key.addr)),
            Input::Wanted { key, manner } => {
                self.probe(probing::Event::Wanted { key, manner }, context);
                self.join_groups(key);
            }
            Input::Unwanted(vip) => {
                for key in context.keys_of(vip).filter(|key| self.prober.asks_about(key)).collect::<Vec<_>>()
                {
                    self.stop_probing(key, context);
                }
            }
            Input::Challenged(key) => self.announce(announce::Event::Challenged { key }, context),
            Input::AnnounceAgain(vip) => {
                for key in context.keys_of(vip) {
                    self.announce(announce::Event::Challenged { key }, context);
                }
            }
            Input::Decided(vip) => self.on_yield(yields::Event::Decided(vip), context),
            Input::Announced { key, round } => {
                if round == Round::Taking(0) {
                    self.effects.push(Effect::FirstAnnounced(key.addr));
                }
                if announce::is_followed_by_probe(key, round) {
                    self.effects.push(Effect::ShowPort(key));
                }
            }
            Input::NotSent(key) => {
                self.confirm(proxies::Event::NotSent(key), context);
                self.probe(probing::Event::NotSent(key), context);
            }
            Input::Told { key, mac, answerer } => {
                self.confirm(proxies::Event::Told { key, mac, answerer }, context);
            }
            Input::Unheard(unheard) => {
                self.noted.retain(|ifindex| unheard.contains_key(ifindex));
                self.provisional.on_heard(|ifindex| !unheard.contains_key(&ifindex), context.now);
                self.probe(probing::Event::Unheard(unheard), context);
            }
            Input::HeardAgain(ifindex) => {
                let received = context.now;
                self.announce(announce::Event::FailedOver { ifindex, received }, context);
                self.probe(probing::Event::ProbeHeld { ifindex }, context);
            }
            Input::Stated { ifindex, from, holds } => self.on_stated((ifindex, from), holds, context),
            Input::Tick => self.on_tick(context),
        }
        std::mem::take(&mut self.effects)
    }

    /// Begins to probe the VIPs that the program has yielded since the last reconciliation. With
    /// `reclaim`, ends all such probes: the VIPs are taken back in any case. Returns the probed
    /// VIPs, and the effects.
    pub fn ask_about_yields(
        &mut self,
        (desired, observed): (&Desired, &Observed),
        (is_known, reclaim): (bool, bool),
        context: &Context<'_>,
    ) -> (BTreeSet<IpAddr>, Vec<Effect>) {
        if reclaim {
            for vip in self.yields.asked().collect::<Vec<_>>() {
                self.on_yield(yields::Event::Decided(vip), context);
            }
        } else {
            let may = |vip| context.authority.may_take_back(vip);
            for command in self.yields.on_observed(observed, desired, is_known, may, context.now) {
                if let yields::Command::Ask(key) = command {
                    self.effects.push(Effect::Note(Note::AsksAboutYield(key.addr)));
                }
                self.carry_out_asking(command, context);
            }
        }
        (self.yields.asked().collect(), std::mem::take(&mut self.effects))
    }

    /// Returns the time of the next [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let round = self.prober.next_round().filter(|_| self.started);
        let announcement = self.announcer.next_deadline().filter(|_| self.started);
        let statement = self.rivals.next_deadline().filter(|_| self.started);
        let others = [
            self.conflicts.next_deadline(),
            self.prober.next_deadline(),
            self.confirming.next_deadline(),
            round,
            statement,
            self.yields.next_deadline(),
        ];
        announcement.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Returns true if the agent has the lease deadline.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Returns the shown conflicts that are open, by VIP.
    pub fn conflicts(&self) -> impl Iterator<Item = &Conflict> {
        self.conflicts.shown()
    }

    /// Returns the open conflict about a VIP, if it is a shown one.
    pub fn conflict_about(&self, key: &VipKey) -> Option<&Conflict> {
        self.conflicts.about(key).or_else(|| self.conflicts.doubled(key))
    }

    /// Returns the conflict with a peer that answers for a VIP too, which this node holds.
    pub fn doubled(&self, key: &VipKey) -> Option<&Conflict> {
        self.conflicts.doubled(key)
    }

    /// Returns the next round of each announced VIP, and its time.
    pub fn rounds(&self) -> impl Iterator<Item = (&VipKey, Round, Monotonic)> {
        self.announcer.schedule_of_all()
    }

    /// Returns the interfaces on which no other host was heard since their links came up, with the times
    /// until which silence proves nothing there.
    pub(in crate::agent) fn unheard(&self) -> &BTreeMap<u32, Monotonic> {
        self.prober.unheard()
    }

    /// Returns true if a VIP was taken back. Its entry answers even after the lease deadline.
    pub fn is_taken_back(&self, vip: IpAddr) -> bool {
        self.yields.taken_back().contains(&vip)
    }

    fn on_program(&mut self, event: &Event, context: &Context<'_>) {
        if context.is_own(event) {
            return;
        }
        let (key, mac, now) = (event.key(), MacAddr(event.sha), context.now);
        let (oper, at) = (event.oper, Monotonic::from_nanos(event.at_ns));
        self.confirm(proxies::Event::Received { key, mac, oper, at }, context);
        if self.is_late_answer(event, context) {
            return self.on_late_answer(event, context);
        }
        let what = match event.kind {
            EventKind::Conflict if context.mac_of(event.ifindex) == Some(MacAddr(event.holder)) => What::Held,
            EventKind::Conflict => What::Guarded,
            EventKind::Contested => What::Contested,
            EventKind::Moved => What::Moved,
            EventKind::Yielded => What::Yielded,
            EventKind::Sighted if self.prober.asks_about(&key) => What::InUse,
            EventKind::Sighted => What::Sighted,
            // RFC 5227, 2.1.1: another host that probes is a rival only while this node probes.
            EventKind::Probed
                if !self.prober.is_probing(&key)
                    || self.yields.asks_about(&key)
                    || self.prober.put_off(&key, mac, now) =>
            {
                return;
            }
            EventKind::Probed => What::InUse,
        };
        let by_peer = what.is_with_peer();
        let is_answer = if self.yields.asks_about(&key) {
            self.is_answer_for_yielded(event, key, context)
        } else {
            let is_moved = what == What::Moved && !context.is_forged(event);
            what == What::InUse || is_moved && self.prober.asks_about(&key)
        };
        let received = is_answer.then_some(probing::Event::Received { key, mac, by_peer });
        let probed = received.map(|received| self.prober.on_event(received, now)).unwrap_or_default();
        // The conflict comes first: a result may end it.
        self.conflict(conflict::Event::Sighted(sight(event, what, context)), context);
        self.carry_out_probing(probed, context);
        if what == What::Contested && event.source == event.sha {
            let command = self.with_rivals(context, |rivals, host| rivals.on_claimed(key, mac, host));
            self.carry_out_rivals(command, context);
        }
    }

    /// Returns true if an event is a peer's answer for a yielded VIP. Any host can announce in a
    /// peer's name, so only a reply shows that a peer has the VIP. An unknown host's claim shows
    /// nothing.
    fn is_answer_for_yielded(&mut self, event: &Event, key: VipKey, context: &Context<'_>) -> bool {
        if event.kind != EventKind::Moved {
            return false;
        }
        let is_reply = is_reply(event) && !context.is_forged(event);
        if !is_reply && event.swallowed > 0 {
            // The answer may be among the events that were held back.
            self.on_yield(yields::Event::Unclear { key }, context);
        }
        is_reply
    }

    fn on_counted(&mut self, counts: BTreeMap<OffenderKey, Offender>, context: &Context<'_>) {
        self.confirm(proxies::Event::Counted(&counts), context);
        let is_unknown_host = |kind| match kind {
            EventKind::Conflict | EventKind::Sighted => true,
            // A host that only probes does not use the address.
            EventKind::Probed | EventKind::Contested | EventKind::Moved | EventKind::Yielded => false,
        };
        let unknown_hosts = counts
            .into_iter()
            .filter(|(key, count)| is_unknown_host(count.kind) && !context.peers.contains(&key.mac));
        let counted = unknown_hosts.map(|(key, count)| Counted {
            key: key.vip,
            offender: conflict::Offender {
                mac: key.mac,
                source: MacAddr(count.source),
                oper: count.oper,
                first: Monotonic::from_nanos(count.first_ns),
                last: Monotonic::from_nanos(count.last_ns),
                claims: count.claims,
                answerer: None,
            },
        });
        self.conflict(conflict::Event::Counted(counted.collect()), context);
    }

    /// Passes on which interfaces have lost or got their carrier, or have gone, since `before`.
    fn on_network(&mut self, before: &NetView, context: &Context<'_>) {
        let carrier = |view: &NetView, ifindex| {
            view.interfaces.get(&ifindex).map(|interface: &Interface| interface.up && interface.carrier)
        };
        let all: BTreeSet<u32> =
            before.interfaces.keys().chain(context.view.interfaces.keys()).copied().collect();
        for ifindex in all {
            match (carrier(before, ifindex), carrier(context.view, ifindex)) {
                (None | Some(false), Some(true)) => {
                    self.probe(probing::Event::Restart { ifindex }, context);
                    if self.held_back.iter().any(|key| key.ifindex == ifindex) {
                        self.effects.push(Effect::Unsettle);
                    }
                    self.announce(announce::Event::CarrierReturned { ifindex }, context);
                }
                (None | Some(true), Some(false)) => {
                    // No probe reaches a host now, so a missing answer means nothing.
                    let asked = self.held_back.iter().filter(|key| key.ifindex == ifindex).copied();
                    for key in asked.collect::<Vec<_>>() {
                        self.stop_probing(key, context);
                    }
                    self.announce(announce::Event::CarrierLost { ifindex }, context);
                }
                (Some(_), None) => self.announce(announce::Event::InterfaceGone { ifindex }, context),
                (None, None) | (Some(true), Some(true)) | (Some(false), Some(false)) => {}
            }
        }
    }

    /// Announces the VIPs of interfaces that have failed over once. The view is new, so that a MAC or a
    /// port that came with the failover counts.
    fn on_notices(
        &mut self,
        notices: &BTreeSet<Notice>,
        lost_since: Option<&NetView>,
        at: Monotonic,
        context: &Context<'_>,
    ) {
        let mut failed_over = self.failovers.on_notices(notices, context.view, at);
        failed_over.extend(lost_since.iter().flat_map(|before| failover::unnoticed(before, context.view)));
        for ifindex in failed_over {
            let vips = self.announcer.count_on(ifindex);
            if vips > 0 {
                self.effects.push(Effect::Note(Note::FailedOver { ifindex, vips }));
                self.announce(announce::Event::FailedOver { ifindex, received: at }, context);
            }
        }
    }

    fn on_entry(
        &mut self,
        key: VipKey,
        from: Option<&VipEntry>,
        to: Option<&VipEntry>,
        context: &Context<'_>,
    ) {
        let held = |entry: Option<&VipEntry>| entry.filter(|entry| entry.role == Role::Held).copied();
        let event = match (held(from), held(to)) {
            (Some(from), Some(to)) if from.mac != to.mac => {
                Some(announce::Event::MacChanged { key, mac: MacAddr(to.mac) })
            }
            (Some(from), Some(to)) if from.generation == to.generation => None,
            (_, Some(to)) => Some(announce::Event::Taken { key, mac: MacAddr(to.mac) }),
            (Some(_), None) => Some(announce::Event::Released { key }),
            (None, None) => None,
        };
        if let Some(event) = event {
            match event {
                announce::Event::Taken { .. } => {
                    let is_unheard = self.unheard().contains_key(&key.ifindex);
                    self.provisional.on_taken(key, is_unheard, context.now);
                    self.rivals.on_taken(key, context.now);
                    self.effects.push(Effect::Taken(key));
                }
                announce::Event::Released { .. } => {
                    self.provisional.forget(key);
                    self.rivals.on_released(key);
                    self.conflict(conflict::Event::Released(key), context);
                }
                _ => {}
            }
            self.announce(event, context);
        }
        if to.is_none() {
            self.conflict(conflict::Event::Forgotten(key), context);
        }
    }

    fn on_tick(&mut self, context: &Context<'_>) {
        let now = context.now;
        self.provisional.on_tick(now);
        self.announce(announce::Event::Tick, context);
        self.probe(probing::Event::Tick, context);
        self.confirm(proxies::Event::Tick, context);
        if self.started {
            let announcer = &self.announcer;
            let after = |key| announcer.after(key).map(|(key, _)| key);
            let held = self.prober.next_of_held(announcer.count(), after, now);
            self.effects.extend(held.into_iter().map(Effect::ProbeHeld));
            let statements = self.with_rivals(context, Rivals::on_tick);
            self.carry_out_rivals(statements, context);
        }
        self.take_back_yielded(context);
        let right = |sight: &Sight| context.authority.right(sight.key.addr, sight.mac, now);
        let commands = self.conflicts.on_tick(right, now);
        self.carry_out_conflicts(commands, context);
    }

    /// Takes back the VIPs for which no peer has answered in time.
    fn take_back_yielded(&mut self, context: &Context<'_>) {
        let may = |vip| context.authority.may_take_back(vip);
        let mut taken = BTreeMap::new();
        for NoPeer { key, from, take_back } in self.yields.on_tick(may, context.now) {
            self.carry_out_asking(yields::Command::StopAsking(key), context);
            if take_back {
                taken.insert(key.addr, from);
            }
        }
        if !taken.is_empty() {
            self.effects.push(Effect::TakeBack(taken));
        }
    }

    fn announce(&mut self, event: announce::Event, context: &Context<'_>) {
        if self.started {
            let commands = self.announcer.on_event(event, context.now);
            self.effects.extend(commands.into_iter().map(Effect::Announce));
        }
    }

    fn conflict(&mut self, event: conflict::Event, context: &Context<'_>) {
        let commands = self.conflicts.on_event(event, context.now);
        self.carry_out_conflicts(commands, context);
    }

    fn carry_out_conflicts(&mut self, commands: Vec<conflict::Command>, context: &Context<'_>) {
        for command in commands {
            match command {
                conflict::Command::Defend(key) => self.announce(announce::Event::Challenged { key }, context),
                conflict::Command::Ask(key) => self.effects.push(Effect::ProbeHeld(key)),
                conflict::Command::Count => self.effects.push(Effect::Count),
                conflict::Command::Report(line) => self.effects.push(Effect::Report(Box::new(line))),
            }
        }
    }

    fn probe(&mut self, event: probing::Event, context: &Context<'_>) {
        let commands = self.prober.on_event(event, context.now);
        self.carry_out_probing(commands, context);
    }

    fn carry_out_probing(&mut self, commands: Vec<probing::Command>, context: &Context<'_>) {
        for command in commands {
            match command {
                // The program reports no answer about a VIP whose entry is missing.
                probing::Command::Send(key) if context.stale.left(key.addr).is_some() => {
                    self.probe(probing::Event::Unwatched(key), context);
                }
                probing::Command::Send(key) => {
                    self.confirm(proxies::Event::Probed(key), context);
                    self.effects.push(Effect::Probe(key));
                }
                probing::Command::Free(key) if context.stale.left(key.addr).is_some() => {
                    self.probe(probing::Event::Wanted { key, manner: Manner::OFTEN }, context);
                }
                probing::Command::Free(key) if self.is_doubted(key, context) => {}
                probing::Command::Free(key) => {
                    self.confirm(proxies::Event::Free(key), context);
                    if !self.yields.asks_about(&key) {
                        self.provisional.on_free(key, context.now);
                    }
                    self.conflict(conflict::Event::Free(key), context);
                    self.on_probed(key, Probed::Free, context);
                }
                probing::Command::Unheard { key, until } => {
                    let ifindex = key.ifindex;
                    if self.noted.insert(ifindex) {
                        self.effects.push(Effect::Note(Note::Unheard { ifindex, until }));
                    }
                    self.on_probed(key, Probed::Unheard, context);
                }
                probing::Command::InUse { key, mac, by_peer, conflicts, again, is_late } => {
                    let vip = key.addr;
                    self.effects.push(Effect::Note(Note::InUse { vip, mac, conflicts, again, is_late }));
                    let probed =
                        if is_late { Probed::Late { mac, by_peer } } else { Probed::InUse { mac, by_peer } };
                    self.on_probed(key, probed, context);
                    self.ask_directly(key, mac, by_peer, context);
                }
            }
        }
    }

    /// Passes the result of a probe to the part that requested it.
    fn on_probed(&mut self, key: VipKey, probed: Probed, context: &Context<'_>) {
        if self.yields.asks_about(&key) {
            self.on_yield(yields::Event::Probed { key, probed }, context);
        } else {
            self.effects.push(Effect::Probed { key, probed });
        }
    }

    fn join_groups(&mut self, key: VipKey) {
        if key.addr.is_ipv6() {
            self.effects.push(Effect::JoinGroups(key));
        }
    }

    /// Stops probing an address. A conflict with its user no longer concerns this node.
    fn stop_probing(&mut self, key: VipKey, context: &Context<'_>) {
        self.provisional.forget(key);
        self.probe(probing::Event::Forget(key), context);
        self.confirm(proxies::Event::Forget(key), context);
        self.join_groups(key);
        if self.conflicts.about(&key).is_some_and(|conflict| conflict.what == What::InUse) {
            self.conflict(conflict::Event::Forgotten(key), context);
        }
    }

    fn on_yield(&mut self, event: yields::Event, context: &Context<'_>) {
        for command in self.yields.on_event(event, context.now) {
            self.carry_out_asking(command, context);
        }
    }

    fn carry_out_asking(&mut self, command: yields::Command, context: &Context<'_>) {
        match command {
            yields::Command::Ask(key) => {
                self.probe(probing::Event::Wanted { key, manner: Manner::OFTEN }, context);
            }
            yields::Command::StopAsking(key) => {
                // If a peer answers, the next reconciliation writes its MAC into the entry.
                self.effects.push(Effect::Reconcile);
                self.stop_probing(key, context);
            }
        }
    }
}

fn is_reply(event: &Event) -> bool {
    [OPER_REPLY, TYPE_ADVERTISEMENT.into()].contains(&event.oper)
}

/// Returns an event as the conflicts take it.
fn sight(event: &Event, what: What, context: &Context<'_>) -> Sight {
    let (key, mac) = (event.key(), MacAddr(event.sha));
    Sight {
        key,
        what,
        mac,
        source: MacAddr(event.source),
        oper: event.oper,
        holder: MacAddr(event.holder),
        times: event.swallowed.saturating_add(1),
        at: Monotonic::from_nanos(event.at_ns),
        right: context.authority.right(key.addr, mac, context.now),
    }
}
