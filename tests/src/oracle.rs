//! Computes what the program must do with a frame,
//! from the frame tables of docs/DATAPLANE.md alone.
//! It shares no code with the program: it reads frames byte by byte, and its tables are data
//! ([`table::expect`]). A test can flip any cell to prove that the comparison notices it.

pub mod generate;
pub mod replay;
pub mod table;
pub mod world;

use std::collections::BTreeMap;

use crate::kernel::Action;
use table::{Ask, By, Cell, Effect, EventName, Flip, Form, Row, expect};
use world::{Addr, Defence, Entry, Fence, Mac, Role, World};

/// Expected result of one frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Cells that the frame met: at most one of each table.
    pub cells: Vec<Cell>,
    /// The allowed results. A defence that a limit may refuse is not certain.
    pub results: Vec<Outcome>,
}

/// Result of one frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Return code.
    pub action: Action,
    /// Frame afterwards.
    pub bytes: Vec<u8>,
    /// Counters that increased, with the differences.
    pub counters: Vec<(&'static str, u64)>,
}

/// Event that must be sent, or counted as suppressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Kind.
    pub name: EventName,
    /// The VIP.
    pub vip: Addr,
    /// The entry's slot.
    pub slot: u32,
    /// The frame's oper.
    pub oper: u16,
    /// The frame's sha.
    pub sha: Mac,
    /// The frame's Ethernet source.
    pub source: Mac,
    /// The entry's MAC before.
    pub holder: Mac,
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
    world: &'w World,
    flip: Option<(Cell, Flip)>,
    /// Yield records by slot, each with the generation that it ends.
    pub records: BTreeMap<u32, (Mac, u16)>,
    /// Number of entries that have yielded.
    pub yields: u64,
    /// Events, in order.
    pub told: Vec<Told>,
    /// Counters of single VIPs, by slot.
    pub tallies: BTreeMap<u32, Tally>,
    /// Numbers of claims to be defended, by slot and claimant.
    claims: BTreeMap<(u32, Mac), u64>,
}

/// Fields of an ARP frame (RFC 826) that matter. Offsets in bytes stand on the right.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                   dst: Ethernet destination                   |   0
/// +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                               |                               |   4
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/// |                      src: Ethernet source                     |   8
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |       ethertype: 0x0806       |    htype: 1 (Ethernet) or 6   |  12
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |      ptype: 0x0800 (IPv4)     |    hlen: 6    |    plen: 4    |  16
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          oper: 1 or 2         |                               |  20
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/// |                  sha: sender hardware address                 |  24
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                    spa: sender IPv4 address                   |  28
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                  tha: target hardware address                 |  32
/// +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                               |    tpa: target IPv4 address   |  36
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |    tpa, the last two bytes    |                                  40
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
struct Arp {
    dst: Mac,
    source: Mac,
    oper: u16,
    sha: Mac,
    spa: Addr,
    tpa: Addr,
}

enum Parsed {
    Unrelated,
    Other,
    Arp(Arp),
}

/// The tags of a segment, from outside: whether it is a service tag, and the VLAN ID.
type Vlan = Vec<(bool, u16)>;

/// Takes the VLAN tags off (802.1Q, 802.1ad), of which two are read. Returns those of a VLAN other
/// than 0, the frame, and the tags' bytes; `None` for a frame that ends in its tags, or has more.
fn without_tags(frame: &[u8]) -> Option<(Vlan, Vec<u8>, Vec<u8>)> {
    let mut bare = frame.to_vec();
    let (mut vlan, mut tags) = (Vec::new(), Vec::new());
    while let [0x81, 0x00] | [0x88, 0xa8] = bare.get(12..14)? {
        if tags.len() == 8 || bare.len() < 18 {
            return None;
        }
        let tag: Vec<u8> = bare.drain(12..16).collect();
        let id = u16::from_be_bytes([tag[2] & 0x0f, tag[3]]);
        if id != 0 {
            vlan.push((tag[0] == 0x88, id));
        }
        tags.extend(tag);
    }
    Some((vlan, bare, tags))
}

fn parse(frame: &[u8]) -> Parsed {
    let mac = |at: usize| -> Mac { std::array::from_fn(|i| frame[at + i]) };
    let addr = |at: usize| -> Addr { std::array::from_fn(|i| frame[at + i]) };
    if frame[12..14] != [0x08, 0x06] {
        return Parsed::Unrelated;
    }
    if frame.len() < 42 || !matches!(frame[14..20], [0, 1 | 6, 8, 0, 6, 4]) {
        return Parsed::Other;
    }
    match frame[20..22] {
        [0, oper @ (1 | 2)] => Parsed::Arp(Arp {
            dst: mac(0),
            source: mac(6),
            oper: u16::from(oper),
            sha: mac(22),
            spa: addr(28),
            tpa: addr(38),
        }),
        _ => Parsed::Other,
    }
}

/// Returns the reply to a request in the same frame (RFC 826), with Ethernet's htype as Linux replies.
fn reply(request: &[u8], vip_mac: Mac, source: Mac) -> Vec<u8> {
    let asker = &request[22..28];
    let mut reply = Vec::with_capacity(request.len());
    reply.extend_from_slice(asker);
    reply.extend_from_slice(&source);
    reply.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    reply.extend_from_slice(&vip_mac);
    reply.extend_from_slice(&request[38..42]);
    reply.extend_from_slice(asker);
    reply.extend_from_slice(&request[28..32]);
    reply.extend_from_slice(&request[42..]);
    reply
}

/// Returns the announcement that takes the place of a claim: a gratuitous request to broadcast with
/// a tha of zero (RFC 5227, 2.3).
fn announcement(claim: &[u8], vip_mac: Mac) -> Vec<u8> {
    let vip = &claim[28..32];
    let mut announcement = vec![0xff; 6];
    announcement.extend_from_slice(&vip_mac);
    announcement.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    announcement.extend_from_slice(&vip_mac);
    announcement.extend_from_slice(vip);
    announcement.extend_from_slice(&[0; 6]);
    announcement.extend_from_slice(vip);
    announcement.extend_from_slice(&claim[42..]);
    announcement
}

impl<'w> Oracle<'w> {
    /// Makes an oracle for `world`, with at most one cell flipped.
    pub fn new(world: &'w World, flip: Option<(Cell, Flip)>) -> Self {
        let entries = world.entries.values().chain(world.elsewhere.iter().map(|(.., entry)| entry));
        let records = entries.filter_map(|entry| entry.record.map(|record| (entry.slot, record))).collect();
        Self {
            world,
            flip,
            records,
            yields: world.yields,
            told: Vec::new(),
            tallies: BTreeMap::new(),
            claims: BTreeMap::new(),
        }
    }

    /// Returns the expected result of the next frame.
    pub fn step(&mut self, frame: &[u8]) -> Step {
        let Some((vlan, bare, tags)) = without_tags(frame) else {
            return self.end(vec![Cell::Unrelated], frame, None);
        };
        let is_whole_arp = bare[12..14] == [8, 6] && bare.len() >= 42;
        let mut step = if is_whole_arp && !vlan.is_empty() && vlan != self.world.vlan {
            // A VLAN without a device here.
            self.end(vec![Cell::NoVip], &bare, None)
        } else if vlan == self.world.vlan {
            self.untagged(&bare)
        } else {
            self.elsewhere(&bare)
        };
        for result in &mut step.results {
            result.bytes.splice(12..12, tags.iter().copied());
        }
        step
    }

    /// Returns the expected result of a frame of the interface itself, while all VIPs are in a VLAN.
    fn elsewhere(&mut self, frame: &[u8]) -> Step {
        let cell = match parse(frame) {
            Parsed::Unrelated => Cell::Unrelated,
            Parsed::Other => Cell::Unread,
            Parsed::Arp(_) => Cell::NoVip,
        };
        self.end(vec![cell], frame, None)
    }

    /// Returns the expected result of a frame of the VIPs' segment, without its tags.
    fn untagged(&mut self, frame: &[u8]) -> Step {
        let arp = match parse(frame) {
            Parsed::Unrelated => return self.end(vec![Cell::Unrelated], frame, None),
            Parsed::Other => return self.end(vec![Cell::Unread], frame, None),
            Parsed::Arp(arp) => arp,
        };
        let world = self.world;
        let mut cells = Vec::with_capacity(2);
        let mut about = None;
        if let Some(entry) = world.entries.get(&arp.spa) {
            let cell = self.claim(&arp, entry);
            cells.push(cell);
            about = Some(entry);
            if self.expect(cell).effect == Effect::Drop || arp.spa == arp.tpa {
                return self.end(cells, frame, about);
            }
        }
        if arp.oper == 1
            && let Some(entry) = world.entries.get(&arp.tpa)
        {
            cells.push(self.request(&arp, entry));
            about = Some(entry);
        }
        if cells.is_empty() {
            cells.push(Cell::NoVip);
        }
        self.end(cells, frame, about)
    }

    /// Returns the entry with the changes of earlier frames.
    fn in_force(&self, entry: &Entry) -> (Role, Mac) {
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
            Role::Held => Row::Held(self.world.fence()),
            Role::Handover => Row::Handover(self.world.fence()),
            Role::Foreign if mac == [0; 6] => Row::ForeignUnknown,
            Role::Foreign => Row::ForeignKnown,
        }
    }

    fn claim(&mut self, arp: &Arp, entry: &Entry) -> Cell {
        let (role, mac) = self.in_force(entry);
        let row = self.row(role, mac);
        let by = if arp.sha == mac && row != Row::ForeignUnknown {
            By::Holder
        } else if self.world.peers.contains(&arp.sha) {
            By::Peer
        } else {
            By::Other
        };
        let form = match (arp.oper == 2 || arp.spa == arp.tpa, arp.source == arp.sha) {
            (false, _) => Form::Asks,
            (true, true) => Form::Announces,
            (true, false) => Form::AnnouncesForAnother,
        };
        let cell = Cell::Claim { row, by, form };
        let expected = self.expect(cell);
        if let Some(name) = expected.event {
            self.told.push(Told {
                name,
                vip: arp.spa,
                slot: entry.slot,
                oper: arp.oper,
                sha: arp.sha,
                source: arp.source,
                holder: mac,
            });
        }
        if expected.yields {
            self.records.insert(entry.slot, (arp.sha, entry.generation));
            self.yields += 1;
        }
        cell
    }

    fn request(&mut self, arp: &Arp, entry: &Entry) -> Cell {
        let cell = self.request_cell(arp, entry);
        if let Some(name) = self.expect(cell).event {
            let holder = self.in_force(entry).1;
            self.told.push(Told {
                name,
                vip: arp.tpa,
                slot: entry.slot,
                oper: arp.oper,
                sha: arp.sha,
                source: arp.source,
                holder,
            });
        }
        cell
    }

    fn request_cell(&self, arp: &Arp, entry: &Entry) -> Cell {
        let (role, mac) = self.in_force(entry);
        let row = self.row(role, mac);
        let is_probe = arp.spa == [0; 4];
        if row == Row::ForeignUnknown && is_probe && !self.world.peers.contains(&arp.sha) {
            return Cell::Request { row, ask: Ask::Probe };
        }
        let own = match (row, self.world.own) {
            (
                Row::Held(Fence::Over) | Row::Handover(Fence::Over) | Row::ForeignKnown | Row::ForeignUnknown,
                _,
            ) => {
                return Cell::Request { row, ask: Ask::Any };
            }
            (Row::Held(Fence::Valid | Fence::HeldOver), _) => mac,
            (Row::Handover(Fence::Valid | Fence::HeldOver), Some(own)) => own,
            (Row::Handover(Fence::Valid | Fence::HeldOver), None) => {
                return Cell::Request { row, ask: Ask::NoOwnMac };
            }
        };
        let ask = if arp.dst != own && arp.dst != [0xff; 6] {
            Ask::Elsewhere
        } else if arp.sha == [0; 6] {
            Ask::FromZero
        } else if arp.sha[0] & 1 == 1 {
            Ask::FromGroup
        } else if arp.sha == own {
            Ask::FromUs
        } else if arp.dst == own {
            Ask::Unicast
        } else {
            Ask::Broadcast
        };
        Cell::Request { row, ask }
    }

    /// Returns the expected result. The last cell that the frame met decides.
    fn end(&mut self, cells: Vec<Cell>, frame: &[u8], about: Option<&Entry>) -> Step {
        let last = *cells.last().expect("invariant: every frame meets a cell");
        let expected = self.expect(last);
        if let Some(entry) = about {
            let tally = self.tallies.entry(entry.slot).or_default();
            match expected.counter.split_once('_').map_or(expected.counter, |(first, _)| first) {
                "answered" => tally.answered += 1,
                "suppressed" | "refused" => tally.suppressed += 1,
                _ if expected.counter == "claim_conflict" => tally.conflicts += 1,
                _ => {}
            }
        }
        let (action, bytes) = match (expected.effect, about) {
            (Effect::Drop, _) => (Action::Drop, frame.to_vec()),
            (Effect::Answer, Some(entry)) => (Action::Send, self.answer(frame, entry, last)),
            (Effect::Pass | Effect::Answer, _) => (Action::Pass, frame.to_vec()),
        };
        let result = Outcome { action, bytes, counters: vec![(expected.counter, 1)] };
        let is_defended = expected.defended && self.world.defence == Defence::Match && frame[0] & 1 == 1;
        let results = match about.filter(|_| is_defended) {
            Some(entry) => {
                let announced = self.defended(frame, entry, last, expected.counter);
                // No limit refuses the first ones.
                if self.is_within_limits(frame, entry) { vec![announced] } else { vec![announced, result] }
            }
            None => vec![result],
        };
        Step { cells, results }
    }

    fn defended(&self, frame: &[u8], entry: &Entry, cell: Cell, counter: &'static str) -> Outcome {
        let wrong = self.flip == Some((cell, Flip::Bytes));
        let bytes = announcement(frame, if wrong { [0; 6] } else { entry.mac });
        Outcome { action: Action::Send, bytes, counters: vec![(counter, 1), ("claims_defended", 1)] }
    }

    /// Counts a claim. Returns true if it is certain that no limit refuses its defence: 10 for a
    /// claimant in a row, 20 a second for a VIP, 1,000 for all.
    fn is_within_limits(&mut self, frame: &[u8], entry: &Entry) -> bool {
        let sha: Mac = std::array::from_fn(|i| frame[22 + i]);
        *self.claims.entry((entry.slot, sha)).or_default() += 1;
        let count = |of: &dyn Fn(u32, Mac) -> bool| -> u64 {
            self.claims.iter().filter(|((slot, mac), _)| of(*slot, *mac)).map(|(_, count)| count).sum()
        };
        let slot = entry.slot;
        count(&|at, mac| (at, mac) == (slot, sha)) <= 10
            && count(&|at, _| at == slot) <= 20
            && count(&|_, _| true) <= 1_000
    }

    fn answer(&self, frame: &[u8], entry: &Entry, cell: Cell) -> Vec<u8> {
        let (role, mac) = self.in_force(entry);
        let source = match role {
            Role::Held => mac,
            Role::Handover | Role::Foreign => self.world.own.unwrap_or_default(),
        };
        let wrong = self.flip == Some((cell, Flip::Bytes));
        reply(frame, if wrong { [0; 6] } else { mac }, source)
    }

    fn expect(&self, cell: Cell) -> table::Expect {
        match self.flip {
            Some((flipped, flip)) if flipped == cell => flip.of(expect(cell)),
            _ => expect(cell),
        }
    }
}
