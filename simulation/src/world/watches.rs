//! Lists and watches: the objects that each process gets, and when.

use std::{collections::BTreeSet, time::Duration};

use vipward_core::agent::{
    Input,
    cluster::{self, Seen},
};

use super::{Happening, World};
use crate::{
    api::{Change, Key},
    machine::Watch,
    schedule::{Kind, Sabotage, names},
};

impl World {
    /// Begins to list and then to watch objects of a kind anew.
    pub(crate) fn begin_list(&mut self, node: usize, kind: Kind) {
        let delay = self.latency(node);
        let life = self.life(node);
        let Some(watch) = self.watch(node, kind) else { return };
        watch.life += 1;
        watch.is_live = false;
        watch.listed = false;
        let watch = watch.life;
        self.after(delay, Happening::List { node, life, kind, watch });
    }

    /// Does so for all kinds that a process reads.
    pub(crate) fn list_anew(&mut self, node: usize) {
        for kind in self.kinds() {
            self.begin_list(node, *kind);
        }
        if self.watch(node, Kind::Slice).is_some_and(|watch| watch.life > 0) {
            self.begin_list(node, Kind::Slice);
        }
    }

    pub(super) fn list(&mut self, node: usize, life: u32, kind: Kind, watch: u32) {
        if self.life(node) != life {
            return;
        }
        let delay = self.latency(node);
        let arrives = self.now + delay;
        let reaches = self.reaches_api(node) && !self.faults(node).stalled[kind as usize].any();
        let position = self.api.changes(kind).len();
        let Some(it) = self.watch(node, kind).filter(|it| it.life == watch) else { return };
        if !reaches {
            self.after(delay + Duration::from_millis(250), Happening::List { node, life, kind, watch });
            return;
        }
        it.is_live = true;
        it.position = position;
        it.last = arrives;
        if kind == Kind::Claim && !names::is_controller(node) {
            self.record_unclaimed(node);
        }
        let list = self.transit.lists.len();
        self.transit.lists.push(self.api.list(kind));
        self.at(arrives, Happening::Listed { node, life, kind, watch, list });
    }

    pub(super) fn listed(&mut self, node: usize, life: u32, kind: Kind, watch: u32, list: usize) {
        if self.life(node) != life {
            return;
        }
        let reaches = self.reaches_api(node);
        if self.watch(node, kind).is_none_or(|it| it.life != watch) {
            return;
        }
        if !reaches {
            self.begin_list(node, kind);
            return;
        }
        let list = std::mem::take(&mut self.transit.lists[list]);
        let keys: BTreeSet<Key> = list.iter().map(|(key, _)| key.clone()).collect();
        let Some(watch) = self.watch(node, kind) else { return };
        let known = std::mem::replace(&mut watch.known, keys.clone());
        watch.listed = true;
        let all = self.watches(node).is_some_and(|watches| watches.iter().all(Watch::is_read));
        let goners = known.into_iter().filter(|key| !keys.contains(key));
        let gone = goners.map(|key| self.api.gone(kind, key));
        let seen: Vec<_> = list.into_iter().map(|(_, seen)| seen).chain(gone).flatten().collect();
        let listed = Seen::Listed { slices: self.api.has_slices(kind), all };
        self.seen(node, life, seen.into_iter().chain([listed]).collect());
        self.update_fitness();
    }

    /// Gives a process what it has read.
    pub(super) fn seen(&mut self, node: usize, life: u32, seen: Vec<Seen>) {
        if names::is_controller(node) {
            return self.leader_sees(node, life, seen);
        }
        self.incoming(node, life, Input::Cluster(cluster::Input::Seen(seen)));
    }

    /// Lets the watches deliver new changes.
    pub(crate) fn spread(&mut self) {
        for kind in Kind::ALL {
            let upto = self.api.changes(kind).len();
            for change in self.transit.notified[kind as usize]..upto {
                for party in self.parties() {
                    self.spread_to(party, kind, change + 1);
                }
            }
            self.transit.notified[kind as usize] = upto;
        }
    }

    fn spread_to(&mut self, node: usize, kind: Kind, upto: usize) {
        let noise = &mut self.noise_of(node).watches;
        let delay = Duration::from_micros(match noise.u8(0..100) {
            0..90 => noise.u64(500..15_000),
            90..99 => noise.u64(15_000..60_000),
            _ => noise.u64(60_000..200_000),
        });
        let (now, life) = (self.now, self.life(node));
        let Some(watch) = self.watch(node, kind).filter(|watch| watch.is_live) else { return };
        let at = watch.last.max(now + delay);
        watch.last = at;
        let watch = watch.life;
        self.at(at, Happening::Deliver { node, life, kind, watch, upto });
    }

    pub(super) fn deliver(&mut self, node: usize, life: u32, kind: Kind, watch: u32, upto: usize) {
        if self.life(node) != life || !self.reaches_api(node) {
            return;
        }
        if self.faults(node).stalled[kind as usize].any() {
            return;
        }
        let Some(it) = self.watch(node, kind).filter(|it| it.life == watch) else { return };
        let from = it.position;
        it.position = from.max(upto);
        let changes = self.api.changes(kind).get(from..upto).unwrap_or_default().to_vec();
        let Some(it) = self.watch(node, kind) else { return };
        let mut all = Vec::new();
        for Change { key, exists, seen } in changes {
            if exists {
                it.known.insert(key);
            } else {
                it.known.remove(&key);
            }
            all.extend(seen);
        }
        if !all.is_empty() {
            self.seen(node, life, all);
        }
    }

    /// Continues a watch in a store that went back. A watch at a lost version delivers
    /// nothing more. If others have written much since, it continues without the lost changes. The agent
    /// notices in the end that its watch of Leases delivers nothing.
    pub(crate) fn go_on_in_the_past(&mut self, node: usize, kind: Kind) {
        let upto = self.api.changes(kind).len();
        let silence = Duration::from_millis(self.plan.timing.lease_ms.into());
        let it = &mut self.nodes[node];
        let (life, is_silent) = (it.life, it.rng.watches.bool());
        let delay = silence + Duration::from_millis(it.rng.watches.u64(0..1_000));
        let Some(watch) = self.watch(node, kind).filter(|watch| watch.is_live) else { return };
        watch.life += 1;
        watch.position = upto;
        watch.is_live = !is_silent;
        let watch = watch.life;
        if is_silent && self.sabotage != Some(Sabotage::NoListing) {
            self.after(delay, Happening::List { node, life, kind, watch });
        }
    }

    /// Continues a stalled watch where it was, or begins it anew.
    pub(crate) fn revive_watch(&mut self, node: usize, kind: Kind) {
        let upto = self.api.changes(kind).len();
        let (now, life) = (self.now, self.life(node));
        let noise = &mut self.noise_of(node).watches;
        let goes_on = noise.bool();
        let delay = Duration::from_millis(noise.u64(1..700));
        let Some(watch) = self.watch(node, kind).filter(|watch| watch.life > 0) else { return };
        if goes_on && watch.is_live {
            let at = watch.last.max(now + delay);
            watch.last = at;
            let watch = watch.life;
            self.at(at, Happening::Deliver { node, life, kind, watch, upto });
        } else {
            self.begin_list(node, kind);
        }
    }
}
