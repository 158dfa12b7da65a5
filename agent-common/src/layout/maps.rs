//! The pinned maps of this version.

use bytemuck::CheckedBitPattern;

use super::{Described, Field, FieldName, Place, Shape, place};
use crate::{
    Counters, DEFAULT_MAX_VIPS, DefenceWindow, EVENTS_BYTES, Event, FILTER_WORDS, Fence, HEARD_SLOTS,
    MAX_OFFENDERS, MAX_OWN_MACS, MAX_PEERS, MAX_VLANS, MAX_WIRE_INDEX, Offender, OffenderKeyV4,
    OffenderKeyV6, OwnMac, OwnMacKey, Peer, PeerKey, VIP_COUNTER_SLOTS, VipCounters, VipEntry, VipKeyV4,
    VipKeyV6, VipState, VlanDevice, VlanKey, WIRE_KEYS, WIRE_SLOTS, WireCounters, WireIndexKey, WireKey,
    WireSeen, WireSelf, WireSlot, WireState, YieldTotal, maps,
};

/// The kind of a map, with the kernel's number (`enum bpf_map_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum MapKind {
    /// A hash.
    Hash = 1,
    /// An array.
    Array = 2,
    /// An array with a value for each CPU.
    PerCpuArray = 6,
    /// A hash that evicts the least recently used.
    LruHash = 9,
    /// A ring buffer.
    RingBuf = 27,
}

/// A pinned map.
#[derive(Clone, Copy, Debug)]
pub struct PinnedMap {
    /// The name of the map and of its pin.
    pub name: &'static str,
    /// The kind.
    pub kind: MapKind,
    /// The number of entries; of `vips_v4`, `vips_v6` and `vip_state`, the default.
    pub entries: u32,
    /// The size of a key.
    pub key_bytes: u32,
    /// The size of a value.
    pub value_bytes: u32,
    /// The fields of a key.
    pub key: &'static [Field],
    /// The fields of a value.
    pub value: &'static [Field],
    /// True if the elements go over to maps of another layout as they are.
    pub is_carried: bool,
    is_value: fn(&[u8]) -> bool,
}

/// The pinned maps, besides `layout`.
pub const PINNED: &[PinnedMap] = &[
    PinnedMap::hash::<VipKeyV4, VipEntry>(maps::VIPS_V4, DEFAULT_MAX_VIPS),
    PinnedMap::hash::<VipKeyV6, VipEntry>(maps::VIPS_V6, DEFAULT_MAX_VIPS),
    PinnedMap::hash::<OwnMacKey, OwnMac>(maps::OWN_MACS, MAX_OWN_MACS).carried(),
    PinnedMap::hash::<VlanKey, VlanDevice>(maps::VLANS, MAX_VLANS).carried(),
    PinnedMap::hash::<PeerKey, Peer>(maps::PEERS, MAX_PEERS).carried(),
    PinnedMap::array::<Fence>(maps::FENCE, 1).carried(),
    PinnedMap::array::<VipState>(maps::VIP_STATE, DEFAULT_MAX_VIPS),
    PinnedMap::array::<YieldTotal>(maps::YIELDS, 1),
    PinnedMap::array::<DefenceWindow>(maps::DEFENCES, 1),
    PinnedMap { value: FILTER, ..PinnedMap::array_of(maps::FILTER, FILTER_WORDS, 8) },
    PinnedMap { kind: MapKind::PerCpuArray, ..PinnedMap::array::<Counters>(maps::COUNTERS, 1) },
    PinnedMap { kind: MapKind::PerCpuArray, ..PinnedMap::array::<Counters>(maps::COUNTERS_V6, 1) },
    PinnedMap {
        kind: MapKind::PerCpuArray,
        value: HEARD,
        ..PinnedMap::array_of(maps::HEARD, HEARD_SLOTS, 8)
    },
    PinnedMap {
        kind: MapKind::PerCpuArray,
        ..PinnedMap::array::<VipCounters>(maps::VIP_COUNTERS, VIP_COUNTER_SLOTS)
    },
    PinnedMap {
        kind: MapKind::LruHash,
        ..PinnedMap::hash::<OffenderKeyV4, Offender>(maps::OFFENDERS, MAX_OFFENDERS)
    },
    PinnedMap {
        kind: MapKind::LruHash,
        ..PinnedMap::hash::<OffenderKeyV6, Offender>(maps::OFFENDERS_V6, MAX_OFFENDERS)
    },
    PinnedMap {
        kind: MapKind::RingBuf,
        key_bytes: 0,
        value: Event::FIELDS,
        ..PinnedMap::array_of(maps::EVENTS, EVENTS_BYTES, 0)
    },
    PinnedMap::array::<WireSelf>(maps::WIRE_SELF, 1),
    PinnedMap::array::<WireKey>(maps::WIRE_KEYS, WIRE_KEYS),
    PinnedMap::hash::<WireIndexKey, WireSlot>(maps::WIRE_INDEX, MAX_WIRE_INDEX),
    PinnedMap::array::<WireSeen>(maps::WIRE_SEEN, WIRE_SLOTS),
    PinnedMap::array::<WireState>(maps::WIRE_STATE, 1).carried(),
    PinnedMap { kind: MapKind::PerCpuArray, ..PinnedMap::array::<WireCounters>(maps::WIRE_COUNTERS, 1) },
    #[cfg(feature = "next-layout")]
    super::next::BESIDE,
];

/// Another use of the bits (another [`crate::filter_bit`]) needs another name.
const FILTER: &[Field] = &[Field { name: "bits", place: place(0, 8), shape: Shape::Number }];

/// Another use of the slots (another [`crate::heard_slot`]) needs another name.
const HEARD: &[Field] = &[Field { name: "frames", place: place(0, 8), shape: Shape::Number }];

impl PinnedMap {
    pub(super) const fn hash<K: Described, V: Described + CheckedBitPattern>(
        name: &'static str,
        entries: u32,
    ) -> Self {
        let key_bytes = bytes::<K>();
        Self { kind: MapKind::Hash, key: K::FIELDS, key_bytes, ..Self::array::<V>(name, entries) }
    }

    pub(super) const fn array<V: Described + CheckedBitPattern>(name: &'static str, entries: u32) -> Self {
        let is_value = |bytes: &[u8]| bytemuck::checked::try_pod_read_unaligned::<V>(bytes).is_ok();
        Self { value: V::FIELDS, is_value, ..Self::array_of(name, entries, bytes::<V>()) }
    }

    const fn array_of(name: &'static str, entries: u32, value_bytes: u32) -> Self {
        Self {
            name,
            kind: MapKind::Array,
            entries,
            key_bytes: 4,
            value_bytes,
            key: &[],
            value: &[],
            is_carried: false,
            is_value: |_| true,
        }
    }

    pub(super) const fn carried(self) -> Self {
        Self { is_carried: true, ..self }
    }

    /// Returns true if the bytes are a value of the map.
    pub fn is_value(&self, bytes: &[u8]) -> bool {
        (self.is_value)(bytes)
    }

    /// Returns the name with which the names of the values' fields begin.
    pub fn value_name(&self) -> FieldName {
        FieldName::of(self.name)
    }

    /// Returns the name with which the names of the keys' fields begin.
    pub fn key_name(&self) -> FieldName {
        self.value_name().dot("key")
    }

    /// Visits the records of the map's fields.
    pub fn visit(&self, mut visit: impl FnMut(FieldName, Place)) {
        Field::visit(self.key, self.key_name(), &mut |name, place, _| visit(name, place));
        Field::visit(self.value, self.value_name(), &mut |name, place, _| visit(name, place));
    }
}

#[expect(clippy::cast_possible_truncation, reason = "keys and values are smaller than 4 GiB")]
const fn bytes<T>() -> u32 {
    size_of::<T>() as u32
}
