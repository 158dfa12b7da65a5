//! Compares pinned maps with this version's maps, and returns what must become of them.

use std::{collections::BTreeMap, fmt};

use vipward_common::{Decoder, FieldName, MapKind, PINNED, PinnedMap, Place, maps};

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Description(BTreeMap<FieldName, Place>);

/// A map's kind and sizes, as the kernel reports them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapInfo {
    /// The kind, by the kernel's number.
    pub kind: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub entries: u32,
}

impl MapInfo {
    pub fn of(map: &PinnedMap) -> Self {
        let PinnedMap { kind, key_bytes, value_bytes, entries, .. } = *map;
        Self { kind: kind as u32, key_bytes, value_bytes, entries }
    }

    /// Returns true if elements have one value each, of `value_bytes`: an agent of any version can
    /// read them.
    pub fn is_plain(self) -> bool {
        [MapKind::Hash, MapKind::LruHash, MapKind::Array].into_iter().any(|kind| kind as u32 == self.kind)
    }
}

/// A difference between a pinned map and the same map of this version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The field, or the map.
    pub what: FieldName,
    pub found: String,
    pub wanted: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, found, wanted } = self;
        write!(f, "{what} is {found} in the pins, and {wanted} in this version")
    }
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Comparison {
    /// The first map or field that has another layout.
    pub changed: Option<Change>,
    /// The size of the pinned `vips_v4`.
    pub max_vips: Option<u32>,
    pub missing: Vec<&'static str>,
}

impl FromIterator<(FieldName, Place)> for Description {
    fn from_iter<I: IntoIterator<Item = (FieldName, Place)>>(records: I) -> Self {
        Self(records.into_iter().collect())
    }
}

impl Description {
    pub fn of<'a>(maps: impl IntoIterator<Item = &'a PinnedMap>) -> Self {
        let mut fields = BTreeMap::new();
        for map in maps {
            map.visit(|name, place| {
                fields.insert(name, place);
            });
        }
        Self(fields)
    }

    pub fn records(&self) -> impl Iterator<Item = (FieldName, Place)> {
        self.0.iter().map(|(name, place)| (*name, *place))
    }

    /// Returns the part about maps that this version does not know.
    #[must_use]
    pub fn unknown(&self) -> Self {
        let is_known = |name: &FieldName| PINNED.iter().any(|map| map.name == name.map());
        self.records().filter(|(name, _)| !is_known(name)).collect()
    }

    pub fn maps(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(FieldName::map)
    }

    pub fn decoders(&self, map: &PinnedMap) -> (Decoder, Decoder) {
        let place_of = |field: &FieldName| self.0.get(field).copied();
        (Decoder::new(map.key, map.key_name(), place_of), Decoder::new(map.value, map.value_name(), place_of))
    }

    /// Compares pinned maps with this version's maps. Unknown maps and fields do not count.
    pub fn compare(&self, info: impl Fn(&str) -> Option<MapInfo>) -> Comparison {
        let mut comparison = Comparison::default();
        for map in PINNED {
            let Some(found) = info(map.name) else {
                comparison.missing.push(map.name);
                continue;
            };
            let mut wanted = MapInfo::of(map);
            if map.name == maps::VIPS_V4 {
                comparison.max_vips = Some(found.entries);
            }
            if [maps::VIPS_V4, maps::VIPS_V6, maps::VIP_STATE].contains(&map.name) {
                wanted.entries = comparison.max_vips.unwrap_or(found.entries);
            }
            if comparison.changed.is_none() {
                comparison.changed = self.change_of_field(map).or_else(|| change_of_map(map, found, wanted));
            }
        }
        comparison
    }

    fn change_of_field(&self, map: &PinnedMap) -> Option<Change> {
        let mut change = None;
        map.visit(|what, place| {
            let found = self.0.get(&what).copied();
            if found != Some(place) && change.is_none() {
                let found = found.map_or_else(|| "missing".to_owned(), shown);
                change = Some(Change { what, found, wanted: shown(place) });
            }
        });
        change
    }
}

fn change_of_map(map: &PinnedMap, found: MapInfo, wanted: MapInfo) -> Option<Change> {
    let shown = |info: MapInfo| {
        let MapInfo { kind, key_bytes, value_bytes, entries } = info;
        format!("a map of kind {kind} for {entries} entries of {key_bytes} and {value_bytes} bytes")
    };
    let change = || Change { what: map.value_name(), found: shown(found), wanted: shown(wanted) };
    (found != wanted).then(change)
}

fn shown(place: Place) -> String {
    format!("{} bytes at {}", place.bytes, place.offset)
}

#[cfg(test)]
mod tests;
