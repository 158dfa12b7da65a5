//! The entries of VIPs, in a map for each family.

use std::{collections::BTreeMap, net::IpAddr};

use aya::maps::{HashMap, Map, MapData, MapError};
use bytemuck::Pod;
use vipward_common::{VipEntry, VipKey, VipKeyV4, VipKeyV6, filter_bit, filter_bit_v6, maps as names};

use super::{
    bulk,
    data::{bytes, checked, map_data, plain},
    error::{BpfError, failed},
    sys::RawMap,
};

const ENTRY: usize = size_of::<VipEntry>();

pub(super) struct Vips {
    v4: Table<VipKeyV4, { size_of::<VipKeyV4>() }>,
    v6: Table<VipKeyV6, { size_of::<VipKeyV6>() }>,
}

struct Table<K, const KEY: usize> {
    name: &'static str,
    map: HashMap<MapData, [u8; KEY], [u8; ENTRY]>,
    /// The same map, to read it whole.
    raw: RawMap,
    max: u32,
    key: std::marker::PhantomData<K>,
}

enum Key {
    V4(VipKeyV4),
    V6(VipKeyV6),
}

impl From<&VipKey> for Key {
    fn from(key: &VipKey) -> Self {
        match key.addr {
            IpAddr::V4(v4) => Self::V4(VipKeyV4::new(key.ifindex, v4.octets())),
            IpAddr::V6(v6) => Self::V6(VipKeyV6::new(key.ifindex, v6.octets())),
        }
    }
}

pub(super) fn bit_of(key: &VipKey) -> u32 {
    match key.addr {
        IpAddr::V4(v4) => filter_bit(v4.octets()),
        IpAddr::V6(v6) => filter_bit_v6(v6.octets()),
    }
}

impl Vips {
    pub(super) fn build(
        map: &mut impl FnMut(&'static str) -> Result<Map, BpfError>,
    ) -> Result<Self, BpfError> {
        Ok(Self { v4: Table::build(names::VIPS_V4, map)?, v6: Table::build(names::VIPS_V6, map)? })
    }

    /// Returns the number of VIPs that there is room for, in both families together: each has a slot
    /// in `vip_state`, which is as long as each of the maps.
    pub(super) fn max(&self) -> u32 {
        self.v4.max
    }

    pub(super) fn get(&self, key: &VipKey) -> Result<Option<VipEntry>, BpfError> {
        match Key::from(key) {
            Key::V4(key) => self.v4.get(&key),
            Key::V6(key) => self.v6.get(&key),
        }
    }

    pub(super) fn insert(&mut self, key: &VipKey, entry: &VipEntry) -> Result<(), BpfError> {
        match Key::from(key) {
            Key::V4(key) => self.v4.insert(&key, entry),
            Key::V6(key) => self.v6.insert(&key, entry),
        }
    }

    /// Removes an entry. Returns false if there was none.
    pub(super) fn remove(&mut self, key: &VipKey) -> Result<bool, BpfError> {
        match Key::from(key) {
            Key::V4(key) => self.v4.remove(&key),
            Key::V6(key) => self.v6.remove(&key),
        }
    }

    pub(super) fn entries(&self) -> Result<BTreeMap<VipKey, VipEntry>, BpfError> {
        let mut entries = BTreeMap::new();
        self.for_each(|key, entry| _ = entries.insert(key, entry))?;
        Ok(entries)
    }

    /// Passes every entry to `take`, in no order. An entry that changes meanwhile is passed as it was
    /// before or after.
    pub(super) fn for_each(&self, mut take: impl FnMut(VipKey, VipEntry)) -> Result<(), BpfError> {
        self.v4.for_each(&mut take)?;
        self.v6.for_each(&mut take)
    }
}

impl<K: Pod, const KEY: usize> Table<K, KEY> {
    fn build(
        name: &'static str,
        map: &mut impl FnMut(&'static str) -> Result<Map, BpfError>,
    ) -> Result<Self, BpfError> {
        let map = map(name)?;
        let data = map_data(&map).ok_or(BpfError::Missing { kind: "map", name })?;
        let raw = RawMap::of(data).map_err(failed("read", name))?;
        let max = data.info().map_err(failed("read", name))?.max_entries();
        let map = map.try_into().map_err(failed("open", name))?;
        Ok(Self { name, map, raw, max, key: std::marker::PhantomData })
    }

    fn get(&self, key: &K) -> Result<Option<VipEntry>, BpfError> {
        match self.map.get(&bytes(key), 0) {
            Ok(entry) => checked(&entry, self.name).map(Some),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(failed("read", self.name)(error)),
        }
    }

    fn insert(&mut self, key: &K, entry: &VipEntry) -> Result<(), BpfError> {
        self.map.insert(bytes::<_, KEY>(key), bytes::<_, ENTRY>(entry), 0).map_err(|error| match error {
            MapError::SyscallError(ref call) if call.io_error.raw_os_error() == Some(libc::E2BIG) => {
                BpfError::Full { map: self.name, max: self.max, option: "--max-vips" }
            }
            error => failed("write", self.name)(error),
        })
    }

    fn remove(&mut self, key: &K) -> Result<bool, BpfError> {
        match self.map.remove(&bytes(key)) {
            Ok(()) => Ok(true),
            Err(MapError::KeyNotFound) => Ok(false),
            Err(error) => Err(failed("remove from", self.name)(error)),
        }
    }

    fn for_each(&self, take: &mut impl FnMut(VipKey, VipEntry)) -> Result<(), BpfError>
    where
        K: Into<VipKey>,
    {
        bulk::for_each(&self.raw, self.name, |key, entry| {
            take(plain::<K>(key).into(), checked(entry, self.name)?);
            Ok(())
        })
    }
}
