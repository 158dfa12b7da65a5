//! Checks the promises of wire failover.

mod bounds;

use std::time::Duration;

use vipward_common::{DeadlineState, MacAddr};
use vipward_core::records::{ClaimState, LeaseRecord, Mode, Session, Wid};

use self::bounds::Bounds;
use crate::{
    machine::At,
    record::{Crash, Mild},
    schedule::{What, names},
    world::{Happening, World},
};

impl World {
    fn bounds(&self) -> Option<Bounds> {
        self.scale().map(Bounds)
    }

    /// Checks the stored end of a session, if the failure detector ended it. `before` is the Lease before,
    /// which has stood since `since`.
    pub(crate) fn check_expiring(&mut self, by: usize, before: &LeaseRecord, session: Session, since: At) {
        let Some(bounds) = self.bounds() else { return };
        let now = self.now;
        let margin = Duration::from_millis(self.plan.timing.margin_ms.into());
        let found = self.nodes[by].wire.truth.get(&session.number()).and_then(|truth| truth.found);
        let Some(found) = found.filter(|_| now.since(since) < (before.duration + margin) * 98 / 100) else {
            return;
        };
        let Some(holder) = names::node_index(&before.node) else { return };
        self.record.facts.expired_by_wire = true;
        self.record.wire.ended.push((session, now, by));
        self.say(by, || format!("has ended the session of {} by wire", before.node));
        let what = format!("{} ended the session of {}", names::node(by), before.node);
        // A node that has lost its power since it sent the write has lost its number too.
        let Some(own) = self.nodes[by].program.wired.wid else { return };
        let offer = before.wire.as_ref().filter(|offer| offer.mode == Mode::Notice);
        let Some(offer) = offer.filter(|offer| offer.set.contains(&own)) else {
            return self.violate("W2", format!("{what}, which had not made it a voter"));
        };
        let unresponsive = |node: usize| {
            let truth = self.nodes[node].wire.truth.get(&session.number())?;
            truth.unresponsive
        };
        let voters: Vec<usize> = (0..self.nodes.len())
            .filter(|node| self.nodes[*node].program.wired.wid.is_some_and(|wid| offer.set.contains(&wid)))
            .collect();
        if unresponsive(by).is_none_or(|at| at + bounds.seen_late() < since) {
            return self.violate("W1", format!("{what}, which has renewed since it was unresponsive"));
        }
        let agree = voters
            .iter()
            .filter(|node| unresponsive(**node).is_some_and(|at| at + bounds.votes() >= found))
            .count();
        // A monitor that has crashed since may have agreed.
        let gone = offer.set.len() - voters.len();
        if agree + gone < offer.quorum() {
            return self.violate(
                "W1",
                format!("{what}, which was unresponsive for {agree} of {:?} only", offer.set),
            );
        }
        if offer.set.len() == 1 {
            self.check_two(by, holder, (session, found), &what, bounds);
        }
        if self.record.wire.mild.as_ref().is_some_and(|mild| mild.gone != Some(holder)) {
            self.violate("L4", format!("{what} in a mild disturbance"));
        }
    }

    /// Records a stored Lease's offer of wire failover.
    pub(crate) fn record_offer(&mut self, node: usize) {
        let Some(lease) = self.api.leases.get(&names::node(node)) else { return };
        if let (Some(session), Some(offer)) = (lease.session, &lease.wire) {
            let configured = self.record.wire.configured.entry(session).or_insert((offer.round, self.now));
            if configured.0 != offer.round {
                *configured = (offer.round, self.now);
            }
        }
    }

    /// Checks the rules for a holder with one monitor alone.
    fn check_two(
        &mut self,
        by: usize,
        holder: usize,
        (session, found): (Session, At),
        what: &str,
        bounds: Bounds,
    ) {
        let truth = &self.nodes[by].wire.truth[&session.number()];
        if truth.third_station.is_none_or(|at| Some(at) < truth.last_answer().filter(|last| *last < found)) {
            return self.violate("W3", format!("{what}, and has received no third station since"));
        }
        let it = &self.nodes[holder];
        let own = self.nodes[by].program.wired.wid.map_or(0, Wid::number);
        let pinged = it.wire.pinged.get(&own).copied().unwrap_or_default();
        // Old pings that come again seem to be its monitor's.
        let is_misled = self.plan.wire.is_some_and(|plan| plan.replayed_ms > 0);
        // A holder may count on a monitor that has just gone.
        let configured = self.record.wire.configured.get(&session).map(|(_, at)| *at);
        let is_new = configured.is_none_or(|at| self.now.since(at) < bounds.counted_on());
        let could_leave = !is_misled
            && !is_new
            && it.times.fit.is_some_and(|since| self.now.since(since) > bounds.informed())
            && it.agent_runs()
            && self.now.since(it.times.runs) > bounds.counted_on()
            && it.faults.busy.is_empty();
        if could_leave && self.now.since(pinged) > bounds.leaves() {
            self.violate("W3", format!("{what}, which has received no ping of its only monitor for long"));
        }
    }

    /// Returns when a node's session was ended by its voters, and by which of them.
    fn ended_by_wire(&self, node: usize) -> Option<(At, usize)> {
        let session = self.nodes[node].program.session()?;
        self.record.wire.ended.iter().find(|(ended, ..)| *ended == session).map(|(_, at, by)| (*at, *by))
    }

    /// Returns whether two nodes may both answer: a former holder whose session the failure detector ended,
    /// and its heir. Checks that the former holder stops as soon as it has learned of both.
    pub(super) fn is_being_notified(&mut self, vip: usize, former: usize, heir: usize) -> bool {
        let Some(bounds) = self.bounds() else { return false };
        let Some((ended, by)) = self.ended_by_wire(former) else { return false };
        let now = self.now;
        let notifier = &self.nodes[by];
        let segment = self.segment_of(vip);
        let (it, other) = (&self.nodes[former], &self.nodes[heir]);
        let Some(taken) = other.held_since[vip] else { return true };
        let is_valid = other.lease_deadline(now) == DeadlineState::Valid;
        let links = [&it.links[segment], &other.links[segment]];
        let goes_on = self.network.segments[segment].is_clean()
            && it.kernel_runs()
            && other.agent_runs()
            && other.faults.busy.is_empty()
            && is_valid
            && other.process.as_ref().is_some_and(|process| process.began <= taken)
            && links.iter().all(|link| !link.no_carrier.any() && link.known_mac == link.mac)
            && it.peers_due.contains(&links[1].mac)
            && self.knows_mac(former, links[0].mac, ended)
            && it.program.wired.keys.intersection(&other.program.wired.keys).next().is_some();
        if !goes_on {
            return true;
        }
        let since = [
            ended,
            taken,
            self.network.segments[segment].changed,
            it.times.steady,
            other.times.steady,
            other.times.runs,
            other.times.valid,
            links[0].since,
            links[1].since,
        ];
        let since = since.into_iter().max().unwrap_or_default();
        let has_received = it.program.has_ended();
        let notified = if has_received {
            it.wire.ended_at.max(since)
        } else {
            let Some(fit) = notifier.times.fit.filter(|_| notifier.faults.busy.is_empty()) else {
                return true;
            };
            let knows = (ended + bounds::KNOWN)
                .max(fit + bounds::KNOWN)
                .max(notifier.times.steady)
                .max(notifier.times.runs);
            let since = since.max(knows);
            since + bounds.notified(since.since(ended)) + bounds::SLACK
        };
        let announced = bounds::announced(taken, taken >= ended, notified) + bounds::SLACK;
        let due = if has_received { announced } else { notified };
        if now > due {
            let news = if has_received { "of its heir" } else { "of the end of its session" };
            let what = format!(
                "{} and {} answer for {}; the former could have received {news} until {due}",
                names::node(former),
                names::node(heir),
                names::vip(vip)
            );
            self.violate("S2'", what);
        } else if self.record.notified_check[vip] < due {
            self.record.notified_check[vip] = due;
            self.at(due + bounds::SLACK / 5, Happening::Lapse { node: former });
        }
        true
    }

    /// Schedules a check of a node whose program was notified of the end of its session.
    pub(crate) fn expect_heed(&mut self, node: usize) {
        if let Some(session) = self.nodes[node].program.session() {
            self.after(bounds::HEEDED, Happening::Heeds { node, session });
        }
    }

    /// Schedules a check of a node whose program received an expiry notice, true or false.
    pub(crate) fn expect_settling(&mut self, node: usize) {
        if let Some(session) = self.nodes[node].program.session() {
            self.after(self.settled_within(), Happening::Settled { node, session });
        }
    }

    /// Returns the time in which a living node's deadline lies ahead again after a false expiry notice: until
    /// its next renewal, on a slow clock, is done.
    fn settled_within(&self) -> Duration {
        Duration::from_millis(self.plan.timing.renewal_ms.into()) * 102 / 100 + bounds::SETTLED
    }

    /// Checks that a false expiry notice no longer counts, on a node that could renew its Lease all the time.
    pub(crate) fn check_settled(&mut self, node: usize, session: Session) {
        let it = &self.nodes[node];
        let lease = self.api.leases.get(&names::node(node));
        let settled = self.request_timeout();
        let is_last = it.wire.notified_at + self.settled_within() <= self.now;
        let could_act = it.times.acts.is_some_and(|since| since + settled <= it.wire.notified_at)
            && it.times.runs <= it.wire.notified_at
            && it.faults.busy.is_empty();
        let lives = lease.is_some_and(|lease| lease.live_session() == Some(session));
        let is_own = it.program.session() == Some(session);
        if is_last && could_act && lives && is_own && it.program.has_ended() {
            let what = format!("{} lives, and counts as ended for a word of long ago", names::node(node));
            self.violate("W5", what);
        }
    }

    /// Checks that an agent that could act has given all VIPs up. It need not have seen its Lease: the
    /// expiry notice makes it read.
    pub(crate) fn check_heed(&mut self, node: usize, session: Session) {
        // A false notice may have come before the true one.
        let ended = self.record.wire.ended.iter().find(|(ended, ..)| *ended == session).map(|(_, at, _)| *at);
        let it = &self.nodes[node];
        if it.wire.ended_at + bounds::HEEDED > self.now || ended.is_some_and(|at| at > it.wire.ended_at) {
            return;
        }
        let lease = self.api.leases.get(&names::node(node));
        // No request from before is waited for.
        let settled = self.request_timeout();
        let could_act = it.times.acts.is_some_and(|since| since + settled <= it.wire.ended_at)
            && it.times.runs <= it.wire.ended_at
            && it.faults.busy.is_empty()
            && lease.is_some_and(|lease| lease.ended.contains(&session));
        let goes_on = it.program.session() == Some(session);
        let answers = |vip: &usize| it.answer(*vip, self.segment_of(*vip), self.now).is_some();
        let answered = (0..self.plan.vips.len()).filter(|_| could_act && goes_on).find(answers);
        if let Some(vip) = answered {
            let what = format!("{} answers for {}", names::node(node), names::vip(vip));
            self.violate("W4", format!("{what}, and was notified long ago that its session has ended"));
        }
    }

    /// Returns whether a node's Lease has this MAC, so that others find the node. Its session was ended at
    /// `ended`. A deleted Lease is known until the lease deadline has passed.
    fn knows_mac(&self, node: usize, mac: MacAddr, ended: At) -> bool {
        let name = names::node(node);
        let deadline = ended + Duration::from_millis(self.plan.timing.lease_ms.into());
        let deleted = self.api.deleted.get(&name).filter(|_| self.now < deadline);
        let lease = deleted.or_else(|| self.api.leases.get(&name));
        lease.is_some_and(|lease| lease.interfaces.iter().any(|interface| interface.mac == mac))
    }

    /// Records the VIPs of a node that is about to crash, or whose interface dies.
    pub(crate) fn record_crash(&mut self, node: usize, segment: Option<usize>) {
        let Some(bounds) = self.bounds() else { return };
        if self.record.calm_before() < bounds.calm()
            || self.record.trouble.in_force > self.record.trouble.batch
        {
            return;
        }
        let timing = self.plan.timing;
        let rest = Duration::from_millis((timing.lease_ms + timing.margin_ms).into()) * 102 / 100;
        let name = names::node(node);
        let lease = self.api.leases.get(&name);
        let Some(lease) = lease.filter(|lease| lease.session == self.nodes[node].program.session()) else {
            return;
        };
        let Some(offer) = lease.wire.clone() else { return };
        let is_held = |vip: &usize| {
            let claim = self.api.claims.get(&names::vip(*vip));
            matches!(claim.map(|claim| &claim.state), Some(ClaimState::Held(holder))
                if holder.node == name && Some(holder.session) == lease.session)
        };
        let vips: Vec<usize> = (0..self.plan.vips.len())
            .filter(|vip| segment.is_none_or(|segment| self.segment_of(*vip) == segment))
            .filter(|vip| is_held(vip) && self.is_wanted(*vip) && self.unsettled(*vip).is_none())
            .filter(|vip| self.now.since(self.record.changed_hands[*vip]) > rest)
            .collect();
        let leaves_by_itself = segment.is_some() && self.network.segments.len() > 1;
        if !leaves_by_itself && offer.mode == Mode::Off || leaves_by_itself && self.nodes.len() < 3 {
            return;
        }
        // an only monitor needs a third station.
        if offer.set.len() == 1 && !self.plan.wire.is_some_and(|plan| plan.third_station) {
            return;
        }
        let many = u32::try_from(vips.len()).unwrap_or(u32::MAX);
        for vip in vips {
            let crash = Crash {
                vip,
                holder: node,
                at: self.now,
                quorum: if leaves_by_itself { 0 } else { offer.quorum() },
                set: offer.set.clone(),
            };
            self.record.wire.crashes.push(crash);
            let bound = bounds.held_again(leaves_by_itself, many);
            let number = self.record.wire.crashes.len() - 1;
            self.after(bound, Happening::Judge(number));
            self.after(bound + bounds.rank(), Happening::Judge(number));
            self.after(bound + bounds.taken_again(), Happening::Judge(number));
        }
    }

    /// Returns whether a node is up and receives the others' frames.
    fn is_reachable(&self, node: usize, segment: usize) -> bool {
        self.nodes[node].kernel_runs() && !self.network.segments[segment].is_dead(node)
    }

    /// Checks L3: a VIP whose holder has crashed is held again.
    pub(crate) fn judge(&mut self, crash: usize) {
        let Some(bounds) = self.bounds() else { return };
        let Crash { vip, holder, at, ref set, quorum } = self.record.wire.crashes[crash];
        let segment = self.segment_of(vip);
        let up: Vec<usize> = (0..self.nodes.len()).filter(|node| self.is_reachable(*node, segment)).collect();
        let down = self.nodes.len() - up.len();
        // One with a dead interface may take the VIP before it knows, and the claim rests then.
        let may_take = |node: usize| node != holder && self.nodes[node].kernel_runs() && !up.contains(&node);
        let is_one_way_heir = (0..self.nodes.len()).any(may_take);
        let is_late = self.now.since(at) > bounds.held_again(false, 0) + bounds.rank();
        let agree = up
            .iter()
            .filter(|node| self.nodes[**node].program.wired.wid.is_some_and(|wid| set.contains(&wid)));
        // A candidate that has crashed too is waited for.
        let is_judged = self.record.trouble.disturbed == at
            && self.record.trouble.batch_crashes == self.record.trouble.batch
            && agree.count() >= quorum
            && !is_one_way_heir
            && (down == 1 || is_late && down == 2)
            && up.iter().all(|node| {
                self.nodes[*node].times.fit.is_some_and(|since| at.since(since) > bounds.calm())
                    && !self.nodes[*node].program.wired.keys.is_empty()
            })
            && up.iter().any(|node| self.may_hold(*node, vip))
            && self.is_wanted(vip);
        if !is_judged {
            return;
        }
        self.record.facts.crashes += 1;
        let is_held = up.iter().any(|node| {
            let it = &self.nodes[*node];
            it.answer(vip, segment, self.now) == Some(it.links[segment].mac)
        });
        if !is_held {
            let what = format!("{} is not held again; its holder crashed at {at}", names::vip(vip));
            self.violate("L3", what);
        }
    }

    /// Begins to guard VIPs if nothing else is going on and the disturbance is a mild one.
    pub(crate) fn record_mild(&mut self, what: What) {
        self.record.wire.mild = None;
        let Some(bounds) = self.bounds() else { return };
        let is_calm = self.record.calm_before() >= bounds.calm()
            && self.record.trouble.in_force <= 1
            && self.record.trouble.batch == 1;
        let living = self.nodes.iter().filter(|node| node.times.fit.is_some()).count();
        if !is_calm || !what.is_mild(living, &self.plan.timing, bounds.0) {
            return;
        }
        let holder = |vip: usize| {
            let claim = self.api.claims.get(&names::vip(vip))?;
            let lease = self.api.leases.get(&claim.state.holder()?.node)?;
            let offer = lease.wire.as_ref().filter(|offer| offer.mode == Mode::Notice);
            offer.and_then(|_| names::node_index(&lease.node))
        };
        let gone = what.takes_away();
        let mut vips = Vec::new();
        for vip in (0..self.plan.vips.len()).filter(|vip| self.is_wanted(*vip)) {
            let Some(holder) = holder(vip).filter(|_| self.unsettled(vip).is_none()) else { return };
            if Some(holder) != gone && !what.silences(holder) {
                vips.push(vip);
            }
        }
        self.record.facts.mild = true;
        self.record.wire.mild = Some(Mild { gone, vips });
    }

    /// Checks that a mild disturbance darkens nothing.
    pub(super) fn check_mild(&mut self) {
        let Some(mild) = &self.record.wire.mild else { return };
        let dark = mild.vips.iter().copied().find(|vip| self.is_wanted(*vip) && !self.is_bright(*vip));
        if let Some(vip) = dark {
            self.violate("L4", format!("no node answers for {} in a mild disturbance", names::vip(vip)));
        }
    }
}
