//! Taking of VIPs without a holder when it is this node's turn,
//! and reports of VIPs that no node can hold.

use std::time::Duration;

use super::subject::{Again, Subject};
use crate::{
    base::time::Monotonic,
    ownership::{
        command::{ClaimWrite, Command, Notice},
        nodes::Candidate,
        times::RANK_DELAY,
        vip::{Address, Busy},
    },
    records::{ClaimRecord, ClaimState, Demand, Epoch, Holder, NodeName, Reach},
};

/// Time after which a VIP that no node can hold is reported.
const AFTER: Duration = Duration::from_secs(1);
/// Shortest time between two such reports of one VIP.
const REPEAT: Duration = Duration::from_secs(10);
/// The time after which a VIP that no node can hold is reported again: an Event is forgotten after an
/// hour.
const RENEW: Duration = Duration::from_mins(10);
/// Longest time by which a candidate that takes no VIPs itself puts off its turn while a
/// better one takes other VIPs. The better one may never take this VIP.
const MOST_PATIENT: Duration = Duration::from_secs(10);
/// Longest time by which any candidate puts off its turn for a better one.
const LONGEST_PATIENCE: Duration = Duration::from_mins(1);

/// The cause of a claim that was given back, because a host answered late that has its address.
pub(super) const ANSWERED_LATE: &str = "its address is in use, and the host answered late";

/// Returns true if a claim already states that no node holds its VIP, with this reason.
fn says(claim: Option<&ClaimRecord>, demand: &Demand, trouble: &str) -> bool {
    claim.is_some_and(|claim| {
        claim.note.trouble.as_deref() == Some(trouble)
            && claim.note.services == demand.services
            && claim.state == ClaimState::Released
    })
}

/// Returns the cause of a take, by the VIP's last holder and epoch.
fn cause_of_take(last: Option<&Holder>, epoch: Epoch, us: &NodeName) -> String {
    match last {
        Some(holder) if holder.node != *us => format!("{} is gone", holder.node),
        Some(_) => "its agent has started again".to_owned(),
        None if epoch == Epoch(0) => "it is new".to_owned(),
        None => "it had no holder".to_owned(),
    }
}

impl Subject<'_> {
    /// Takes a VIP without a holder, if it is this node's turn.
    pub(crate) fn take(&mut self, claim: Option<&ClaimRecord>, from: Monotonic) -> Again {
        let demand = self.vip.demand.clone()?;
        if demand.reach == Reach::Unknown {
            self.vip.waiting.free = None;
            self.vip.waiting.unholdable = None;
            return None;
        }
        let candidates = self.nodes.candidates(self.address, &demand, self.now);
        if candidates.is_empty() {
            self.vip.waiting.free = None;
            // The owner may repair the claim until then. A report would write the claim.
            if self.vip.claim.unclear.is_some() && from > self.now {
                return Some(from);
            }
            return self.report_unholdable(claim, &demand);
        }
        self.vip.waiting.unholdable = None;
        if !self.may_begin() {
            return None;
        }
        if from > self.now {
            self.vip.waiting.free = None;
            return Some(from);
        }
        let epoch = claim.map(|claim| claim.epoch).unwrap_or_default();
        let us = self.nodes.settings.node.clone();
        let last = claim.and_then(|claim| claim.state.holder());
        let was_ours = last.filter(|holder| holder.node == us);
        // A candidate's MAC must be known to all nodes. The exceptions are a VIP
        // without any holder so far, and one that was held here at the same MAC.
        let is_known = |candidate: &Candidate| {
            epoch == Epoch(0)
                || candidate.known_at <= self.now
                || was_ours.is_some_and(|holder| holder.mac == candidate.holder.mac)
        };
        let ready: Vec<&Candidate> = candidates.iter().filter(|candidate| is_known(candidate)).collect();
        let Some(rank) = ready.iter().position(|candidate| candidate.holder.node == us) else {
            self.vip.waiting.free = None;
            return candidates.iter().map(|candidate| candidate.known_at).filter(|at| *at > self.now).min();
        };
        // A node that was expired for its dead interface must not take its VIPs again.
        let is_back = was_ours.is_some() && self.nodes.wire.expired_at.is_none();
        let must_answer = last.is_some() || epoch == Epoch(0);
        if must_answer && !is_back && self.lacks_contact(&demand) {
            self.vip.waiting.free = None;
            let from = self.nodes.wire.answers_count_from().filter(|from| *from > self.now);
            return Some(from.unwrap_or(self.now + self.nodes.settings.renewal));
        }
        let must_be_probed = self.must_be_probed(&demand);
        let is_new = must_be_probed || epoch == Epoch(0);
        let turn = self.turn(&ready[..rank], is_new, must_be_probed);
        if turn > self.now {
            return Some(turn);
        }
        let namespace = demand.owner_namespace();
        if must_be_probed && let Err(again) = self.is_free(rank, namespace) {
            if rank == 0 {
                self.report_in_use(claim, &demand);
            }
            return again;
        }
        if is_new && !namespace.is_none_or(|namespace| self.pacing.may_create(self.address, namespace)) {
            return None;
        }
        self.make_holder(epoch.next(), &cause_of_take(last, epoch, &us), true);
        if is_new && self.vip.requests.busy.is_some() {
            self.pacing.begin_creating(self.address, self.now);
        }
        None
    }

    /// Returns true if no peer answers where the VIP would be, although one lives there.
    fn lacks_contact(&self, demand: &Demand) -> bool {
        let home = self.nodes.home(self.address, Some(demand));
        home.is_some_and(|home| self.nodes.lacks_contact(home, self.now))
    }

    /// Returns the time at which it is this node's turn, after these better candidates.
    fn turn(&mut self, better: &[&Candidate], is_new: bool, must_be_probed: bool) -> Monotonic {
        // A better candidate may have many VIPs to take. Its turn lasts while it takes them. It
        // probes a new VIP when its session has begun. A failover does not wait for that.
        let acted = |better: &&Candidate| {
            let member = self.nodes.member(&better.holder.node)?;
            let begun = must_be_probed.then_some(member.session_seen);
            begun.max(member.took)
        };
        let latest = better.iter().filter_map(acted).max();
        // While this node has new VIPs of its own to take, others have theirs.
        let own = self.nodes.member(&self.nodes.settings.node).and_then(|member| member.took);
        let own = own.filter(|_| is_new);
        let each = if is_new { RANK_DELAY } else { self.nodes.rank_delay() };
        let mut delay = each * u32::try_from(better.len()).unwrap_or(u32::MAX);
        if !better.is_empty() && must_be_probed {
            // The candidate before this one probes first.
            delay += self.nodes.settings.probing.unwrap_or_default();
        }
        let since = *self.vip.waiting.free.get_or_insert(self.now);
        let patient_until = (since.max(own.unwrap_or_default()) + MOST_PATIENT).min(since + LONGEST_PATIENCE);
        latest.map_or(since, |latest| latest.clamp(since, patient_until)) + delay
    }

    /// Reports the reasons why no node can hold the VIP, if this node is the reporter.
    fn report_unholdable(&mut self, claim: Option<&ClaimRecord>, demand: &Demand) -> Again {
        let since = *self.vip.waiting.unholdable.get_or_insert(self.now);
        if !self.nodes.is_reporter(self.address, self.now) {
            return Some(self.now + self.nodes.rest());
        }
        // A proxy follows the endpoints within a second or a few.
        let is_soon = self.nodes.awaits_proxy(self.address, demand, self.now);
        let from = since + if is_soon { AFTER * 5 } else { AFTER };
        if from > self.now {
            return Some(from);
        }
        let why = self.nodes.explain(self.address, demand, self.now);
        let is_known = says(claim, demand, &why);
        if is_known && self.now < since + RENEW {
            return Some(self.now + self.nodes.rest());
        }
        let services = demand.services.clone();
        self.command(Command::Notify(Notice::NoHolder { vip: self.address, services, why: why.clone() }));
        if is_known {
            self.vip.waiting.unholdable = Some(self.now);
            return Some(self.now + self.nodes.rest());
        }
        self.vip.waiting.unholdable = Some(self.now + REPEAT);
        self.write_unheld(claim, "no node can hold it", why);
        None
    }

    /// Writes a claim with the reason why no node holds the VIP.
    fn write_unheld(&mut self, claim: Option<&ClaimRecord>, cause: &str, trouble: String) {
        let write = ClaimWrite {
            vip: self.address,
            expected: self.vip.claim.expected(),
            epoch: claim.map(|claim| claim.epoch).unwrap_or_default(),
            state: ClaimState::Released,
            note: self.note(cause, Some(trouble)),
            can_wait: true,
        };
        self.send(Busy::Free, write);
    }

    /// Reports the MAC that uses the address, or that no host was heard yet. This node is the first
    /// candidate.
    pub(super) fn report_in_use(&mut self, claim: Option<&ClaimRecord>, demand: &Demand) {
        let (mac, whose) = match self.vip.asking.known {
            Address::InUse(mac) => (mac, vipward_vendors::of(mac).to_string()),
            Address::AtPeer(..) => match self.is_at_peer() {
                Some((mac, node)) => (mac, format!("another program of node {node}")),
                None => return,
            },
            Address::Unheard => {
                let us = &self.nodes.settings.node;
                let why = format!(
                    "no host was heard on {us}'s segment since its link came up, so silence does not show that {} is \
                     free; it is taken as soon as a host is heard, and within 35 s of the link in any case",
                    self.address
                );
                if !says(claim, demand, &why) {
                    let (vip, services) = (self.address, demand.services.clone());
                    self.command(Command::Notify(Notice::NoHolder { vip, services, why: why.clone() }));
                }
                return self.write_untaken(claim, demand, "no host was heard on its segment", why);
            }
            Address::Unknown | Address::Probing | Address::Free(_) => return,
        };
        let why = format!("{} is in use by {mac}, {whose}; it is taken when it is free", self.address);
        let cause = if self.vip.asking.late.is_some() { ANSWERED_LATE } else { "its address is in use" };
        self.write_untaken(claim, demand, cause, why);
    }

    fn write_untaken(&mut self, claim: Option<&ClaimRecord>, demand: &Demand, cause: &str, why: String) {
        if !says(claim, demand, &why) {
            self.write_unheld(claim, cause, why);
        }
    }
}
