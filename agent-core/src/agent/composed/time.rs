//! Handles deadlines, and starts and ends the agent of a file.

use std::{collections::BTreeSet, net::IpAddr};

use vipward_common::{VipEntry, VipKey};

use super::{Agent, settings};
use crate::{
    agent::{
        effect::{Effect, Line, Reading},
        file::Settled,
        input::File,
        segment::{Authority as _, Input},
        source::Source,
        work::{Then, Waiting, Work},
    },
    base::time::Monotonic,
    config::Shutdown,
    host::net::NetView,
};

impl Agent {
    pub(super) fn on_deadline(&mut self, now: Monotonic) {
        match &mut self.source {
            Source::File(file) => {
                if file.begin_to_read_again(now) {
                    self.effects.push(Effect::ReadFile);
                }
                if file.is_due(now) {
                    self.effects.extend(file.beat(self.host.yields_settled(), now));
                    self.work.add([Work::SettleYields]);
                }
                self.take_what_is_free(now);
            }
            Source::Cluster(cluster) => {
                let guarded = cluster.on_time(now);
                self.effects.extend(cluster.take_effects());
                if !guarded.is_empty() {
                    self.work.add([Work::Some(guarded, Then::Nothing)]);
                }
            }
        }
        self.work.add([Work::Examine, Work::Show]);
        if self.host.begin_if_due(now) {
            self.work.add([Work::Observe(None)]);
        }
        self.work.add([Work::Tick]);
    }

    /// Lets time pass on the segments.
    pub(super) fn tick(&mut self, now: Monotonic) {
        self.work.next([Work::Groups, Work::Proving, Work::TakeBack]);
        self.on_segment(Input::Tick, now);
    }

    /// Takes the VIPs of a file whose addresses have been found free. Examines no others, since tens of
    /// thousands may wait.
    fn take_what_is_free(&mut self, now: Monotonic) {
        let Source::File(file) = &mut self.source else { return };
        let Some(free) = file.begin_to_take(now) else { return };
        self.on_segment(Input::Freed(&free), now);
        for vip in &free {
            self.on_segment(Input::Decided(*vip), now);
        }
        let work = self.reconciliation_of(free);
        self.work.add([work, Work::Taken(now)]);
    }

    /// Returns the work that brings the entries of some VIPs to the desired state. Only a full
    /// reconciliation binds addresses.
    pub(super) fn reconciliation_of(&self, vips: BTreeSet<IpAddr>) -> Work {
        let is_bound = self.source.wanted_of(&self.config, &vips).iter().any(|vip| vip.bind.is_some());
        if is_bound { Work::RECONCILE } else { Work::Some(vips, Then::Nothing) }
    }

    pub(super) fn taken(&mut self, began: Monotonic, now: Monotonic) {
        if let Source::File(file) = &mut self.source {
            file.taken(began, now);
        }
    }

    /// Takes back the VIPs that the segments have decided on.
    pub(super) fn take_back(&mut self) {
        let taken: BTreeSet<_> = self.host.taking_back().clone();
        if taken.is_empty() {
            return;
        }
        let work = if self.source.is_known() {
            Work::Some(taken, Then::Nothing)
        } else {
            // The source cannot place the VIPs yet.
            Work::RECONCILE
        };
        self.work.next([work, Work::TakenBack]);
    }

    /// Moves the lease deadline of a standalone agent, and writes yields into the entries. At the
    /// beginning, the time for loading does not count as a delay, and announcing follows.
    pub(super) fn beat(&mut self, begins: bool, now: Monotonic) {
        let Source::File(file) = &mut self.source else { return };
        if begins {
            file.configure(&self.config, now);
        }
        self.effects.extend(file.beat(self.host.yields_settled(), now));
        self.work.next([Work::SettleYields]);
        if begins {
            self.work.add([Work::Started]);
        }
    }

    /// Begins to announce, and adopts the held entries.
    pub(super) fn started(&mut self, now: Monotonic) {
        if !self.segment.is_started() {
            self.on_segment(Input::Started, now);
        }
        self.on_segment(Input::Network(&NetView::default()), now);
        self.adopt();
    }

    /// Begins to adopt the held entries.
    pub(super) fn adopt(&mut self) {
        self.read(Reading::Held, Waiting::Held);
    }

    pub(super) fn on_held(&mut self, held: Vec<(VipKey, VipEntry)>, now: Monotonic) {
        for (key, entry) in held {
            self.on_segment(Input::Adopted { key, entry }, now);
        }
    }

    /// Handles a file that was read again.
    pub(super) fn on_file(&mut self, read: File, now: Monotonic) {
        let File { config, reclaim } = read;
        let Source::File(file) = &mut self.source else { return };
        match file.settle(config, &self.config, reclaim, now) {
            Settled::Applies(config) => {
                file.configure(&config, now);
                self.segment.configure(&settings(&config), now);
                self.config = *config;
                self.answers.configure(self.source.grace(&self.config));
                self.log(Line::Configured);
            }
            Settled::Waits(line) => {
                self.effects.extend(line.map(Effect::Log));
                return;
            }
            Settled::Unchanged | Settled::Faulty if !reclaim => return,
            Settled::Unchanged => self.log(Line::Configured),
            Settled::Faulty => {}
        }
        if reclaim {
            self.log(Line::Reclaims);
        }
        if let Source::File(file) = &mut self.source {
            self.effects.extend(file.beat(self.host.yields_settled(), now));
        }
        self.work.add([Work::Reconcile { reclaim, is_first: false }, Work::Beat { begins: false }]);
    }

    /// Ends the agent of a file.
    pub(super) fn stop(&mut self, now: Monotonic) {
        match self.config.shutdown {
            Shutdown::Keep => self.work.add([Work::Beat { begins: false }, Work::Stop]),
            Shutdown::Withdraw => {
                self.on_segment(Input::Withdrawn, now);
                self.effects.push(Effect::Withdraw);
                self.work.add([Work::Stop]);
            }
        }
    }
}
