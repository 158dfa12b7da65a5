//! Writes this node's findings into claim objects, for users, and retries until they are there.
//!
//! Each aspect of a claim is written on its own. It is not written while the claim shows the right state.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use super::{Cluster, findings::Show};
use crate::{
    agent::{
        answers::Answers,
        effect::{Effect, Line, Request},
        segment::Segment,
    },
    base::time::Monotonic,
    host::net::NetView,
    ownership::{Event, Outcome},
    records::ClaimRecord,
    reports::{
        claim_findings::{Aspect, Finding},
        outbox::Reason,
    },
};

impl Cluster {
    /// Begins the writes that are due. A conflict is over after `quiet` without
    /// a claim.
    pub(in crate::agent) fn show_due(
        &mut self,
        (segment, view, answers): (&Segment, &NetView, &Answers),
        quiet: Duration,
        now: Monotonic,
    ) {
        for ((vip, aspect), show) in self.showing.writes.due(now) {
            let finding = match aspect {
                Aspect::Conflict => self.conflict_to_show(vip, show, (segment, view), quiet, now),
                Aspect::Answers => self.answers_to_show(vip, answers, now),
            };
            match finding {
                Some(finding) => self.ask(Request::Show(vip, finding)),
                None => self.showing.writes.settle(&(vip, aspect), now),
            }
        }
    }

    /// Plans a write for each examined VIP whose claim shows another state of its answers.
    pub(in crate::agent) fn show_answers(
        &mut self,
        examined: &BTreeSet<IpAddr>,
        answers: &Answers,
        now: Monotonic,
    ) {
        for vip in examined {
            if self.answers_to_show(*vip, answers, now).is_some() {
                self.showing.writes.begin_if_idle((*vip, Aspect::Answers), Show::News, now);
            }
        }
    }

    /// Returns what a claim should show about the answers. Returns `None` if it shows that already.
    fn answers_to_show(&self, vip: IpAddr, answers: &Answers, now: Monotonic) -> Option<Finding> {
        let (session, _) = self.engine.holder_claim(vip, now)?;
        let unanswered = answers.reason(vip);
        // The claim's text stays during the grace.
        let is_open = unanswered.is_none() && answers.is_silent(vip);
        let finding = Finding::Answers(session, unanswered.cloned());
        (!is_open && !finding.is_shown_by(self.engine.claim(vip))).then_some(finding)
    }

    /// Handles the outcome of a write that shows a finding on a claim.
    pub(super) fn on_shown(
        &mut self,
        vip: IpAddr,
        finding: &Finding,
        outcome: Outcome<ClaimRecord>,
        jitter: f64,
        now: Monotonic,
    ) {
        let aspect = Aspect::of(finding);
        let key = (vip, aspect);
        let failures = self.showing.writes.failures(&key);
        let is_over = match &outcome {
            Outcome::Done(record) => finding.is_shown_by(Some(record)) || !finding.concerns(&record.state),
            // A claim that is created later shows it from the start.
            Outcome::Missing => true,
            Outcome::Conflict | Outcome::Unknown | Outcome::Refused(_) => false,
        };
        self.showing.writes.on_result(&key, is_over, jitter, now);
        let problem = match outcome {
            Outcome::Done(record) => {
                self.decide(Event::Claim(record), now);
                if is_over {
                    if failures > 0 {
                        self.effects.push(Effect::Log(Line::Shown(vip, aspect)));
                    }
                    return;
                }
                // An API server drops fields that are missing in its definition of the type.
                "the API server did not store it; apply the definition of VirtualIP of this version".into()
            }
            Outcome::Missing => return,
            Outcome::Conflict => "the claim changes again and again".into(),
            Outcome::Unknown => "no answer".into(),
            Outcome::Refused(message) => message.to_string(),
        };
        if failures == 0 {
            self.effects.push(Effect::Log(Line::NotShown(vip, aspect, problem)));
        }
    }

    /// Ends a conflict that a claim shows and that has been over for `quiet`.
    pub(super) fn end_unheard(&mut self, vip: IpAddr, quiet: Duration) {
        let quiet = humantime::format_duration(quiet);
        let note = format!("the conflict about {vip} is over: no frame was received of it for {quiet}");
        self.write_event(vip, Reason::ConflictOver, &note);
    }
}
