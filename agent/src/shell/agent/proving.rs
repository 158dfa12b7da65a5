//! Carries out the rounds that prove the program's sight: listens on segments, asks their hosts, and
//! records the findings.
//!
//! The event loop reads the program's count before and after a round.

use std::{collections::BTreeMap, net::IpAddr};

use tracing::{debug, error, info, warn};
use vipward_common::{FenceState, Proof, Role, VipKey};
use vipward_core::{
    base::time::Monotonic,
    segment::{
        frame::Frame,
        proving::{Command, Event, Heard, MOST_ASKED, Stack, targets},
    },
};

use super::{
    attaching::attach_again,
    error::{RunError, system},
    event_loop::EventLoop,
    rounds::{Report, Round},
    source::Source,
    timing::now,
};
use crate::shell::{
    kernel::{clock, netlink::neighbours, packet::nonce},
    logging::causes::chain,
};

impl<S: Source> EventLoop<S> {
    /// Passes the segments, with the links below them, to the core.
    pub(super) async fn observe_segments(&mut self) -> Result<(), RunError> {
        let modes: BTreeMap<_, _> = self.plane.attachments().attached().collect();
        let stack = |segment: &u32| {
            Some((*segment, Stack::of(&self.view, *segment, |index| modes.get(&index).copied())?))
        };
        let stacks = self.segments.iter().filter_map(stack).collect();
        self.tell_proving(Event::Observed(stacks)).await
    }

    /// Passes an event to the core, and carries out the commands.
    pub(super) async fn tell_proving(&mut self, event: Event) -> Result<(), RunError> {
        for command in self.proving.on_event(event, now()?) {
            match command {
                Command::Listen { segment, round } => self.listen(segment, round).await?,
                Command::Found { segment, from, to, heard } => self.note_found(segment, from, to, heard)?,
            }
        }
        Ok(())
    }

    /// Begins a round.
    async fn listen(&mut self, segment: u32, number: u64) -> Result<(), RunError> {
        // A round that cannot begin counts as ended when its time is over.
        let Some(interface) = self.view.interfaces.get(&segment) else { return Ok(()) };
        let maps = self.plane.maps();
        let role = |address: IpAddr| {
            let entry = maps.entry(&VipKey::new(segment, address));
            entry.ok().flatten().map(|entry| entry.role)
        };
        let is_held = |address| role(address).is_some_and(|role| role != Role::Foreign);
        let mut targets = targets(&self.view, segment, self.source.peer_addresses(), is_held);
        if targets.len() < MOST_ASKED {
            // A gateway may be away. Any host may answer for a VIP, so none is asked about one.
            for address in neighbours(segment).await.unwrap_or_default() {
                if targets.len() < MOST_ASKED && !targets.contains(&address) && role(address).is_none() {
                    targets.push(address);
                }
            }
        }
        let is_vip = |address| role(address).is_some();
        let question =
            |address| Frame::question(interface.mac, interface.source_for(address, is_vip), address, nonce());
        let questions = targets.into_iter().map(question).collect();
        let round = Round {
            segment,
            number,
            interface: interface.name.clone(),
            questions,
            counted: maps.heard(segment)?,
        };
        if self.inputs.rounds.is_empty() {
            self.changed_entries.clear();
        }
        self.inputs.rounds.spawn(round.run());
        Ok(())
    }

    /// Ends a round.
    pub(super) async fn on_round(&mut self, report: &Report) -> Result<(), RunError> {
        let Report { segment, number, counted_before, frames, first, .. } = *report;
        let counted = self.plane.maps().heard(segment)?.wrapping_sub(counted_before);
        let heard = Heard { frames, counted, passed: self.passed(report)? };
        debug!(interface = %self.name(segment), number, ?heard, ?first, "listened");
        self.tell_proving(Event::Heard { segment, round: number, heard }).await
    }

    /// Returns a VIP that was requested, and that the program answered for all the time.
    fn passed(&self, report: &Report) -> Result<Option<IpAddr>, RunError> {
        let maps = self.plane.maps();
        let now_ns = clock::coarse_ns().map_err(std::io::Error::from).map_err(system("read the clock"))?;
        if !self.segment.is_started() || maps.fence_state(now_ns)? != FenceState::Valid {
            return Ok(None);
        }
        for vip in report.requested.difference(&self.changed_entries) {
            let entry = maps.entry(&VipKey::new(report.segment, *vip))?;
            let Some(entry) = entry.filter(|entry| entry.role == Role::Held) else { continue };
            if maps.state(entry.slot)?.yielded.yielded_to(entry.generation).is_none() {
                return Ok(Some(*vip));
            }
        }
        Ok(None)
    }

    fn note_found(&mut self, segment: u32, from: Proof, to: Proof, heard: Heard) -> Result<(), RunError> {
        self.plane.maps_mut().put_proof(segment, to)?;
        let (interface, from, counted) = (self.name(segment), from.name(), heard.counted);
        match to {
            Proof::Proven => info!(interface, from, counted, "the program sees the interface's frames"),
            Proof::Unproven => info!(
                interface,
                from,
                "neither ARP nor Neighbour Discovery was heard: whether the program sees the interface's \
                 frames is unproven"
            ),
            Proof::Blind => {
                error!(
                    interface,
                    from,
                    received = heard.frames,
                    "blind: the kernel receives frames on the interface that the program does not see; no \
                     VIP is answered"
                );
                let attach = self.config.attach;
                if let Err(error) = attach_again(&mut self.plane, &mut self.view, attach, segment) {
                    warn!(
                        interface,
                        error = chain(&error),
                        "the program could not be attached again; trying soon"
                    );
                    self.try_again_soon();
                }
            }
            Proof::Bypassed => error!(
                interface,
                from,
                counted,
                vip = heard.passed.map(|vip| vip.to_string()),
                "blind: a request for a VIP got past the program to the kernel"
            ),
        }
        Ok(())
    }

    /// Ends the rounds whose time is over, and begins those that are due.
    pub(super) async fn tick_proving(&mut self, now: Monotonic) -> Result<(), RunError> {
        if self.proving.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.tell_proving(Event::Tick).await?;
        }
        Ok(())
    }
}
