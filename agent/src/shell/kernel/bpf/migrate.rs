//! Takes over the contents of pinned maps with another size or layout.
//!
//! The old program answers from the old maps until the program on every link has been replaced. A
//! yield that it recorded meanwhile is copied after that.

use std::{collections::BTreeMap, io};

use aya::maps::MapData;
use bytemuck::CheckedBitPattern;
use vipward_common::{
    Decoder, Described, MapKind, PINNED, PinnedMap, Role, VipEntry, VipKey, VipKeyV4, VipKeyV6, VipState,
    YieldTotal, maps as names,
};
use vipward_core::host::layout::{Description, MapInfo};

use super::{
    description,
    error::{BpfError, failed},
    maps::Maps,
    pins::{Pins, Set, exists},
    sys::{Element, RawMap},
};

/// A set of maps of any layout.
pub(super) struct Old {
    entries: BTreeMap<VipKey, VipEntry>,
    states: Option<Table>,
    yields: Option<Table>,
    /// The maps whose elements go over as they are.
    carried: Vec<Table>,
    /// The number of entries that could not be read.
    unreadable: usize,
}

impl Old {
    pub(super) fn open(pins: &Pins, set: Set, description: &Description) -> Result<Self, BpfError> {
        let open = |map: &'static PinnedMap| Table::open(pins, set, description, map);
        let table = |name| PINNED.iter().find(|map| map.name == name).map(open).transpose();
        let (mut entries, mut unreadable) = (BTreeMap::new(), 0);
        if let Some(table) = table(names::VIPS_V4)?.flatten() {
            unreadable += table.read_entries::<VipKeyV4>(&mut entries)?;
        }
        if let Some(table) = table(names::VIPS_V6)?.flatten() {
            unreadable += table.read_entries::<VipKeyV6>(&mut entries)?;
        }
        let (states, yields) = (table(names::VIP_STATE)?.flatten(), table(names::YIELDS)?.flatten());
        let carried = PINNED.iter().filter(|map| map.is_carried).map(open);
        let carried = carried.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        Ok(Self { entries, states, yields, carried, unreadable })
    }

    /// Copies what the new program needs besides yields: the entries that fit (held VIPs first), own
    /// MACs, peers, and the lease deadline with the session. Returns the number of elements left out.
    pub(super) fn copy(&self, pins: &Pins, to: &mut Maps) -> Result<usize, BpfError> {
        let mut order: Vec<_> = self.entries.iter().collect();
        order.sort_by_key(|(_, entry)| (entry.role == Role::Foreign, entry.slot));
        let room = to.max_vips() as usize;
        for (slot, (key, entry)) in (0..).zip(order.iter().take(room)) {
            to.put_entry(key, &VipEntry { slot, ..**entry })?;
        }
        let mut left = self.unreadable + order.len().saturating_sub(room);
        for table in &self.carried {
            left += table.copy(&pins.path(Set::New, table.of.name))?;
        }
        Ok(left)
    }

    pub(super) fn copy_yields(&self, to: &mut Maps) -> Result<(), BpfError> {
        let (Some(states), Some(yields)) = (&self.states, &self.yields) else { return Ok(()) };
        let Some(YieldTotal { total: total @ 1.. }) = yields.value(0)? else { return Ok(()) };
        for (key, new) in to.entries()? {
            let Some(old) = self.entries.get(&key) else { continue };
            let Some(VipState { yielded, .. }) = states.value(old.slot)? else { continue };
            let recorded = to.state(new.slot)?.yielded;
            // The new program may have recorded one already.
            if yielded.yielded_to(old.generation).is_some() && recorded.yielded_to(new.generation).is_none() {
                to.set_state(new.slot, &VipState { yielded, ..VipState::default() })?;
            }
        }
        // The count is one more than the sum of both, so that a yield recorded
        // by the new program does not look settled.
        let counted = total.saturating_add(to.yields()?.total);
        to.set_yields(YieldTotal { total: counted.saturating_add(1) })
    }
}

/// Returns true if an agent may have written the entry. If a layout lacks a field, it reads as 0.
fn is_possible((key, entry): &(VipKey, VipEntry)) -> bool {
    !key.addr.is_unspecified()
        && entry.generation != 0
        && (entry.role == Role::Foreign || entry.mac != [0; 6])
}

struct Table {
    of: &'static PinnedMap,
    map: RawMap,
    info: MapInfo,
    keys: Decoder,
    values: Decoder,
}

impl Table {
    /// Opens a map. Returns `None` if it is not pinned, or of a kind that no agent reads.
    fn open(
        pins: &Pins,
        set: Set,
        description: &Description,
        of: &'static PinnedMap,
    ) -> Result<Option<Self>, BpfError> {
        let path = pins.path(set, of.name);
        if !exists(&path)? {
            return Ok(None);
        }
        let info = description::info(&path, of.name)?;
        if !info.is_plain() {
            return Ok(None);
        }
        let map =
            MapData::from_pin(&path).and_then(|map| RawMap::of(&map)).map_err(failed("open", of.name))?;
        let (keys, values) = description.decoders(of);
        Ok(Some(Self { of, map, info, keys, values }))
    }

    /// Reads the entries of a family. Returns the number of those that cannot be read.
    fn read_entries<K: Described + CheckedBitPattern + Into<VipKey>>(
        &self,
        entries: &mut BTreeMap<VipKey, VipEntry>,
    ) -> Result<usize, BpfError> {
        let mut unreadable = 0;
        for (key, value) in self.elements()? {
            let key = self.keys.read::<K>(&key).map(Into::into);
            match key.zip(self.values.read(&value)).filter(is_possible) {
                Some((key, entry)) => _ = entries.insert(key, entry),
                None => unreadable += 1,
            }
        }
        Ok(unreadable)
    }

    fn elements(&self) -> Result<Vec<Element>, BpfError> {
        self.map.elements().map_err(not_copied)
    }

    /// Returns the value of an array at `index`. Returns `None` if it has none that can be read.
    fn value<V: Described + CheckedBitPattern>(&self, index: u32) -> Result<Option<V>, BpfError> {
        let key = index.to_ne_bytes();
        if self.info.key_bytes as usize != key.len() {
            return Ok(None);
        }
        let found = self.map.element(&key).map_err(not_copied)?;
        Ok(found.and_then(|value| self.values.read(&value)))
    }

    /// Puts an element in this version's form. Returns `None` if it cannot be read.
    fn translate(
        &self,
        found_key: &[u8],
        found_value: &[u8],
        key: &mut [u8],
        value: &mut [u8],
    ) -> Option<()> {
        key.fill(0);
        value.fill(0);
        match self.of.kind {
            // An index.
            MapKind::Array | MapKind::PerCpuArray | MapKind::RingBuf => {
                key.copy_from_slice(found_key.get(..key.len())?);
            }
            MapKind::Hash | MapKind::LruHash => self.keys.translate(found_key, key)?,
        }
        self.values.translate(found_value, value)?;
        self.of.is_value(value).then_some(())
    }

    /// Copies the elements to this version's map at `path`. Returns the number of those that cannot
    /// be read or do not fit.
    fn copy(&self, path: &std::path::Path) -> Result<usize, BpfError> {
        let to =
            MapData::from_pin(path).and_then(|map| RawMap::of(&map)).map_err(failed("open", self.of.name))?;
        let (mut key, mut value) =
            (vec![0; self.of.key_bytes as usize], vec![0; self.of.value_bytes as usize]);
        let mut left = 0;
        for (found_key, found_value) in self.elements()? {
            let is_put = match self.translate(&found_key, &found_value, &mut key, &mut value) {
                Some(()) => to.put(&key, &mut value).map_err(not_copied)?,
                None => false,
            };
            left += usize::from(!is_put);
        }
        Ok(left)
    }
}

fn not_copied(source: io::Error) -> BpfError {
    BpfError::Sys { operation: "copy the former maps", source }
}
