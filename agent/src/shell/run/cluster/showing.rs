//! What is shown on claims for people to see: brought to what this node knows, and tried again
//! until it is so.
//!
//! Each aspect of a claim is written apart from the others, and not at all while the claim shows
//! what it should.

use std::{collections::BTreeSet, net::Ipv4Addr};

use tracing::{info, warn};
use vipward_core::{
    cluster::ClaimRecord,
    ownership::{self, Outcome},
    time::Monotonic,
};

use super::{Cluster, EventLoop, RunError, now};
use crate::shell::kube::Told;

/// What something shown on a claim is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Aspect {
    /// Who else claims the VIP.
    Conflict,
    /// Whether it is answered.
    Answers,
}

/// Why something is to be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Show {
    /// This node knows something new.
    News,
    /// The claim shows a conflict that this node has heard nothing of, for as long as a conflict
    /// lasts.
    Silence,
}

impl Aspect {
    const fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Answers => "answers",
        }
    }

    const fn of(told: &Told) -> Self {
        match told {
            Told::Conflict(_) => Self::Conflict,
            Told::Answers(..) => Self::Answers,
        }
    }
}

impl EventLoop<Cluster> {
    /// Writes what is due to be shown.
    pub(super) fn show_due(&mut self) -> Result<(), RunError> {
        let now = now()?;
        for ((vip, aspect), show) in self.source.shown.due(now) {
            let told = match aspect {
                Aspect::Conflict => self.conflict_to_show(vip, show, now),
                Aspect::Answers => self.answers_to_show(vip, now),
            };
            match told {
                Some(told) => self.source.requests.tell(vip, told),
                None => self.source.shown.settle(&(vip, aspect), now),
            }
        }
        Ok(())
    }

    /// Has the claims of VIPs that were looked at show whether they are answered.
    pub(super) fn show_answers(&mut self, looked_at: &BTreeSet<Ipv4Addr>, now: Monotonic) {
        for vip in looked_at {
            if self.answers_to_show(*vip, now).is_some() {
                self.source.shown.begin_if_idle((*vip, Aspect::Answers), Show::News, now);
            }
        }
    }

    /// Returns what a claim is to show about who answers, when it shows something else.
    fn answers_to_show(&self, vip: Ipv4Addr, now: Monotonic) -> Option<Told> {
        let (session, _) = self.source.engine.said_of(vip, now)?;
        let silences = &self.silent.silences;
        let unanswered = silences.told(vip);
        // Within the grace, what the claim shows stays.
        let is_open = unanswered.is_none() && silences.contains(vip);
        if is_open || self.source.kube.shows_unanswered(vip, unanswered) {
            return None;
        }
        Some(Told::Answers(session, unanswered.cloned()))
    }
}

impl Cluster {
    /// Takes note of what became of showing something on a claim.
    pub(super) fn on_told(
        &mut self,
        vip: Ipv4Addr,
        told: &Told,
        outcome: Outcome<ClaimRecord>,
        now: Monotonic,
    ) -> Vec<ownership::Command> {
        let aspect = Aspect::of(told);
        let (key, about) = ((vip, aspect), aspect.name());
        let failures = self.shown.failures(&key);
        let is_shown = match told {
            Told::Conflict(conflict) => self.kube.shows_conflict(vip, conflict.as_deref()),
            Told::Answers(_, unanswered) => self.kube.shows_unanswered(vip, unanswered.as_ref()),
        };
        let is_over = match &outcome {
            Outcome::Done(record) => is_shown || !told.concerns(record),
            // A claim that is created later shows it when it is.
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
                // A watch may have shown an older state since: once is no proof.
                is_news = failures == 1;
                // An API server drops the fields that its definition of the type does not have.
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
