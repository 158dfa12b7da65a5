//! The pinned maps, opened once more and read whole: not by the driver, which has other things to do meanwhile.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Mutex, PoisonError},
};

#[cfg(test)]
use vipward_common::Policy;
use vipward_common::{Counters, Fence, MacAddr, Role, SeenEntry, VipKey, Yield};

use crate::shell::{
    bpf::{BpfError, Bulk, Maps, Mode, Pins, VipCount},
    clock,
};

/// The maps of an agent that runs.
pub struct Kernel {
    pins: Pins,
    maps: Mutex<Maps>,
    bulk: Bulk,
}

/// What was read at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The clock that the program compares deadlines with.
    pub now_ns: u64,
    /// The fence.
    pub fence: Fence,
    /// Frames by outcome.
    pub counters: Counters,
    /// Entries yielded since the maps were made.
    pub yields: u64,
    /// Every entry, in the order of its key.
    pub entries: Vec<EntryReading>,
    /// Room of `vips_v4`.
    pub max_vips: u32,
    /// Entries of `links`.
    pub links: usize,
    /// Entries of `peers`.
    pub peers: usize,
}

#[cfg(test)]
impl Reading {
    /// At 10 ns: one interface without peers, and a fence that is valid until 20 ns and held over until 30 ns.
    pub(in crate::shell) fn sample(entries: Vec<EntryReading>) -> Self {
        let fence = Fence {
            deadline_ns: 20,
            hold_until_ns: 30,
            yields_settled: 0,
            session: 0,
            policy: Policy::Hold,
            _pad: 0,
        };
        let counters = Counters::default();
        Self { now_ns: 10, fence, counters, yields: 0, entries, max_vips: 16, links: 1, peers: 0 }
    }
}

/// An entry, as the program sees it.
#[derive(Clone, Copy, Debug)]
pub struct EntryReading {
    /// Which.
    pub key: VipKey,
    /// What this node is to the VIP now: a yield and the end of a handover are taken into account.
    pub role: Role,
    /// Where the VIP is now; zero if unknown.
    pub mac: MacAddr,
    /// Whether the program has given it away.
    pub yielded: bool,
    /// The counts about it, if it has any of its own and they were asked for.
    pub count: Option<VipCount>,
}

impl Kernel {
    /// Opens what is pinned.
    pub fn open(pin_dir: &Path) -> Result<Self, BpfError> {
        let pins = Pins::new(pin_dir);
        let maps = Mutex::new(Maps::open(&pins)?);
        let bulk = Bulk::open(&pins)?;
        Ok(Self { pins, maps, bulk })
    }

    /// The pins.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Whether all maps, and links to these interfaces, are pinned.
    pub fn is_pinned(&self, links: impl Iterator<Item = (u32, Mode)>) -> Result<bool, BpfError> {
        self.pins.has_all(links)
    }

    /// Reads everything, which takes milliseconds with thousands of entries. The counts about VIPs only if there are no
    /// more VIPs than `most_counted`.
    pub fn read(&self, most_counted: usize) -> Result<Reading, BpfError> {
        let maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = clock::coarse_ns()
            .map_err(|source| BpfError::Sys { operation: "read the clock", source: source.into() })?;
        let yields = maps.yields()?.total;
        let found = self.bulk.entries()?;
        let vips: BTreeSet<[u8; 4]> = found.keys().map(|key| key.addr).collect();
        let with_counts = vips.len() <= most_counted;
        let slots = found.values().map(|entry| entry.slot + 1).max().filter(|_| with_counts);
        let counts = self.bulk.counts(slots.unwrap_or(0))?;
        let count_of = |slot: u32| match &counts {
            _ if !with_counts => Ok(None),
            Some(counts) => Ok(counts.get(slot as usize).copied()),
            None => maps.vip_count(slot),
        };
        let mut entries = Vec::with_capacity(found.len());
        for (key, entry) in found {
            // Nothing is recorded before the first yield.
            let recorded = if yields == 0 { Yield::default() } else { maps.state(entry.slot)?.yielded };
            let SeenEntry { role, mac, yielded } = entry.as_seen(recorded, now_ns);
            entries.push(EntryReading { key, role, mac, yielded, count: count_of(entry.slot)? });
        }
        Ok(Reading {
            now_ns,
            fence: maps.fence()?,
            counters: maps.counters()?,
            yields,
            entries,
            max_vips: maps.max_vips(),
            links: maps.links()?.len(),
            peers: maps.peers()?.len(),
        })
    }
}
