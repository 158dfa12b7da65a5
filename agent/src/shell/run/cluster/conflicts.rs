//! What conflicts mean in a cluster: conditions and Events for people, and what the engine is told about addresses.
//!
//! The condition on a claim is brought to what this node knows when it is the one to show it: what could not be written is tried
//! again, and what an agent before this one has left there is over in its time.

use std::{net::Ipv4Addr, time::Duration};

use tracing::{info, warn};
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

/// Why something is to be shown of a conflict on a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Show {
    /// This node knows something new.
    News,
    /// The claim shows a conflict that this node has heard nothing of, for as long as a conflict lasts.
    Silence,
}

impl Cluster {
    /// Who holds a VIP, or is about to, tells people who else claims it; all others have it in their logs.
    pub(super) fn tell_conflict(&mut self, line: &Line, now: Monotonic) {
        let (conflict, reason) = match line {
            Line::Began { conflict, sight: _ } => (conflict, Some("Conflict")),
            Line::NewOffender { conflict, mac: _ } => (conflict, Some("ConflictGrows")),
            // More than are told apart may have come, and some be peers by now.
            Line::GoesOn { conflict, times: _ } => (conflict, None),
            Line::Ended { conflict, why } => return self.tell_end(conflict, *why, now),
            Line::TooMany { .. } => return,
        };
        let vip = Ipv4Addr::from(conflict.key.addr);
        if !self.is_ours_to_tell(conflict) {
            return;
        }
        let text = claimants(conflict);
        if let Some(reason) = reason {
            self.tell_about(vip, Kind::Warning, reason, &format!("{text}; {}", remedy(conflict, vip)), now);
        }
        if self.conflicted.insert(vip, text.clone()) != Some(text) {
            self.shown.begin(vip, Show::News, now);
        }
    }

    fn is_ours_to_tell(&self, conflict: &Conflict) -> bool {
        let vip = conflict.key.addr.into();
        match conflict.what {
            What::Held => self.engine.holds(vip),
            What::InUse => self.engine.asks_first(vip),
            What::Guarded => false,
        }
    }

    fn tell_end(&mut self, conflict: &Conflict, why: End, now: Monotonic) {
        let vip = Ipv4Addr::from(conflict.key.addr);
        // Of a VIP that has moved the new holder tells, and its claim has forgotten what this node heard.
        if self.conflicted.remove(&vip).is_none() {
            return;
        }
        let is_ours = self.is_ours_to_tell(conflict);
        if is_ours {
            self.shown.begin(vip, Show::News, now);
        }
        // Another candidate may have found the address free and taken it: who has told of the conflict tells that it is over. That
        // this node does not ask any more, for another reason, frees no address.
        let is_taken = || self.engine.claimed_by(vip).is_some_and(|holder| *holder != self.settings.node);
        let tells = match conflict.what {
            What::InUse => why != End::Forgotten || is_taken(),
            What::Held | What::Guarded => is_ours,
        };
        if !tells {
            return;
        }
        let lasted = conflict.last.saturating_since(conflict.begun).as_secs();
        let note = format!(
            "the conflict about {vip} is over: {} ({} claims in {lasted} s, {})",
            why.name(),
            conflict.claims,
            macs(conflict)
        );
        self.tell_about(vip, Kind::Normal, "ConflictOver", &note, now);
    }

    fn tell_about(&mut self, vip: Ipv4Addr, kind: Kind, reason: &'static str, note: &str, now: Monotonic) {
        let about = (vip, self.engine.services_of(vip));
        self.messages.conflict(&self.services, about, (kind, reason, note), now);
    }

    fn shows_conflicts_of(&self, vip: Ipv4Addr) -> bool {
        self.engine.holds(vip) || self.engine.asks_first(vip)
    }

    /// A claim has been written: what is known about a conflict is shown on it, unless the VIP is another's now.
    pub(super) fn show_conflict(&mut self, vip: Ipv4Addr, now: Monotonic) {
        if !self.shows_conflicts_of(vip) {
            self.conflicted.remove(&vip);
        }
        if self.conflicted.contains_key(&vip) {
            // Also when one is under way: there may have been no claim to show it on.
            self.shown.begin(vip, Show::News, now);
        }
    }

    /// A claim was seen. It may show a conflict that an agent before this one has told of.
    pub(super) fn on_claim_seen(&mut self, vip: Ipv4Addr, quiet: Duration, now: Monotonic) {
        if !self.conflicted.contains_key(&vip) && !self.kube.shows_conflict(vip, None) {
            self.shown.begin_if_idle(vip, Show::Silence, now + quiet);
        }
    }

    /// What became of showing a conflict on a claim.
    pub(super) fn on_conflict_shown(
        &mut self,
        vip: Ipv4Addr,
        outcome: Outcome<ClaimRecord>,
        now: Monotonic,
    ) -> Vec<ownership::Command> {
        let failures = self.shown.failures(&vip);
        // A claim that is created later shows it when it is.
        let is_over = matches!(outcome, Outcome::Done(_) | Outcome::Missing);
        self.shown.on_result(&vip, is_over, fastrand::f64(), now);
        let problem = match outcome {
            Outcome::Done(record) => {
                if failures > 0 {
                    info!(%vip, "the claim shows what is known of conflicts again");
                }
                return self.engine.on_event(ownership::Event::Claim(record), now);
            }
            Outcome::Missing => return Vec::new(),
            Outcome::Conflict => "the claim changes again and again".into(),
            Outcome::Unknown => "no answer".into(),
            Outcome::Refused(message) => message,
        };
        if failures == 0 {
            warn!(%vip, %problem, "the claim does not show yet what is known of conflicts; trying again");
        }
        Vec::new()
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
    /// Brings claims to what is known about conflicts.
    pub(super) fn show_conflicts_due(&mut self) -> Result<(), RunError> {
        let now = now()?;
        for (vip, show) in self.source.shown.due(now) {
            let text = self.source.conflicted.get(&vip).cloned().or_else(|| self.heard_of(vip));
            let source = &mut self.source;
            let is_ours = source.shows_conflicts_of(vip) || source.engine.reports_on(vip, now);
            if !is_ours || source.kube.shows_conflict(vip, text.as_deref()) {
                source.shown.settle(&vip, now);
                continue;
            }
            match &text {
                Some(text) => _ = source.conflicted.insert(vip, text.clone()),
                None if show == Show::Silence && source.shown.failures(&vip) == 0 => {
                    let quiet = humantime::format_duration(self.config.conflicts.quiet);
                    let note =
                        format!("the conflict about {vip} is over: nothing has been heard of it for {quiet}");
                    source.tell_about(vip, Kind::Normal, "ConflictOver", &note, now);
                }
                None => {}
            }
            source.requests.report_conflict(vip, text);
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
        let keys = self.plane.attached().map(|(ifindex, _)| VipKey::untagged(ifindex, vip.octets()));
        let asked: Vec<VipKey> = keys.filter(|key| self.prober.asks_about(key)).collect();
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
