//! Reads whole maps in a few system calls. With thousands of VIPs, one call per entry takes tens of
//! milliseconds.

use aya::maps::{MapData, MapError};
use vipward_common::{VIP_COUNTER_SLOTS, VipCounters, maps as names};

use super::{
    data::{VipCount, plain, total},
    error::{BpfError, failed},
    pins::Pins,
    sys::{RawMap, is_unsupported},
};

/// Elements of a hash to read at a time: more than any bucket has.
const ELEMENTS: u32 = 4_096;
/// Slots of counters to read at a time. Each has a value for every CPU.
const SLOTS: u32 = 256;

pub(super) struct Bulk {
    vip_counters: RawMap,
}

impl Bulk {
    pub(super) fn open(pins: &Pins) -> Result<Self, BpfError> {
        let map = MapData::from_pin(pins.map(names::VIP_COUNTERS)).and_then(|map| RawMap::of(&map));
        Ok(Self { vip_counters: map.map_err(failed("open", names::VIP_COUNTERS))? })
    }

    /// Returns the counters of the first `slots` slots. Returns `None` if the
    /// kernel cannot read them at once (before 5.13).
    pub(super) fn counts(&self, slots: u32) -> Result<Option<Vec<VipCount>>, BpfError> {
        let slots = slots.min(VIP_COUNTER_SLOTS) as usize;
        let mut counts = Vec::with_capacity(slots);
        let mut batches = self.vip_counters.batches(SLOTS);
        while counts.len() < slots {
            match batches.next() {
                // The slots of an array come in order.
                Ok(Some(elements)) => counts.extend(elements.map(|(_, cpus)| sum(cpus))),
                Ok(None) => break,
                Err(error) if is_unsupported(&error) => return Ok(None),
                Err(source) => {
                    return Err(BpfError::Sys { operation: "read map vip_counters whole", source });
                }
            }
        }
        Ok(Some(counts))
    }
}

/// Passes every element of a hash to `take`, key and value as bytes, in no order.
pub(super) fn for_each(
    map: &RawMap,
    name: &'static str,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), BpfError>,
) -> Result<(), BpfError> {
    let mut batches = map.batches(ELEMENTS);
    loop {
        let elements = batches.next().map_err(|source| BpfError::Map {
            operation: "read the whole",
            map: name,
            source: Box::new(MapError::IoError(source)),
        })?;
        let Some(elements) = elements else { return Ok(()) };
        for (key, value) in elements {
            take(key, value)?;
        }
    }
}

fn sum(cpus: &[u8]) -> VipCount {
    total(cpus.chunks_exact(size_of::<VipCounters>()).map(plain::<VipCounters>))
}
