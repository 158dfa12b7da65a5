//! Reads whole maps in a few system calls. With thousands of VIPs, one call per entry takes tens of
//! milliseconds.

use std::os::fd::{AsFd, BorrowedFd};

use aya::{
    maps::{MapData, MapError},
    util::nr_cpus,
};
use vipward_common::{VIP_COUNTER_SLOTS, VipCounters, maps as names};

use super::{
    BpfError, Pins, VipCount,
    maps::{failed, plain, total},
    sys::{self, Batch},
};

/// Elements of a hash to read at a time: more than any bucket has.
const ELEMENTS: usize = 4_096;
/// Slots of counters to read at a time. Each has a value for every CPU.
const SLOTS: usize = 256;

/// The counters of the VIPs, opened for reading.
pub(super) struct Bulk {
    vip_counters: MapData,
    cpus: usize,
}

impl Bulk {
    /// Opens the maps.
    pub(super) fn open(pins: &Pins) -> Result<Self, BpfError> {
        let open = |name| MapData::from_pin(pins.map(name)).map_err(failed("open", name));
        let cpus = nr_cpus().map_err(|(_, source)| BpfError::Sys { operation: "count the CPUs", source })?;
        Ok(Self { vip_counters: open(names::VIP_COUNTERS)?, cpus })
    }

    /// Returns the counters of the first `slots` slots. Returns `None` if the
    /// kernel cannot read them at once (before 5.13).
    pub(super) fn counts(&self, slots: u32) -> Result<Option<Vec<VipCount>>, BpfError> {
        let slots = slots.min(VIP_COUNTER_SLOTS) as usize;
        let mut counts = Vec::with_capacity(slots);
        let mut batch = Batch::new(SLOTS, size_of::<u32>(), size_of::<VipCounters>() * self.cpus);
        while counts.len() < slots {
            match batch.next(self.vip_counters.fd().as_fd()) {
                // The slots of an array come in order.
                Ok(Some(elements)) => counts.extend(elements.map(|(_, cpus)| sum(cpus))),
                Ok(None) => break,
                Err(error) if sys::is_unsupported(&error) => return Ok(None),
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
    map: BorrowedFd<'_>,
    name: &'static str,
    key_bytes: usize,
    value_bytes: usize,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), BpfError>,
) -> Result<(), BpfError> {
    let mut batch = Batch::new(ELEMENTS, key_bytes, value_bytes);
    loop {
        let elements = batch.next(map).map_err(|source| BpfError::Map {
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
