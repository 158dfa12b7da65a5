//! Missing answers to pings. A node that its voters find unresponsive is expired. An interface on
//! which living peers are unresponsive counts as without carrier.

use std::{sync::Arc, time::Duration};

use super::{
    Nodes,
    contact::{Contact, Standing},
    member::Member,
    suspects::{Step, Suspect},
};
use crate::{
    base::time::Monotonic,
    liveness::LEAST_UNANSWERED,
    ownership::command::LeaseWrite,
    records::{Mode, NodeInterface, NodeName, Session},
};

/// Returns true if another node has an interface with carrier on the segment of one of this node.
fn is_there(member: &Member, interface: &NodeInterface) -> bool {
    let mut theirs = member.description().into_iter().flat_map(|lease| &lease.interfaces);
    theirs.any(|their| their.carrier && interface.shares_a_segment(their))
}

impl Nodes {
    /// Returns true if this node may not take a VIP on an interface: no peer answers there, although
    /// one is there that lives. The fault may be this node's, which was expired for it.
    pub(crate) fn lacks_contact(&self, interface: &NodeInterface, now: Monotonic) -> bool {
        let wire = &self.wire;
        if wire.key.is_none() {
            return false;
        }
        // An answer from before this node's session expired proves nothing: expiring takes less
        // time than an answer counts.
        let is_too_early = wire.answers_count_from().is_some_and(|from| now < from);
        if !is_too_early && wire.contacts.is_answered(&interface.name) {
            return false;
        }
        // Where no frame passes, missing answers show nothing. A node that was expired, or has a
        // monitor, shows that frames pass.
        let standing = wire.contacts.standing(&interface.name);
        let is_proven = wire.expired_at.is_some() || standing != Standing::Unproven;
        // Only the nodes of the plan are pinged.
        let pinged = |name: &NodeName| wire.plan.peers.iter().any(|peer| peer.node == *name);
        self.partners().any(|(name, member, ..)| {
            let offer = member.description().and_then(|lease| lease.wire.as_ref());
            let has_monitor = offer.is_some_and(|offer| offer.mode == Mode::Notice);
            pinged(name)
                && self.renews(name, now)
                && is_there(member, interface)
                && (is_proven || has_monitor)
        })
    }

    /// Returns the present meaning of missing answers on an interface. They are a fault of this
    /// node while others live there. If those count as without carrier as well, the segment does
    /// not pass frames.
    fn judge(&self, interface: &NodeInterface, contact: Contact, now: Monotonic) -> Standing {
        let peers =
            self.wire.plan.peers.iter().filter_map(|peer| Some((&peer.node, self.member(&peer.node)?)));
        let mut peers = peers.filter(|(_, member)| is_there(member, interface));
        // Dead peers may have been the cause. A peer that has renewed since was not.
        let has_renewed = |(_, member): &(&NodeName, &Member)| contact.found_at < member.seen;
        let (is_one_way, otherwise) = match contact.standing {
            Standing::Unproven => (false, Standing::Unproven),
            Standing::Proven => (peers.filter(has_renewed).count() >= LEAST_UNANSWERED, Standing::Proven),
            Standing::OneWay => (peers.any(|(node, _)| self.is_alive(node, now)), Standing::Unproven),
        };
        if is_one_way { Standing::OneWay } else { otherwise }
    }

    /// Lets an interface count as without carrier if none of several living peers answers there, or
    /// if several have answered and none does any longer. Returns the interfaces that have become
    /// one-way (true) or are no longer.
    pub(crate) fn judge_contacts(&mut self, now: Monotonic) -> Vec<(Arc<str>, bool)> {
        let judged = self.wire.contacts.unanswered().filter_map(|(interface, contact)| {
            let standing = self.judge(interface, contact, now);
            (standing != contact.standing).then(|| (Arc::clone(&interface.name), standing))
        });
        let judged: Vec<_> = judged.collect();
        for (interface, standing) in &judged {
            self.wire.contacts.set_standing(interface, *standing);
        }
        judged.into_iter().map(|(interface, standing)| (interface, standing == Standing::OneWay)).collect()
    }

    /// Records that a quorum finds a session unresponsive, and returns its node. Voters before this
    /// one have their turn first.
    pub(crate) fn on_unresponsive(
        &mut self,
        session: Session,
        round: u64,
        now: Monotonic,
    ) -> Option<NodeName> {
        let scale = self.wire.scale?;
        let peer = self.wire.plan.peers.iter().find(|peer| peer.session == session)?;
        let until = now + scale.turn() * peer.watched.as_ref()?.place;
        let suspect = Suspect { session, round, step: Step::Waits { until } };
        self.wire.suspects.nodes.entry(peer.node.clone()).or_insert(suspect).round = round;
        Some(peer.node.clone())
    }

    /// Records an expiry notice for another node's session. Returns the node, whose Lease is to be
    /// read: the notice alone proves nothing. Returns none if the end is known, or if a request about
    /// the Lease is under way. After a false notice the next one waits, longer each time, until the node
    /// has another session.
    pub(crate) fn on_notified_of(&mut self, session: Session, now: Monotonic) -> Option<NodeName> {
        let name = self.others().find(|(_, member)| member.session() == Some(session))?.0.clone();
        let member = self.members.get_mut(&name).filter(|member| !member.expiring)?;
        member.notices.begin(now).then_some(name)
    }

    /// Returns the suspects whose turn it is. Their Leases are to be read.
    pub(crate) fn suspects_to_read(&mut self, now: Monotonic) -> Vec<NodeName> {
        let is_due = |suspect: &Suspect| matches!(suspect.step, Step::Waits { until } if until <= now);
        let suspects = self.wire.suspects.nodes.iter();
        let mut due: Vec<NodeName> =
            suspects.filter(|(_, suspect)| is_due(suspect)).map(|(name, _)| name.clone()).collect();
        let is_valid = self.own.is_valid(now);
        due.retain(|name| {
            // An expiry of its Lease has the same effect.
            let member = self.members.get_mut(name).filter(|member| is_valid && !member.expiring);
            let Some(member) = member else {
                self.wire.suspects.nodes.remove(name);
                return false;
            };
            let retry = member.retry;
            member.expiring |= retry <= now;
            let Some(suspect) = self.wire.suspects.nodes.get_mut(name) else { return false };
            suspect.step = if retry > now { Step::Waits { until: retry } } else { Step::Reads };
            // A read for an expiry notice serves as well.
            suspect.step == Step::Reads && !member.notices.reads
        });
        due
    }

    /// Expires the session of a suspect whose Lease has just been read. The write rests on that
    /// version, on a later one from the watch, or on its absence. So it fails if the node has written
    /// its Lease since.
    pub(crate) fn expire_suspect(
        &mut self,
        name: &NodeName,
        is_read: bool,
        now: Monotonic,
    ) -> Option<LeaseWrite> {
        let suspects = &mut self.wire.suspects.nodes;
        if suspects.get(name)?.step != Step::Reads {
            return None;
        }
        let suspect = suspects.remove(name)?;
        if !is_read || !self.may_expire(name, &suspect, now) {
            return None;
        }
        let is_carried = self.lease(name).is_some_and(|lease| lease.session == Some(suspect.session));
        let write = if is_carried {
            self.expire_all(name)?
        } else {
            // The Lease is gone. The node may have begun another session since the one that is known.
            self.expire(name, None, vec![suspect.session])?
        };
        self.wire.suspects.nodes.insert(name.clone(), Suspect { step: Step::Writes, ..suspect });
        Some(write)
    }

    /// Returns true if a node's Lease lets this node expire the session, with the voters that
    /// agree, and this node's own lease deadline lies ahead.
    fn may_expire(&self, name: &NodeName, suspect: &Suspect, now: Monotonic) -> bool {
        let Some(wid) = self.wire.wid else { return false };
        let lease = self.description(name).filter(|lease| lease.live_session() == Some(suspect.session));
        let offer = lease.and_then(|lease| lease.wire.as_ref());
        self.own.is_valid(now)
            && offer.is_some_and(|offer| {
                offer.mode == Mode::Notice && offer.round == suspect.round && offer.set.contains(&wid)
            })
    }

    /// Records that a write which expires a session is over. After a failure, the monitor must find
    /// the node unresponsive anew.
    pub(crate) fn count_expiring(&mut self, name: &NodeName, is_done: bool) {
        let suspect = self.wire.suspects.nodes.remove(name);
        let by_wire = suspect.is_some_and(|suspect| suspect.step == Step::Writes);
        let counts = &mut self.wire.counts;
        counts.expired_by_wire += u64::from(is_done && by_wire);
        counts.expired_by_lease += u64::from(is_done && !by_wire);
    }

    /// Records that another node has expired this node's session. If the lease deadline lies ahead,
    /// the reason was not an expired Lease.
    pub(crate) fn on_expired_here(&mut self, now: Monotonic) {
        let is_valid = self.own.is_valid(now);
        let wire = &mut self.wire;
        wire.expired_at = Some(now);
        wire.is_to_judge = is_valid && wire.said().is_some_and(|offer| offer.mode == Mode::Notice);
    }

    /// Judges the expiry of this node's session. If peers answer pings that were sent after it, it
    /// was a false positive. If only the Lease counts from now on, returns the number of false
    /// positives, and for how long.
    pub(crate) fn judge_end(&mut self, now: Monotonic) -> Option<(usize, Duration)> {
        let wire = &mut self.wire;
        let is_due = wire.is_to_judge && wire.answers_count_from().is_some_and(|from| from <= now);
        if !is_due {
            return None;
        }
        wire.is_to_judge = false;
        if wire.contacts.is_any_answered() { wire.on_false_move(now) } else { None }
    }
}
