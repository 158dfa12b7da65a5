//! Runs frames through the kernel, and compares the results with the oracle.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::{self, Write as _},
};

use anyhow::Result;
use vipward_common::{
    Counters, Defence, Event, EventKind, LeaseDeadline, MacAddr, Offender, OffenderKey, Policy, Role,
    VIP_COUNTER_SLOTS, VipCounters, VipEntry, VipKey, VipState, Yield, received_slot,
};

use super::{
    Counter, Notified, Offence, Oracle, Outcome, Protocol, Tally,
    table::{EventName, Flip, Met},
    world::{self, Entry, World},
};
use crate::oracle::kernel::{IFINDEX, Kernel, Maps, Ran, moved};

/// Another interface. No frame comes from it.
pub const OTHER_IFINDEX: u32 = 2;
/// The VLAN device of a world in a VLAN.
const VLAN_DEVICE: u32 = 3;

/// The kernel's results of a run of frames over one world.
pub struct Recording {
    world: World,
    frames: Vec<Vec<u8>>,
    ran: Vec<(Ran, Vec<(Counter, u64)>)>,
    received: u64,
    events: Vec<Event>,
    offenders: BTreeMap<OffenderKey, Offender>,
    states: BTreeMap<u32, VipState>,
    tallies: BTreeMap<u32, VipCounters>,
    yields: u64,
}

/// A difference between program and oracle.
#[derive(Debug)]
pub struct Mismatch {
    /// The index of the frame; `None` if only the maps at the end differ.
    pub frame: Option<usize>,
    /// The difference in words.
    pub what: String,
}

impl Recording {
    /// Runs `frames` in the kernel, with the maps of `world`.
    pub fn make(kernel: &mut Kernel, world: World, frames: Vec<Vec<u8>>) -> Result<Self> {
        kernel.maps.reset()?;
        install(&world, &mut kernel.maps)?;
        let mut ran = Vec::with_capacity(frames.len());
        let received =
            |maps: &Maps| -> Result<u64> { maps.received([received_slot(segment(&world))].into_iter()) };
        let received_before = received(&kernel.maps)?;
        let mut before = counters(&kernel.maps)?;
        for frame in &frames {
            let result = kernel.program.run(frame)?;
            let after = counters(&kernel.maps)?;
            let moved = [(Protocol::Arp, 0), (Protocol::Nd, 1)].into_iter().flat_map(|(protocol, at)| {
                let moved = moved(&before[at], &after[at]).into_iter();
                moved.map(move |(name, by)| ((protocol, name), by))
            });
            ran.push((result, moved.collect()));
            before = after;
        }
        let received = received(&kernel.maps)? - received_before;
        let events = kernel.maps.events()?;
        let slots = slots(&world);
        let states =
            slots.iter().map(|slot| Ok((*slot, kernel.maps.vip_state(*slot)?))).collect::<Result<_>>()?;
        let tallies =
            slots.iter().map(|slot| Ok((*slot, kernel.maps.vip_counters(*slot)?))).collect::<Result<_>>()?;
        let (yields, offenders) = (kernel.maps.yields()?, kernel.maps.offenders()?);
        Ok(Self { world, frames, ran, received, events, offenders, states, tallies, yields })
    }

    /// Compares with the oracle. Returns the number of frames that met each cell.
    pub fn compare(&self, flip: Option<(Met, Flip)>) -> Result<BTreeMap<Met, u64>, Mismatch> {
        let mut oracle = Oracle::new(&self.world, flip);
        let mut cells = BTreeMap::new();
        for (index, (frame, (ran, counters))) in self.frames.iter().zip(&self.ran).enumerate() {
            let step = oracle.step(frame);
            let is_it = |result: &Outcome| {
                (ran.action, &ran.bytes, counters) == (result.action, &result.bytes, &result.counters)
            };
            if !step.results.iter().any(is_it) {
                return Err(Mismatch {
                    frame: Some(index),
                    what: format!("expected {step:02x?}\nbut got  {ran:02x?}\ncounted  {counters:?}"),
                });
            }
            for cell in step.cells {
                *cells.entry(cell).or_insert(0) += 1;
            }
        }
        self.compare_rest(&oracle).map_err(|what| Mismatch { frame: None, what })?;
        Ok(cells)
    }

    /// Compares the state of the maps after the last frame.
    fn compare_rest(&self, oracle: &Oracle<'_>) -> Result<(), String> {
        same("yields", &self.yields, &oracle.yields)?;
        same("frames received", &self.received, &oracle.received)?;
        for (slot, state) in &self.states {
            let record = oracle.records.get(slot).copied().unwrap_or_default();
            same(&format!("record of slot {slot}"), &(state.yielded.mac, state.yielded.generation), &record)?;
        }
        for (slot, seen) in &self.tallies {
            let counted = *slot < VIP_COUNTER_SLOTS;
            let expected = oracle.tallies.get(slot).copied().filter(|_| counted).unwrap_or_default();
            let seen =
                Tally { answered: seen.answered, conflicts: seen.conflicts, suppressed: seen.suppressed };
            same(&format!("counters of slot {slot}"), &seen, &expected)?;
        }
        let offence = |(key, offender): (&OffenderKey, &Offender)| {
            let Offender { claims, kind, oper, source, .. } = *offender;
            let VipKey { ifindex, addr } = key.vip;
            ((ifindex, addr, key.mac.0), Offence { claims, name: name_of(kind), oper, source })
        };
        let offences: BTreeMap<_, _> = self.offenders.iter().map(offence).collect();
        let ifindex = segment(&self.world);
        let expected =
            oracle.offences.iter().map(|((vip, mac), offence)| ((ifindex, *vip, *mac), *offence)).collect();
        same("offenders", &offences, &expected)?;
        self.compare_events(&oracle.notified)
    }

    /// Compares the events. Each was either sent, in order, or counted as
    /// swallowed in the next sent event or in the state.
    fn compare_events(&self, notified: &[Notified]) -> Result<(), String> {
        let mut expected: BTreeMap<(u32, bool), VecDeque<&Notified>> = BTreeMap::new();
        for event in notified {
            expected.entry((event.slot, by_unknown_host(event.name))).or_default().push_back(event);
        }
        for seen in &self.events {
            let name = name_of(seen.kind);
            let slot = self.slot_of(seen);
            let slot = slot.ok_or_else(|| format!("an event about no VIP of the segment: {seen:?}"))?;
            let queue = expected.entry((slot, by_unknown_host(name))).or_default();
            for _ in 0..seen.swallowed {
                queue.pop_front().ok_or_else(|| format!("too many swallowed before {seen:?}"))?;
            }
            let next = queue.pop_front().ok_or_else(|| format!("an event too many: {seen:?}"))?;
            same("event", &notified_of(seen, slot), next)?;
            same("ifindex of the event", &seen.ifindex, &segment(&self.world))?;
        }
        // The limiters were clear at first, so the first event of each must have been sent.
        for ((slot, unknown_hosts), queue) in expected {
            let mut seen =
                self.events.iter().filter(|event| by_unknown_host(name_of(event.kind)) == unknown_hosts);
            if !queue.is_empty() && !seen.any(|event| self.slot_of(event) == Some(slot)) {
                return Err(format!("no event of slot {slot} was reported, unknown hosts: {unknown_hosts}"));
            }
            let state = self.states.get(&slot).copied().unwrap_or_default();
            let limiter = if unknown_hosts { state.unknown_hosts } else { state.peers };
            let left = u64::try_from(queue.len()).expect("invariant: a length fits");
            same(
                &format!("swallowed of slot {slot}, unknown hosts: {unknown_hosts}"),
                &limiter.swallowed,
                &left,
            )?;
        }
        Ok(())
    }

    fn slot_of(&self, event: &Event) -> Option<u32> {
        self.world.entries.get(&event.key().addr).map(|entry| entry.slot)
    }

    /// Returns the state that explains a mismatch.
    pub fn explain(&self, mismatch: &Mismatch) -> String {
        let mut text =
            format!("{}\nmaps: {:02x?}\nevents: {:02x?}\n", mismatch.what, self.world, self.events);
        if let Some(index) = mismatch.frame {
            let _ = write!(text, "frame {index}: {}", Hex(&self.frames[index]));
        }
        text
    }
}

fn same<T: PartialEq + fmt::Debug>(what: &str, seen: &T, expected: &T) -> Result<(), String> {
    if seen == expected {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:02x?} but got {seen:02x?}"))
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn name_of(kind: EventKind) -> EventName {
    match kind {
        EventKind::Conflict => EventName::Conflict,
        EventKind::Contested => EventName::Contested,
        EventKind::Moved => EventName::Moved,
        EventKind::Yielded => EventName::Yielded,
        EventKind::Sighted => EventName::Sighted,
        EventKind::Probed => EventName::Probed,
    }
}

/// Returns true for an event that unknown hosts cause. Such events and those of peers have separate
/// limits.
fn by_unknown_host(name: EventName) -> bool {
    match name {
        EventName::Conflict | EventName::Sighted | EventName::Probed => true,
        EventName::Contested | EventName::Moved | EventName::Yielded => false,
    }
}

fn notified_of(event: &Event, slot: u32) -> Notified {
    Notified {
        name: name_of(event.kind),
        vip: event.key().addr,
        slot,
        oper: event.oper,
        sender: event.sha,
        source: event.source,
        holder: event.holder,
    }
}

fn counters(maps: &Maps) -> Result<[Counters; 2]> {
    Ok([maps.counters()?, maps.counters_v6()?])
}

fn slots(world: &World) -> Vec<u32> {
    let here = world.entries.values();
    here.chain(world.elsewhere.iter().map(|(_, entry)| entry)).map(|entry| entry.slot).collect()
}

fn segment(world: &World) -> u32 {
    if world.vlan.is_empty() { IFINDEX } else { VLAN_DEVICE }
}

fn install(world: &World, maps: &mut Maps) -> Result<()> {
    const PAST: u64 = 1;
    const FUTURE: u64 = u64::MAX - 1;

    let when = |passed| if passed { PAST } else { FUTURE };
    maps.set_deadline(LeaseDeadline {
        deadline_ns: when(world.deadline_passed),
        grace_until_ns: when(world.hold_passed),
        yields_settled: world.settled,
        session: 0,
        notices_settled: 0,
        policy: if world.hold { Policy::Hold } else { Policy::Stop },
        defence: match world.defence {
            world::Defence::Off => Defence::Off,
            world::Defence::Match => Defence::Match,
        },
    })?;
    maps.set_yields(world.yields)?;
    let segment = segment(world);
    if segment != IFINDEX {
        let tag = |at: usize| world.vlan.get(at).map_or(0, |(service, id)| u16::from(*service) << 15 | id);
        maps.set_vlan(IFINDEX, [tag(0), tag(1)], segment)?;
    }
    if let Some(own) = world.own {
        maps.set_own_mac(segment, MacAddr(own))?;
    }
    for peer in &world.peers {
        maps.set_peer(segment, MacAddr(*peer))?;
    }
    for peer in &world.peers_elsewhere {
        maps.set_peer(OTHER_IFINDEX, MacAddr(*peer))?;
    }
    for (addr, entry) in &world.entries {
        install_entry(maps, VipKey::new(segment, *addr), entry, when)?;
    }
    for (addr, entry) in &world.elsewhere {
        install_entry(maps, VipKey::new(OTHER_IFINDEX, *addr), entry, when)?;
    }
    Ok(())
}

fn install_entry(maps: &mut Maps, key: VipKey, entry: &Entry, when: impl Fn(bool) -> u64) -> Result<()> {
    let role = match entry.role {
        world::Role::Held => Role::Held,
        world::Role::Handover => Role::Handover,
        world::Role::Foreign => Role::Foreign,
    };
    let until_ns = if role == Role::Handover { when(entry.ended) } else { 0 };
    let value = VipEntry { mac: entry.mac, generation: entry.generation, role, slot: entry.slot, until_ns };
    maps.set_entry(key, &value)?;
    if let Some((mac, generation)) = entry.record {
        let yielded = Yield { mac, generation };
        maps.set_vip_state(entry.slot, VipState { yielded, ..VipState::default() })?;
    }
    Ok(())
}
