//! The map `layout`: reads and writes the description of the other maps.

use std::path::Path;

use aya::{
    Ebpf,
    maps::{HashMap, Map, MapData, MapInfo},
};
use vipward_common::{FieldName, Place, maps as names};
use vipward_core::host::layout::{self, Description};

use super::{
    data::plain,
    error::{BpfError, failed},
    pins::{Pins, Set, exists},
};

const NAME: usize = size_of::<FieldName>();
const PLACE: usize = size_of::<Place>();

pub(super) struct Records(HashMap<MapData, [u8; NAME], [u8; PLACE]>);

impl Records {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, BpfError> {
        let missing = BpfError::Missing { kind: "map", name: names::LAYOUT };
        let map = ebpf.take_map(names::LAYOUT).ok_or(missing)?;
        Ok(Self(map.try_into().map_err(failed("open", names::LAYOUT))?))
    }

    /// Opens the pinned map of a set. Returns `None` if the set has none.
    pub(super) fn open(pins: &Pins, set: Set) -> Result<Option<Self>, BpfError> {
        let path = pins.path(set, names::LAYOUT);
        if !exists(&path)? {
            return Ok(None);
        }
        let info = info(&path, names::LAYOUT)?;
        if (info.key_bytes as usize, info.value_bytes as usize) != (NAME, PLACE) {
            return Err(BpfError::Value { map: names::LAYOUT });
        }
        let map = MapData::from_pin(&path).and_then(Map::from_map_data);
        let map = map.map_err(failed("open", names::LAYOUT))?;
        Ok(Some(Self(map.try_into().map_err(failed("open", names::LAYOUT))?)))
    }

    pub(super) fn pin(self, pins: &Pins, set: Set) -> Result<(), BpfError> {
        let path = pins.path(set, names::LAYOUT);
        self.0.pin(&path).map_err(|source| BpfError::Pin { path, source })
    }

    pub(super) fn read(&self) -> Result<Description, BpfError> {
        let record = |record: Result<([u8; NAME], [u8; PLACE]), _>| {
            let (name, place) = record.map_err(failed("read", names::LAYOUT))?;
            Ok((plain::<FieldName>(&name), plain::<Place>(&place)))
        };
        self.0.iter().map(record).collect()
    }

    pub(super) fn write(&mut self, description: &Description) -> Result<(), BpfError> {
        for (FieldName { text }, place) in description.records() {
            let place: [u8; PLACE] = bytemuck::cast([place.offset, place.bytes]);
            self.0.insert(text, place, 0).map_err(failed("write", names::LAYOUT))?;
        }
        Ok(())
    }
}

pub(super) fn info(path: &Path, map: &'static str) -> Result<layout::MapInfo, BpfError> {
    let info = MapInfo::from_pin(path).map_err(failed("open", map))?;
    Ok(layout::MapInfo {
        // No map of this version has a kind that aya does not know.
        kind: info.map_type().map_or(0, |kind| kind as u32),
        key_bytes: info.key_size(),
        value_bytes: info.value_size(),
        entries: info.max_entries(),
    })
}
