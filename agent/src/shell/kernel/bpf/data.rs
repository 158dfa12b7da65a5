//! The data of maps: of a map of any kind, and as values of the types that the program shares.

use aya::maps::{Map, MapData};
use bytemuck::{AnyBitPattern, CheckedBitPattern, NoUninit};
use vipward_common::VipCounters;

use super::error::BpfError;

/// The counters of a VIP, summed over the CPUs.
pub type VipCount = VipCounters;

pub(super) fn map_data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::RingBuf(data) => Some(data),
        _ => None,
    }
}

pub(super) fn bytes<T: NoUninit, const N: usize>(value: &T) -> [u8; N] {
    bytemuck::bytes_of(value).try_into().expect("invariant: N is the size of T")
}

pub(super) fn checked<T: CheckedBitPattern>(bytes: &[u8], map: &'static str) -> Result<T, BpfError> {
    bytemuck::checked::try_pod_read_unaligned(bytes).map_err(|_| BpfError::Value { map })
}

pub(super) fn plain<T: AnyBitPattern>(bytes: &[u8]) -> T {
    bytemuck::pod_read_unaligned(bytes)
}

pub(super) fn total(cpus: impl Iterator<Item = VipCount>) -> VipCount {
    cpus.fold(VipCount::default(), |sum, cpu| VipCount {
        answered: sum.answered.wrapping_add(cpu.answered),
        conflicts: sum.conflicts.wrapping_add(cpu.conflicts),
        suppressed: sum.suppressed.wrapping_add(cpu.suppressed),
    })
}
