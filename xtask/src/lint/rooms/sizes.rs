//! Finds folders, lines and structs that are too large.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Crate, Sources};

/// Entries of a folder. `foo.rs` and `foo/` are one.
const ENTRIES: usize = 24;

/// Characters of a line.
const COLUMNS: usize = 120;

/// Fields of a struct.
const FIELDS: usize = 25;

/// Returns the folders with too many entries.
pub(super) fn folders(sources: &Sources) -> Vec<String> {
    let mut folders = BTreeMap::<&str, BTreeSet<&str>>::new();
    for file in sources.keys() {
        let mut entry = file.trim_end_matches(".rs");
        while let Some((folder, name)) = entry.rsplit_once('/') {
            folders.entry(folder).or_default().insert(name);
            entry = folder;
        }
    }
    let count = folders.into_iter().map(|(folder, entries)| (folder, entries.len()));
    let large = count.filter(|(_, count)| *count > ENTRIES);
    large
        .map(|(folder, count)| format!("{folder} has {count} entries, more than {ENTRIES}: make rooms in it"))
        .collect()
}

/// Returns the lines that are too long.
pub(super) fn lines(sources: &Sources) -> Vec<String> {
    let mut faults = Vec::new();
    for (file, text) in sources {
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| line.len() > COLUMNS) {
            let columns = line.chars().count();
            if columns > COLUMNS {
                faults
                    .push(format!("{file}:{number} has {columns} characters, more than {COLUMNS}: break it"));
            }
        }
    }
    faults
}

/// Returns the structs with too many fields.
pub(super) fn structs(crates: &[Crate]) -> Vec<String> {
    let modules = crates.iter().flat_map(Crate::values);
    let structs = modules.flat_map(|module| module.structs.iter().map(move |large| (&module.file, large)));
    let large = structs.filter(|(_, (_, fields))| *fields > FIELDS);
    large
        .map(|(file, (name, fields))| {
            format!("{file}: `{name}` has {fields} fields, more than {FIELDS}: group some in structs")
        })
        .collect()
}
