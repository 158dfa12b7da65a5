//! Takes what was read from the API server, and the outcomes of requests.

use std::{collections::BTreeSet, net::IpAddr};

use super::{
    Cluster, Stage,
    input::{Input, Reply, Seen},
};
use crate::{
    agent::effect::{Effect, Line},
    base::time::Monotonic,
    ownership::{self, Event, Outcome},
    services,
};

impl Cluster {
    /// Takes an input. A conflict is over after `quiet` without a claim. Returns VIPs
    /// whose answers must be examined.
    pub(in crate::agent) fn on(
        &mut self,
        input: Input,
        quiet: std::time::Duration,
        now: Monotonic,
    ) -> BTreeSet<IpAddr> {
        let mut examine = BTreeSet::new();
        match input {
            Input::Seen(all) => {
                for seen in all {
                    match seen {
                        Seen::Object(owned, served) => {
                            examine.extend(self.on_object(owned, served, quiet, now));
                        }
                        Seen::Listed { slices, all } => self.on_listed(slices, all, now),
                    }
                }
            }
            Input::Replies { replies, new_claims } => {
                self.engine.set_most_new(new_claims);
                for reply in replies {
                    examine.extend(self.on_reply(reply, now));
                }
            }
            Input::Proxy(answers) => {
                for (target, answer) in answers {
                    self.delivery.on_answer(target, answer, now);
                }
                self.deliver(now);
            }
            Input::Crowded(is_crowded) => self.is_crowded = is_crowded,
            Input::Owned(events) => {
                for event in events {
                    if let Event::Stop(reason) = &event {
                        self.stopping = Some(*reason);
                    }
                    self.decide(event, now);
                }
            }
        }
        examine
    }

    fn on_object(
        &mut self,
        owned: Option<Event>,
        served: Option<services::Event>,
        quiet: std::time::Duration,
        now: Monotonic,
    ) -> Option<IpAddr> {
        let mut examine = None;
        match &owned {
            Some(Event::Lease(record)) => {
                self.inherit(record, now);
                self.moves.on_lease(record, now);
            }
            Some(Event::LeaseGone(node)) => self.moves.on_lease_gone(node),
            Some(Event::Claim(record)) => {
                examine = Some(record.vip);
                self.on_claim_seen(record, quiet, now);
            }
            Some(Event::ClaimGone(vip)) => examine = Some(*vip),
            _ => {}
        }
        if let Some(event) = owned {
            self.decide(event, now);
        }
        if let Some(event) = served {
            self.notify_services(event, now);
        }
        examine
    }

    /// Handles that a type was listed. The engine starts when all have been listed once.
    fn on_listed(&mut self, slices: bool, all: bool, now: Monotonic) {
        if slices {
            self.awaits_slices = false;
            self.notify_services(services::Event::SlicesListed, now);
        }
        // The caller may not have begun to read the slices yet.
        let is_first = all && !self.awaits_slices && self.stage == Stage::Reading;
        if is_first {
            self.stage = Stage::Synced;
        }
        if self.stage >= Stage::Synced {
            self.notify_services(services::Event::Synced, now);
        }
        if is_first {
            self.effects.push(Effect::Log(Line::Synced));
            self.delivery.begin();
            self.deliver(now);
            self.decide(Event::Synced, now);
        }
    }

    fn on_reply(&mut self, reply: Reply, now: Monotonic) -> Option<IpAddr> {
        match reply {
            Reply::Owned(event) => {
                if let Some(news) = self.news.refusals.on_answer(&event, now) {
                    self.effects.push(Effect::Log(Line::Refused(news)));
                }
                let is_written = matches!(&event, Event::ClaimWritten { outcome: Outcome::Done(_), .. });
                let vip = match &event {
                    Event::ClaimWritten { vip, .. }
                    | Event::ClaimDeleted { vip, .. }
                    | Event::ClaimRead { vip, .. } => Some(*vip),
                    _ => None,
                };
                // This is the Lease of a node that this one has expired.
                if let Event::LeaseWritten { outcome: Outcome::Done(lease), .. } = &event {
                    self.moves.on_lease(lease, now);
                }
                self.decide(event, now);
                if let Some(vip) = vip.filter(|_| is_written) {
                    self.show_conflict(vip, now);
                }
                vip
            }
            Reply::Shown { vip, finding, outcome, jitter } => {
                self.on_shown(vip, &finding, outcome, jitter, now);
                Some(vip)
            }
            Reply::Status { service, outcome, jitter } => {
                self.on_status_answered(&service, &outcome, jitter, now);
                None
            }
        }
    }

    /// Handles an event of the program.
    pub(in crate::agent) fn on_wire(&mut self, vip: IpAddr, received: ownership::Wire, now: Monotonic) {
        self.decide(Event::Wire { vip, received }, now);
    }
}
