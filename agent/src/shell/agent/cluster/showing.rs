//! Shows this node's findings on claims, for people, and tries again until it is shown.
//!
//! Each aspect of a claim is written on its own. It is not written
//! while the claim shows the right state.

use std::{collections::BTreeSet, net::IpAddr};

use tracing::{info, warn};
use vipward_core::{
    base::time::Monotonic,
    ownership::{self, Notice, Outcome},
    records::ClaimRecord,
    reports::shown::Finding,
};

use super::{
    aspect::{Aspect, Show},
    source::Cluster,
};
use crate::shell::{
    agent::{error::RunError, event_loop::EventLoop, timing::now},
    kube::HeldVip,
};

impl EventLoop<Cluster> {
    /// Starts the writes that are due.
    pub(super) fn show_due(&mut self) -> Result<(), RunError> {
        let now = now()?;
        for ((vip, aspect), show) in self.source.shown.due(now) {
            let finding = match aspect {
                Aspect::Conflict => self.conflict_to_show(vip, show, now),
                Aspect::Answers => self.answers_to_show(vip, now),
            };
            match finding {
                Some(finding) => self.source.requests.show(vip, finding),
                None => self.source.shown.settle(&(vip, aspect), now),
            }
        }
        Ok(())
    }

    /// Plans a write for each examined VIP whose claim shows another state of its answers.
    pub(super) fn show_answers(&mut self, looked_at: &BTreeSet<IpAddr>, now: Monotonic) {
        for vip in looked_at {
            if self.answers_to_show(*vip, now).is_some() {
                self.source.shown.begin_if_idle((*vip, Aspect::Answers), Show::News, now);
            }
        }
    }

    /// Returns what a claim should show about the answers. Returns `None` if it shows that already.
    fn answers_to_show(&self, vip: IpAddr, now: Monotonic) -> Option<Finding> {
        let (session, _) = self.source.engine.said_of(vip, now)?;
        let answers = &self.answers;
        let unanswered = answers.reason(vip);
        // The claim's text stays during the grace.
        let is_open = unanswered.is_none() && answers.is_silent(vip);
        if is_open || self.source.kube.shows_unanswered(vip, unanswered) {
            return None;
        }
        Some(Finding::Answers(session, unanswered.cloned()))
    }
}

impl Cluster {
    /// Shows in `MetalLB`'s objects that this node holds a VIP, or that it does not.
    pub(super) fn show_holder(&mut self, vip: IpAddr) {
        let Some(statuses) = &mut self.l2_statuses else { return };
        let home = self.assigned.get(&vip).and_then(|assigned| assigned.home.as_ref());
        let held = home.filter(|_| self.engine.holds(vip)).map(|home| HeldVip {
            services: self.services.index().having(vip).to_vec(),
            interface: home.to_string().into(),
            uid: self.kube.claim_uid(vip),
        });
        statuses.show(vip, held);
    }

    /// Removes what `MetalLB`'s objects say of a node that is dead and had a VIP before this one.
    pub(super) fn forget_holder(&self, notice: &Notice, now: Monotonic) {
        if let (Some(statuses), Notice::Holds { services, from: Some(from), .. }) =
            (&self.l2_statuses, notice)
            && !self.engine.alive(now).contains(from)
        {
            statuses.forget(services, from);
        }
    }

    /// Handles the outcome of a write that shows a finding on a claim.
    pub(super) fn on_shown(
        &mut self,
        vip: IpAddr,
        finding: &Finding,
        outcome: Outcome<ClaimRecord>,
        now: Monotonic,
    ) -> Vec<ownership::Command> {
        let aspect = Aspect::of(finding);
        let (key, about) = ((vip, aspect), aspect.name());
        let failures = self.shown.failures(&key);
        let is_shown = match finding {
            Finding::Conflict(conflict) => self.kube.shows_conflict(vip, conflict.as_deref()),
            Finding::Answers(_, unanswered) => self.kube.shows_unanswered(vip, unanswered.as_ref()),
        };
        let is_over = match &outcome {
            Outcome::Done(record) => is_shown || !finding.concerns(&record.state),
            // A claim that is created later shows it from the start.
            Outcome::Missing => true,
            Outcome::Conflict | Outcome::Unknown | Outcome::Refused(_) => false,
        };
        self.shown.on_result(&key, is_over, fastrand::f64(), now);
        let mut commands = Vec::new();
        let mut is_news = failures == 0;
        let problem = match outcome {
            Outcome::Done(record) => {
                commands = self.engine.on_event(ownership::Event::Claim(record), now);
                if is_over {
                    if failures > 0 {
                        info!(%vip, about, "the claim is up to date again");
                    }
                    return commands;
                }
                // A watch may have shown an older state meanwhile: one failure is no proof.
                is_news = failures == 1;
                // An API server drops fields that are missing in its definition of the type.
                "the API server did not store it; apply the definition of VirtualIP of this version".into()
            }
            Outcome::Missing => return commands,
            Outcome::Conflict => "the claim changes again and again".into(),
            Outcome::Unknown => "no answer".into(),
            Outcome::Refused(message) => message,
        };
        if is_news {
            warn!(%vip, about, %problem, "the claim is not up to date; trying again");
        }
        commands
    }
}
