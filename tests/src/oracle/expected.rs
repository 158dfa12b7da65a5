//! The expected result of each frame, with the changes of earlier ones.

use std::collections::BTreeMap;

use super::{
    arp,
    frame::{Vlan, protocol, read, without_tags},
    kernel::Action,
    nd,
    question::Question,
    table::{self, Ask, By, Cell, Effect, EventName, Flip, Form, Met, Row, Unread, Unverified, expect},
    world::{Addr, Defence, Entry, LeaseDeadline, Mac, Protocol, Role, World},
};

/// Expected result of one frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Cells that the frame met: at most one of each table.
    pub cells: Vec<Met>,
    /// The allowed results. A defence that a limit may refuse is not certain.
    pub results: Vec<Outcome>,
}

pub type Counter = (Protocol, &'static str);

/// Result of one frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Return code.
    pub action: Action,
    /// Frame afterwards.
    pub bytes: Vec<u8>,
    /// Counters that increased, with the differences.
    pub counters: Vec<(Counter, u64)>,
}

/// Event that must be sent, or counted as suppressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notified {
    pub name: EventName,
    pub vip: Addr,
    pub slot: u32,
    /// The frame's oper, or the type of its message.
    pub oper: u16,
    pub sender: Mac,
    /// The frame's Ethernet source.
    pub source: Mac,
    /// The entry's MAC before.
    pub holder: Mac,
}

/// Expected record of a MAC that claims a VIP, or probes for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offence {
    pub claims: u64,
    /// Kind of the last.
    pub name: EventName,
    /// The last frame's oper, or the type of its message.
    pub oper: u16,
    /// The last frame's Ethernet source.
    pub source: Mac,
}

/// Expected counters of one VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Requests answered.
    pub answered: u64,
    /// Conflicts dropped.
    pub conflicts: u64,
    /// Requests dropped.
    pub suppressed: u64,
}

/// Oracle. It remembers the changes of earlier frames.
pub struct Oracle<'w> {
    pub(super) world: &'w World,
    pub(super) flip: Option<(Met, Flip)>,
    /// Yield records by slot, each with the generation that it ends.
    pub records: BTreeMap<u32, (Mac, u16)>,
    /// Number of entries that have yielded.
    pub yields: u64,
    /// Events, in order.
    pub notified: Vec<Notified>,
    /// Offenders, by VIP and MAC.
    pub offences: BTreeMap<(Addr, Mac), Offence>,
    /// Counters of single VIPs, by slot.
    pub tallies: BTreeMap<u32, Tally>,
    /// Number of frames of both protocols in the segment.
    pub received: u64,
    /// Numbers of claims to be defended, by slot and claimant.
    pub(super) claims: BTreeMap<(u32, Mac), u64>,
}

/// A frame without tags, while its cells are found.
pub(super) struct Seen<'f> {
    pub(super) protocol: Protocol,
    pub(super) frame: &'f [u8],
    /// None for a frame of neither protocol, or that is not read.
    pub(super) question: Option<Question>,
    pub(super) cells: Vec<Cell>,
    /// The VIP that the frame counts for.
    pub(super) about: Option<(Addr, Entry)>,
}

impl<'f> Seen<'f> {
    fn new(protocol: Protocol, frame: &'f [u8], cell: Option<Cell>) -> Self {
        Self { protocol, frame, question: None, cells: cell.into_iter().collect(), about: None }
    }

    /// Returns the cell that decides.
    fn last(&self) -> Cell {
        *self.cells.last().expect("invariant: every frame meets a cell")
    }
}

impl<'w> Oracle<'w> {
    /// Makes an oracle for `world`, with at most one cell flipped.
    pub fn new(world: &'w World, flip: Option<(Met, Flip)>) -> Self {
        let entries = world.entries.values().chain(world.elsewhere.iter().map(|(.., entry)| entry));
        let records = entries.filter_map(|entry| entry.record.map(|record| (entry.slot, record))).collect();
        Self {
            world,
            flip,
            records,
            yields: world.yields,
            notified: Vec::new(),
            offences: BTreeMap::new(),
            tallies: BTreeMap::new(),
            received: 0,
            claims: BTreeMap::new(),
        }
    }

    /// Returns the expected result of the next frame.
    pub fn step(&mut self, frame: &[u8]) -> Step {
        let (vlan, bare, tags) = match without_tags(frame) {
            Ok(parts) => parts,
            Err(cell) => return self.end(Seen::new(Protocol::Arp, frame, Some(cell))),
        };
        let seen = self.see(&vlan, &bare);
        let mut step = self.end(seen);
        for result in &mut step.results {
            result.bytes.splice(12..12, tags.iter().copied());
        }
        step
    }

    /// Returns the cells that a frame of a segment meets in the first two tables.
    fn see<'f>(&mut self, vlan: &Vlan, frame: &'f [u8]) -> Seen<'f> {
        // The interface itself has no VIP while they are in a VLAN.
        let is_here = *vlan == self.world.vlan;
        let entries = Some(&self.world.entries).filter(|_| is_here);
        let vip = |addr: &Addr| entries.and_then(|entries| entries.get(addr)).map(|entry| (*addr, *entry));
        let names = |frame: &[u8]| nd::names(frame, |addr| vip(addr).is_some());
        let Some(protocol) = protocol(frame) else {
            let is_known = vlan.is_empty() || is_here;
            return if is_known && nd::may_be_hidden(frame) && names(frame) {
                Seen::new(Protocol::Nd, frame, Some(Cell::Unverified(Unverified::Hidden)))
            } else {
                Seen::new(Protocol::Arp, frame, Some(Cell::Unrelated))
            };
        };
        if protocol == Protocol::Arp && !arp::is_whole(frame) {
            return Seen::new(protocol, frame, Some(Cell::Unread(Unread::Short)));
        }
        if !vlan.is_empty() && !is_here {
            // A VLAN without a device here.
            return Seen::new(protocol, frame, Some(Cell::NoVip));
        }
        self.received += u64::from(is_here);
        if protocol == Protocol::Nd && !nd::is_whole(frame) {
            let about_vip = Cell::Unverified(Unverified::Cut);
            let cell = if names(frame) { about_vip } else { Cell::Unread(Unread::Length) };
            return Seen::new(protocol, frame, Some(cell));
        }
        let question = match read(protocol, frame) {
            Ok(question) => question,
            Err(rule) => return Seen::new(protocol, frame, Some(Cell::Unread(rule))),
        };
        let (claimed, asked) = (question.claims.iter().find_map(vip), question.asks.as_ref().and_then(vip));
        let mut seen = Seen::new(protocol, frame, None);
        self.decide(&mut seen, &question, claimed, asked);
        seen.question = Some(question);
        seen
    }

    fn decide(
        &mut self,
        seen: &mut Seen<'_>,
        question: &Question,
        claimed: Option<(Addr, Entry)>,
        asked: Option<(Addr, Entry)>,
    ) {
        if let Some(vip) = claimed {
            if !question.is_intact {
                return seen.cells.push(Cell::Unverified(Unverified::Checksum));
            }
            let cell = self.claim(seen.protocol, question, vip);
            seen.cells.push(cell);
            seen.about = claimed;
            if self.expect(seen.protocol, cell).effect == Effect::Drop || question.is_gratuitous() {
                return;
            }
        }
        if let Some(vip) = asked {
            if !question.is_intact {
                return seen.cells.push(Cell::Unverified(Unverified::Checksum));
            }
            let cell = self.request(seen.protocol, question, vip);
            seen.cells.push(cell);
            seen.about = asked;
        }
        if seen.cells.is_empty() {
            seen.cells.push(Cell::NoVip);
        }
    }

    /// Returns the entry with the changes of earlier frames.
    pub(super) fn in_force(&self, entry: &Entry) -> (Role, Mac) {
        let record = self.records.get(&entry.slot).filter(|_| self.yields != self.world.settled);
        match (entry.role, record) {
            (Role::Held | Role::Handover, Some((mac, generation))) if *generation == entry.generation => {
                (Role::Foreign, *mac)
            }
            (Role::Handover, _) if entry.ended => (Role::Foreign, entry.mac),
            (role, _) => (role, entry.mac),
        }
    }

    fn row(&self, role: Role, mac: Mac) -> Row {
        match role {
            Role::Held => Row::Held(self.world.lease_deadline()),
            Role::Handover => Row::Handover(self.world.lease_deadline()),
            Role::Foreign if mac == [0; 6] => Row::ForeignUnknown,
            Role::Foreign => Row::ForeignKnown,
        }
    }

    fn claim(&mut self, protocol: Protocol, question: &Question, (vip, entry): (Addr, Entry)) -> Cell {
        let (role, mac) = self.in_force(&entry);
        let row = self.row(role, mac);
        let by = if question.sender == mac && row != Row::ForeignUnknown {
            By::Holder
        } else if self.world.peers.contains(&question.sender) {
            By::Peer
        } else {
            By::Other
        };
        let form = match (question.announces, question.source == question.sender) {
            (false, _) => Form::Asks,
            (true, true) => Form::Announces,
            (true, false) => Form::AnnouncesForAnother,
        };
        let cell = Cell::Claim { row, by, form };
        let expected = self.expect(protocol, cell);
        if let Some(name) = expected.event {
            self.notify(name, question, vip, &entry);
        }
        if expected.yields {
            self.records.insert(entry.slot, (question.sender, entry.generation));
            self.yields += 1;
        }
        cell
    }

    fn request(&mut self, protocol: Protocol, question: &Question, (vip, entry): (Addr, Entry)) -> Cell {
        let cell = self.request_cell(question, &entry);
        if let Some(name) = self.expect(protocol, cell).event {
            self.notify(name, question, vip, &entry);
        }
        cell
    }

    fn notify(&mut self, name: EventName, question: &Question, vip: Addr, entry: &Entry) {
        let Question { oper, sender, source, .. } = *question;
        // A frame of this host that came back.
        if self.world.own == Some(sender) {
            return;
        }
        let holder = self.in_force(entry).1;
        self.notified.push(Notified { name, vip, slot: entry.slot, oper, sender, source, holder });
        if matches!(name, EventName::Conflict | EventName::Contested | EventName::Sighted | EventName::Probed)
        {
            let before = self.offences.get(&(vip, sender)).map_or(0, |offence| offence.claims);
            self.offences.insert((vip, sender), Offence { claims: before + 1, name, oper, source });
        }
    }

    fn request_cell(&self, question: &Question, entry: &Entry) -> Cell {
        let (role, mac) = self.in_force(entry);
        let row = self.row(role, mac);
        let sender = question.sender;
        if row == Row::ForeignUnknown && question.is_probe && !self.world.peers.contains(&sender) {
            return Cell::Request { row, ask: Ask::Probe };
        }
        let own = match (row, self.world.own) {
            (
                Row::Held(LeaseDeadline::Over)
                | Row::Handover(LeaseDeadline::Over)
                | Row::ForeignKnown
                | Row::ForeignUnknown,
                _,
            ) => {
                return Cell::Request { row, ask: Ask::Any };
            }
            (Row::Held(LeaseDeadline::Valid | LeaseDeadline::Grace), _) => mac,
            (Row::Handover(LeaseDeadline::Valid | LeaseDeadline::Grace), Some(own)) => own,
            (Row::Handover(LeaseDeadline::Valid | LeaseDeadline::Grace), None) => {
                return Cell::Request { row, ask: Ask::NoOwnMac };
            }
        };
        let ask = if !question.is_fit || question.dst != own && !question.is_for_all {
            Ask::Elsewhere
        } else if sender == [0; 6] {
            Ask::FromZero
        } else if sender[0] & 1 == 1 {
            Ask::FromGroup
        } else if sender == own {
            Ask::FromUs
        } else if question.dst == own {
            Ask::Unicast
        } else {
            Ask::Broadcast
        };
        Cell::Request { row, ask }
    }

    /// Returns the expected result. The last cell that the frame met decides.
    fn end(&mut self, mut seen: Seen<'_>) -> Step {
        let (protocol, last) = (seen.protocol, seen.last());
        let expected = self.expect(protocol, last);
        if let Some((_, entry)) = seen.about {
            let tally = self.tallies.entry(entry.slot).or_default();
            match expected.counter.split_once('_').map_or(expected.counter, |(first, _)| first) {
                "answered" => tally.answered += 1,
                "suppressed" | "refused" => tally.suppressed += 1,
                _ if expected.counter == "claim_conflict" => tally.conflicts += 1,
                _ => {}
            }
        }
        let frame = seen.frame;
        let (action, bytes) = match (expected.effect, self.answer(&mut seen, last)) {
            (Effect::Drop, _) => (Action::Drop, frame.to_vec()),
            (Effect::Answer, Some(answer)) => (Action::Send, answer),
            (Effect::Pass | Effect::Answer, _) => (Action::Pass, frame.to_vec()),
        };
        let result = Outcome { action, bytes, counters: vec![((protocol, expected.counter), 1)] };
        let is_own = seen.question.as_ref().map(|question| question.sender) == self.world.own;
        let is_refuted = expected.defended && frame[0] & 1 == 1 && !is_own;
        let is_defended = is_refuted && self.world.defence == Defence::Match;
        let announced = self.announcement(&seen, last, expected.counter).filter(|_| is_defended);
        let results = match announced {
            // No limit refuses the first ones.
            Some(announced) if self.is_within_limits(&seen) => vec![announced],
            Some(announced) => vec![announced, result],
            None => vec![result],
        };
        Step { cells: seen.cells.into_iter().map(|cell| (protocol, cell)).collect(), results }
    }

    pub(super) fn flips(&self, protocol: Protocol, cell: Cell, flip: Flip) -> bool {
        self.flip == Some(((protocol, cell), flip))
    }

    fn expect(&self, protocol: Protocol, cell: Cell) -> table::Expect {
        match self.flip {
            Some((flipped, flip)) if flipped == (protocol, cell) => flip.of(expect(cell)),
            _ => expect(cell),
        }
    }
}
