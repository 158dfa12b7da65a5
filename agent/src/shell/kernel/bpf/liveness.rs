//! Typed access to the pinned maps of the failure detector.

use std::{collections::BTreeMap, io, time::Duration};

use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray};
use vipward_common::{
    SipKey, WIRE_KEYS, WireCounters, WireIndexKey, WireKey, WireSeen, WireSlot, WireState, maps as names,
};
use vipward_core::{
    diagnosis::pinned::{Wire, WireReceived},
    records::{KeyId, Wid},
};

use super::{
    data::{bytes, plain},
    error::{BpfError, absent_is_fine, failed},
    pins::Pins,
};
use crate::shell::kernel::clock;

const KEY: usize = size_of::<WireKey>();
const INDEX_KEY: usize = size_of::<WireIndexKey>();
const SLOT: usize = size_of::<WireSlot>();
const SEEN: usize = size_of::<WireSeen>();
const STATE: usize = size_of::<WireState>();
const COUNTERS: usize = size_of::<WireCounters>() / 8;

/// The pinned maps of the failure detector. A thread can have its own.
pub struct WireMaps {
    this: Array<MapData, u64>,
    keys: Array<MapData, [u8; KEY]>,
    index: HashMap<MapData, [u8; INDEX_KEY], [u8; SLOT]>,
    seen: Array<MapData, [u8; SEEN]>,
    state: Array<MapData, [u8; STATE]>,
    counters: PerCpuArray<MapData, [u64; COUNTERS]>,
}

impl WireMaps {
    pub fn open(pins: &Pins) -> Result<Self, BpfError> {
        Self::build(|name| pins.open(name))
    }

    pub(super) fn build(
        mut map: impl FnMut(&'static str) -> Result<Map, BpfError>,
    ) -> Result<Self, BpfError> {
        let open = |name| failed("open", name);
        Ok(Self {
            this: map(names::WIRE_SELF)?.try_into().map_err(open(names::WIRE_SELF))?,
            keys: map(names::WIRE_KEYS)?.try_into().map_err(open(names::WIRE_KEYS))?,
            index: map(names::WIRE_INDEX)?.try_into().map_err(open(names::WIRE_INDEX))?,
            seen: map(names::WIRE_SEEN)?.try_into().map_err(open(names::WIRE_SEEN))?,
            state: map(names::WIRE_STATE)?.try_into().map_err(open(names::WIRE_STATE))?,
            counters: map(names::WIRE_COUNTERS)?.try_into().map_err(open(names::WIRE_COUNTERS))?,
        })
    }

    /// Returns this node's number as a monitor, if the agent has drawn one for these maps.
    pub fn wid(&self) -> Result<Option<Wid>, BpfError> {
        Ok(Wid::from_number(self.this.get(&0, 0).map_err(failed("read", names::WIRE_SELF))?))
    }

    pub fn set_wid(&mut self, wid: Option<Wid>) -> Result<(), BpfError> {
        self.this.set(0, wid.map_or(0, Wid::number), 0).map_err(failed("write", names::WIRE_SELF))
    }

    /// Makes these the only keys. Of two keys whose numbers have the same remainder, the later one
    /// counts.
    pub fn set_keys(&mut self, keys: impl IntoIterator<Item = (KeyId, SipKey)>) -> Result<(), BpfError> {
        let mut places = [WireKey::default(); WIRE_KEYS as usize];
        for (KeyId(id), key) in keys {
            places[WireKey::place(id) as usize] = WireKey::new(id, key);
        }
        (0..).zip(&places).try_for_each(|(place, key)| {
            self.keys.set(place, bytes::<_, KEY>(key), 0).map_err(failed("write", names::WIRE_KEYS))
        })
    }

    pub fn index(&self) -> Result<BTreeMap<WireIndexKey, u32>, BpfError> {
        self.index
            .iter()
            .map(|element| {
                let (key, slot) = element.map_err(failed("read", names::WIRE_INDEX))?;
                Ok((plain(&key), plain::<WireSlot>(&slot).slot))
            })
            .collect()
    }

    /// Makes the program accept a peer's frames in a segment, by its session or its number as a
    /// monitor.
    pub fn put_index(&mut self, key: WireIndexKey, slot: u32) -> Result<(), BpfError> {
        let slot = WireSlot { slot, ..WireSlot::default() };
        self.index
            .insert(bytes::<_, INDEX_KEY>(&key), bytes::<_, SLOT>(&slot), 0)
            .map_err(failed("write", names::WIRE_INDEX))
    }

    /// Makes the program refuse the frames of a peer in a segment.
    pub fn remove_index(&mut self, key: WireIndexKey) -> Result<(), BpfError> {
        absent_is_fine(self.index.remove(&bytes(&key)), names::WIRE_INDEX)
    }

    pub fn seen(&self, slot: u32) -> Result<WireSeen, BpfError> {
        Ok(plain(&self.seen.get(&slot, 0).map_err(failed("read", names::WIRE_SEEN))?))
    }

    /// Clears a slot that has no owner, before it gets one. The program writes no slot without an owner.
    pub fn clear_seen(&mut self, slot: u32) -> Result<(), BpfError> {
        let none = bytes::<_, SEEN>(&WireSeen::default());
        self.seen.set(slot, none, 0).map_err(failed("write", names::WIRE_SEEN))
    }

    /// Returns the last expiry notice about a session of this node.
    pub fn expiry_notice(&self) -> Result<WireState, BpfError> {
        Ok(plain(&self.state.get(&0, 0).map_err(failed("read", names::WIRE_STATE))?))
    }

    /// Returns the frames by outcome, summed over the CPUs.
    pub fn counters(&self) -> Result<WireCounters, BpfError> {
        let values = self.counters.get(&0, 0).map_err(failed("read", names::WIRE_COUNTERS))?;
        Ok(values.iter().fold(WireCounters::default(), |sum, cpu| sum.plus(bytemuck::cast(*cpu))))
    }

    pub(super) fn contents(&self) -> Result<Wire, BpfError> {
        let wid = self.wid()?.map_or(0, Wid::number);
        Ok(Wire {
            wid,
            notified: self.expiry_notice()?,
            counters: self.counters()?,
            keys: self.key_numbers()?,
            received: self.received()?,
        })
    }

    fn key_numbers(&self) -> Result<Vec<u32>, BpfError> {
        let mut numbers = Vec::new();
        for place in 0..WIRE_KEYS {
            let key: WireKey = plain(&self.keys.get(&place, 0).map_err(failed("read", names::WIRE_KEYS))?);
            numbers.extend(Some(key.id).filter(|id| *id != 0));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn received(&self) -> Result<Vec<WireReceived>, BpfError> {
        let index = self.index()?;
        // The clock is read last, so that no frame is from the future.
        let slots: Vec<_> =
            index.into_iter().map(|(key, slot)| Ok((key, self.seen(slot)?))).collect::<Result<_, _>>()?;
        let now = clock::boottime_ns()
            .map_err(|errno| BpfError::Sys { operation: "read the clock", source: io::Error::from(errno) })?;
        // A time of zero is none.
        let seconds = |from: u64, to: u64| {
            (from != 0).then(|| Duration::from_nanos(to.saturating_sub(from)).as_secs_f64())
        };
        let received = |(key, seen): (WireIndexKey, WireSeen)| WireReceived {
            ifindex: key.ifindex,
            id: format!("{:016x}", key.id),
            answered_seconds_ago: seconds(seen.answered, now),
            round_trip_seconds: seconds(seen.answered, seen.received),
            received_seconds_ago: seconds(seen.received, now),
        };
        Ok(slots.into_iter().map(received).collect())
    }
}
