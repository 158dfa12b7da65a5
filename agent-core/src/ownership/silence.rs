//! The end of the session of a node that its witnesses find silent.

use std::collections::BTreeMap;

use super::{Command, Engine, Notice, nodes::Nodes, requests::Former};
use crate::{
    base::time::Monotonic,
    liveness::{Finding, Plan, Word},
    records::{ClaimState, KeyId, Mode, NodeName, Session, Wid},
};

/// Step on the way to end a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Members before this one in the set have their turn first.
    Waits { until: Monotonic },
    /// The node's Lease is being read.
    Reads,
    /// The write that ends the session is under way.
    Writes,
}

/// A node that is silent, as enough members of its set agree.
#[derive(Debug)]
struct Suspect {
    session: Session,
    /// The number of the configuration whose set agrees.
    round: u64,
    step: Step,
}

/// The nodes that are silent. One write at a time is under way for each.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    nodes: BTreeMap<NodeName, Suspect>,
}

impl Suspects {
    /// Returns the time of the next step.
    pub(super) fn next(&self) -> Option<Monotonic> {
        let until = |suspect: &Suspect| match suspect.step {
            Step::Waits { until } => Some(until),
            Step::Reads | Step::Writes => None,
        };
        self.nodes.values().filter_map(until).min()
    }

    /// Takes in that a session answers. A write that is under way goes on.
    fn answers(&mut self, session: Session) {
        self.nodes.retain(|_, suspect| suspect.session != session || suspect.step == Step::Writes);
    }

    /// Forgets those whose silence the witness no longer judges under another plan.
    pub(super) fn keep(&mut self, plan: &Plan) {
        let is_watched = |suspect: &Suspect| {
            plan.peers.iter().any(|peer| peer.session == suspect.session && peer.watched.is_some())
        };
        self.nodes.retain(|_, suspect| suspect.step == Step::Writes || is_watched(suspect));
    }

    /// Returns true if this node is about to end a node's session.
    pub(super) fn has(&self, node: &NodeName) -> bool {
        self.nodes.contains_key(node)
    }
}

impl Nodes {
    /// Returns the node that answers for a VIP by its claim. It is to be told if its session has ended
    /// and it takes part in wire failover.
    pub(super) fn former(&self, state: &ClaimState, now: Monotonic) -> Option<Former> {
        let node = state.answering()?.clone();
        let is_partner = self.lease(&node).is_some_and(|lease| lease.wire.is_some());
        let may_tell = node != self.settings.node && is_partner && self.wire.key.is_some();
        let to_tell = match state {
            ClaimState::Held(holder) if may_tell && self.has_ended(&node, holder.session, now) => {
                Some((holder.session, holder.mac))
            }
            ClaimState::Held(_) | ClaimState::Offered { .. } | ClaimState::Released | ClaimState::Blank => {
                None
            }
        };
        Some(Former { node, to_tell })
    }
}

impl Engine {
    pub(super) fn on_wire_keys(&mut self, keys: Vec<KeyId>) {
        if self.nodes.wire.keys != keys {
            self.nodes.wire.keys = keys;
            self.say_otherwise();
        }
    }

    pub(super) fn on_wire_self(&mut self, wid: Option<Wid>) {
        if self.nodes.wire.wid != wid {
            self.nodes.wire.wid = wid;
            self.say_otherwise();
        }
    }

    /// Writes the Lease soon, since what it says of wire failover has changed.
    fn say_otherwise(&mut self) {
        if self.nodes.wire.scale.is_some() {
            self.nodes.wire.is_stale = true;
            self.nodes.own.renew_now(self.now);
        }
    }

    /// Takes in what the witness has found.
    pub(super) fn on_witnessed(&mut self, finding: Finding) {
        match finding {
            Finding::Silent { session, round } => self.on_silent(session, round),
            Finding::Answers { session } => {
                self.nodes.wire.suspects.answers(session);
            }
            Finding::Pinged { by, lately } => {
                if self.nodes.wire.on_pinged(by, lately, self.now) {
                    self.nodes.own.renew_now(self.now);
                }
            }
            Finding::Contact { interface, heard, answers } => {
                self.on_contact(&interface, heard, answers);
            }
            Finding::Ended(word) => self.on_told_end(word),
        }
    }

    /// Takes in that a peer has told the program the end of a session. The Lease shows if that is true:
    /// until a renewal that is sent from now on has succeeded, the program counts the session as ended.
    fn on_told_end(&mut self, Word { session, number }: Word) {
        let own = &mut self.nodes.own;
        if own.session_of_fence() != Some(session) {
            return;
        }
        let reads = own.fence.on_told(number, self.nodes.settings.renewal, self.now);
        if reads && own.lives() && !own.is_renewing() {
            self.read_own_lease();
        }
    }

    /// Takes in that a peer has said that the session has ended, and that it has not. After several
    /// such words, this node takes no part in wire failover for a while.
    pub(super) fn on_false_end(&mut self, session: Session) {
        let mute_for = self.nodes.wire.on_false_end(self.now);
        if mute_for.is_some() {
            self.nodes.own.renew_now(self.now);
        }
        self.command(Command::Notify(Notice::FalseEnd { session, mute_for }));
    }

    /// Lets the program refuse all frames if this node takes no part. Its Lease has no offer: from now
    /// on, no node ends its session for silence on the wire.
    pub(super) fn heed_none(&mut self) {
        if !self.nodes.wire.may_offer(self.now) && self.nodes.wire.set_heeding(false) {
            self.command(Command::SetHeeding(false));
        }
    }

    fn on_silent(&mut self, session: Session, round: u64) {
        let Some(scale) = self.nodes.wire.scale else { return };
        let peers = &self.nodes.wire.plan.peers;
        let Some(peer) = peers.iter().find(|peer| peer.session == session) else { return };
        let Some(watched) = &peer.watched else { return };
        let until = self.now + scale.turn() * watched.place;
        let suspect = Suspect { session, round, step: Step::Waits { until } };
        let suspects = &mut self.nodes.wire.suspects.nodes;
        suspects.entry(peer.node.clone()).or_insert(suspect).round = round;
    }

    /// Takes the steps of wire failover that are due.
    pub(super) fn tick_wire(&mut self) {
        if self.nodes.wire.scale.is_some() {
            self.tick_contact();
            self.tick_suspects();
            self.judge_end();
        }
    }

    /// Reads the Leases of silent nodes whose turn it is.
    fn tick_suspects(&mut self) {
        let now = self.now;
        let is_due = |suspect: &Suspect| matches!(suspect.step, Step::Waits { until } if until <= now);
        let suspects = self.nodes.wire.suspects.nodes.iter();
        let due: Vec<NodeName> =
            suspects.filter(|(_, suspect)| is_due(suspect)).map(|(name, _)| name.clone()).collect();
        for name in due {
            let is_valid = self.nodes.own.is_valid(now);
            // A deposing for its silent Lease is as good.
            let member = self.nodes.member_mut(&name).filter(|member| is_valid && !member.deposing);
            let Some(member) = member else {
                self.nodes.wire.suspects.nodes.remove(&name);
                continue;
            };
            let retry = member.retry;
            member.deposing |= retry <= now;
            let Some(suspect) = self.nodes.wire.suspects.nodes.get_mut(&name) else { continue };
            if retry > now {
                suspect.step = Step::Waits { until: retry };
                continue;
            }
            suspect.step = Step::Reads;
            self.command(Command::ReadLease(name));
        }
    }

    /// Ends the session of a silent node whose Lease has just been read. The write rests on that version,
    /// or on a later one that the watch has shown, so it fails if the node has said anything since.
    pub(super) fn depose_suspect(&mut self, name: &NodeName, is_read: bool) {
        let suspects = &mut self.nodes.wire.suspects.nodes;
        if suspects.get(name).is_none_or(|suspect| suspect.step != Step::Reads) {
            return;
        }
        let Some(suspect) = suspects.remove(name) else { return };
        if !is_read || !self.may_depose(name, &suspect) {
            return;
        }
        if let Some(write) = self.nodes.depose(name, true) {
            let suspect = Suspect { step: Step::Writes, ..suspect };
            self.nodes.wire.suspects.nodes.insert(name.clone(), suspect);
            self.command(Command::WriteLease(write));
        }
    }

    /// Returns true if a node's Lease lets this node end the session, with the set that agrees, and this
    /// node's own fence is valid.
    fn may_depose(&self, name: &NodeName, suspect: &Suspect) -> bool {
        let Some(wid) = self.nodes.wire.wid else { return false };
        let lease = self.nodes.lease(name).filter(|lease| lease.live_session() == Some(suspect.session));
        let offer = lease.and_then(|lease| lease.wire.as_ref());
        self.nodes.own.is_valid(self.now)
            && offer.is_some_and(|offer| {
                offer.mode == Mode::Notice && offer.round == suspect.round && offer.set.contains(&wid)
            })
    }

    /// Takes in that a write which ends sessions is over. After a failure, the witness finds the silence
    /// anew.
    pub(super) fn count_deposing(&mut self, name: &NodeName, is_done: bool) {
        let suspect = self.nodes.wire.suspects.nodes.remove(name);
        let by_wire = suspect.is_some_and(|suspect| suspect.step == Step::Writes);
        let counts = &mut self.nodes.wire.counts;
        counts.deposed_by_wire += u64::from(is_done && by_wire);
        counts.deposed_by_lease += u64::from(is_done && !by_wire);
    }

    /// Takes in that another node has ended this node's session. If the fence is valid, that was not for
    /// a silent Lease.
    pub(super) fn on_deposed_here(&mut self) {
        let is_valid = self.nodes.own.is_valid(self.now);
        let wire = &mut self.nodes.wire;
        wire.deposed_at = Some(self.now);
        wire.is_to_judge = is_valid && wire.said().is_some_and(|offer| offer.mode == Mode::Notice);
    }

    /// Judges the end of this node's session for silence. If peers answer pings that were sent after it,
    /// this node was not at fault.
    fn judge_end(&mut self) {
        let wire = &mut self.nodes.wire;
        let is_due = wire.is_to_judge && wire.answers_count_from().is_some_and(|from| from <= self.now);
        if !is_due {
            return;
        }
        wire.is_to_judge = false;
        if !wire.contacts.is_any_answered() {
            return;
        }
        if let Some((moves, lasts)) = wire.on_false_move(self.now) {
            self.command(Command::Notify(Notice::WireSlow { moves, lasts }));
        }
    }
}
