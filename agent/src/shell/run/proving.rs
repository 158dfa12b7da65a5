//! Carries out the rounds that prove the program's sight: listens on segments, asks their hosts, and
//! records the findings.
//!
//! A round is a task with a socket of its own, which ends with it. The event loop reads the program's
//! count before and after.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use tokio::time::{Instant, timeout_at};
use tracing::{debug, error, info};
use vipward_common::{FenceState, MacAddr, Proof, Role, VipKey};
use vipward_core::{
    proving::{Asker, Command, Event, Heard, LISTEN, MOST_ASKED, Stack, targets},
    time::Monotonic,
};

use super::{EventLoop, RunError, now, source::Source};
use crate::shell::{
    causes::chain,
    clock,
    netlink::neighbours,
    segment::{Hearing, Segment, SegmentError},
};

/// The most frames that a round reads. More prove nothing more.
const MOST_FRAMES: u32 = 256;

/// The questions of a round.
#[derive(Debug)]
struct Round {
    segment: u32,
    number: u64,
    interface: String,
    asker: Asker,
    targets: Vec<Ipv4Addr>,
    /// The program's count at the beginning.
    counted: u64,
}

/// The result of a round.
#[derive(Debug)]
pub(super) struct Report {
    segment: u32,
    number: u64,
    counted_before: u64,
    frames: u32,
    /// Sender of the first frame.
    first: Option<(Ipv4Addr, MacAddr)>,
    /// Addresses for which requests were received.
    requested: BTreeSet<Ipv4Addr>,
}

impl<S: Source> EventLoop<S> {
    /// Passes the segments, with the links below them, to the core.
    pub(super) async fn observe_segments(&mut self) -> Result<(), RunError> {
        let modes: BTreeMap<_, _> = self.plane.attached().collect();
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
        let role = |address: Ipv4Addr| {
            let entry = maps.entry(&VipKey::new(segment, address.octets()));
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
        let round = Round {
            segment,
            number,
            interface: interface.name.clone(),
            asker: Asker::new(interface, |address| role(address).is_some()),
            targets,
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
    fn passed(&self, report: &Report) -> Result<Option<Ipv4Addr>, RunError> {
        let maps = self.plane.maps();
        let now_ns =
            clock::coarse_ns().map_err(std::io::Error::from).map_err(super::system("read the clock"))?;
        if !self.started || maps.fence()?.state(now_ns) != FenceState::Valid {
            return Ok(None);
        }
        for vip in report.requested.difference(&self.changed_entries) {
            let entry = maps.entry(&VipKey::new(report.segment, vip.octets()))?;
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
                from, "no ARP was heard: whether the program sees the interface's frames is unproven"
            ),
            Proof::Blind => error!(
                interface,
                from,
                received = heard.frames,
                "blind: the kernel receives ARP on the interface that the program does not see; no VIP is answered"
            ),
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

impl Round {
    async fn run(self) -> Report {
        let mut report = Report {
            segment: self.segment,
            number: self.number,
            counted_before: self.counted,
            frames: 0,
            first: None,
            requested: BTreeSet::new(),
        };
        if let Err(error) = self.listen(&mut report).await {
            debug!(interface = self.interface, error = chain(&error), "failed to listen");
        }
        report
    }

    async fn listen(&self, report: &mut Report) -> Result<(), SegmentError> {
        let began = Instant::now();
        let segment = Segment::open(self.segment, &self.interface, Hearing::Received)?;
        self.ask(&segment)?;
        report.take_until(&segment, began + LISTEN / 2).await?;
        if report.frames == 0 {
            self.ask(&segment)?;
        }
        report.take_until(&segment, began + LISTEN).await
    }

    fn ask(&self, segment: &Segment) -> Result<(), SegmentError> {
        self.targets.iter().try_for_each(|target| segment.send(&self.asker.request(*target)))
    }
}

impl Report {
    async fn take_until(&mut self, segment: &Segment, end: Instant) -> Result<(), SegmentError> {
        while self.frames < MOST_FRAMES {
            let Ok(frame) = timeout_at(end, segment.receive()).await else { return Ok(()) };
            let frame = frame?;
            self.frames += 1;
            self.first.get_or_insert((frame.spa().into(), frame.sha));
            // The program passes on what a VIP says about itself.
            if frame.is_ethernet_ipv4() && frame.is_request() && frame.spa() != frame.tpa() {
                self.requested.insert(frame.tpa().into());
            }
        }
        Ok(())
    }
}
