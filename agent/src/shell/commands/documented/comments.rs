//! The doc comments of vipward-common, whose maps have no other description.

use std::{collections::BTreeMap, fs, path::Path};

/// The doc comments of maps by name, and of items: `lease_deadline`, `LeaseDeadline`, `LeaseDeadline.policy`,
/// `Outcome.unread`.
#[derive(Default)]
pub(super) struct Comments {
    texts: BTreeMap<String, String>,
    /// The types of fields: `LeaseDeadline.policy`.
    types: BTreeMap<String, String>,
    /// The numbers and names of enums.
    values: BTreeMap<String, Vec<String>>,
}

impl Comments {
    pub(super) fn read() -> Self {
        let mut comments = Self::default();
        comments.read_all(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../agent-common/src")));
        comments
    }

    fn read_all(&mut self, directory: &Path) {
        for entry in fs::read_dir(directory).expect("a directory of the checkout") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().unwrap_or_default();
            if path.is_dir() {
                self.read_all(&path);
            } else if name != "tests" && name != "next" {
                self.add(&fs::read_to_string(&path).expect("a source file is text"));
            }
        }
    }

    fn add(&mut self, source: &str) {
        let (mut owner, mut text) = (String::new(), Vec::new());
        for line in source.lines().map(str::trim) {
            if let Some(more) = line.strip_prefix("///") {
                text.push(more.trim());
                continue;
            }
            if line.starts_with("#[") {
                continue;
            }
            let text = plain(&std::mem::take(&mut text).join(" "));
            let item = line.strip_prefix("pub ").unwrap_or(line);
            let word =
                |item: &str| item.split([' ', ':', '(', '<', '{']).next().unwrap_or_default().to_owned();
            if let Some((_, name)) = item.split_once(": &str = \"") {
                self.texts.insert(name.trim_end_matches("\";").to_owned(), text);
            } else if let Some(name) = item.strip_prefix("struct ").or(item.strip_prefix("enum ")) {
                owner = word(name);
                self.texts.insert(owner.clone(), text);
            } else if let Some((name, kind)) = item.split_once(": ").filter(|_| line.starts_with("pub ")) {
                self.types.insert(format!("{owner}.{name}"), kind.trim_end_matches(',').to_owned());
                self.texts.insert(format!("{owner}.{name}"), text);
            } else if let Some((name, field)) = item.split_once(" = ").filter(|_| line.ends_with(',')) {
                let field = word(field.trim_end_matches(','));
                if field.parse::<u32>().is_ok() {
                    self.values.entry(owner.clone()).or_default().push(format!("{field} {name}"));
                } else {
                    self.texts.insert(format!("{owner}.{field}"), text);
                }
            }
        }
    }

    /// Returns the text of a constant, by its value.
    pub(super) fn of(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", String::as_str)
    }

    /// Returns the text of a field of a struct, or of a part of it (`yielded.mac`), with the values of
    /// its type.
    pub(super) fn of_field(&self, owner: &str, path: &str) -> String {
        let kind = |field: &str| self.types.get(&format!("{owner}.{field}")).map_or("", String::as_str);
        if let Some((field, rest)) = path.split_once('.') {
            return self.of_field(kind(field), rest);
        }
        // A counter has the text of its outcome.
        let outcome = format!("{}.{path}", owner.replace("Counters", "Outcome"));
        let texts = [self.of(&format!("{owner}.{path}")), self.of(&outcome), self.of(kind(path))];
        let text = texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        match self.values.get(kind(path)) {
            Some(values) => format!("{text} Values: {}.", values.join(", ")),
            None => text.to_owned(),
        }
    }
}

/// Returns a text without links.
fn plain(text: &str) -> String {
    text.replace("[`crate::", "`").replace("[`", "`").replace("`]", "`")
}
