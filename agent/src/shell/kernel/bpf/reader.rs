//! Reads the pinned state, without the program and without an agent.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
};

use vipward_common::{Fence, Offender, OffenderKey, SeenEntry, Yield, maps as names};
use vipward_core::{
    diagnosis::pinned::{Contents, Entry, Fact, PinnedLink, Plane, State, Unread},
    host::net::NetView,
};

use super::{
    bulk::Bulk,
    error::BpfError,
    maps::Maps,
    pins::{LinkPin, Pins, Set, exists},
};
use crate::shell::{kernel::clock, logging::causes::unread};

/// The choice of contents that take long to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The largest number of VIPs whose counters are read. With more VIPs, none are read.
    pub most_counted: usize,
    pub offenders: bool,
}

impl Extent {
    pub const ENTRIES: Self = Self { most_counted: 0, offenders: false };
    pub const OFFENDERS: Self = Self { most_counted: 0, offenders: true };
    pub const COUNTERS: Self = Self { most_counted: usize::MAX, offenders: false };
    pub const ALL: Self = Self { most_counted: usize::MAX, offenders: true };
}

pub struct Reader {
    pins: Pins,
    maps: Maps,
    bulk: Bulk,
}

impl Reader {
    /// Opens the pinned maps.
    ///
    /// # Errors
    ///
    /// Fails if a map is missing or the maps have another layout.
    pub fn open(pins: &Pins) -> Result<Self, BpfError> {
        if let Some(change) = pins.inspect(Set::InForce)?.and_then(|found| found.comparison.changed) {
            return Err(BpfError::Layout { change });
        }
        let maps = Maps::open(pins)?;
        Ok(Self { pins: pins.clone(), maps, bulk: Bulk::open(pins)? })
    }

    /// Opens the pinned maps, if there are any.
    pub fn find(pins: &Pins) -> Fact<Option<Self>> {
        if !exists(&pins.map(names::LAYOUT)).map_err(|error| unread(&error))? {
            return Ok(None);
        }
        Self::open(pins).map(Some).map_err(|error| unread(&error))
    }

    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Reads the contents of the maps. With thousands of entries that takes milliseconds.
    pub fn contents(&self, extent: Extent) -> Result<Contents, BpfError> {
        let maps = &self.maps;
        let now_ns = now_ns()?;
        // Before the first yield no VIP's state needs to be read.
        let yields = maps.yields()?.total;
        let found = maps.entries()?;
        let vips: BTreeSet<IpAddr> = found.keys().map(|key| key.addr).collect();
        let with_counts = vips.len() <= extent.most_counted;
        let slots = found.values().map(|entry| entry.slot + 1).max().filter(|_| with_counts);
        let counts = self.bulk.counts(slots.unwrap_or(0))?;
        let count_of = |slot: u32| match &counts {
            _ if !with_counts => Ok(None),
            Some(counts) => Ok(counts.get(slot as usize).copied()),
            None => maps.vip_count(slot),
        };
        let mut entries = Vec::with_capacity(found.len());
        for (key, entry) in found {
            let recorded = if yields == 0 { Yield::default() } else { maps.state(entry.slot)?.yielded };
            let SeenEntry { role, mac, yielded } = entry.as_seen(recorded, now_ns);
            entries.push(Entry { key, role, mac, yielded, count: count_of(entry.slot)? });
        }
        Ok(Contents {
            now_ns,
            fence: maps.fence()?,
            entries,
            max_vips: maps.max_vips(),
            own_macs: maps.own_macs()?,
            vlans: maps.vlans()?,
            proofs: maps.proofs()?,
            peers: maps.peers()?,
            counters: maps.counters()?,
            counters_v6: maps.counters_v6()?,
            wire: maps.wire().contents()?,
            yields,
            offenders: if extent.offenders { Ok(maps.offenders()?) } else { Err(Unread::not_asked()) },
        })
    }

    /// Reads the contents and the links, and joins them with the interfaces.
    pub fn state(&self, extent: Extent, network: NetView) -> Fact<State> {
        let links = links(&self.pins).map_err(|error| unread(&error))?;
        let contents = self.contents(extent).map_err(|error| unread(&error));
        let plane = Plane { missing: Vec::new(), links, contents };
        State::new(self.pins.dir().to_owned(), plane, network)
    }

    /// Returns the interfaces with a pinned link, and the VLAN devices above them.
    pub fn segments(&self) -> Result<Vec<u32>, BpfError> {
        let own = self.pins.links()?.into_iter().map(|link| link.ifindex);
        let segments: BTreeSet<u32> = own.chain(self.maps.vlans()?.into_values()).collect();
        Ok(segments.into_iter().collect())
    }

    /// Reads the fence, and the clock that it is compared with.
    pub fn fence(&self) -> Result<(Fence, u64), BpfError> {
        Ok((self.maps.fence()?, now_ns()?))
    }

    pub fn offenders(&self) -> Result<BTreeMap<OffenderKey, Offender>, BpfError> {
        self.maps.offenders()
    }
}

/// Reads the pins as far as they can be read, or returns none when nothing is pinned.
pub fn plane(pins: &Pins, extent: Extent) -> Fact<Option<Plane>> {
    let mut missing = Vec::new();
    for name in names::all() {
        if !exists(&pins.map(name)).map_err(|error| unread(&error))? {
            missing.push(name);
        }
    }
    let links = links(pins).map_err(|error| unread(&error))?;
    if missing.len() == names::all().count() && links.is_empty() {
        return Ok(None);
    }
    let contents = match missing.first() {
        Some(map) => Err(Unread { reason: format!("the pin of {map} is missing"), denied: false }),
        None => Reader::open(pins).and_then(|reader| reader.contents(extent)).map_err(|error| unread(&error)),
    };
    Ok(Some(Plane { missing, links, contents }))
}

fn links(pins: &Pins) -> Result<Vec<PinnedLink>, BpfError> {
    let read = |link: LinkPin| {
        let LinkPin { ifindex, mode, .. } = link;
        match link.ids() {
            // The agent has removed it since it was listed.
            Err(_) if matches!(exists(&link.path), Ok(false)) => None,
            ids => Some(PinnedLink { ifindex, mode, ids: ids.map_err(|error| unread(&error)) }),
        }
    };
    Ok(pins.links()?.into_iter().filter_map(read).collect())
}

fn now_ns() -> Result<u64, BpfError> {
    clock::coarse_ns()
        .map_err(|errno| BpfError::Sys { operation: "read the clock", source: io::Error::from(errno) })
}
