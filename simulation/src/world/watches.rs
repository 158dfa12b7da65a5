//! Lists and watches: the objects that each agent gets, and when.

use std::{collections::BTreeSet, time::Duration};

use vipward_core::agent::{
    Input,
    cluster::{self, Seen},
};

use super::{Happening, World};
use crate::{
    api::{self, Change, Key},
    schedule::{KINDS, Kind, Sabotage},
};

impl World {
    /// Begins to list and then to watch objects of a kind anew.
    pub(crate) fn begin_list(&mut self, node: usize, kind: Kind) {
        let delay = self.latency(node);
        let life = self.nodes[node].life;
        let Some(process) = &mut self.nodes[node].process else { return };
        let watch = process.watch(kind);
        watch.life += 1;
        watch.is_live = false;
        watch.listed = false;
        let watch = watch.life;
        self.after(delay, Happening::List { node, life, kind, watch });
    }

    pub(super) fn list(&mut self, node: usize, life: u32, kind: Kind, watch: u32) {
        if self.nodes[node].life != life {
            return;
        }
        let delay = self.latency(node);
        let arrives = self.now + delay;
        let reaches = self.reaches_api(node) && !self.nodes[node].faults.stalled[kind as usize].any();
        let Some(process) = &mut self.nodes[node].process else { return };
        let it = process.watch(kind);
        if it.life != watch {
            return;
        }
        if !reaches {
            self.after(delay + Duration::from_millis(250), Happening::List { node, life, kind, watch });
            return;
        }
        it.is_live = true;
        it.position = self.api.changes(kind).len();
        it.last = arrives;
        if kind == Kind::Claim {
            self.note_unrecorded(node);
        }
        let list = self.transit.lists.len();
        self.transit.lists.push(self.api.list(kind));
        self.at(arrives, Happening::Listed { node, life, kind, watch, list });
    }

    pub(super) fn listed(&mut self, node: usize, life: u32, kind: Kind, watch: u32, list: usize) {
        if self.nodes[node].life != life {
            return;
        }
        let reaches = self.reaches_api(node);
        let Some(process) = &mut self.nodes[node].process else { return };
        if process.watch(kind).life != watch {
            return;
        }
        if !reaches {
            self.begin_list(node, kind);
            return;
        }
        let list = std::mem::take(&mut self.transit.lists[list]);
        let watch = process.watch(kind);
        let keys: BTreeSet<Key> = list.iter().map(|(key, _)| key.clone()).collect();
        let known = std::mem::replace(&mut watch.known, keys.clone());
        watch.listed = true;
        let all = process.watches.iter().all(|watch| watch.listed);
        let goners = known.into_iter().filter(|key| !keys.contains(key));
        let seen = list.into_iter().map(|(_, seen)| seen).chain(goners.map(|key| api::gone(kind, key)));
        let listed = Seen::Listed { slices: kind == Kind::Demand, all };
        self.seen(node, life, seen.flatten().chain([listed]).collect());
        self.update_fitness();
    }

    /// Gives an agent what it has read.
    fn seen(&mut self, node: usize, life: u32, seen: Vec<Seen>) {
        self.incoming(node, life, Input::Cluster(cluster::Input::Seen(seen)));
    }

    /// Lets the watches deliver new changes.
    pub(crate) fn spread(&mut self) {
        for kind in KINDS {
            let upto = self.api.changes(kind).len();
            for change in self.transit.told[kind as usize]..upto {
                for node in 0..self.nodes.len() {
                    self.spread_to(node, kind, change + 1);
                }
            }
            self.transit.told[kind as usize] = upto;
        }
    }

    fn spread_to(&mut self, node: usize, kind: Kind, upto: usize) {
        let now = self.now;
        let it = &mut self.nodes[node];
        let delay = Duration::from_micros(match it.rng.watches.u8(0..100) {
            0..90 => it.rng.watches.u64(500..15_000),
            90..99 => it.rng.watches.u64(15_000..60_000),
            _ => it.rng.watches.u64(60_000..200_000),
        });
        let life = it.life;
        let Some(process) = &mut it.process else { return };
        let watch = process.watch(kind);
        if !watch.is_live {
            return;
        }
        let at = watch.last.max(now + delay);
        watch.last = at;
        let watch = watch.life;
        self.at(at, Happening::Deliver { node, life, kind, watch, upto });
    }

    pub(super) fn deliver(&mut self, node: usize, life: u32, kind: Kind, watch: u32, upto: usize) {
        if self.nodes[node].life != life || !self.reaches_api(node) {
            return;
        }
        if self.nodes[node].faults.stalled[kind as usize].any() {
            return;
        }
        let Some(process) = &mut self.nodes[node].process else { return };
        let it = process.watch(kind);
        let mut all = Vec::new();
        while it.life == watch && it.position < upto {
            let Change { key, exists, seen } = self.api.changes(kind)[it.position].clone();
            it.position += 1;
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

    /// Continues a watch in a store that went back. At a version of the lost future it is silent;
    /// when others have written much since, it shows nothing of what was lost. The agent notices a
    /// silent watch of Leases in the end.
    pub(crate) fn go_on_in_the_past(&mut self, node: usize, kind: Kind) {
        let upto = self.api.changes(kind).len();
        let silence = Duration::from_millis(self.plan.timing.lease_ms.into());
        let it = &mut self.nodes[node];
        let (life, is_silent) = (it.life, it.rng.watches.bool());
        let delay = silence + Duration::from_millis(it.rng.watches.u64(0..1_000));
        let Some(process) = &mut it.process else { return };
        let watch = process.watch(kind);
        if !watch.is_live {
            return;
        }
        watch.life += 1;
        watch.position = upto;
        watch.is_live = !is_silent;
        let watch = watch.life;
        if is_silent && self.sabotage != Some(Sabotage::NoListing) {
            self.after(delay, Happening::List { node, life, kind, watch });
        }
    }

    /// Continues a watch that was silent where it was, or begins it anew.
    pub(crate) fn revive_watch(&mut self, node: usize, kind: Kind) {
        let upto = self.api.changes(kind).len();
        let it = &mut self.nodes[node];
        let life = it.life;
        let goes_on = it.rng.watches.bool();
        let delay = Duration::from_millis(it.rng.watches.u64(1..700));
        let now = self.now;
        let Some(process) = &mut it.process else { return };
        let watch = process.watch(kind);
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
