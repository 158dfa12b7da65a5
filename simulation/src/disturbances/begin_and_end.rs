//! The beginning and the end of each disturbance.

use std::time::Duration;

use vipward_core::agent::host::RETRY;

use crate::{
    machine::{Marks, Program, Way},
    schedule::{KINDS, Kind, Mark, OnApi, OnSegment, Times, What, When, Who, names},
    world::{Happening, World},
};

/// The longest wait for a step.
const ARMED: Duration = Duration::from_secs(20);
/// The time from power to a running agent, in milliseconds.
const BOOT: std::ops::Range<u64> = 500..3_000;
/// The time until an agent notices a change of its interfaces, in milliseconds.
const NOTICE: std::ops::Range<u64> = 1..40;
/// The longest time after a stall until the watch has shown what it missed and the agent has acted
/// on it.
const SEES_AGAIN: Duration = Duration::from_secs(1);

impl World {
    pub(crate) fn begin_or_arm(&mut self, index: usize) {
        let disturbance = self.plan.disturbances[index];
        match disturbance.when {
            When::Ms(_) => self.under_way.begun[index] = Some(disturbance.what.with(|who| self.resolve(who))),
            When::Step { .. } if self.under_way.begun[index].is_none() => {
                self.under_way.armed.push(index);
                self.after(ARMED, Happening::Disarm(index));
                return;
            }
            When::Step { .. } => {}
        }
        self.begin(index);
    }

    /// Returns the node that is meant.
    pub(crate) fn resolve(&self, who: Who) -> Who {
        let holder = |vip: u8| {
            let claim = self.api.claims.get(&names::vip(vip.into()));
            claim.and_then(|claim| claim.state.holder()).map(|holder| holder.node.clone())
        };
        let monitor = |vip: u8, number: u8| {
            let lease = self.api.leases.get(&holder(vip)?)?;
            let wid = *lease.wire.as_ref()?.set.get(usize::from(number))?;
            self.nodes.iter().position(|node| node.program.wired.wid == Some(wid))
        };
        let node = match who {
            Who::Node(_) | Who::Giver | Who::Taker | Who::Controller(_) => return who,
            Who::Leader => return Who::Controller(self.elected()),
            Who::Holder(vip) => holder(vip).and_then(|node| names::node_index(&node)),
            Who::Monitor(vip, number) => monitor(vip, number),
        };
        Who::Node(node.and_then(|node| u8::try_from(node).ok()).unwrap_or(0))
    }

    pub(crate) fn disarm(&mut self, index: usize) {
        let before = self.under_way.armed.len();
        self.under_way.armed.retain(|armed| *armed != index);
        self.under_way.open -= before - self.under_way.armed.len();
    }

    pub(crate) fn begin(&mut self, index: usize) {
        let Some(what) = self.under_way.begun[index] else { return };
        self.record.trace.line(self.now, "", || format!("*** {what:?}"));
        if let What::Stranger { for_ms, .. } = what {
            self.after(Duration::from_millis(for_ms.into()), Happening::End(index));
            return self.change_stranger(index, what, true);
        }
        let is_planned = what.is_planned(&self.plan.timing);
        self.record.disturbed(self.now);
        if what.lasts().is_some() {
            self.record.trouble.in_force += 1;
        }
        self.record_mild(what);
        if !is_planned {
            self.record.faulted(self.now, what.lasts());
            if self.under_way.handing.iter().flatten().any(|(giver, taker)| what.befalls([*giver, *taker])) {
                self.record.facts.interrupted = true;
            }
        }
        match what.lasts() {
            Some(lasts) => self.after(lasts, Happening::End(index)),
            None => self.under_way.open -= 1,
        }
        self.apply(index, what, true);
        self.stirred = true;
        self.update_fitness();
    }

    pub(crate) fn end(&mut self, index: usize) {
        let Some(what) = self.under_way.begun[index] else { return };
        self.record.trace.line(self.now, "", || format!("*** over: {what:?}"));
        if what.is_strangers() {
            return self.change_stranger(index, what, false);
        }
        self.under_way.open -= 1;
        self.record.disturbed(self.now);
        self.record.trouble.in_force -= 1;
        if !what.is_planned(&self.plan.timing) {
            self.record.faulted(self.now, None);
        }
        self.apply(index, what, false);
        self.stirred = true;
        self.update_fitness();
    }

    pub(crate) fn join(&mut self, node: usize) {
        self.record.disturbed(self.now);
        // A disturbance may have given it power before.
        if !std::mem::replace(&mut self.nodes[node].powered, true) {
            self.boot_proxy(node);
        }
        self.put_node(node);
        self.boot(node);
    }

    fn apply(&mut self, number: usize, what: What, begins: bool) {
        match what {
            What::Kill { who, .. } if begins => self.kill(who.index()),
            What::Kill { who, .. } => self.boot(who.index()),
            What::PowerOff { who, .. } => self.power(who.index(), !begins),
            What::Removed { who, .. } => self.remove(who.index(), begins),
            What::Pause { who, .. } => self.pause(who.index(), begins),
            What::Freeze { who, .. } if names::is_controller(who.index()) => {
                self.freeze_controller(who.index(), begins);
            }
            What::Freeze { who, clock_too, .. } => self.freeze(who.index(), (clock_too, clock_too), begins),
            What::Suspended { who, .. } => self.freeze(who.index(), (true, false), begins),
            What::Busy { who, by_ms, .. } => {
                keep(&mut self.nodes[who.index()].faults.busy, number, by_ms, begins);
                self.nodes[who.index()].times.runs = self.now;
            }
            What::KeyGone { who, .. } => {
                self.nodes[who.index()].faults.key_gone.change(begins);
                self.notify_keys(who.index());
            }
            What::End { who, how, back_ms } if begins => {
                self.notify_to_end(who.index(), how, back_ms.map(|back| Duration::from_millis(back.into())));
            }
            What::EntriesRefused { who, new_only, .. } => {
                let it = &mut self.nodes[who.index()];
                let refused = if new_only { &mut it.faults.no_room } else { &mut it.faults.no_changes };
                refused.change(begins);
                let lasts = if begins { what.lasts().unwrap_or_default() } else { Duration::ZERO };
                let timing = self.plan.timing;
                let rest = Duration::from_millis((timing.lease_ms + timing.margin_ms).into());
                it.times.refused_until = it.times.refused_until.max(self.now + lasts + RETRY + rest * 2);
            }
            What::Filtered { who, drops, .. } => {
                let it = &mut self.nodes[who.index()];
                it.faults.filtered[drops as usize].change(begins);
                it.times.filtered[drops as usize] = self.now;
                self.record.facts.switches.filter = true;
            }
            What::ChangeMac { who, segment } => self.change_mac(who.index(), segment.into()),
            What::NoCarrier { who, segment, .. } => {
                let link = segment_index(segment, self.network.segments.len());
                self.nodes[who.index()].links[link].no_carrier.change(begins);
                self.links_changed(who.index());
            }
            What::Forged { vip, name } => self.forge(vip.into(), name.index()),
            What::FalseEnd { segment, who } => {
                self.send_false_expiry(who.index(), segment_index(segment, self.network.segments.len()));
            }
            What::Segment(on) => self.change_segment(number, on, begins),
            What::Api(on) => self.change_api(number, on, begins),
            What::Marked { who, mark, .. } => self.mark(who.index(), mark, begins),
            What::NodeGone { who, .. } => {
                self.nodes[who.index()].marks.gone.change(begins);
                self.put_node(who.index());
            }
            What::Local { vip, on, .. } => {
                let local = &mut self.desired.vips[usize::from(vip)].local;
                if begins {
                    local.push((number, on));
                } else {
                    local.retain(|(of, _)| *of != number);
                }
                self.put_wanted_service(vip.into());
            }
            What::Unwanted { vip, .. } => {
                self.desired.vips[usize::from(vip)].unwanted.change(begins);
                self.put_wanted_service(vip.into());
            }
            What::Host { vip, who, .. } => {
                self.change_host(number, (vip.into(), who.map(Who::index)), begins);
            }
            What::Lie { vip, who } => self.lie(vip.into(), who.index()),
            What::Tenants(on) => self.change_tenants(number, on, begins),
            What::Edit(edit) => self.edit(edit),
            // The time until the agent's restart counts from its end, not from the request to end.
            // No promise counts a stranger's Services as disturbances.
            What::End { .. } | What::Stranger { .. } => {}
        }
    }

    fn power(&mut self, node: usize, on: bool) {
        if !on {
            self.record.trouble.batch_crashes += 1;
            self.record_crash(node, None);
        }
        let it = &mut self.nodes[node];
        let was_powered = std::mem::replace(&mut it.powered, on);
        it.times.steady = self.now;
        if on {
            let delay = Duration::from_millis(it.rng.steps.u64(BOOT));
            if !was_powered {
                self.boot_proxy(node);
            }
            self.after(delay, Happening::Boot { node });
            return;
        }
        self.kill(node);
        self.nodes[node].lose_pins(Program::new(self.sabotage));
        self.nodes[node].wire.received.clear();
        for handing in
            self.under_way.handing.iter_mut().filter(|of| of.is_some_and(|(giver, _)| giver == node))
        {
            *handing = None;
        }
    }

    /// Takes a machine out of the cluster, as an autoscaler does, or brings it back.
    fn remove(&mut self, node: usize, begins: bool) {
        self.power(node, !begins);
        if begins {
            self.api.remove_lease(&names::node(node));
        }
        self.nodes[node].marks.gone.change(begins);
        self.put_node(node);
        self.spread();
    }

    fn pause(&mut self, node: usize, begins: bool) {
        if begins && !self.has_process(node) {
            return;
        }
        self.faults_mut(node).paused.change(begins);
        if !begins {
            self.resume(node);
        }
    }

    fn freeze(&mut self, node: usize, (clock_too, boot_too): (bool, bool), begins: bool) {
        let now = self.now;
        let longest = self.plan.timing.restart_lease_ms.max(self.plan.timing.lease_ms);
        let it = &mut self.nodes[node];
        it.faults.frozen.change(begins);
        it.times.steady = now;
        if boot_too && begins {
            it.boot_clock.stop(now);
        } else if boot_too {
            it.boot_clock.go_on(now);
        }
        if clock_too && begins {
            it.clock.stop(now);
        } else if clock_too {
            it.clock.go_on(now);
            it.times.dazed_until = now + Duration::from_millis(longest.into()) * 102 / 100;
        }
        if begins && clock_too {
            // No promise covers what it answers when it wakes up.
            self.nodes[node].times.dazed_until = now + Duration::from_hours(1);
        }
        if !begins {
            self.watch_deadline(node);
            self.resume(node);
        }
    }

    fn change_mac(&mut self, node: usize, segment: usize) {
        let now = self.now;
        let segment = segment.min(self.network.segments.len() - 1);
        let link = &mut self.nodes[node].links[segment];
        link.changes += 1;
        link.mac = names::mac(node, segment, link.changes);
        link.since = now;
        self.links_changed(node);
    }

    pub(crate) fn links_changed(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        it.times.steady = self.now;
        let delay = Duration::from_millis(it.rng.steps.u64(NOTICE));
        let life = it.life;
        self.after(delay, Happening::Links { node, life });
    }

    fn change_segment(&mut self, number: usize, on: OnSegment, begins: bool) {
        let segments = self.network.segments.len();
        self.network.segments[segment_index(on.segment(), segments)].changed = self.now;
        match on {
            OnSegment::Partition { segment, side, .. } => {
                keep(
                    &mut self.network.segments[segment_index(segment, segments)].partitions,
                    number,
                    side,
                    begins,
                );
            }
            OnSegment::OneWay { segment, from, to, .. } => {
                let pair = (from.index(), to.index());
                keep(
                    &mut self.network.segments[segment_index(segment, segments)].one_way,
                    number,
                    pair,
                    begins,
                );
            }
            OnSegment::Cut { segment, one, other, .. } => {
                let (one, other) = (one.index(), other.index());
                let one_way = &mut self.network.segments[segment_index(segment, segments)].one_way;
                keep(one_way, number, (one, other), begins);
                if begins {
                    one_way.push((number, (other, one)));
                }
            }
            OnSegment::Dead { segment, who, out, into, .. } => {
                let link = segment_index(segment, segments);
                if begins && (self.nodes.len() > 2) && (segments == 1 || out && into) {
                    self.record.trouble.batch_crashes += 1;
                    self.record_crash(who.index(), Some(link));
                }
                let way = Way { node: who.index(), out, into };
                keep(&mut self.network.segments[segment_index(segment, segments)].dead, number, way, begins);
            }
            OnSegment::Lossy { segment, percent, .. } => {
                keep(
                    &mut self.network.segments[segment_index(segment, segments)].lossy,
                    number,
                    percent,
                    begins,
                );
            }
            OnSegment::Reflecting { segment, .. } => {
                let reflecting = &mut self.network.segments[segment_index(segment, segments)].reflecting;
                reflecting.change(begins);
                self.record.facts.switches.reflects = true;
            }
            OnSegment::LateFrames { segment, by_ms, .. } => {
                keep(
                    &mut self.network.segments[segment_index(segment, segments)].late,
                    number,
                    by_ms,
                    begins,
                );
            }
        }
    }

    fn change_api(&mut self, number: usize, on: OnApi, begins: bool) {
        match on {
            OnApi::CutOff { who, refused, .. } => {
                let faults = self.faults_mut(who.index());
                faults.cut_off.change(begins);
                if refused {
                    faults.refused.change(begins);
                }
                if !begins {
                    self.revive(who.index());
                }
            }
            OnApi::ApiDown { refused, .. } => {
                self.api.down.change(begins);
                if refused {
                    self.api.refuses.change(begins);
                }
                if !begins {
                    self.parties().for_each(|party| self.revive(party));
                }
            }
            OnApi::ApiRestart => self.parties().for_each(|party| self.list_anew(party)),
            OnApi::Restored { for_ms, down_ms } if begins => {
                self.api.saved.push((number, self.api.save()));
                let up = Duration::from_millis(for_ms.saturating_sub(down_ms).into());
                self.after(up, Happening::StoreAway);
            }
            OnApi::Restored { .. } => self.restore(number),
            OnApi::SlowApi { by_ms, .. } => keep(&mut self.api.slow, number, by_ms, begins),
            OnApi::NoAnswers { who, .. } => self.faults_mut(who.index()).no_answers.change(begins),
            OnApi::Denied { who, of, .. } => self.faults_mut(who.index()).denied[of as usize].change(begins),
            OnApi::EventsGone => {
                self.record.events_lost = Some(self.now);
                self.api.events.clear();
            }
            OnApi::Stall { who, kind, .. } => {
                self.record_blindness(who.index(), kind, begins);
                self.faults_mut(who.index()).stalled[kind as usize].change(begins);
                if !begins {
                    self.revive_watch(who.index(), kind);
                }
            }
            OnApi::Reset { who, kind } => self.begin_list(who.index(), kind),
        }
    }

    /// Records since when, or until when, a node does not see changes.
    fn record_blindness(&mut self, node: usize, kind: Kind, begins: bool) {
        let Some(it) = self.nodes.get_mut(node) else { return };
        if begins && !it.faults.stalled[kind as usize].any() {
            it.times.blind.0 = self.now;
        } else if !begins {
            it.times.blind.1 = self.now + SEES_AGAIN;
        }
    }

    /// Cuts all nodes off from the API server until its store is restored.
    pub(crate) fn store_away(&mut self) {
        self.record.store_away(self.under_way.open, self.now);
        self.api.down.change(true);
        self.update_fitness();
    }

    /// Restores the store and lets nodes reach the API server again.
    fn restore(&mut self, number: usize) {
        let Some(at) = self.api.saved.iter().position(|(of, _)| *of == number) else { return };
        let (_, saved) = self.api.saved.swap_remove(at);
        self.record.restored(self.now);
        self.record_answering_nodes(&saved);
        self.api.restore(saved);
        self.api.down.change(false);
        for node in 0..self.nodes.len() {
            for kind in KINDS {
                match kind {
                    Kind::Lease | Kind::Claim => self.go_on_in_the_past(node, kind),
                    Kind::Node | Kind::Demand | Kind::Pool | Kind::Namespace | Kind::Slice => {
                        self.revive_watch(node, kind);
                    }
                }
            }
        }
    }

    fn revive(&mut self, node: usize) {
        for kind in self.all_kinds() {
            self.revive_watch(node, *kind);
        }
    }

    fn mark(&mut self, node: usize, mark: Mark, begins: bool) {
        let marks: &mut Marks = &mut self.nodes[node].marks;
        let times: &mut Times = match mark {
            Mark::Cordoned => &mut marks.cordoned,
            Mark::NotReady => &mut marks.not_ready,
            Mark::Excluded => &mut marks.excluded,
            Mark::OutOfService => &mut marks.out_of_service,
            Mark::NetworkUnavailable => &mut marks.network_unavailable,
        };
        times.change(begins);
        self.put_node(node);
    }
}

pub(super) fn keep<T>(list: &mut Vec<(usize, T)>, number: usize, value: T, begins: bool) {
    if begins {
        list.push((number, value));
    } else {
        list.retain(|(of, _)| *of != number);
    }
}

fn segment_index(segment: u8, segments: usize) -> usize {
    usize::from(segment).min(segments - 1)
}
