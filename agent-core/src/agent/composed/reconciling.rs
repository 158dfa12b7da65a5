//! The rounds that bring the kernel to the desired state: read, attach, plan, write, and see what is left.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::{MacAddr, VipEntry, VipKey, Yield};

use super::{Agent, context};
use crate::{
    agent::{
        effect::{Effect, Line, Reading},
        host::{End, Host, Read, Round},
        input::{Entries, Macs, Maps, Prepared, Unwritten},
        segment::{Authority as _, Input},
        source::Source,
        work::{Kind, Placed, SomePlaced, Then, Waiting, Work, Writing},
    },
    base::time::Monotonic,
    host::{
        placement::{self, Desired},
        plan::{self, Action, Cause, Observed},
        stale::{Changes, Failure},
    },
    ownership::Wire,
};

const PINS_ARE_MISSING: &str = "pins are missing in the pin directory, so that what answers now ends with this agent; \
                                restart it to pin everything again";
/// Number of actions between two reads of the clock: very many must not let the lease deadline
/// pass.
const TOGETHER: usize = 256;

impl Agent {
    pub(super) fn read_yields(&mut self) {
        self.read(Reading::Yields, Waiting::Yields);
    }

    pub(super) fn on_yields(&mut self, yields: u64) {
        if yields != self.host.yields_settled() {
            self.work.next([Work::RECONCILE]);
        }
    }

    /// Begins a full round. `reclaim` takes yielded VIPs back.
    pub(super) fn reconcile(&mut self, reclaim: bool, is_first: bool) {
        self.read(Reading::Maps, Waiting::Maps { reclaim, is_first });
    }

    pub(super) fn on_maps(&mut self, maps: Maps, reclaim: bool, is_first: bool) {
        let Maps { yields, entries, macs, binds, is_pinned } = maps;
        self.host.on_read(&entries);
        let before = plan::placed(&entries);
        let placement = self.place(&before, &|key| entries.contains_key(key));
        let slots = if yields > 0 {
            Host::slots_of(&entries, placement.desired.entries.len(), self.max_vips)
        } else {
            BTreeSet::new()
        };
        let attach = placement.attach.clone();
        let bound = placement.desired.binds.iter().any(|(_, vip)| vip.is_ipv4());
        let Macs { own, peers } = macs;
        let observed = Observed {
            entries,
            own_macs: own,
            peers,
            binds,
            max_slots: self.max_vips,
            ..Observed::default()
        };
        let placed = Placed { reclaim, is_first, yields, observed, placement, before, is_pinned };
        self.wait(Effect::Prepare { attach, slots, binds: bound }, Waiting::Prepared(Box::new(placed)));
    }

    /// Handles that a full round could not begin. That does not end the agent, which would help no VIP.
    pub(super) fn on_round_unread(&mut self, error: String, now: Monotonic) {
        self.log(Line::Unread(error));
        self.host.try_again_soon(now);
        self.observe_segments(now);
        self.answers.examine_all();
    }

    pub(super) fn on_prepared(&mut self, prepared: Prepared, placed: Placed, now: Monotonic) {
        let Prepared { view, attachments, records, groups, warnings } = prepared;
        (self.view, self.attachments) = (view, attachments);
        let records = match records {
            Ok(records) => records,
            Err(error) => return self.on_round_unread(error, now),
        };
        // The verifier may have taken long for a program.
        self.beat_if_due(now);
        let Placed { reclaim, is_first, yields, mut observed, placement, before, is_pinned } = placed;
        observed.yields = records.into_iter().filter(|(_, record)| *record != Yield::default()).collect();
        let attached = self.attached();
        let read = Read { yields, observed, placement, placed: before, attached: &attached };
        let listed = self.source.wanted(&self.config).map(|vip| vip.address);
        let context = context((&self.view, &self.config, &self.stale), &self.source, now);
        let (mut round, effects) = self.host.plan(&mut self.segment, read, (listed, reclaim), &context);
        self.on_segment_effects(effects, now);
        self.visibility.segments = round.desired().own_macs.keys().copied().collect();
        let mut failures: BTreeSet<String> = self.attachments.unattached().values().cloned().collect();
        self.memberships.on_entries(&round.observed().entries, &self.segment.probed());
        match groups {
            Ok(joined) => self.memberships.on_observed(joined),
            Err(error) => _ = failures.insert(error),
        }
        // A VIP that is held back is not bound.
        if round.desired().binds.iter().any(|(_, vip)| vip.is_ipv4()) {
            round.note(warnings);
        }
        if !is_pinned {
            round.note([PINS_ARE_MISSING.to_owned()]);
        }
        self.write(Writing::of(Kind::Full { round, failures, is_first }), now);
    }

    /// Moves the lease deadline of a standalone agent if that is due. Nothing is due before the
    /// agent has it.
    fn beat_if_due(&mut self, now: Monotonic) {
        if let Source::File(file) = &mut self.source
            && self.segment.is_started()
            && file.is_due(now)
        {
            self.effects.extend(file.beat(self.host.yields_settled(), now));
        }
    }

    /// Carries out the next actions, or ends when there is none.
    fn write(&mut self, writing: Box<Writing>, now: Monotonic) {
        let left = &writing.actions()[writing.done..];
        if left.is_empty() {
            return self.end_writing(writing, now);
        }
        let together = left[..left.len().min(TOGETHER)].to_vec();
        if writing.done > 0 {
            self.beat_if_due(now);
        }
        self.wait(Effect::Write(together), Waiting::Written(writing));
    }

    pub(super) fn on_written(
        &mut self,
        mut writing: Box<Writing>,
        results: Vec<Result<(), Unwritten>>,
        now: Monotonic,
    ) {
        for result in results {
            let Some(action) = writing.actions().get(writing.done).cloned() else { break };
            writing.done += 1;
            match result {
                Ok(()) => self.on_action(&action, &writing, now),
                Err(unwritten) => self.on_unwritten(&action, unwritten, &mut writing),
            }
        }
        self.write(writing, now);
    }

    fn on_action(&mut self, action: &Action, writing: &Writing, now: Monotonic) {
        match action {
            Action::PutPeer { ifindex, mac } => {
                self.on_segment(Input::Peer { ifindex: *ifindex, mac: *mac }, now);
            }
            Action::PutEntry { key, entry, cause, .. } => {
                self.on_entry(*key, writing.before(key), Some(*entry), *cause, now);
            }
            Action::RemoveEntry { key, cause } => {
                self.on_entry(*key, writing.before(key), None, *cause, now);
            }
            Action::PutOwnMac { .. }
            | Action::RemoveOwnMac { .. }
            | Action::RemovePeer { .. }
            | Action::AddBind { .. }
            | Action::RemoveBind { .. } => {}
        }
    }

    /// Handles that an entry is written.
    fn on_entry(
        &mut self,
        key: VipKey,
        from: Option<VipEntry>,
        to: Option<VipEntry>,
        cause: Cause,
        now: Monotonic,
    ) {
        self.host.on_entry(from.as_ref(), to.as_ref());
        self.memberships.on_entry(&key, to.as_ref(), self.segment.is_probed(&key), now);
        self.visibility.on_entry(key.addr);
        let content = |entry: Option<VipEntry>| entry.map(|entry| (entry.role, entry.mac));
        if content(from) != content(to) {
            self.log(Line::Entry { key, from, to, cause });
        }
        self.on_segment(Input::Entry { key, from: from.as_ref(), to: to.as_ref() }, now);
    }

    fn on_unwritten(&mut self, action: &Action, unwritten: Unwritten, writing: &mut Writing) {
        let Unwritten { left, error } = unwritten;
        let failure = action.key().map(|key| {
            let interface = Some(self.view.name_of(key.ifindex));
            (key.addr, Failure { left, interface, error: error.clone() })
        });
        match (&mut writing.kind, failure) {
            (Kind::Full { round, .. }, Some((vip, failure))) => round.failed(vip, failure),
            (Kind::Some { round, .. }, Some((vip, failure))) => round.failed(vip, failure),
            (Kind::Full { failures, .. }, None) => _ = failures.insert(error),
            (Kind::Peers { failed, .. }, _) => _ = failed.get_or_insert(error),
            (Kind::Some { .. }, None) => {}
        }
    }

    fn end_writing(&mut self, writing: Box<Writing>, now: Monotonic) {
        match writing.kind {
            Kind::Full { .. } => self.change_groups(Some(writing), now),
            Kind::Some { round, vips, then } => {
                let changes = self.host.end_some(&vips, Ok(round), &mut self.stale, now);
                self.end_some(vips, changes, then, now);
            }
            Kind::Peers { failed: Some(error), .. } => self.on_peers_unwritten(error, now),
            Kind::Peers { failed: None, .. } => {}
        }
    }

    pub(super) fn end_full(&mut self, writing: Writing, now: Monotonic) {
        let Kind::Full { mut round, failures, is_first } = writing.kind else { return };
        self.on_segment(Input::Written, now);
        let yields = self.new_yields(&round);
        round.note(self.memberships.problems(&self.view));
        let End { changes, problems } = self.host.end(round, failures, &mut self.stale, now);
        self.log_changes(changes);
        self.effects.push(Effect::Problems(problems));
        for (vip, mac) in yields.into_iter().filter(|_| !is_first) {
            self.on_wire(vip, Wire::Yielded { mac }, now);
        }
        if std::mem::take(&mut self.work.adopts) {
            self.work.next([Work::Adopt]);
        }
        self.observe_segments(now);
        self.answers.examine_all();
    }

    /// Returns the yields that the engine does not know yet. Those that could not be written are found
    /// again.
    fn new_yields(&mut self, round: &Round) -> BTreeMap<IpAddr, MacAddr> {
        let observed = round.observed();
        let generation = |key: &VipKey| observed.entries.get(key).map(|entry| entry.generation);
        let yields = plan::yielded_entries(observed);
        let yields = yields.filter_map(|(key, mac)| Some(((key, generation(&key)?), mac)));
        let yields: BTreeMap<_, _> = yields.collect();
        let notified = std::mem::replace(&mut self.notified, yields.keys().copied().collect());
        let new = yields.into_iter().filter(|(one, _)| !notified.contains(one));
        let new = new.map(|((key, _), mac)| (key.addr, mac));
        new.filter(|(vip, _)| self.host.yielded().contains_key(vip)).collect()
    }

    fn log_changes(&mut self, changes: Changes) {
        if changes != Changes::default() {
            self.log(Line::Stale(changes));
        }
    }

    /// Begins to bring the entries of some VIPs to the desired state, and leaves all else as it is. Takes
    /// yielded VIPs back: their holder has been checked.
    pub(super) fn reconcile_some(&mut self, vips: BTreeSet<IpAddr>, then: Then) {
        self.answers.examine_some(vips.iter().copied());
        let attached = self.attached();
        let keys = attached.iter().flat_map(|ifindex| vips.iter().map(|vip| VipKey::new(*ifindex, *vip)));
        self.read(Reading::Entries(keys.collect()), Waiting::Some(vips, then));
    }

    pub(super) fn on_some(&mut self, read: Entries, vips: BTreeSet<IpAddr>, then: Then, now: Monotonic) {
        let Entries { yields, entries } = read;
        let wanted = self.source.wanted_of(&self.config, &vips).into_iter();
        let selection = self.config.selection();
        let placed = plan::placed(&entries);
        let is_there = |key: &VipKey| entries.contains_key(key);
        let mut placement =
            placement::place(&selection, wanted, &self.view, &placed, &is_there, self.max_vips);
        self.segment.silence(&mut placement.desired, &self.view);
        let placed = SomePlaced { vips, then, entries, placement };
        if yields == 0 {
            return self.on_records(BTreeMap::new(), placed, now);
        }
        let new = placed.placement.desired.entries.len();
        let slots = self.host.slots_of_some(&placed.entries, new, self.max_vips);
        self.read(Reading::Records(slots), Waiting::Records(Box::new(placed)));
    }

    pub(super) fn on_records(&mut self, records: BTreeMap<u32, Yield>, placed: SomePlaced, now: Monotonic) {
        let SomePlaced { vips, then, entries, placement } = placed;
        let attached = self.attached();
        let context = context((&self.view, &self.config, &self.stale), &self.source, now);
        let what = (entries, placement);
        let round = self.host.plan_some(&vips, what, (&attached, self.max_vips), records, &context);
        self.write(Writing::of(Kind::Some { round, vips, then }), now);
    }

    pub(super) fn on_some_unread(
        &mut self,
        vips: BTreeSet<IpAddr>,
        error: String,
        then: Then,
        now: Monotonic,
    ) {
        // The engine decides anew about a yield that should have been taken back.
        self.notified.retain(|(key, _)| !vips.contains(&key.addr));
        let changes = self.host.end_some(&vips, Err(error), &mut self.stale, now);
        self.end_some(vips, changes, then, now);
    }

    fn end_some(&mut self, vips: BTreeSet<IpAddr>, changes: Changes, then: Then, now: Monotonic) {
        self.log_changes(changes);
        self.work.next([Work::ChangeGroups]);
        if then == Then::Held {
            self.with_cluster(|cluster| vips.into_iter().for_each(|vip| cluster.on_written(vip, now)));
        }
    }

    /// Begins to replace the known peers by the configured ones.
    pub(super) fn reconcile_peers(&mut self) {
        self.host.unsettle();
        self.read(Reading::Macs, Waiting::Macs);
    }

    pub(super) fn on_macs(&mut self, macs: Macs, now: Monotonic) {
        let Macs { own, peers } = macs;
        let attached = self.attached();
        let attached = attached.iter().filter_map(|ifindex| self.view.interfaces.get(ifindex));
        let wanted = placement::peers(&self.config.selection(), attached);
        let mut desired = Desired { peers: wanted, own_macs: own.clone(), ..Desired::default() };
        let observed = Observed { peers, own_macs: own, ..Observed::default() };
        if !self.source.is_known() {
            plan::keep_what_is_pinned(&mut desired, &observed);
        }
        let actions = plan::plan(&desired, &observed, false);
        self.write(Writing::of(Kind::Peers { actions, observed, failed: None }), now);
    }

    pub(super) fn on_peers_unwritten(&mut self, error: String, now: Monotonic) {
        self.log(Line::PeersUnwritten(error));
        self.host.try_again_soon(now);
    }

    pub(super) fn on_members(
        &mut self,
        keys: &[VipKey],
        entries: &BTreeMap<VipKey, VipEntry>,
        now: Monotonic,
    ) {
        for key in keys {
            let is_probed = self.segment.is_probed(key);
            self.memberships.on_entry(key, entries.get(key), is_probed, now);
        }
    }
}
