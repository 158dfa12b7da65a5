//! Reconciling: from what was read of the kernel to the actions, and from their results to what is left.
//!
//! A [`Round`] begins with [`Host::plan`] or [`Host::plan_some`]. The caller applies its actions in
//! their order, and records failures. [`Host::end`] or [`Host::end_some`] returns what follows.

mod round;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use vipward_common::{MacAddr, Role, VipEntry, VipKey, Yield};

use self::round::concerned;
pub use self::round::{Round, SomeRound};
use super::segment::{Context, Effect, Segment};
use crate::{
    base::time::Monotonic,
    host::{
        placement::{Desired, Obstacle, Placement},
        plan::{self, Observed, Slots},
        stale::{Changes, Failure, Left, Stale},
    },
};

/// Time between two full readings of the kernel. The kernel does not report every change.
const VERIFY: Duration = Duration::from_secs(30);
/// Time until what failed is tried again.
pub const RETRY: Duration = Duration::from_secs(5);
/// The reason why an entry that should answer is not written.
const LAPSED: &str = "no entry begins to answer after the lease deadline has passed";

/// The kernel's state and what the round compares it with.
#[derive(Debug)]
pub struct Read<'a> {
    /// Number of yields, read before the entries. A yield in between is settled the next time.
    pub yields: u64,
    /// The kernel's state.
    pub observed: Observed,
    /// Where the wanted VIPs belong.
    pub placement: Placement,
    /// The VIPs' interfaces before it.
    pub placed: BTreeMap<IpAddr, u32>,
    /// The interfaces with the program.
    pub attached: &'a BTreeSet<u32>,
}

/// The result of a round.
#[derive(Debug, Default)]
pub struct End {
    /// The VIPs whose failures began or are over.
    pub changes: Changes,
    /// The texts of the present problems.
    pub problems: BTreeSet<String>,
}

/// The last complete reconciliation.
struct Settled {
    /// The digest of the placement, without interfaces that the program is not attached to.
    placement: u64,
    /// The VIPs' interfaces before it.
    placed: BTreeMap<IpAddr, u32>,
}

/// The state that lasts from one reconciliation to the next.
pub struct Host {
    /// Yielded VIPs, with the peer's MAC. Their entries may go with an interface and come back.
    yielded: BTreeMap<IpAddr, MacAddr>,
    /// VIPs that are being taken back now.
    taking_back: BTreeSet<IpAddr>,
    /// Number of yields that have been written into their entries.
    yields_settled: u64,
    /// The slots of all entries, from the last reading or write.
    slots: Slots,
    /// The last reconciliation, if it was complete.
    settled: Option<Settled>,
    /// Time of the next full reading. It is sooner after a failure.
    verify: Monotonic,
    /// True if entries wait for a lease deadline.
    awaits_deadline: bool,
    /// The wanted VIPs that have no interface, with the reasons.
    without_place: BTreeMap<IpAddr, Obstacle>,
}

impl Host {
    /// Starts without a reading. `yields_settled` is the number that the pinned lease deadline has.
    pub fn start(yields_settled: u64, now: Monotonic) -> Self {
        Self {
            yielded: BTreeMap::new(),
            taking_back: BTreeSet::new(),
            yields_settled,
            slots: Slots::default(),
            settled: None,
            verify: now + VERIFY,
            awaits_deadline: false,
            without_place: BTreeMap::new(),
        }
    }

    /// Returns the wanted VIPs that have no interface, with the reasons.
    pub fn without_place(&self) -> &BTreeMap<IpAddr, Obstacle> {
        &self.without_place
    }

    /// Returns the time of the next full reading.
    pub fn next_deadline(&self) -> Monotonic {
        self.verify
    }

    /// Returns true if a full reading is due. The next one is then due half a minute later.
    pub fn begin_if_due(&mut self, now: Monotonic) -> bool {
        let is_due = self.verify <= now;
        if is_due {
            self.verify = now + VERIFY;
            self.settled = None;
        }
        is_due
    }

    /// Requests a full reconciliation after the next observation of the network, even if that has
    /// not changed.
    pub fn unsettle(&mut self) {
        self.settled = None;
    }

    /// Has everything read again at `time` at the latest, and reconciled.
    pub fn verify_by(&mut self, time: Monotonic) {
        self.settled = None;
        self.verify = self.verify.min(time);
    }

    /// Has everything read again soon, after a failure.
    pub fn try_again_soon(&mut self, now: Monotonic) {
        self.verify_by(now + RETRY);
    }

    /// Returns true, once, if entries have waited for the lease deadline and it is there now.
    pub fn on_deadline_given(&mut self) -> bool {
        std::mem::take(&mut self.awaits_deadline)
    }

    /// Returns the yielded VIPs, each with the MAC of the peer that has it.
    pub fn yielded(&self) -> &BTreeMap<IpAddr, MacAddr> {
        &self.yielded
    }

    /// Returns the number of yields that have been written into their entries.
    pub fn yields_settled(&self) -> u64 {
        self.yields_settled
    }

    /// Returns true if the last reconciliation was complete, and nothing has unsettled it.
    pub fn was_complete(&self) -> bool {
        self.settled.is_some()
    }

    /// Begins to take these VIPs back.
    pub fn take_back(&mut self, vips: impl IntoIterator<Item = IpAddr>) {
        self.taking_back.extend(vips);
    }

    /// Returns the VIPs that are being taken back.
    pub fn taking_back(&self) -> &BTreeSet<IpAddr> {
        &self.taking_back
    }

    /// Ends the taking back: the entries were written.
    pub fn taken_back(&mut self) {
        let taken = std::mem::take(&mut self.taking_back);
        self.yielded.retain(|vip, _| !taken.contains(vip));
    }

    /// Records the entries that were just read. What is read or attached after them may fail, and their
    /// slots are taken all the same.
    pub fn on_read(&mut self, entries: &BTreeMap<VipKey, VipEntry>) {
        self.settled = None;
        self.slots = entries.values().map(|entry| entry.slot).collect();
    }

    /// Records that an entry was written or removed.
    pub fn on_entry(&mut self, from: Option<&VipEntry>, to: Option<&VipEntry>) {
        match (from, to) {
            (_, Some(to)) => self.slots.insert(to.slot),
            (Some(from), None) => self.slots.remove(from.slot),
            (None, None) => {}
        }
    }

    /// Returns the slots whose records must be read for a full round: the slots of the entries, and
    /// as many free ones as there can be new entries. A VIP may have left a record there.
    pub fn slots_of(entries: &BTreeMap<VipKey, VipEntry>, new: usize, max: u32) -> BTreeSet<u32> {
        let reach = u32::try_from(entries.len() + new).unwrap_or(u32::MAX).min(max);
        entries.values().map(|entry| entry.slot).chain(0..reach).collect()
    }

    /// Returns true if the network, as it is now, needs nothing beyond the last reconciliation.
    /// `place` returns where the VIPs belong, from their interfaces before. `is_well_attached`
    /// returns true if the program runs as these interfaces need.
    pub fn is_settled(
        &self,
        segment: &Segment,
        place: impl FnOnce(&BTreeMap<IpAddr, u32>) -> Placement,
        (attached, is_well_attached): (&BTreeSet<u32>, impl FnOnce(&[u32]) -> bool),
        context: &Context<'_>,
    ) -> bool {
        let Some(Settled { placement, placed }) = &self.settled else { return false };
        let mut now = place(placed);
        leave_out(&mut now.desired, attached, context);
        segment.silence(&mut now.desired, context.view);
        let is_bound = now.desired.binds.iter().all(|(interface, vip)| {
            let interface = context.view.by_name(interface);
            interface.is_some_and(|interface| interface.addresses.iter().any(|net| net.addr() == *vip))
        });
        is_well_attached(&now.attach) && is_bound && now.digest() == *placement
    }

    /// Plans a full round. `listed` has the VIPs that the source wants. `reclaim` takes yielded VIPs
    /// back. Returns the effects on the segments too.
    pub fn plan(
        &mut self,
        segment: &mut Segment,
        read: Read<'_>,
        (listed, reclaim): (impl Iterator<Item = IpAddr>, bool),
        context: &Context<'_>,
    ) -> (Round, Vec<Effect>) {
        let Read { yields, mut observed, mut placement, placed, attached } = read;
        observed.taken_back.clone_from(&self.taking_back);
        observed.remembered.clone_from(&self.yielded);
        let is_known = context.authority.is_known();
        self.without_place = placement.without_place(observed.max_slots).collect();
        let desired = &mut placement.desired;
        leave_out(desired, attached, context);
        let mut effects = segment.hold_back(desired, &observed, context);
        let mut problems: BTreeSet<String> = placement.problems.iter().map(ToString::to_string).collect();
        problems.extend(segment.own_addresses(context.view).iter().map(ToString::to_string));
        if !is_known {
            plan::keep_what_is_pinned(desired, &observed);
            leave_received(desired, context);
        }
        let (asked, more) = segment.ask_about_yields((desired, &observed), (is_known, reclaim), context);
        effects.extend(more);
        observed.asked = asked;
        if !is_known {
            plan::change_what_was_yielded(desired, &observed);
        }
        let unchanged = begin_no_answer(desired, &observed, reclaim, context);
        let actions = plan::plan(desired, &observed, reclaim);
        self.yielded = if reclaim { BTreeMap::new() } else { plan::yielded(&observed) };
        if is_known && !self.yielded.is_empty() {
            let listed: BTreeSet<IpAddr> = listed.collect();
            self.yielded.retain(|vip, _| listed.contains(vip));
        }
        let left_silent = unchanged.len();
        self.awaits_deadline = left_silent > 0;
        let round = Round {
            actions,
            observed,
            placement,
            placed,
            yields,
            is_known,
            unchanged,
            left_silent,
            problems,
        };
        (round, effects)
    }

    /// Ends a full round. `failures` has the texts of failures besides entries.
    pub fn end(
        &mut self,
        round: Round,
        failures: BTreeSet<String>,
        stale: &mut Stale,
        now: Monotonic,
    ) -> End {
        let Round {
            actions, placement, placed, yields, is_known, unchanged, left_silent, mut problems, ..
        } = round;
        let every_change_made = unchanged.len() == left_silent;
        let every_entry_written = unchanged.is_empty();
        let mut changes = Changes::default();
        if !(stale.is_empty() && every_entry_written) {
            let concerned = concerned(&actions);
            let wanted: BTreeSet<IpAddr> = placement.desired.entries.keys().map(|key| key.addr).collect();
            let is_changed = |vip: &IpAddr| concerned.contains(vip) || !wanted.contains(vip);
            // While the source is unknown, entries stay as they were found, but for those yielded.
            let is_tried = |vip: &IpAddr| {
                if is_known { !placement.left_out.contains(vip) } else { concerned.contains(vip) }
            };
            changes = stale.on_tried(is_tried, is_changed, unchanged);
        }
        if every_change_made {
            self.yields_settled = yields;
        }
        if failures.is_empty() && every_entry_written {
            self.settled = Some(Settled { placement: placement.digest(), placed });
        } else {
            self.try_again_soon(now);
        }
        problems.extend(failures);
        End { changes, problems }
    }

    /// Returns the slots whose records must be read for a round for some VIPs, whose entries were read: as
    /// [`Host::slots_of`] does.
    pub fn slots_of_some(&self, entries: &BTreeMap<VipKey, VipEntry>, new: usize, max: u32) -> BTreeSet<u32> {
        let reserved = self.reserved(entries);
        let free = (0..max).filter(|slot| !reserved.contains(*slot)).take(new);
        entries.values().map(|entry| entry.slot).chain(free).collect()
    }

    /// Returns the slots of all other entries.
    fn reserved(&self, entries: &BTreeMap<VipKey, VipEntry>) -> Slots {
        let mut reserved = self.slots.clone();
        for entry in entries.values() {
            reserved.remove(entry.slot);
        }
        reserved
    }

    /// Plans a round for some VIPs, whose entries were read, and leaves all else as it is. Yielded VIPs
    /// are taken back: the caller has checked their holder. `yields` has the program's records at their
    /// slots, if any VIP was ever yielded.
    pub fn plan_some(
        &mut self,
        vips: &BTreeSet<IpAddr>,
        (entries, placement): (BTreeMap<VipKey, VipEntry>, Placement),
        (attached, max_slots): (&BTreeSet<u32>, u32),
        yields: BTreeMap<u32, Yield>,
        context: &Context<'_>,
    ) -> SomeRound {
        self.settled = None;
        self.without_place.retain(|vip, _| !vips.contains(vip));
        self.without_place.extend(placement.without_place(max_slots));
        let Placement { mut desired, left_out, .. } = placement;
        leave_out(&mut desired, attached, context);
        let reserved = self.reserved(&entries);
        let observed = Observed {
            entries,
            yields,
            own_macs: desired.own_macs.clone(),
            peers: desired.peers.clone(),
            binds: desired.binds.clone(),
            taken_back: self.taking_back.clone(),
            max_slots,
            reserved,
            ..Observed::default()
        };
        self.yielded.retain(|vip, _| !vips.contains(vip));
        let unchanged = begin_no_answer(&mut desired, &observed, true, context);
        self.awaits_deadline |= !unchanged.is_empty();
        let mut actions = plan::plan(&desired, &observed, true);
        // All other state is as it was observed.
        actions.retain(|action| action.key().is_some());
        SomeRound { actions, observed, desired, left_out, unchanged }
    }

    /// Ends a round for some VIPs. If the round could not be planned, `round` has the reason.
    pub fn end_some(
        &mut self,
        vips: &BTreeSet<IpAddr>,
        round: Result<SomeRound, String>,
        stale: &mut Stale,
        now: Monotonic,
    ) -> Changes {
        let (concerned, unchanged) = match round {
            Ok(round) => round.results(),
            Err(error) => {
                let failure = Failure { left: Left::Answering, interface: None, error };
                (BTreeSet::new(), vips.iter().map(|vip| (*vip, failure.clone())).collect())
            }
        };
        if !unchanged.is_empty() {
            self.try_again_soon(now);
        }
        stale.on_tried(|vip| vips.contains(vip), |vip| concerned.contains(vip), unchanged)
    }
}

/// Removes the desired entries on interfaces without the program, because an announced VIP must be
/// answered. Also removes entries that would silence another program too early.
fn leave_out(desired: &mut Desired, attached: &BTreeSet<u32>, context: &Context<'_>) {
    desired.entries.retain(|key, _| attached.contains(&key.ifindex));
    desired.own_macs.retain(|ifindex, _| attached.contains(ifindex));
    desired.peers.retain(|(ifindex, _)| attached.contains(ifindex));
    let is_held = |vip: &IpAddr| {
        let mut here = attached.iter().map(|ifindex| VipKey::new(*ifindex, *vip));
        here.any(|key| desired.entries.get(&key).is_some_and(|entry| entry.role == Role::Held))
    };
    desired.binds.retain(|(_, vip)| is_held(vip));
    desired.leave_audible(context.view, |vip| context.authority.is_vacant(vip));
    leave_received(desired, context);
}

/// Removes the entries that would keep this agent from what its source needs.
fn leave_received(desired: &mut Desired, context: &Context<'_>) {
    if let Some(vital) = context.authority.must_receive() {
        desired.leave_received(&vital);
    }
}

/// Leaves silent VIPs silent once the lease deadline has passed. Returns them as failures, to be
/// retried.
fn begin_no_answer(
    desired: &mut Desired,
    observed: &Observed,
    reclaim: bool,
    context: &Context<'_>,
) -> BTreeMap<IpAddr, Failure> {
    if context.authority.may_begin_answering(context.now) {
        return BTreeMap::new();
    }
    let failure = Failure { left: Left::Silent, interface: None, error: LAPSED.to_owned() };
    let silent = plan::begin_no_answer(desired, observed, reclaim);
    silent.into_iter().map(|vip| (vip, failure.clone())).collect()
}
