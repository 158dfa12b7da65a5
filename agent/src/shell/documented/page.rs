//! The tables of docs/JSON.md.

use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../../../../docs/JSON.md");

/// What the page says of a key.
#[derive(Debug)]
pub(super) struct Row {
    /// Its type, with the unit after a comma.
    pub(super) kind: String,
    /// The values that it can have, when they are a closed set.
    pub(super) values: BTreeSet<String>,
    /// Whether it may be null.
    pub(super) nullable: bool,
}

/// By key; where keys belong to an event, by `event/key`.
pub(super) type Keys = BTreeMap<String, Row>;

/// The keys of a section, which is there once.
pub(super) fn section(heading: &str) -> Keys {
    let title = format!("## {heading}");
    let mut lines = PAGE.lines().skip_while(|line| *line != title);
    assert!(lines.next().is_some(), "there is no {title:?}");
    let mut keys = Keys::new();
    for line in lines.take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with('|')) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        if cells[0].starts_with("---") || ["key", "event"].contains(&cells[0]) {
            continue;
        }
        let unquoted = |cell: &str| cell.trim_matches('`').to_owned();
        let (path, rest) = match &cells[..] {
            [event, key, rest @ ..] if rest.len() == 4 => {
                (format!("{}/{}", unquoted(event), unquoted(key)), rest)
            }
            [key, rest @ ..] if rest.len() == 4 => (unquoted(key), rest),
            _ => panic!("a row with other columns: {line}"),
        };
        let row = Row {
            kind: rest[0].to_owned(),
            values: rest[1].split(", ").filter(|value| !value.is_empty()).map(unquoted).collect(),
            nullable: !rest[3].is_empty(),
        };
        assert!(!rest[2].is_empty(), "{heading}: {path} has no meaning");
        assert!(keys.insert(path, row).is_none(), "{heading}: twice there: {line}");
    }
    keys
}
