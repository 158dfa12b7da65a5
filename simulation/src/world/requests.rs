//! Requests on their way to the API server and back.

use std::time::Duration;

use fastrand::Rng;
use vipward_core::{
    agent::{
        Input, Request,
        cluster::{self, Reply},
    },
    ownership::{Event, Outcome},
    records::{LeaseRecord, Session},
};

use super::{Happening, World, agent::NEW_CLAIMS, transit::Flight};
use crate::{api, schedule::names};

/// Returns the ordinary latency of one direction.
fn latency(noise: &mut Rng) -> Duration {
    Duration::from_micros(match noise.u8(0..100) {
        0..90 => noise.u64(300..6_000),
        90..99 => noise.u64(6_000..25_000),
        _ => noise.u64(25_000..70_000),
    })
}

impl World {
    /// Returns how long the agent waits for a response.
    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.plan.timing.lease_ms.into()) * 3 / 8
    }

    pub(super) fn latency(&mut self, node: usize) -> Duration {
        let slow = self.api.slow.iter().map(|(_, by)| *by).max();
        let noise = &mut self.nodes[node].rng.steps;
        let slowness = slow.map_or(0, |by| noise.u32(0..=by));
        latency(noise) + Duration::from_millis(slowness.into())
    }

    /// Returns whether a node reaches the API server now.
    pub(super) fn reaches_api(&self, node: usize) -> bool {
        !self.api.down.any() && !self.nodes[node].faults.cut_off.any()
    }

    pub(super) fn send(&mut self, node: usize, request: Request) {
        let life = self.nodes[node].life;
        let flight = self.transit.flights.len();
        self.transit.flights.push(Flight { node, life, request, answer: None, settled: false });
        if self.reaches_api(node) {
            let delay = self.latency(node);
            self.after(delay, Happening::Arrive(flight));
        } else if self.api.refuses.any() || self.nodes[node].faults.refused.any() {
            let delay = self.latency(node);
            self.after(delay, Happening::Timeout(flight));
        }
        let timeout = self.request_timeout();
        self.after(timeout, Happening::Timeout(flight));
    }

    pub(super) fn arrive(&mut self, index: usize) {
        let node = self.transit.flights[index].node;
        if !self.reaches_api(node) {
            return;
        }
        let request = self.transit.flights[index].request.clone();
        let before = match &request {
            Request::WriteClaim(write) => self.api.claims.get(&write.vip).map(|claim| claim.state.clone()),
            Request::WriteLease(_)
            | Request::ReadLease(_)
            | Request::DeleteClaim(..)
            | Request::ReadClaim(_)
            | Request::Show(..)
            | Request::WriteStatus { .. } => None,
        };
        let deposed = self.deposed(node, &request);
        let answer = self.api.carry_out(node, &request);
        self.note_lease(node, deposed, &answer);
        self.transit.flights[index].answer = Some(answer.clone());
        self.spread();
        let delay = self.latency(node);
        if !self.nodes[node].faults.no_answers.any() {
            self.after(delay, Happening::Answer(index));
        }
        if let Reply::Owned(Event::ClaimWritten { outcome: Outcome::Done(record), .. }) = answer {
            self.on_claim_stored(before.as_ref(), &record);
        }
    }

    /// Returns another node's Lease, and its session that this request ends.
    fn deposed(&self, by: usize, request: &Request) -> Option<(LeaseRecord, Session)> {
        let Request::WriteLease(write) = request else { return None };
        let before = self.api.leases.get(&write.node).filter(|_| write.node != names::node(by))?;
        let session = before.session.filter(|session| write.ended.contains(session))?;
        Some((before.clone(), session))
    }

    /// Notes the change of a Lease.
    fn note_lease(&mut self, by: usize, deposed: Option<(LeaseRecord, Session)>, answer: &Reply) {
        let Reply::Owned(Event::LeaseWritten { node, outcome: Outcome::Done(_) }) = answer else { return };
        let Some(index) = names::node_index(node) else { return };
        let since = std::mem::replace(&mut self.record.leases[index], self.now);
        // A sabotaged write is answered as done, and ends nothing.
        let ends =
            |session: &Session| self.api.leases.get(node).is_some_and(|lease| lease.ended.contains(session));
        if let Some((before, session)) = deposed.filter(|(_, session)| ends(session)) {
            self.check_deposing(by, &before, session, since);
            self.forget_contact(index);
        }
        self.note_offer(index);
    }

    pub(super) fn answered(&mut self, index: usize) {
        let flight = &mut self.transit.flights[index];
        let (node, life) = (flight.node, flight.life);
        let answer = flight.answer.take();
        if flight.settled || !self.reaches_api(node) {
            return;
        }
        self.transit.flights[index].settled = true;
        if let Some(reply) = answer {
            self.reply(node, life, reply);
        }
    }

    pub(super) fn timed_out(&mut self, index: usize) {
        let flight = &mut self.transit.flights[index];
        if flight.settled {
            return;
        }
        flight.settled = true;
        let (node, life, reply) = (flight.node, flight.life, api::unknown(&flight.request));
        self.reply(node, life, reply);
    }

    /// Gives an agent the outcome of a request.
    fn reply(&mut self, node: usize, life: u32, reply: Reply) {
        let replies = cluster::Input::Replies { replies: vec![reply], new_claims: NEW_CLAIMS };
        self.incoming(node, life, Input::Cluster(replies));
    }
}
