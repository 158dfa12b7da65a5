//! Reads the pinned state, without the program and without an agent.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
};

use vipward_common::{
    LeaseDeadline, Offender, OffenderKey, SeenEntry, VIP_COUNTER_SLOTS, Yield, maps as names,
};
use vipward_core::{
    diagnosis::{
        fact::{Fact, Unread},
        pinned::{Contents, Entry, LinkIds, PinnedLink, Plane, State},
    },
    host::net::NetView,
};

use super::{
    bulk::Bulk,
    error::BpfError,
    maps::Maps,
    pins::{LinkPin, Pins, Set, exists},
};
use crate::shell::{kernel::clock, logging::errors::unread};

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
    pub fn find(pins: &Pins) -> Result<Option<Self>, Unread> {
        if !exists(&pins.map(names::LAYOUT)).map_err(|error| unread(&error))? {
            return Ok(None);
        }
        Self::open(pins).map(Some).map_err(|error| unread(&error))
    }

    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Reads the contents of the maps. With thousands of entries that takes milliseconds. With more
    /// than `most_counted` VIPs, their counters are not read.
    pub fn contents(&self, most_counted: usize) -> Result<Contents, BpfError> {
        let maps = &self.maps;
        let now_ns = now_ns()?;
        // Before the first yield no VIP's state needs to be read.
        let yields = maps.yields()?.total;
        let found = maps.entries()?;
        let vips: BTreeSet<IpAddr> = found.keys().map(|key| key.addr).collect();
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
            let recorded = if yields == 0 { Yield::default() } else { maps.state(entry.slot)?.yielded };
            let SeenEntry { role, mac, yielded, fault } = entry.as_seen(recorded, now_ns);
            entries.push(Entry { key, role, mac, yielded, fault, count: count_of(entry.slot)? });
        }
        Ok(Contents {
            now_ns,
            lease_deadline: maps.lease_deadline()?,
            entries,
            max_vips: maps.max_vips(),
            own_macs: maps.own_macs()?,
            vlans: maps.vlans()?,
            proofs: maps.proofs()?,
            twins: maps.twins()?,
            peers: maps.peers()?,
            counters: maps.counters()?,
            counters_v6: maps.counters_v6()?,
            wire: maps.wire().contents()?,
            yields,
        })
    }

    /// Reads the contents and the links, and joins them with the interfaces.
    pub fn state(&self, most_counted: usize, network: NetView) -> Result<State, BpfError> {
        let links = links(&self.pins)?.into_iter().map(|(link, ids)| Ok((link.ifindex, (link.mode, ids?))));
        let links = links.collect::<Result<_, BpfError>>()?;
        let (dir, contents) = (self.pins.dir().to_owned(), self.contents(most_counted)?);
        Ok(State { dir, links, contents, network })
    }

    /// Returns the interfaces with a pinned link, and the VLAN devices above them.
    pub fn segments(&self) -> Result<Vec<u32>, BpfError> {
        let own = self.pins.links()?.into_iter().map(|link| link.ifindex);
        let segments: BTreeSet<u32> = own.chain(self.maps.vlans()?.into_values()).collect();
        Ok(segments.into_iter().collect())
    }

    /// Reads the lease deadline, and the clock that it is compared with.
    pub fn lease_deadline(&self) -> Result<(LeaseDeadline, u64), BpfError> {
        Ok((self.maps.lease_deadline()?, now_ns()?))
    }

    pub fn offenders(&self) -> Result<BTreeMap<OffenderKey, Offender>, BpfError> {
        self.maps.offenders()
    }
}

/// Reads the pins as far as they can be read, or returns none when nothing is pinned.
pub fn plane(pins: &Pins) -> Result<Option<Plane>, Unread> {
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
    let contents = if let Some(map) = missing.first() {
        Fact::failed(format!("the pin of {map} is missing"))
    } else {
        let contents = Reader::open(pins).and_then(|it| it.contents(VIP_COUNTER_SLOTS as usize));
        contents.map_err(|error| unread(&error)).into()
    };
    let ids = |ids: Result<LinkIds, BpfError>| ids.map_err(|error| unread(&error)).into();
    let links = links.into_iter();
    let links = links.map(|(link, of)| PinnedLink { ifindex: link.ifindex, mode: link.mode, ids: ids(of) });
    Ok(Some(Plane { missing, links: links.collect(), contents }))
}

/// A pinned link, and its ids if they could be read.
type Linked = (LinkPin, Result<LinkIds, BpfError>);

fn links(pins: &Pins) -> Result<Vec<Linked>, BpfError> {
    let read = |link: LinkPin| match link.ids() {
        // The agent has removed it since it was listed.
        Err(_) if matches!(exists(&link.path), Ok(false)) => None,
        ids => Some((link, ids)),
    };
    Ok(pins.links()?.into_iter().filter_map(read).collect())
}

fn now_ns() -> Result<u64, BpfError> {
    clock::coarse_ns()
        .map_err(|errno| BpfError::Sys { operation: "read the clock", source: io::Error::from(errno) })
}
