//! Finds rooms that import a later room of their parent's list.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    names::{Arrows, listed},
    source::{Crate, Module, Path},
};

/// The line above a list of rooms.
pub(super) const HEADING: &str = "Rooms, lowest first. Each imports only rooms above it in this list.";

/// What only that line may contain.
const LIKE_HEADING: &str = "lowest first";

/// Modules that must list their rooms, and how many they may have.
pub(super) const HOUSES: &[(&str, usize)] = &[
    ("agent-common/src/lib.rs", 24),
    ("agent-core/src/lib.rs", 14),
    ("agent-core/src/agent.rs", 24),
    ("agent-core/src/ownership.rs", 24),
    ("agent-core/src/pools.rs", 24),
    ("agent-core/src/services.rs", 24),
    ("agent/src/lib.rs", 24),
    ("agent/src/shell.rs", 10),
    ("agent/src/shell/kube.rs", 24),
    ("bench/src/main.rs", 24),
    ("simulation/src/lib.rs", 24),
    ("tests/src/lib.rs", 24),
];

/// Returns what is wrong with the lists of rooms, and each import that runs against one.
pub(super) fn faults(tree: &Crate, arrows: &Arrows) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, module) in tree {
        let file = &module.file;
        let house = HOUSES.iter().find(|(house, _)| house == file);
        let is_bad = |line: &&String| line.to_lowercase().contains(LIKE_HEADING) && *line != HEADING;
        let bad = module.doc.iter().filter(is_bad);
        faults.extend(bad.map(|line| format!("{file}: \"{line}\" heads no list: write `//! {HEADING}`")));
        if let Some(rooms) = rooms(module) {
            faults.extend(unlisted(tree, path, &rooms));
            faults.extend(upward(tree, path, &rooms, arrows));
            if let Some((_, most)) = house.filter(|(_, most)| rooms.len() > *most) {
                faults.push(format!("{file} has {} rooms, more than {most}: join some", rooms.len()));
            }
        } else if house.is_some() {
            faults.push(format!("{file} lacks the list of its rooms below `//! {HEADING}`"));
        }
    }
    faults
}

/// Returns the rooms that a module's documentation lists.
fn rooms(module: &Module) -> Option<Vec<&str>> {
    let mut lines = module.doc.iter().map(String::as_str);
    lines.find(|line| *line == HEADING)?;
    Some(lines.filter_map(room).collect())
}

/// Returns the name in a line of the list. It may be a link.
fn room(line: &str) -> Option<&str> {
    let name = line.strip_prefix("- ")?.split_once(": ")?.0;
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.strip_prefix('`')?.strip_suffix('`')
}

/// Returns how a module's list differs from the modules in it.
fn unlisted(tree: &Crate, path: &Path, rooms: &[&str]) -> Vec<String> {
    let children = tree.keys().filter(|child| child.split_last().is_some_and(|(_, parent)| parent == path));
    let children: BTreeSet<&str> = children.map(|child| child[path.len()].as_str()).collect();
    let mut faults = Vec::new();
    for room in children.iter().chain(rooms).collect::<BTreeSet<_>>() {
        let times = rooms.iter().filter(|listed| *listed == room).count();
        let fault = match (children.contains(room), times) {
            (true, 1) => continue,
            (true, 0) => "its list of rooms lacks the module",
            (true, _) => "its list of rooms repeats the module",
            (false, _) => "its list of rooms has what is no module in it,",
        };
        faults.push(format!("{}: {fault} `{room}`", tree[path].file));
    }
    faults
}

/// Returns the imports that run from a room to a later one of the list, or to the module with the list.
fn upward(tree: &Crate, path: &Path, rooms: &[&str], arrows: &Arrows) -> Vec<String> {
    let file = &tree[path].file;
    let modules: BTreeMap<_, _> = tree.iter().map(|(path, module)| (&module.file, path)).collect();
    let room = |file| modules[file].strip_prefix(&path[..])?.first();
    let rank = |room: &String| rooms.iter().position(|listed| listed == room);
    let mut faults = Vec::new();
    for (from, imports) in arrows {
        let Some(importer) = room(from) else { continue };
        for (to, names) in imports {
            let why = match room(to) {
                Some(room) if rank(room) > rank(importer) => {
                    format!("`{room}` comes later than `{importer}` in the list of {file}")
                }
                None if to == file => "rooms import nothing of the module with their list".to_owned(),
                _ => continue,
            };
            let names = listed(names);
            faults.push(format!("{from} imports {names} of {to}, but {why}: move them to an earlier room"));
        }
    }
    faults
}
