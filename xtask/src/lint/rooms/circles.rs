//! Finds files that import each other, directly or through other files.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{Arrows, listed};

/// The hint how to end a circle.
pub(super) const WAY_OUT: &str = "Move what two of them share into the one that needs less, or into a file of its own. \
    A parent may also declare and re-export only, with its own code in a child.";

/// Returns each circle, with its arrows.
pub(super) fn faults(arrows: &Arrows) -> Vec<String> {
    let reached: BTreeMap<_, _> = arrows.keys().map(|file| (file, reached(arrows, file))).collect();
    let reaches = |from: &String, to: &String| reached.get(from).is_some_and(|files| files.contains(to));
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for (file, files) in &reached {
        let circle: Vec<_> = files.iter().filter(|other| reaches(other, file)).collect();
        if circle.is_empty() || !seen.insert(circle[0]) {
            continue;
        }
        faults.push(format!("{} files import each other. {WAY_OUT}", circle.len()));
        for from in circle {
            let within = arrows[*from].iter().filter(|(to, _)| reaches(to, from));
            faults.extend(within.map(|(to, names)| format!("  {from} imports {} of {to}", listed(names))));
        }
    }
    faults
}

/// Returns the files that a file imports, directly or through others.
fn reached<'a>(arrows: &'a Arrows, file: &'a String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![file];
    while let Some(file) = waiting.pop() {
        let next = arrows.get(file).into_iter().flat_map(BTreeMap::keys);
        waiting.extend(next.filter(|file| reached.insert(*file)));
    }
    reached
}
