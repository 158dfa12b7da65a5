//! Carries out the effects of the agent.

mod maps;
mod sending;

use std::{
    collections::{BTreeSet, VecDeque},
    net::IpAddr,
};

use tracing::{debug, error, warn};
use vipward_common::{DeadlineState, LeaseDeadline, MacAddr, Role, VipKey};
use vipward_core::{
    agent::{Effect, Input, Listened, Outcome},
    segment::{
        confirming::Answerer,
        frame::Frame,
        inquiry::Question,
        proving::{MOST_ASKED, targets},
    },
};

use self::sending::{SharedState, sender_of_probes};
use super::{
    error::{RunError, system},
    event_loop::{EventLoop, Outer},
    rounds::{OfOther, Report, Round},
    timing::now,
};
use crate::shell::{
    kernel::{
        bpf::{BpfError, Maps},
        clock,
        groups::{self, GroupsError},
        netlink::{Exchange, neighbours},
        packet::nonce,
        segment::SegmentError,
        telling::Asking,
    },
    logging::errors::chain,
};

impl EventLoop {
    /// Steps the agent, and carries out its effects. Their results come before other inputs.
    pub(super) async fn step(&mut self, input: Input) -> Result<(), RunError> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            // Only the agent changes the lease deadline and the entries. One reading is enough for all
            // announcements between two such changes.
            let mut shared_state = SharedState::default();
            for effect in self.agent.on(input, now()?) {
                let result = self.carry_out(effect, &mut shared_state).await?;
                inputs.extend(result);
            }
        }
        // Otherwise nothing but the heartbeat would go on.
        if self.agent.is_idle() { Ok(()) } else { Err(RunError::NoResult) }
    }

    /// Carries out an effect. Returns its result, if it has one now.
    async fn carry_out(
        &mut self,
        effect: Effect,
        shared_state: &mut SharedState,
    ) -> Result<Option<Input>, RunError> {
        if matches!(effect, Effect::Write(_) | Effect::SetDeadline(_)) {
            *shared_state = SharedState::default();
        }
        let mut outcome = None;
        match effect {
            Effect::Read(reading) => outcome = Some(Outcome::Read(in_words(self.read(reading).await))),
            Effect::Prepare { attach, slots, binds } => {
                outcome = Some(Outcome::Prepared(Box::new(self.prepare(&attach, &slots, binds).await)));
            }
            Effect::Write(actions) => outcome = Some(Outcome::Written(self.write(&actions).await)),
            Effect::ChangeGroup(change) => {
                outcome = Some(Outcome::Group(change, in_words(self.change_group(change))));
            }
            Effect::AttachAgain(segment) => {
                outcome = Some(Outcome::AttachedAgain(self.attach_again(segment)));
            }
            Effect::Announce { command, is_taken_back } => {
                outcome = self.announce(command, is_taken_back, shared_state);
            }
            Effect::Probe(key) => outcome = (!self.probe(key, None)).then_some(Outcome::NotSent(key)),
            Effect::AskHost { key, mac } => {
                outcome = (!self.ask_host(key, mac)).then_some(Outcome::NotSent(key));
            }
            Effect::TellApart { key, mac } => self.tell_apart(key, mac).await,
            Effect::Count => outcome = self.count(),
            Effect::Cluster(effect) => {
                let Some(cluster) = self.outer.cluster() else { return Ok(None) };
                return Ok(cluster.carry_out(effect, &mut self.plane)?.map(Input::Cluster));
            }
            Effect::SetDeadline(lease_deadline) => {
                self.plane.maps_mut().set_deadline(&lease_deadline)?;
                // Thousands of VIPs are written in one step.
                if let Some(service) = &mut self.service {
                    service.ping(now()?);
                }
            }
            Effect::ReadFile => {
                if let Outer::File(reading) = &mut self.outer {
                    reading.want(false);
                }
            }
            Effect::PutProof(ifindex, proof) => {
                let twin = self.agent.twin(ifindex);
                self.plane.maps_mut().put_findings(ifindex, proof, twin)?;
            }
            Effect::PutTwin(ifindex, twin) => {
                let proof = self.agent.proof(ifindex);
                self.plane.maps_mut().put_findings(ifindex, proof, twin)?;
            }
            Effect::PutFault(key, fault) => self.plane.maps_mut().put_fault(&key, fault)?,
            Effect::ShowPort(key) => _ = self.probe(key, None),
            Effect::ProbeHeld { key, is_taken_back } => self.probe_held(key, is_taken_back, shared_state),
            Effect::AskAs { segment, round, host, mac, vips, own } => {
                let sent = self.ask_as((segment, host, mac), vips, own, shared_state);
                outcome = Some(Outcome::Asked { segment, round, host, sent });
            }
            Effect::State { ifindex, to, holds } => self.state_holds((ifindex, to), holds, shared_state),
            Effect::Listen { segment, round, peers, questions } => {
                self.listen((segment, round), peers, questions).await?;
            }
            Effect::Problems(problems) => self.log.problems(problems),
            Effect::Log(line) => self.log.line(&line, &self.agent, &self.metrics, now()?),
            Effect::Withdraw => self.withdraw().await?,
            Effect::Stopped(reason) => self.stop(reason),
            Effect::NotAlone(session) => {
                return Err(RunError::NotAlone { node: self.agent.config().node.as_str().into(), session });
            }
        }
        Ok(outcome.map(Input::Result))
    }

    fn count(&self) -> Option<Outcome> {
        let counts = self.plane.maps().offenders();
        let failed = |error: &BpfError| warn!(error = chain(error), "failed to read the counts of claims");
        counts.inspect_err(failed).ok().map(Outcome::Counted)
    }

    fn change_group(
        &mut self,
        command: vipward_core::segment::groups::Command,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let kernel = match &mut self.groups {
            Some(kernel) => kernel,
            None => self.groups.insert(Exchange::open().map_err(GroupsError::Open)?),
        };
        let changed = groups::change(kernel, command);
        if changed.is_err() {
            self.groups = None;
        }
        Ok(changed?)
    }

    async fn listen(
        &mut self,
        (segment, number): (u32, u64),
        peers: Vec<IpAddr>,
        asked: Vec<Question>,
    ) -> Result<(), RunError> {
        let view = self.agent.view();
        let Some(interface) = view.interfaces.get(&segment) else { return Ok(()) };
        let maps = self.plane.maps();
        let role = |address| {
            let entry = maps.entry(&VipKey::new(segment, address));
            entry.ok().flatten().map(|entry| entry.role)
        };
        let is_held = |address| role(address).is_some_and(|role| role != Role::Foreign);
        let mut targets = targets(view, segment, peers, is_held);
        if targets.len() < MOST_ASKED {
            // A gateway may be away. Addresses that are VIPs are left out, since any host may answer
            // for them.
            for address in neighbours(segment).await.unwrap_or_default() {
                if targets.len() < MOST_ASKED && !targets.contains(&address) && role(address).is_none() {
                    targets.push(address);
                }
            }
        }
        for holder in asked.iter().map(|question| question.host) {
            if !targets.contains(&holder) {
                targets.push(holder);
            }
        }
        let is_vip = |address| role(address).is_some();
        let source = |address| interface.source_for(address, is_vip);
        // Without an address of its own, this host cannot ask by unicast.
        let of_others = asked.into_iter().filter_map(|Question { vip, mac, .. }| {
            let own = source(vip)?;
            let by_unicast = Frame::question_to(mac, interface.mac, own, vip)?;
            let questions = [Frame::question(interface.mac, Some(own), vip, nonce()), by_unicast];
            Some((vip, OfOther { mac, own, questions }))
        });
        let of_others = of_others.collect();
        let sources = targets.iter().map(|to| source(*to).unwrap_or(sender_of_probes(*to))).collect();
        let question = |address| Frame::question(interface.mac, source(address), address, nonce());
        let questions = targets.into_iter().map(question).collect();
        let round = Round {
            segment,
            number,
            interface: interface.name.clone(),
            own: interface.mac,
            news: self.inputs.news(),
            questions,
            sources,
            of_others,
            counted: maps.received(segment)?,
        };
        self.inputs.rounds.spawn(round.run());
        Ok(())
    }

    /// Begins to tell a host from a router.
    async fn tell_apart(&mut self, key: VipKey, mac: MacAddr) {
        let used = neighbours(key.ifindex).await.unwrap_or_default();
        let is_vip =
            |address| !matches!(self.plane.maps().entry(&VipKey::new(key.ifindex, address)), Ok(None));
        let asking = Asking::of(self.agent.view(), key, mac, &used, is_vip);
        let telling = async move {
            let answerer = match asking {
                Some(asking) => asking.run().await,
                None => Ok(Answerer::Proxy),
            };
            let failed =
                |error: &SegmentError| debug!(error = chain(error), "the host cannot be told from a router");
            // As if no request had been answered.
            (key, mac, answerer.inspect_err(failed).unwrap_or(Answerer::Proxy))
        };
        self.inputs.tellings.spawn(telling);
    }

    /// Removes everything. Ends the lease deadline first, so that no VIP is answered for even if a
    /// later step fails.
    async fn withdraw(&mut self) -> Result<(), RunError> {
        let over = LeaseDeadline { deadline_ns: 0, grace_until_ns: 0, ..self.plane.maps().lease_deadline()? };
        self.plane.maps_mut().set_deadline(&over)?;
        let mut first_failure = Ok(());
        for action in self.withdrawal().await? {
            if let Err(failure) = self.apply(&action).await {
                error!(%action, "the change is not undone");
                first_failure = first_failure.and(Err(failure));
            }
        }
        let left = groups::leave_all().await;
        first_failure.and(left.map(drop).map_err(Into::into))
    }

    pub(super) fn name(&self, ifindex: u32) -> String {
        self.agent.view().name_of(ifindex)
    }
}

/// Returns the result of a round of listening, with the requested VIPs for which the program answers
/// now.
pub(super) fn listened(maps: &Maps, report: &Report) -> Result<Listened, RunError> {
    let Report { segment, number: round, counted_before, frames, .. } = report;
    let (segment, round, frames) = (*segment, *round, *frames);
    let twin = report.own.twin();
    let counted = maps.received(segment)?.wrapping_sub(*counted_before);
    let now_ns = clock_ns()?;
    let mut answered = BTreeSet::new();
    if maps.lease_deadline_state(now_ns)? == DeadlineState::Valid {
        for vip in &report.requested {
            let entry = maps.entry(&VipKey::new(segment, *vip))?;
            let Some(entry) = entry.filter(|entry| entry.role == Role::Held) else { continue };
            if maps.state(entry.slot)?.yielded.yielded_to(entry.generation).is_none() {
                answered.insert(*vip);
            }
        }
    }
    let egress = report.egress.clone();
    debug!(segment, round, frames, counted, answered = answered.len(), "a round of listening has ended");
    let of_others = report.of_others.clone();
    Ok(Listened { segment, round, frames, counted, answered, egress, of_others, twin })
}

fn clock_ns() -> Result<u64, RunError> {
    clock::coarse_ns().map_err(std::io::Error::from).map_err(system("read the clock"))
}

/// Returns the text of an error and its causes.
pub(super) fn in_words<T, E>(result: Result<T, E>) -> Result<T, String>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    result.map_err(|error| chain(&*error.into()))
}
