//! What conflicts mean in a cluster: conditions and Events for people, and what the engine is told about addresses.

use std::{net::Ipv4Addr, time::Duration};

use tracing::warn;
use vipward_common::{MacAddr, VipKey};

use super::{Cluster, Driver, RunError, now};
use crate::{
    core::{
        cluster::ClaimRecord,
        conflict::{Conflict, End, Line, What},
        ownership::{self, Outcome},
        probing,
        time::Monotonic,
        vendor,
    },
    shell::kube::Kind,
};

impl Cluster {
    /// Who holds a VIP, or is about to, tells people who else claims it; all others have it in their logs.
    pub(super) fn tell_conflict(&mut self, line: &Line) {
        let (conflict, kind, reason) = match line {
            Line::Began { conflict, sight: _ } => (conflict, Kind::Warning, "Conflict"),
            Line::NewOffender { conflict, mac: _ } => (conflict, Kind::Warning, "ConflictGrows"),
            Line::Ended { conflict, why } => return self.tell_end(conflict, *why),
            Line::GoesOn { .. } | Line::TooMany { .. } => return,
        };
        let vip = Ipv4Addr::from(conflict.key.addr);
        if !self.is_ours_to_tell(conflict) {
            return;
        }
        let text = claimants(conflict);
        self.tell_about(vip, kind, reason, &format!("{text}; {}", remedy(conflict, vip)));
        self.conflicted.insert(vip, text.clone());
        self.show(vip, Some(text));
    }

    fn is_ours_to_tell(&self, conflict: &Conflict) -> bool {
        let vip = conflict.key.addr.into();
        match conflict.what {
            What::Held => self.engine.holds(vip),
            What::InUse => self.engine.asks_first(vip),
            What::Guarded => false,
        }
    }

    fn tell_end(&mut self, conflict: &Conflict, why: End) {
        let vip = Ipv4Addr::from(conflict.key.addr);
        // Of a VIP that has moved the new holder tells, and its claim has forgotten what this node heard.
        if self.conflicted.remove(&vip).is_none() {
            return;
        }
        if self.is_ours_to_tell(conflict) {
            self.show(vip, None);
        } else if conflict.what != What::InUse {
            return;
        }
        // Another candidate may have found the address free and taken it: who has told of the conflict tells that it is over.
        let lasted = conflict.last.saturating_since(conflict.begun).as_secs();
        let note = format!(
            "the conflict about {vip} is over: {} ({} claims in {lasted} s, {})",
            why.name(),
            conflict.claims,
            macs(conflict)
        );
        self.tell_about(vip, Kind::Normal, "ConflictOver", &note);
    }

    fn tell_about(&self, vip: Ipv4Addr, kind: Kind, reason: &'static str, note: &str) {
        self.messages.about_vip(&self.services, vip, self.engine.services_of(vip), kind, reason, note);
    }

    fn show(&mut self, vip: Ipv4Addr, conflict: Option<String>) {
        self.shown.begin(vip, conflict.clone());
        self.requests.report_conflict(vip, conflict);
    }

    fn shows_conflicts_of(&self, vip: Ipv4Addr) -> bool {
        self.engine.holds(vip) || self.engine.asks_first(vip)
    }

    /// A claim has been written: what is known about a conflict is shown on it, unless the VIP is another's now.
    pub(super) fn show_conflict(&mut self, vip: Ipv4Addr) {
        if !self.shows_conflicts_of(vip) {
            self.conflicted.remove(&vip);
            self.shown.leave(&vip);
        }
        if let Some(text) = self.conflicted.get(&vip)
            && !self.kube.shows_conflict(vip, text)
        {
            self.show(vip, Some(text.clone()));
        }
    }

    /// A claim was seen. It may show a conflict that an agent before this one has told of: whoever has the VIP says that it is
    /// over, when it has not heard of it for as long as a conflict lasts.
    pub(super) fn on_claim_seen(&mut self, vip: Ipv4Addr, quiet: Duration, now: Monotonic) {
        if self.conflicted.contains_key(&vip) {
            return;
        }
        if self.kube.shows_any_conflict(vip) {
            self.shown.begin_later(vip, None, now + quiet);
        }
    }

    /// What became of showing a conflict on a claim.
    pub(super) fn on_conflict_shown(
        &mut self,
        vip: Ipv4Addr,
        outcome: Outcome<ClaimRecord>,
        now: Monotonic,
    ) -> Vec<ownership::Command> {
        // A claim that is created later shows it when it is.
        let is_over = matches!(outcome, Outcome::Done(_) | Outcome::Missing);
        self.shown.on_result(&vip, is_over, fastrand::f64(), now);
        match outcome {
            Outcome::Done(record) => self.engine.on_event(ownership::Event::Claim(record), now),
            Outcome::Missing => Vec::new(),
            failed @ (Outcome::Conflict | Outcome::Unknown | Outcome::Refused(_)) => {
                warn!(%vip, outcome = ?failed, "a conflict is not shown on the claim yet; trying again");
                Vec::new()
            }
        }
    }
}

fn named(mac: MacAddr) -> String {
    format!("{mac} ({})", vendor::of(mac))
}

fn macs(conflict: &Conflict) -> String {
    let named: Vec<String> = conflict.offenders.iter().map(|offender| named(offender.mac)).collect();
    let more = if conflict.more { " and more" } else { "" };
    named.join(", ") + more
}

/// Who claims it, in words.
fn claimants(conflict: &Conflict) -> String {
    let verb = if conflict.offenders.len() == 1 && !conflict.more { "claims" } else { "claim" };
    match conflict.what {
        What::Held | What::Guarded => format!("{} {verb} it", macs(conflict)),
        What::InUse => format!("its address is in use by {}", macs(conflict)),
    }
}

/// What an operator can do about it.
fn remedy(conflict: &Conflict, vip: Ipv4Addr) -> String {
    match conflict.what {
        What::Held | What::Guarded => format!(
            "the claims are dropped and {vip} is defended. Find that host and take the address from it: `vipward who-has \
             {vip}` lists everyone who answers"
        ),
        What::InUse => format!(
            "{vip} is announced as soon as it is free. Take the address from that host, choose another one, or set the \
             annotation vipward.io/force to \"true\" to take it all the same"
        ),
    }
}

impl Driver<Cluster> {
    /// Shows conflicts that could not be shown before, and that those of an agent before this one are over.
    pub(super) fn show_conflicts_due(&mut self) -> Result<(), RunError> {
        let now = now()?;
        for (vip, conflict) in self.source.shown.due(now) {
            if !self.source.shows_conflicts_of(vip) {
                self.source.shown.on_result(&vip, true, 0.0, now);
                continue;
            }
            let conflict = conflict.or_else(|| self.heard_of(vip));
            if let Some(text) = &conflict {
                self.source.conflicted.insert(vip, text.clone());
            }
            self.source.requests.report_conflict(vip, conflict);
        }
        Ok(())
    }

    /// The conflict that goes on about a VIP, in words. Another node may have told of it, which is gone.
    fn heard_of(&self, vip: Ipv4Addr) -> Option<String> {
        let conflict = self.conflicts.about(&self.key_of(vip)?)?;
        self.source.is_ours_to_tell(conflict).then(|| claimants(conflict))
    }

    /// Where a VIP is probed for: our interface on its segment.
    fn key_of(&self, vip: Ipv4Addr) -> Option<VipKey> {
        let home = self.source.assigned.get(&vip)?.home.as_ref()?.literal()?;
        let interface = self.view.by_name(home)?;
        Some(VipKey::untagged(interface.index, vip.octets()))
    }

    pub(super) fn begin_probing(&mut self, vip: Ipv4Addr) -> Result<(), RunError> {
        let Some(key) = self.key_of(vip) else { return Ok(()) };
        self.tell_prober(probing::Event::Wanted(key))
    }

    pub(super) fn stop_probing(&mut self, vip: Ipv4Addr) -> Result<(), RunError> {
        let asked: Vec<VipKey> = self.prober.all_asked().filter(|key| key.addr == vip.octets()).collect();
        for key in asked {
            self.ask_no_more(key)?;
        }
        Ok(())
    }

    /// Tells the engine what probes have found out.
    pub(super) async fn tell_probed(&mut self) -> Result<(), RunError> {
        while !self.source.probed.is_empty() {
            let now = now()?;
            let mut commands = Vec::new();
            for (vip, probed) in std::mem::take(&mut self.source.probed) {
                commands.extend(self.source.engine.on_event(ownership::Event::Probed { vip, probed }, now));
            }
            self.execute(commands).await?;
        }
        Ok(())
    }
}
