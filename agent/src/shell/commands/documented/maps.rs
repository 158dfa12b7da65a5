//! docs/reference/maps.md: the pinned maps and their fields.

use std::fmt::Write as _;

use vipward_common::{Field, FieldName, MapKind, PIN_DIR, PINNED, PinnedMap};

use super::{GENERATED, assert_committed, comments::Comments, head, row};

const PAGE: &str = "maps.md";
/// The end of the comment of a map that the agent does not write.
const BY_PROGRAM: &str = " Only the program writes it.";

/// Returns the text about a map, and who writes it.
fn about(map: &PinnedMap, comments: &Comments) -> (String, &'static str) {
    let text = comments.of(map.name);
    assert!(!text.is_empty(), "{} has no comment", map.name);
    let writer = if text.contains(BY_PROGRAM) { "program" } else { "agent" };
    (text.replace(BY_PROGRAM, ""), writer)
}

/// Returns the names of the types of key and value, as the comment of the map gives them.
fn types(text: &str) -> (&str, &str) {
    let names = text.split('`').skip(1).step_by(2).filter_map(|name| name.split(':').next());
    let mut names = names.filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
    let first = names.next().unwrap_or_default();
    (first, names.next().unwrap_or(first))
}

/// Returns the rows of the fields of a key or value, whose names in the records begin with `before`.
fn fields(fields: &'static [Field], before: &str, owner: &str, comments: &Comments) -> String {
    let mut rows = String::new();
    let name = FieldName::of(before);
    Field::visit(fields, name, &mut |name, place, _| {
        let path = &name.as_str()[before.len() + 1..];
        let (offset, bytes) = (place.offset.to_string(), place.bytes.to_string());
        let name = format!("`{}`", name.as_str());
        rows += &row(&[&name, &offset, &bytes, &comments.of_field(owner, path)]);
    });
    rows
}

fn page() -> String {
    let comments = Comments::read();
    let mut page = format!(
        "# Pinned maps\n\n{GENERATED}\n\n\
         For whoever reads the maps with `bpftool`, or writes a tool for them. They are pinned in\n\
         `{PIN_DIR}`. Numbers are in the machine's order, addresses in wire order. Another version\n\
         may place fields elsewhere. The map `layout` has the places of the version that pinned them, by\n\
         the names below: 48 bytes, filled up with zeros. Its values are offset and length, 16 bits each.\n\
         [ADR 0008](../internals/adr/0008-pinned-maps-describe-their-layout.md) says why, and\n\
         [the data plane](../internals/dataplane.md) what the program does with them.\n\n"
    );
    page += &head(&[
        "map",
        "type",
        "entries (`events`: bytes)",
        "key, bytes",
        "value, bytes",
        "it has",
        "writer",
    ]);
    let mut sections = String::new();
    for map in PINNED {
        let (text, writer) = about(map, &comments);
        let kind = match map.kind {
            MapKind::Hash => "hash",
            MapKind::Array => "array",
            MapKind::PerCpuArray => "array per CPU",
            MapKind::LruHash => "LRU hash",
            MapKind::RingBuf => "ring buffer",
        };
        let (entries, key) = (map.entries.to_string(), map.key_bytes.to_string());
        let name = format!("[`{0}`](#{0})", map.name);
        page += &row(&[&name, kind, &entries, &key, &map.value_bytes.to_string(), &text, writer]);
        let (of_key, of_value) = types(&text);
        write!(sections, "\n## {}\n\n", map.name).expect("a String takes everything");
        sections += &head(&["field", "offset", "bytes", "meaning"]);
        sections += &fields(map.key, &format!("{}.key", map.name), of_key, &comments);
        sections += &fields(map.value, map.name, of_value, &comments);
    }
    page + &sections
}

#[test]
fn every_pinned_map_and_field_is_in_the_reference() {
    let page = page();
    let described = page.lines().filter(|line| line.starts_with("| `") && !line.ends_with("|  |")).count();
    assert!(described > 100, "{described} fields are described");
    assert_committed(PAGE, &page);
}
