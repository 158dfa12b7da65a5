//! Requests on their way to the API server and back.

use std::{net::IpAddr, time::Duration};

use fastrand::Rng;
use vipward_core::{
    agent::{self, Input, cluster},
    ownership::{Event, Outcome},
    records::{LeaseRecord, ServiceName, Session},
    reports::outbox,
};

use super::{
    Happening, World,
    agent::NEW_CLAIMS,
    transit::{Flight, Reply, Request},
};
use crate::{
    api::{self, Api},
    machine::{At, Elected},
    schedule::names,
};

/// Returns the ordinary latency of one direction.
fn latency(noise: &mut Rng) -> Duration {
    Duration::from_micros(match noise.u8(0..100) {
        0..90 => noise.u64(300..6_000),
        90..99 => noise.u64(6_000..25_000),
        _ => noise.u64(25_000..70_000),
    })
}

impl World {
    /// Returns how long a process waits for a response.
    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.plan.timing.lease_ms.into()) * 3 / 8
    }

    pub(super) fn latency(&mut self, node: usize) -> Duration {
        self.latency_of(node, false)
    }

    /// Returns the latency of a request. Those that write Events have noise of their own.
    fn latency_of(&mut self, node: usize, is_event: bool) -> Duration {
        let slow = self.api.slow.iter().map(|(_, by)| *by).max();
        let noise = self.noise_of(node);
        let noise = if is_event { &mut noise.events } else { &mut noise.steps };
        let slowness = slow.map_or(0, |by| noise.u32(0..=by));
        latency(noise) + Duration::from_millis(slowness.into())
    }

    /// Returns whether a process reaches the API server now.
    pub(super) fn reaches_api(&self, node: usize) -> bool {
        !self.api.down.any() && !self.faults(node).cut_off.any()
    }

    pub(super) fn send(&mut self, node: usize, request: Request) {
        let life = self.life(node);
        let flight = self.transit.flights.len();
        let is_event = matches!(request, Request::Event(_));
        self.transit.flights.push(Flight {
            node,
            life,
            sent: self.now,
            request,
            answer: None,
            settled: false,
        });
        if self.reaches_api(node) {
            let delay = self.latency_of(node, is_event);
            self.after(delay, Happening::Arrive(flight));
        } else if self.api.refuses.any() || self.faults(node).refused.any() {
            let delay = self.latency_of(node, is_event);
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
            Request::Agents(agent::Request::WriteClaim(write)) => {
                self.api.claims.get(&write.vip).map(|claim| claim.state.clone())
            }
            Request::Agents(_)
            | Request::Ballot
            | Request::Vote(..)
            | Request::Reserve(..)
            | Request::Status(..)
            | Request::Event(_) => None,
        };
        let is_event = matches!(request, Request::Event(_));
        let answer = match request {
            Request::Agents(request) if self.is_denied(node, &request) => {
                self.record.facts.denied = true;
                Reply::Agents(self.api.deny(&request))
            }
            Request::Event(write) => Reply::Event(self.write_event(&write)),
            Request::Agents(request) => {
                let expired = self.expired(node, &request);
                let answer = self.api.carry_out(node, &request);
                self.record_lease(node, expired, &answer);
                Reply::Agents(answer)
            }
            Request::Ballot => Reply::Elected(Elected::Read(Outcome::Done(self.api.election.clone()))),
            Request::Vote(step, holder, asked) => {
                Reply::Elected(Elected::Written(self.vote(index, &step, holder, asked)))
            }
            Request::Reserve(write, known) => {
                let settled = self.settled_owner(write.vip);
                let reserved = self.api.reserve(&write, known.as_deref());
                if let Outcome::Done(_) = reserved.0 {
                    self.check_owner(settled, write.vip);
                    self.record.tenants.given = self.now;
                    self.record.tenants.written[names::vip_index(write.vip)] = Some((node, self.now));
                }
                self.stirred = true;
                Reply::Reserved(write, known, reserved)
            }
            Request::Status(service, addresses, unseen) => {
                let seen = addresses.iter().flatten().filter(|vip| !unseen.contains(vip)).copied();
                self.check_status_write(index, &service, &seen.collect::<Vec<_>>());
                self.stirred = true;
                let written = self.api.write_ingress(&service, addresses.as_deref());
                Reply::Status(service, written.map_or_else(Outcome::Refused, Outcome::Done))
            }
        };
        self.transit.flights[index].answer = Some(answer.clone());
        self.spread();
        let delay = self.latency_of(node, is_event);
        if !self.faults(node).no_answers.any() {
            self.after(delay, Happening::Answer(index));
        }
        if let Reply::Agents(cluster::Reply::Owned(Event::ClaimWritten {
            outcome: Outcome::Done(record),
            ..
        })) = answer
        {
            self.on_claim_stored(before.as_ref(), &record);
        }
    }

    fn write_event(&mut self, write: &outbox::Write) -> outbox::Outcome {
        let outcome = self.api.write_event(write, self.now.since(At::default()));
        if outcome == outbox::Outcome::Refused {
            self.record.events_lost = Some(self.now);
        }
        outcome
    }

    /// Returns whether an admission policy refuses a write of an agent. It may end another node's session.
    fn is_denied(&self, node: usize, request: &agent::Request) -> bool {
        let is_others =
            matches!(request, agent::Request::WriteLease(write) if write.node != names::node(node));
        let kind = Api::kind_of_write(request).filter(|_| !is_others);
        kind.is_some_and(|kind| self.faults(node).denied[kind as usize].any())
    }

    /// Checks a status that is about to be written. Two kinds of addresses are left out: those that the
    /// controller has begun to free since it sent the request, and those whose reservation another
    /// controller has written since.
    fn check_status_write(&mut self, index: usize, service: &ServiceName, addresses: &[IpAddr]) {
        let since = &self.transit.flights[index..];
        let frees = |vip: IpAddr| {
            since.iter().any(|flight| {
                matches!(&flight.request, Request::Reserve(write, _) if write.vip == vip && write.reservation.is_none())
            })
        };
        let overtakes = |vip: IpAddr| {
            let written = self.record.tenants.written[names::vip_index(vip)];
            written.is_some_and(|(by, at)| by != since[0].node && at >= since[0].sent)
        };
        let is_checked = |vip: &IpAddr| !frees(*vip) && !overtakes(*vip);
        let addresses: Vec<_> = addresses.iter().copied().filter(is_checked).collect();
        if since[0].life == self.life(since[0].node) {
            self.check_status(service, &addresses);
        }
    }

    /// Returns another node's Lease, and its session that this request ends.
    fn expired(&self, by: usize, request: &agent::Request) -> Option<(LeaseRecord, Session)> {
        let agent::Request::WriteLease(write) = request else { return None };
        let stored = self.api.leases.get(&write.node).filter(|lease| lease.session.is_some());
        let before = stored.or_else(|| self.api.deleted.get(&write.node));
        let before = before.filter(|_| write.node != names::node(by))?;
        let was_ended = |session: &Session| {
            let stored = self.api.leases.get(&write.node);
            stored.is_some_and(|lease| lease.ended.contains(session))
        };
        let is_ended = |session: &Session| write.ended.contains(session) && !was_ended(session);
        let session = before.session.filter(is_ended)?;
        Some((before.clone(), session))
    }

    /// Records the change of a Lease.
    fn record_lease(&mut self, by: usize, expired: Option<(LeaseRecord, Session)>, answer: &cluster::Reply) {
        let cluster::Reply::Owned(Event::LeaseWritten { node, outcome: Outcome::Done(_) }) = answer else {
            return;
        };
        let Some(index) = names::node_index(node) else { return };
        let since = std::mem::replace(&mut self.record.leases[index], self.now);
        // A sabotaged write is answered as done, and ends nothing.
        let ends =
            |session: &Session| self.api.leases.get(node).is_some_and(|lease| lease.ended.contains(session));
        if let Some((before, session)) = expired.filter(|(_, session)| ends(session)) {
            self.check_expiring(by, &before, session, since);
            self.forget_contact(index);
        }
        self.record_offer(index);
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
        let (node, life) = (flight.node, flight.life);
        let reply = match &flight.request {
            Request::Agents(request) => Reply::Agents(api::unknown(request)),
            Request::Ballot => Reply::Elected(Elected::Read(Outcome::Unknown)),
            Request::Vote(..) => Reply::Elected(Elected::Written(Outcome::Unknown)),
            Request::Reserve(write, known) => {
                Reply::Reserved(write.clone(), known.clone(), (Outcome::Unknown, None))
            }
            Request::Status(service, ..) => Reply::Status(service.clone(), Outcome::Unknown),
            Request::Event(_) => Reply::Event(outbox::Outcome::Unknown),
        };
        self.reply(node, life, reply);
    }

    /// Gives a process the outcome of a request.
    fn reply(&mut self, node: usize, life: u32, reply: Reply) {
        let reply = match reply {
            Reply::Agents(reply) => reply,
            Reply::Elected(elected) => return self.controller_is_answered(node, life, elected),
            Reply::Reserved(write, known, reserved) => {
                return self.leader_has_reserved((node, life), write, known.as_deref(), reserved);
            }
            Reply::Event(outcome) => return self.event_written(node, life, outcome),
            Reply::Status(service, outcome) => {
                return self.leader_has_written((node, life), service, outcome);
            }
        };
        let replies = cluster::Input::Replies { replies: vec![reply], new_claims: NEW_CLAIMS };
        self.incoming(node, life, Input::Cluster(replies));
    }
}
