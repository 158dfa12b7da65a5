//! Taking of VIPs without a holder when it is this node's turn,
//! and reports of VIPs that no node can hold.

use std::{net::Ipv4Addr, time::Duration};

use super::{
    ClaimWrite, Command, Demand, Engine, Notice, RANK_DELAY,
    address::Address,
    standing::Candidate,
    vip::{Again, Busy},
};
use crate::{
    cluster::{ClaimNote, ClaimRecord, ClaimState, Epoch},
    time::Monotonic,
};

/// Time after which a VIP that no node can hold is reported.
const AFTER: Duration = Duration::from_secs(1);
/// Shortest time between two such reports of one VIP.
const REPEAT: Duration = Duration::from_secs(10);
/// Longest time by which a candidate puts off its turn while a better one gets
/// other VIPs. The better one may never get to this VIP.
const MOST_PATIENT: Duration = Duration::from_secs(10);

/// Returns true if a claim already says that no node holds its VIP, with this reason.
fn is_told(claim: Option<&ClaimRecord>, demand: &Demand, trouble: &str) -> bool {
    claim.is_some_and(|claim| {
        claim.note.trouble.as_deref() == Some(trouble)
            && claim.note.services == demand.services
            && claim.state == ClaimState::Released
    })
}

impl Engine {
    /// Takes a VIP without a holder, if it is this node's turn.
    pub(super) fn take(
        &mut self,
        address: Ipv4Addr,
        claim: Option<&ClaimRecord>,
        from: Monotonic,
        now: Monotonic,
    ) -> Again {
        let demand = self.vips[&address].demand.clone()?;
        let epoch = claim.map(|claim| claim.epoch).unwrap_or_default();
        let candidates = self.candidates(address, &demand, now);
        if candidates.is_empty() {
            let vip = self.vip(address);
            vip.free = None;
            // Its owner may repair the claim until then. A report is a claim too.
            if vip.unclear.is_some() && from > now {
                return Some(from);
            }
            return self.tell_nobody(address, claim, &demand, now);
        }
        self.vip(address).nobody = None;
        if !self.may_begin() {
            return None;
        }
        if from > now {
            self.vip(address).free = None;
            return Some(from);
        }
        let us = self.settings.node.clone();
        let was_ours = claim.and_then(|claim| claim.state.holder()).filter(|holder| holder.node == us);
        // A VIP that had no holder yet cannot mislead neighbours. If the VIP was
        // held here, neighbours know it at this node's MAC.
        let is_known = |candidate: &Candidate| {
            epoch == Epoch(0)
                || candidate.known_at <= now
                || was_ours.is_some_and(|holder| holder.mac == candidate.holder.mac)
        };
        let ready: Vec<&Candidate> = candidates.iter().filter(|candidate| is_known(candidate)).collect();
        let Some(rank) = ready.iter().position(|candidate| candidate.holder.node == us) else {
            self.vip(address).free = None;
            return candidates.iter().map(|candidate| candidate.known_at).filter(|at| *at > now).min();
        };
        // A better candidate that has many VIPs to take is not
        // overtaken while it goes on taking them.
        let latest =
            ready[..rank].iter().filter_map(|better| self.members.get(&better.holder.node)?.took).max();
        let must_be_asked = was_ours.is_none() && self.must_be_asked(epoch, &demand);
        let mut delay = RANK_DELAY * u32::try_from(rank).unwrap_or(u32::MAX);
        if rank > 0 && must_be_asked {
            // The candidate before this one probes first.
            delay += self.settings.probing.unwrap_or_default();
        }
        let since = *self.vip(address).free.get_or_insert(now);
        let turn = latest.map_or(since, |latest| latest.clamp(since, since + MOST_PATIENT)) + delay;
        if turn > now {
            return Some(turn);
        }
        self.vip(address).asking.first = rank == 0;
        if must_be_asked && let Err(again) = self.is_free(address, now) {
            if rank == 0 {
                self.tell_in_use(address, claim, &demand);
            }
            return again;
        }
        let is_new = claim.is_none();
        if is_new && !self.pacing.has_room(address) {
            return None;
        }
        let cause = match claim.and_then(|claim| claim.state.holder()) {
            Some(holder) if holder.node != us => format!("{} is gone", holder.node),
            Some(_) => "its agent has started again".to_owned(),
            None if epoch == Epoch(0) => "it is new".to_owned(),
            None => "nobody held it".to_owned(),
        };
        self.make_ours(address, epoch.next(), &cause, true);
        if is_new && self.vips[&address].busy.is_some() {
            self.pacing.begin_creating(address);
        }
        None
    }

    /// Reports the reasons why no node can hold the VIP, if this node is the reporter.
    fn tell_nobody(
        &mut self,
        address: Ipv4Addr,
        claim: Option<&ClaimRecord>,
        demand: &Demand,
        now: Monotonic,
    ) -> Again {
        let since = *self.vip(address).nobody.get_or_insert(now);
        if !self.is_reporter(address, now) {
            return Some(now + self.rest());
        }
        if since + AFTER > now {
            return Some(since + AFTER);
        }
        let why = self.explain(address, demand, now);
        if is_told(claim, demand, &why) {
            return Some(now + self.rest());
        }
        self.command(Command::Notify(Notice::Nobody {
            vip: address,
            services: demand.services.clone(),
            why: why.clone(),
        }));
        self.vip(address).nobody = Some(now + REPEAT);
        self.tell_trouble(address, claim, demand, "no node can hold it", why);
        None
    }

    /// Writes a claim with the reason why no node holds the VIP.
    fn tell_trouble(
        &mut self,
        address: Ipv4Addr,
        claim: Option<&ClaimRecord>,
        demand: &Demand,
        cause: &str,
        trouble: String,
    ) {
        let note =
            ClaimNote { services: demand.services.clone(), cause: cause.to_owned(), trouble: Some(trouble) };
        let epoch = claim.map(|claim| claim.epoch).unwrap_or_default();
        let expected = self.vips[&address].expected();
        let state = ClaimState::Released;
        self.send(Busy::Free, ClaimWrite { vip: address, expected, epoch, state, note, can_wait: true });
    }

    /// Reports the MAC that uses the address. The caller is the first candidate.
    fn tell_in_use(&mut self, address: Ipv4Addr, claim: Option<&ClaimRecord>, demand: &Demand) {
        let Address::InUse(mac) = self.vips[&address].asking.known else { return };
        let why = format!(
            "{address} is in use by {mac}, {}; it is taken when it is free",
            vipward_vendors::of(mac)
        );
        if !is_told(claim, demand, &why) {
            self.tell_trouble(address, claim, demand, "its address is in use", why);
        }
    }
}
