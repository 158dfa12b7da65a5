//! Reads whole maps in a few system calls. With thousands of VIPs, one call per entry takes tens of
//! milliseconds.

use std::{
    collections::BTreeMap,
    os::fd::{AsFd, BorrowedFd},
};

use aya::{maps::MapData, util::nr_cpus};
use vipward_common::{VIP_COUNTER_SLOTS, VipCounters, VipEntry, VipKey, maps as names};

use super::{
    BpfError, Pins, VipCount,
    maps::{checked, failed, plain, total},
    sys::{self, Batch},
};

/// Entries to read at a time: more than any bucket of the hash has.
const ENTRIES: usize = 4_096;
/// Slots of counters to read at a time. Each has a value for every CPU.
const SLOTS: usize = 256;

/// The pinned maps that grow with the number of VIPs, opened for reading.
pub(super) struct Bulk {
    vips: MapData,
    vip_counters: MapData,
    cpus: usize,
}

impl Bulk {
    /// Opens the maps.
    pub(super) fn open(pins: &Pins) -> Result<Self, BpfError> {
        let open = |name| MapData::from_pin(pins.map(name)).map_err(failed("open", name));
        let cpus = nr_cpus().map_err(|(_, source)| BpfError::Sys { operation: "count the CPUs", source })?;
        Ok(Self { vips: open(names::VIPS_V4)?, vip_counters: open(names::VIP_COUNTERS)?, cpus })
    }

    /// Returns every entry.
    pub(super) fn entries(&self) -> Result<BTreeMap<VipKey, VipEntry>, BpfError> {
        entries(self.vips.fd().as_fd())
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

/// Returns every entry of `vips_v4`. An entry that changes meanwhile is read as it was before or
/// after.
pub(super) fn entries(vips: BorrowedFd<'_>) -> Result<BTreeMap<VipKey, VipEntry>, BpfError> {
    let mut entries = BTreeMap::new();
    for_each_entry(vips, |key, entry| _ = entries.insert(key, entry))?;
    Ok(entries)
}

/// Passes every entry of `vips_v4` to `take`, in no order.
pub(super) fn for_each_entry(
    vips: BorrowedFd<'_>,
    mut take: impl FnMut(VipKey, VipEntry),
) -> Result<(), BpfError> {
    let mut batch = Batch::new(ENTRIES, size_of::<VipKey>(), size_of::<VipEntry>());
    while let Some(elements) =
        batch.next(vips).map_err(|source| BpfError::Sys { operation: "read map vips_v4 whole", source })?
    {
        for (key, entry) in elements {
            take(plain(key), checked(entry, names::VIPS_V4)?);
        }
    }
    Ok(())
}

fn sum(cpus: &[u8]) -> VipCount {
    total(cpus.chunks_exact(size_of::<VipCounters>()).map(plain::<VipCounters>))
}
