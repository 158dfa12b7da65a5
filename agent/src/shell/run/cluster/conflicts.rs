//! Conflicts in a cluster: a condition on the VIP's claim object, and Events on its Services.
//!
//! The node that shows conflicts of a VIP keeps the condition up to date, as `showing` does. A
//! condition that an earlier agent left ends when the quiet time is over.

use std::{net::Ipv4Addr, time::Duration};

use vipward_common::MacAddr;
use vipward_core::{
    conflict::{Conflict, End, Line, What},
    outbox::Reason,
    shown::Finding,
    time::Monotonic,
};

use super::{
    Cluster, EventLoop,
    showing::{Aspect, Show},
};

impl Cluster {
    /// Reports a conflict, if this node holds the VIP or is about to. Other nodes only log it.
    pub(super) fn report_conflict(&mut self, line: &Line, now: Monotonic) {
        let (conflict, reason) = match line {
            Line::Began { conflict, sight: _ } => (conflict, Some(Reason::Conflict)),
            Line::NewOffender { conflict, mac: _ } => (conflict, Some(Reason::ConflictGrows)),
            // There may be more offenders than are listed, and some may be peers by now.
            Line::GoesOn { conflict, times: _ } => (conflict, None),
            Line::Ended { conflict, why } => return self.report_end(conflict, *why, now),
            Line::TooMany { .. } => return,
        };
        let vip = Ipv4Addr::from(conflict.key.addr);
        if !self.is_reporter(conflict) {
            return;
        }
        let text = claimants(conflict);
        if let Some(reason) = reason {
            self.write_event(vip, reason, &format!("{text}; {}", remedy(conflict, vip)), now);
        }
        if self.conflicted.insert(vip, text.clone()) != Some(text) {
            self.shown.begin((vip, Aspect::Conflict), Show::News, now);
        }
    }

    fn is_reporter(&self, conflict: &Conflict) -> bool {
        let vip = conflict.key.addr.into();
        match conflict.what {
            What::Held => self.engine.holds(vip),
            What::InUse => self.engine.asks_first(vip),
            What::Guarded | What::Sighted | What::Contested | What::Moved | What::Yielded => false,
        }
    }

    fn report_end(&mut self, conflict: &Conflict, why: End, now: Monotonic) {
        let vip = Ipv4Addr::from(conflict.key.addr);
        // After a move, the new holder reports, and the claim object no longer shows what this node
        // heard.
        if self.conflicted.remove(&vip).is_none() {
            return;
        }
        let is_reporter = self.is_reporter(conflict);
        if is_reporter {
            self.shown.begin((vip, Aspect::Conflict), Show::News, now);
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
        self.write_event(vip, Reason::ConflictOver, &note, now);
    }

    fn write_event(&mut self, vip: Ipv4Addr, reason: Reason, note: &str, now: Monotonic) {
        let about = (vip, self.engine.services_of(vip));
        self.messages.post(&self.services, about, (reason, note), now);
    }

    fn shows_conflicts_of(&self, vip: Ipv4Addr) -> bool {
        self.engine.holds(vip) || self.engine.asks_first(vip)
    }

    /// Shows a known conflict on a claim object that was just
    /// written, unless another node has the VIP now.
    pub(super) fn show_conflict(&mut self, vip: Ipv4Addr, now: Monotonic) {
        if !self.shows_conflicts_of(vip) {
            self.conflicted.remove(&vip);
        }
        if self.conflicted.contains_key(&vip) {
            // This holds also while a write is under way: that
            // write may have found no claim object.
            self.shown.begin((vip, Aspect::Conflict), Show::News, now);
        }
    }

    /// Handles a claim object that was read. It may show a conflict that an earlier agent reported.
    /// After an edit or a restore it may lack one that this node reported.
    pub(super) fn on_claim_seen(&mut self, vip: Ipv4Addr, quiet: Duration, now: Monotonic) {
        let known = self.conflicted.get(&vip).map(String::as_str);
        if self.kube.shows_conflict(vip, known) {
            return;
        }
        match known {
            Some(_) => self.shown.begin_if_idle((vip, Aspect::Conflict), Show::News, now),
            None => self.shown.begin_if_idle((vip, Aspect::Conflict), Show::Silence, now + quiet),
        }
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

/// Returns the offenders, in words.
fn claimants(conflict: &Conflict) -> String {
    if conflict.what == What::InUse {
        return format!("its address is in use by {}", macs(conflict));
    }
    let verb = if conflict.offenders.len() == 1 && !conflict.more { "claims" } else { "claim" };
    format!("{} {verb} it", macs(conflict))
}

/// Returns the operator's remedy.
fn remedy(conflict: &Conflict, vip: Ipv4Addr) -> String {
    if conflict.what == What::InUse {
        return format!(
            "{vip} is announced as soon as it is free. Take the address from that host, choose another one, or set the \
             annotation vipward.io/force to \"true\" to take it all the same"
        );
    }
    format!(
        "the claims are dropped and {vip} is defended. Find that host and take the address from it: `vipward who-has \
         {vip}` lists everyone who answers"
    )
}

impl EventLoop<Cluster> {
    /// Returns the condition that the claim object is to show, if this node shows conflicts of the
    /// VIP and the object shows another.
    pub(super) fn conflict_to_show(&mut self, vip: Ipv4Addr, show: Show, now: Monotonic) -> Option<Finding> {
        let text = self.source.conflicted.get(&vip).cloned().or_else(|| self.heard_of(vip));
        let source = &mut self.source;
        let shows = source.shows_conflicts_of(vip) || source.engine.reports_on(vip, now);
        if !shows || source.kube.shows_conflict(vip, text.as_deref()) {
            return None;
        }
        match &text {
            Some(text) => _ = source.conflicted.insert(vip, text.clone()),
            None if show == Show::Silence && source.shown.failures(&(vip, Aspect::Conflict)) == 0 => {
                let quiet = humantime::format_duration(self.config.conflicts.quiet);
                let note =
                    format!("the conflict about {vip} is over: nothing has been heard of it for {quiet}");
                source.write_event(vip, Reason::ConflictOver, &note, now);
            }
            None => {}
        }
        Some(Finding::Conflict(text))
    }

    /// Returns the open conflict about a VIP, in words. The node that reported it may be gone.
    fn heard_of(&self, vip: Ipv4Addr) -> Option<String> {
        let conflict = self.conflicts.about(&self.key_of(vip)?)?;
        self.source.is_reporter(conflict).then(|| claimants(conflict))
    }
}
