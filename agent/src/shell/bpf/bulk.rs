//! Whole maps in a few system calls, for those who read them often: one call an entry takes tens of milliseconds with
//! thousands of VIPs.

use std::{collections::BTreeMap, os::fd::AsFd};

use aya::{maps::MapData, util::nr_cpus};
use vipward_common::{VIP_COUNTER_SLOTS, VipCounters, VipEntry, VipKey, maps as names};

use super::{
    BpfError, Pins, VipCount,
    maps::{checked, failed, plain},
    sys::{self, Batch},
};

/// Entries that are read at a time: more than any bucket of the hash has.
const ENTRIES: usize = 4_096;
/// Slots of counters that are read at a time, each with a value for every CPU.
const SLOTS: usize = 256;

/// The pinned maps that grow with the number of VIPs, opened for reading.
pub struct Bulk {
    vips: MapData,
    vip_counters: MapData,
    cpus: usize,
}

impl Bulk {
    /// Opens them.
    pub fn open(pins: &Pins) -> Result<Self, BpfError> {
        let open = |name| MapData::from_pin(pins.map(name)).map_err(failed("open", name));
        let cpus = nr_cpus().map_err(|(_, source)| BpfError::Sys { operation: "count the CPUs", source })?;
        Ok(Self { vips: open(names::VIPS_V4)?, vip_counters: open(names::VIP_COUNTERS)?, cpus })
    }

    /// Every entry. One that is changed meanwhile is read as it was before or after.
    pub fn entries(&self) -> Result<BTreeMap<VipKey, VipEntry>, BpfError> {
        let mut entries = BTreeMap::new();
        let mut batch = Batch::new(ENTRIES, size_of::<VipKey>(), size_of::<VipEntry>());
        while let Some(elements) = batch
            .next(self.vips.fd().as_fd())
            .map_err(|source| BpfError::Sys { operation: "read map vips_v4 whole", source })?
        {
            for (key, entry) in elements {
                entries.insert(plain(key), checked(entry, names::VIPS_V4)?);
            }
        }
        Ok(entries)
    }

    /// The counts of the first slots, at most `slots`; none where the kernel cannot read them at once (before 5.13).
    pub fn counts(&self, slots: u32) -> Result<Option<Vec<VipCount>>, BpfError> {
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

fn sum(cpus: &[u8]) -> VipCount {
    cpus.chunks_exact(size_of::<VipCounters>()).map(plain::<VipCounters>).fold(
        VipCount::default(),
        |sum, cpu| VipCount {
            answered: sum.answered.wrapping_add(cpu.answered),
            conflicts: sum.conflicts.wrapping_add(cpu.conflicts),
            suppressed: sum.suppressed.wrapping_add(cpu.suppressed),
        },
    )
}
