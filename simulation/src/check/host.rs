//! Checks H: no host loses an address that it had before a node held the VIP.

use std::time::Duration;

use vipward_core::records::{NodeName, Session};

use crate::{
    machine::{Host, Node},
    schedule::names,
    world::World,
};

/// The longest time until an agent that runs has made its host audible.
const NOTICES: Duration = Duration::from_secs(1);
/// The time from a host's late answer until the node that had taken its address is silent.
const GIVES_BACK: Duration = Duration::from_millis(500);
/// The time for which the result of a probe is good, and for the write that follows.
const RESULT_LASTS: Duration = Duration::from_secs(14);

impl World {
    /// Records that a node holds a VIP, or could take it.
    pub(super) fn record_occupancy(&mut self, vip: usize) {
        let segment = self.segment_of(vip);
        let claim = self.api.claims.get(&names::vip(vip));
        let lives = claim.is_some_and(|claim| {
            let named = claim.state.sessions();
            named.iter().any(|(node, session)| {
                self.api.leases.get(node).is_some_and(|lease| lease.session == Some(*session))
            })
        });
        let may_be_taken = self.is_wanted(vip) && (0..self.nodes.len()).any(|node| self.may_hold(node, vip));
        let is_answered = self.nodes.iter().any(|node| node.answer(vip, segment, self.now).is_some());
        if self.is_listed(vip) {
            self.record.people.listed[vip] = self.now;
        }
        let stands =
            |lie: &(NodeName, Session)| claim.is_some_and(|claim| claim.state.sessions().contains(lie));
        let is_over = self.record.people.lied[vip].as_ref().is_some_and(|lie| !stands(lie));
        if is_over && !self.has_died_a_liar(vip) {
            self.record.people.lied[vip] = None;
        }
        if lives || may_be_taken || is_answered {
            self.record.people.occupied[vip] = self.now;
        }
    }

    /// Returns true if the session of a node ended whose token lied about a VIP: others saw the node
    /// hold it, and take it over.
    fn has_died_a_liar(&self, vip: usize) -> bool {
        let lives = |node: &NodeName, session: Session| {
            self.api.leases.get(node).is_some_and(|lease| lease.session == Some(session))
        };
        self.record.people.lied[vip].as_ref().is_some_and(|(node, session)| !lives(node, *session))
    }

    /// Returns whether a host's frames reach all nodes of its segment. A host that is a node must have no
    /// entry for the VIP, since the entry keeps its kernel from answering.
    fn is_reachable_by_all(&self, vip: usize, host: Host) -> bool {
        let segment = self.segment_of(vip);
        let is_linked = |it: &Node| !it.links[segment].no_carrier.any();
        let is_there = host.node.is_none_or(|node| {
            let it = &self.nodes[node];
            it.kernel_runs() && it.program.entry(names::key(vip, segment)).is_none()
        });
        is_there && self.network.segments[segment].is_clean() && self.nodes.iter().all(is_linked)
    }

    /// Checks that a host that has the address of a VIP keeps it.
    pub(super) fn check_host(&mut self, vip: usize) {
        let is_judged = |host: &Host| !host.is_void && !host.is_cached;
        let Some(mut host) = self.network.hosts[vip].filter(is_judged) else { return };
        if self.has_died_a_liar(vip) {
            return;
        }
        if !self.is_reachable_by_all(vip, host) {
            host.away = self.now;
        }
        let segment = self.segment_of(vip);
        let answering =
            (0..self.nodes.len()).find(|node| self.nodes[*node].answer(vip, segment, self.now).is_some());
        host.is_void = answering.is_some() && self.now.since(host.away) < RESULT_LASTS;
        let (robbed, last) = host.robbed;
        host.robbed =
            (robbed + last.map_or(Duration::ZERO, |last| self.now.since(last)), answering.map(|_| self.now));
        // The next agent, and a node that takes over, do not know that the hold was provisional.
        let was_killed = |node: usize| {
            let process = self.nodes[node].process.as_ref();
            process.is_none_or(|process| self.now.since(process.began) <= host.robbed.0)
        };
        let first = answering.map(|node| *host.robbed_by.get_or_insert(node));
        let is_over = answering.is_some_and(was_killed) || first != answering;
        host.is_void |= !host.late.is_zero() && is_over;
        self.network.hosts[vip] = Some(host);
        if host.is_void {
            return;
        }
        // A node gives the address back to a host that answers late, and the others know by then.
        let is_given_back = !host.late.is_zero() && host.robbed.0 <= host.late + GIVES_BACK;
        if let Some(node) = answering.filter(|_| !is_given_back) {
            let what = format!("{} answers for {}, which a host has", names::node(node), names::vip(vip));
            self.violate("H", what);
        }
        let Some(node) = host.node else { return };
        let it = &self.nodes[node];
        let begun = it.process.as_ref().filter(|process| process.cluster().is_known());
        let is_able = it.agent_runs() && !it.refuses_entries() && it.times.refused_until < self.now;
        let Some(process) = begun.filter(|_| is_able) else { return };
        let Some(fit_since) = it.times.fit else { return };
        // A node that was cut off may have missed that the VIP was let go of.
        if process.began < host.since && host.since < fit_since {
            return;
        }
        let since = host.since.max(it.times.runs).max(process.began).max(fit_since);
        if it.program.entry(names::key(vip, segment)).is_some() && self.now.since(since) > NOTICES {
            let what = format!("{} silences its own {}", names::node(node), names::vip(vip));
            self.violate("H", what);
        }
    }
}
