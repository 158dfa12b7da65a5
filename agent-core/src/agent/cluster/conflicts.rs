//! Conflicts in a cluster: a condition on the VIP's claim object, and Events on its Services.
//!
//! The node that shows conflicts of a VIP keeps the condition up to date, as `writing_findings` does. A
//! condition that an earlier agent left ends when the quiet time is over.

use std::{net::IpAddr, time::Duration};

use vipward_common::{MacAddr, VipKey};

use super::{Cluster, findings::Show};
use crate::{
    agent::segment::Segment,
    base::time::Monotonic,
    host::net::NetView,
    records::{ClaimRecord, NodeName, object_name},
    reports::{
        claim_findings::{Aspect, Finding},
        outbox::Reason,
        reporting::RENEW,
    },
    segment::{
        confirming::Answerer,
        conflict::{Conflict, End, Line, What},
    },
    services::Problem,
};

/// The VIPs about which a node reports another sender with its MAC.
const MOST_TWIN_EVENTS: usize = 8;
/// Largest number of nodes that an Event lists.
const MOST_NODES: usize = 3;

impl Cluster {
    /// Reports a conflict, if this node holds the VIP or is about to. Other nodes only log it. A node that
    /// becomes the one to report it does so with the next line.
    pub(in crate::agent) fn report_conflict(&mut self, line: &Line, view: &NetView, now: Monotonic) {
        let (conflict, changed) = match line {
            Line::Began { conflict, sight: _ } | Line::Named { conflict, mac: _ } => {
                (conflict, Some(Reason::Conflict))
            }
            Line::NewOffender { conflict, mac: _ } => (conflict, Some(Reason::ConflictGrows)),
            // There may be more offenders than are listed, and some may be peers by now.
            Line::GoesOn { conflict, times: _ } => (conflict, None),
            Line::Doubled { conflict } if conflict.doubled => (conflict, Some(Reason::Conflict)),
            Line::Doubled { conflict } => return self.report_end(conflict, End::Quiet, now),
            Line::Ended { conflict, why } => return self.report_end(conflict, *why, now),
            Line::TooMany { .. } => return,
        };
        let vip = conflict.key.addr;
        if !self.is_reporter(conflict) {
            return;
        }
        let text = claimants(conflict, view.vlan_of(conflict.key.ifindex));
        let before = self.showing.conflicted.get(&vip);
        let is_shown = before.is_some_and(|(shown, _)| *shown == text);
        let posted = before.map(|(_, at)| *at).filter(|at| now < *at + RENEW);
        let reason = if posted.is_some() { changed } else { Some(Reason::Conflict) };
        let posted = posted.filter(|_| reason.is_none()).unwrap_or(now);
        self.showing.conflicted.insert(vip, (text.clone(), posted));
        if let Some(reason) = reason {
            let remedy = remedy(conflict, vip, &self.engine.without_agent());
            self.write_event(vip, reason, &format!("{text}; {remedy}"));
        }
        if !is_shown {
            self.showing.writes.begin((vip, Aspect::Conflict), Show::News, now);
        }
    }

    fn is_reporter(&self, conflict: &Conflict) -> bool {
        let vip = conflict.key.addr;
        match conflict.what {
            What::Held | What::Contested => self.engine.holds(vip),
            What::InUse => self.engine.asks_first(vip),
            What::Guarded | What::Sighted | What::Moved | What::Yielded => false,
        }
    }

    fn report_end(&mut self, conflict: &Conflict, why: End, now: Monotonic) {
        let vip = conflict.key.addr;
        // After a move, the new holder reports. The claim object no longer shows what this node
        // received.
        if self.showing.conflicted.remove(&vip).is_none() {
            return;
        }
        let is_reporter = self.is_reporter(conflict);
        if is_reporter {
            self.showing.writes.begin((vip, Aspect::Conflict), Show::News, now);
        }
        // Another candidate may have found the address free and taken it. Then the node that
        // reported the conflict reports its end. A node that stops probing for another reason frees
        // no address.
        let is_taken = || self.engine.claimed_by(vip).is_some_and(|holder| *holder != self.settings.node);
        let reports =
            if conflict.what == What::InUse { why != End::Forgotten || is_taken() } else { is_reporter };
        if !reports {
            return;
        }
        let lasted = conflict.last.saturating_since(conflict.begun).as_secs();
        let note = format!(
            "the conflict about {vip} is over: {} ({} claims in {lasted} s, {})",
            why.name(),
            conflict.claims,
            macs(conflict)
        );
        self.write_event(vip, Reason::ConflictOver, &note);
    }

    /// Notifies the engine that a VIP was taken back that had been announced with a peer's MAC.
    /// Reports it.
    pub(in crate::agent) fn report_taken_back(&mut self, vip: IpAddr, mac: MacAddr) {
        self.engine.on_taken_back(vip);
        let node = &self.settings.node;
        let note = format!(
            "{node} has taken {vip} back: it was announced with the MAC {mac} of a peer, and no peer \
             answers for it. If no node was cut off from the others, a host on the segment announces in \
             its name"
        );
        self.write_event(vip, Reason::TakenBack, &note);
    }

    /// Reports that the segment has another sender with this node's MAC, on a few of the VIPs that this
    /// node holds there.
    pub(in crate::agent) fn report_twin(&mut self, words: &str, segment: u32, view: &NetView) {
        let is_there = |vip: &IpAddr| {
            self.engine.holds(*vip) && self.home_of(*vip).is_some_and(|home| home == view.name_of(segment))
        };
        let vips: Vec<IpAddr> = self.engine.claimed_here().filter(is_there).take(MOST_TWIN_EVENTS).collect();
        for vip in vips {
            self.write_event(vip, Reason::Conflict, words);
        }
    }

    /// Plans to show a conflict that Leases, Nodes or routes show, or its end.
    pub(super) fn on_dispute(&mut self, problem: &Problem, now: Monotonic) {
        if let Problem::Disputed { vip, .. } = problem {
            self.showing.writes.begin((*vip, Aspect::Conflict), Show::News, now);
        }
    }

    /// Returns the text of a VIP's conflict: the frames that were `received`, and what the
    /// cluster's objects state about the holder.
    fn conflict_in_words(&self, vip: IpAddr, received: Option<&str>) -> Option<String> {
        let found = self.engine.holds(vip).then(|| self.services.index().conflict_about(vip)).flatten();
        match (received, found) {
            (Some(received), Some(found)) => Some(format!("{received}; {found}")),
            (received, found) => received.map(ToOwned::to_owned).or(found),
        }
    }

    fn known_conflict(&self, vip: IpAddr) -> Option<String> {
        self.conflict_in_words(vip, self.showing.conflicted.get(&vip).map(|(text, _)| text.as_str()))
    }

    fn shows_conflicts_of(&self, vip: IpAddr) -> bool {
        self.engine.holds(vip) || self.engine.asks_first(vip)
    }

    /// Shows a known conflict on a claim object that was just
    /// written, unless another node has the VIP now.
    pub(super) fn show_conflict(&mut self, vip: IpAddr, now: Monotonic) {
        if !self.shows_conflicts_of(vip) {
            self.showing.conflicted.remove(&vip);
        }
        if self.known_conflict(vip).is_some() {
            // This holds also while a write is under way: that
            // write may have found no claim object.
            self.showing.writes.begin((vip, Aspect::Conflict), Show::News, now);
        }
    }

    /// Handles a claim object that was read. It may show a conflict that an earlier agent reported.
    /// After an edit or a restore it may lack one that this node reported.
    pub(super) fn on_claim_seen(&mut self, claim: &ClaimRecord, quiet: Duration, now: Monotonic) {
        let vip = claim.vip;
        let known = self.known_conflict(vip);
        let (show, due) = if known.is_some() { (Show::News, now) } else { (Show::Silence, now + quiet) };
        if !Finding::Conflict(known).is_shown_by(Some(claim)) {
            self.showing.writes.begin_if_idle((vip, Aspect::Conflict), show, due);
        }
    }

    /// Returns the condition that the claim object is to show, if this node shows conflicts of the
    /// VIP and the object shows another.
    pub(super) fn conflict_to_show(
        &mut self,
        vip: IpAddr,
        show: Show,
        (segment, view): (&Segment, &NetView),
        quiet: Duration,
        now: Monotonic,
    ) -> Option<Finding> {
        let reported = self.showing.conflicted.get(&vip).map(|(text, _)| text.clone());
        let received = reported.or_else(|| self.received_of(vip, segment, view));
        let text = self.conflict_in_words(vip, received.as_deref());
        let shows = self.shows_conflicts_of(vip) || self.engine.reports_on(vip, now);
        let finding = Finding::Conflict(text);
        if !shows || finding.is_shown_by(self.engine.claim(vip)) {
            return None;
        }
        let is_first = self.showing.writes.failures(&(vip, Aspect::Conflict)) == 0;
        if received.is_none() && finding == Finding::Conflict(None) && show == Show::Silence && is_first {
            self.end_unheard(vip, quiet);
        }
        Some(finding)
    }

    /// Returns the text of a VIP's open conflict. The node that reported it may be gone.
    fn received_of(&self, vip: IpAddr, segment: &Segment, view: &NetView) -> Option<String> {
        let interface = view.by_name(self.home_of(vip)?)?;
        let conflict = segment.conflict_about(&VipKey::new(interface.index, vip))?;
        self.is_reporter(conflict).then(|| claimants(conflict, view.vlan_of(conflict.key.ifindex)))
    }
}

/// Returns the sort of the only offender, if it is known and no plain host.
fn answerer(conflict: &Conflict) -> Option<Answerer> {
    match &conflict.offenders[..] {
        [one] => one.answerer.filter(|answerer| *answerer != Answerer::Host),
        _ => None,
    }
}

fn named(mac: MacAddr) -> String {
    format!("{mac} ({})", vipward_vendors::of(mac))
}

fn macs(conflict: &Conflict) -> String {
    let named: Vec<String> = conflict.offenders.iter().map(|offender| named(offender.mac)).collect();
    let more = if conflict.more { " and more" } else { "" };
    named.join(", ") + more
}

/// Returns the text that names the offenders.
fn claimants(conflict: &Conflict, vlan: Option<u16>) -> String {
    let place = vlan.map_or_else(String::new, |vlan| format!(" in VLAN {vlan}"));
    if conflict.what == What::InUse {
        let says = answerer(conflict).map_or_else(String::new, |it| format!(": {}", it.says()));
        return format!("its address is in use by {}{place}{says}", macs(conflict));
    }
    if conflict.what == What::Contested {
        return format!("doubled: {} answers for it too{place}", macs(conflict));
    }
    let verb = if conflict.offenders.len() == 1 && !conflict.more { "claims" } else { "claim" };
    format!("{} {verb} it{place}", macs(conflict))
}

fn remedy(conflict: &Conflict, vip: IpAddr, without_agent: &[&NodeName]) -> String {
    let ipvs = kube_proxy(without_agent);
    if conflict.what == What::InUse {
        let does = answerer(conflict).map_or("give that host another address", Answerer::remedy);
        return format!(
            "{vip} is announced as soon as it is free: {does}, choose another one, or have it taken all the same \
             (kubectl annotate virtualip {} vipward.io/force=true){ipvs}",
            object_name(vip)
        );
    }
    if conflict.what == What::Contested {
        return format!(
            "its claim decides: see whether the node with that MAC runs an agent that reaches the API server. \
             `vipward who-has {vip}` lists everyone who answers"
        );
    }
    format!(
        "the claims are dropped and {vip} is defended. Find that host, and give it or the Service another address: \
         `vipward who-has {vip}` lists everyone who answers{ipvs}"
    )
}

/// Returns a possible cause: kube-proxy on a node without an agent.
fn kube_proxy(without_agent: &[&NodeName]) -> String {
    let (named, more) = without_agent.split_at(without_agent.len().min(MOST_NODES));
    if named.is_empty() {
        return String::new();
    }
    let mut nodes = named.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if !more.is_empty() {
        nodes.push_str(" and more");
    }
    format!(
        ". Perhaps it is a node without an agent ({nodes}): kube-proxy in IPVS mode answers there for \
         every VIP, unless its ipvs.strictARP is true; set that, or run the agent there"
    )
}
