//! Takes over the entries of pinned maps with another size or layout.
//!
//! The old program answers from the old maps until the program on every link has been replaced. A
//! yield that it recorded meanwhile is copied after that.

use std::{collections::BTreeMap, os::fd::AsFd};

use aya::maps::{MapData, MapInfo};
use vipward_common::{Meta, Role, VipEntry, VipKey, VipState, YieldTotal, maps as names};

use super::{BpfError, Maps, Pins, maps::failed, pins::Found, sys};

/// The old maps.
pub(super) struct Old {
    entries: BTreeMap<VipKey, VipEntry>,
    unreadable: usize,
    /// The maps themselves, if they have this version's layout and differ in size only.
    maps: Option<Maps>,
}

impl Old {
    pub(super) fn open(pins: &Pins, found: &Found) -> Result<Self, BpfError> {
        let path = pins.map(names::VIPS_V4);
        let map = MapData::from_pin(&path).map_err(failed("open", names::VIPS_V4))?;
        let info = MapInfo::from_pin(&path).map_err(failed("open", names::VIPS_V4))?;
        let elements =
            sys::elements(map.fd().as_fd(), info.key_size() as usize, info.value_size() as usize).map_err(
                |source| BpfError::Sys { operation: "read the entries of the former vips_v4", source },
            )?;
        let mut entries = BTreeMap::new();
        let mut unreadable = 0;
        for (key, value) in elements {
            match found.meta.layout.read(&key, &value) {
                Some((key, entry)) => {
                    entries.insert(key, entry);
                }
                None => unreadable += 1,
            }
        }
        let maps = if found.meta == Meta::CURRENT && found.complete { Some(Maps::open(pins)?) } else { None };
        Ok(Self { entries, unreadable, maps })
    }

    /// Copies the entries that fit, held VIPs first, and the other state that the new program
    /// needs. Returns the number of entries that did not fit.
    pub(super) fn copy_entries(&self, to: &mut Maps) -> Result<usize, BpfError> {
        let mut order: Vec<_> = self.entries.iter().collect();
        order.sort_by_key(|(_, entry)| (entry.role == Role::Foreign, entry.slot));
        let room = to.max_vips() as usize;
        let left = order.len().saturating_sub(room) + self.unreadable;
        for (slot, (key, entry)) in (0..).zip(order.into_iter().take(room)) {
            to.put_entry(key, &VipEntry { slot, ..*entry })?;
        }
        let Some(from) = &self.maps else { return Ok(left) };
        for (ifindex, mac) in from.own_macs()? {
            to.put_own_mac(ifindex, mac)?;
        }
        for (ifindex, mac) in from.peers()? {
            to.put_peer(ifindex, mac, 0)?;
        }
        to.set_fence(&from.fence()?)?;
        self.copy_yields(to)?;
        Ok(left)
    }

    /// Copies the yields that the old program recorded.
    pub(super) fn copy_yields(&self, to: &mut Maps) -> Result<(), BpfError> {
        let Some(from) = &self.maps else { return Ok(()) };
        let total = from.yields()?;
        if total == YieldTotal::default() {
            return Ok(());
        }
        for (key, new) in to.entries()? {
            let Some(old) = self.entries.get(&key) else { continue };
            let state = from.state(old.slot)?;
            if state.yielded.yielded_to(old.generation).is_some() {
                to.set_state(new.slot, &VipState { yielded: state.yielded, ..VipState::default() })?;
            }
        }
        // The count is one more than the sum of both, so that a yield recorded
        // by the new program does not look settled.
        let counted = total.total.saturating_add(to.yields()?.total);
        to.set_yields(YieldTotal { total: counted.saturating_add(1) })
    }
}
