//! The pinned maps of this version: their names, sizes and fields. `docs/internals/adr/0008` states
//! how they may change.

use bytemuck::CheckedBitPattern;

use crate::{
    counters::{Counters, WireCounters},
    defence::DefenceWindow,
    event::{EVENTS_BYTES, Event, MAX_OFFENDERS, Offender, OffenderKeyV4, OffenderKeyV6, VipState},
    filter::FILTER_WORDS,
    layout::{Described, Field, FieldName, Place, Shape, place},
    lease_deadline::LeaseDeadline,
    segment::{MAX_OWN_MACS, MAX_PEERS, OwnMac, OwnMacKey, Peer, PeerKey, RECEIVED_SLOTS},
    vip::{DEFAULT_MAX_VIPS, VIP_COUNTER_SLOTS, VipCounters, VipEntry, VipKeyV4, VipKeyV6, YieldTotal},
    vlan::{MAX_VLANS, VlanDevice, VlanKey},
    wire::{
        self, MAX_WIRE_INDEX, WIRE_SLOTS, WireIndexKey, WireKey, WireSeen, WireSelf, WireSlot, WireState,
    },
};

/// The default directory of the pinned maps and links.
pub const PIN_DIR: &str = "/sys/fs/bpf/vipward";

/// The IPv4 VIPs: [`crate::VipKeyV4`] → [`crate::VipEntry`].
pub const VIPS_V4: &str = "vips_v4";
/// The IPv6 VIPs: [`crate::VipKeyV6`] → [`crate::VipEntry`].
pub const VIPS_V6: &str = "vips_v6";
/// The MACs of this host: [`crate::OwnMacKey`] → [`crate::OwnMac`].
pub const OWN_MACS: &str = "own_macs";
/// The VLAN devices, by their tags: [`crate::VlanKey`] → [`crate::VlanDevice`].
pub const VLANS: &str = "vlans";
/// The MACs of peers: [`crate::PeerKey`] → [`crate::Peer`].
pub const PEERS: &str = "peers";
/// The only value: a [`crate::LeaseDeadline`].
pub const LEASE_DEADLINE: &str = "lease_deadline";
/// The only value, per CPU: a [`crate::Counters`], of ARP frames and of frames of neither protocol.
/// Only the program writes it.
pub const COUNTERS: &str = "counters";
/// The only value, per CPU: a [`crate::Counters`], of neighbour discovery. Only the program writes it.
pub const COUNTERS_V6: &str = "counters_v6";
/// [`crate::received_slot`] → the frames of ARP and neighbour discovery that the program has seen in a
/// segment, per CPU. Only the program writes it.
pub const RECEIVED: &str = "received";
/// Counts of a VIP: slot → [`crate::VipCounters`], per CPU. Only the program writes it.
pub const VIP_COUNTERS: &str = "vip_counters";
/// Yields and limits of a VIP: slot → [`crate::VipState`]. Only the program writes it.
pub const VIP_STATE: &str = "vip_state";
/// The only value: a [`crate::YieldTotal`]. Only the program writes it.
pub const YIELDS: &str = "yields";
/// The only value: a [`crate::DefenceWindow`], of all VIPs. Only the program writes it.
pub const DEFENCES: &str = "defences";
/// Bits of the addresses that may be VIPs; see [`crate::filter_bit`].
pub const FILTER: &str = "filter";
/// Hosts that claimed an IPv4 VIP: [`crate::OffenderKeyV4`] → [`crate::Offender`]. Only the program
/// writes it.
pub const OFFENDERS: &str = "offenders";
/// Hosts that claimed an IPv6 VIP: [`crate::OffenderKeyV6`] → [`crate::Offender`]. Only the program
/// writes it.
pub const OFFENDERS_V6: &str = "offenders_v6";
/// Ring buffer of [`crate::Event`]. Only the program writes it.
pub const EVENTS: &str = "events";
/// The only value: a [`crate::WireSelf`].
pub const WIRE_SELF: &str = "wire_self";
/// The keys of frames: [`crate::WireKey::place`] → [`crate::WireKey`].
pub const WIRE_KEYS: &str = "wire_keys";
/// The slots of peers: [`crate::WireIndexKey`] → [`crate::WireSlot`].
pub const WIRE_INDEX: &str = "wire_index";
/// Times of a peer's frames: slot → [`crate::WireSeen`]. Only the program writes it.
pub const WIRE_SEEN: &str = "wire_seen";
/// The only value: a [`crate::WireState`]. Only the program writes it.
pub const WIRE_STATE: &str = "wire_state";
/// The only value, per CPU: a [`crate::WireCounters`]. Only the program writes it.
pub const WIRE_COUNTERS: &str = "wire_counters";
/// [`crate::FieldName`] → [`crate::Place`]: the layout of the other maps.
pub const LAYOUT: &str = "layout";

/// The names of the maps of wire failover.
pub const WIRE: [&str; 6] = [WIRE_SELF, WIRE_KEYS, WIRE_INDEX, WIRE_SEEN, WIRE_STATE, WIRE_COUNTERS];

pub fn all() -> impl DoubleEndedIterator<Item = &'static str> {
    PINNED.iter().map(|map| map.name).chain([LAYOUT])
}

/// The kind of a map, with the kernel's number (`enum bpf_map_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    PerCpuArray = 6,
    /// A hash that evicts the least recently used.
    LruHash = 9,
    RingBuf = 27,
}

#[derive(Clone, Copy, Debug)]
pub struct PinnedMap {
    /// The name of the map and of its pin.
    pub name: &'static str,
    pub kind: MapKind,
    /// The number of entries; of `vips_v4`, `vips_v6` and `vip_state`, the default.
    pub entries: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub key: &'static [Field],
    pub value: &'static [Field],
    /// True if the elements go over to maps of another layout as they are.
    pub is_carried: bool,
    is_value: fn(&[u8]) -> bool,
}

/// The pinned maps, besides `layout`.
pub const PINNED: &[PinnedMap] = &[
    PinnedMap::hash::<VipKeyV4, VipEntry>(VIPS_V4, DEFAULT_MAX_VIPS),
    PinnedMap::hash::<VipKeyV6, VipEntry>(VIPS_V6, DEFAULT_MAX_VIPS),
    PinnedMap::hash::<OwnMacKey, OwnMac>(OWN_MACS, MAX_OWN_MACS).carried(),
    PinnedMap::hash::<VlanKey, VlanDevice>(VLANS, MAX_VLANS).carried(),
    PinnedMap::hash::<PeerKey, Peer>(PEERS, MAX_PEERS).carried(),
    PinnedMap::array::<LeaseDeadline>(LEASE_DEADLINE, 1).carried(),
    PinnedMap::array::<VipState>(VIP_STATE, DEFAULT_MAX_VIPS),
    PinnedMap::array::<YieldTotal>(YIELDS, 1),
    PinnedMap::array::<DefenceWindow>(DEFENCES, 1),
    PinnedMap { value: FILTER_FIELDS, ..PinnedMap::array_of(FILTER, FILTER_WORDS, 8) },
    PinnedMap { kind: MapKind::PerCpuArray, ..PinnedMap::array::<Counters>(COUNTERS, 1) },
    PinnedMap { kind: MapKind::PerCpuArray, ..PinnedMap::array::<Counters>(COUNTERS_V6, 1) },
    PinnedMap {
        kind: MapKind::PerCpuArray,
        value: RECEIVED_FIELDS,
        ..PinnedMap::array_of(RECEIVED, RECEIVED_SLOTS, 8)
    },
    PinnedMap {
        kind: MapKind::PerCpuArray,
        ..PinnedMap::array::<VipCounters>(VIP_COUNTERS, VIP_COUNTER_SLOTS)
    },
    PinnedMap {
        kind: MapKind::LruHash,
        ..PinnedMap::hash::<OffenderKeyV4, Offender>(OFFENDERS, MAX_OFFENDERS)
    },
    PinnedMap {
        kind: MapKind::LruHash,
        ..PinnedMap::hash::<OffenderKeyV6, Offender>(OFFENDERS_V6, MAX_OFFENDERS)
    },
    PinnedMap {
        kind: MapKind::RingBuf,
        key_bytes: 0,
        value: Event::FIELDS,
        ..PinnedMap::array_of(EVENTS, EVENTS_BYTES, 0)
    },
    PinnedMap::array::<WireSelf>(WIRE_SELF, 1),
    PinnedMap::array::<WireKey>(WIRE_KEYS, wire::WIRE_KEYS),
    PinnedMap::hash::<WireIndexKey, WireSlot>(WIRE_INDEX, MAX_WIRE_INDEX),
    PinnedMap::array::<WireSeen>(WIRE_SEEN, WIRE_SLOTS),
    PinnedMap::array::<WireState>(WIRE_STATE, 1).carried(),
    PinnedMap { kind: MapKind::PerCpuArray, ..PinnedMap::array::<WireCounters>(WIRE_COUNTERS, 1) },
    #[cfg(feature = "next-layout")]
    PinnedMap::array::<crate::layout::next::Beside>("beside", 4).carried(),
];

/// Another use of the bits (another [`crate::filter_bit`]) needs another name.
const FILTER_FIELDS: &[Field] = &[Field { name: "bits", place: place(0, 8), shape: Shape::Number }];

/// Another use of the slots (another [`crate::received_slot`]) needs another name.
const RECEIVED_FIELDS: &[Field] = &[Field { name: "frames", place: place(0, 8), shape: Shape::Number }];

impl PinnedMap {
    const fn hash<K: Described, V: Described + CheckedBitPattern>(name: &'static str, entries: u32) -> Self {
        let key_bytes = bytes::<K>();
        Self { kind: MapKind::Hash, key: K::FIELDS, key_bytes, ..Self::array::<V>(name, entries) }
    }

    const fn array<V: Described + CheckedBitPattern>(name: &'static str, entries: u32) -> Self {
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

    const fn carried(self) -> Self {
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
