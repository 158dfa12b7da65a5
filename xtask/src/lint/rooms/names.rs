//! Finds the file that defines what a path names, seen through re-exports.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Crate, Path};

/// Names that each file of a crate imports, by the file that defines them.
pub(super) type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Returns what the files of a crate import from each other. Without `with_reexports`, a re-export is an
/// import only if the module's own code writes the name.
pub(super) fn arrows(tree: &Crate, with_reexports: bool) -> Arrows {
    let mut arrows = Arrows::new();
    for (scope, module) in tree {
        let uses = module.uses.iter().filter(|import| with_reexports || !import.is_exported);
        let uses = uses.map(|import| (&import.path, import.is_exported));
        for (path, is_exported) in uses.chain(module.paths.iter().map(|path| (path, false))) {
            let (definer, name) = match (Names { tree, seen: BTreeSet::new() }).resolve(scope, path) {
                Some(Target::Item(definer, name)) => (definer, name),
                // A module, or all of it.
                Some(Target::Module(module)) if is_exported => (module, "*".to_owned()),
                _ => continue,
            };
            if definer != *scope {
                let imports = arrows.entry(module.file.clone()).or_default();
                imports.entry(tree[&definer].file.clone()).or_default().insert(name);
            }
        }
    }
    arrows
}

/// Returns names for a message.
pub(super) fn listed(names: &BTreeSet<String>) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// What a path names.
enum Target {
    Module(Path),
    /// An item, by the module that defines it.
    Item(Path, String),
    Elsewhere,
}

struct Names<'a> {
    tree: &'a Crate,
    /// Names on the way, so that two modules which re-export each other's names end the search.
    seen: BTreeSet<(Path, String)>,
}

impl Names<'_> {
    /// Returns what a path in a module names. Returns `None` for a local variable, too.
    fn resolve(&mut self, scope: &Path, path: &[String]) -> Option<Target> {
        let mut at = Target::Module(scope.clone());
        for (index, name) in path.iter().enumerate() {
            let Target::Module(module) = &at else { break };
            at = match name.as_str() {
                "crate" => Target::Module(Path::new()),
                "self" => continue,
                "super" => Target::Module(module.split_last()?.1.to_vec()),
                name => match self.find(module, name, index + 1 < path.len()) {
                    Some(target) => target,
                    None if index == 0 => return None,
                    // A macro defines it.
                    None => Target::Item(module.clone(), name.to_owned()),
                },
            };
        }
        Some(at)
    }

    /// Returns what a name is in a module: the module's own, or imported there.
    fn find(&mut self, at: &Path, name: &str, is_prefix: bool) -> Option<Target> {
        if !self.seen.insert((at.clone(), name.to_owned())) {
            return None;
        }
        let module = self.tree.get(at)?;
        let child = [&at[..], &[name.to_owned()]].concat();
        let is_module = self.tree.contains_key(&child);
        if module.defined.contains(name) && !(is_module && is_prefix) {
            return Some(Target::Item(at.clone(), name.to_owned()));
        }
        if is_module {
            return Some(Target::Module(child));
        }
        let (globs, named): (Vec<_>, Vec<_>) = module.uses.iter().partition(|import| import.name == "*");
        if let Some(import) = named.into_iter().find(|import| import.name == name.trim_end_matches('!')) {
            return Some(self.resolve(at, &import.path).unwrap_or(Target::Elsewhere));
        }
        let imported = globs.into_iter().find_map(|import| match self.resolve(at, &import.path)? {
            Target::Module(module) => self.find(&module, name, is_prefix),
            Target::Item(..) | Target::Elsewhere => None,
        });
        // A macro may also be in the scope of the text.
        let defines = |module: &&Path| name.ends_with('!') && self.tree[*module].defined.contains(name);
        let in_scope =
            || self.tree.keys().find(defines).map(|module| Target::Item(module.clone(), name.to_owned()));
        imported.or_else(in_scope)
    }
}
