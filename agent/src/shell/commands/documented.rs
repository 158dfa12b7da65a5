//! docs/JSON.md, generated from the types that the commands print with `-o json`.
//!
//! Descriptions are the doc comments of the types. `VIPWARD_WRITE_DOCS=1 cargo test -p vipward
//! --lib documented` writes the page; without the variable, the test compares.

mod samples;

use std::{collections::BTreeMap, env, fmt::Write as _, fs, path::Path};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::Value;
use vipward_core::{
    diagnosis::{
        explain::{Explanation, ServiceExplanation},
        overview::Overview,
        pinned::Status,
        who_has,
    },
    pools::PoolList,
};

use super::{doctor::Report, live::Line};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/JSON.md");
const WRITE: &str = "VIPWARD_WRITE_DOCS";

const HEAD: &str = "\
# What `-o json` prints

Generated from the code: `VIPWARD_WRITE_DOCS=1 cargo test -p vipward --lib documented`.

Every key is always there. A key without a value is `null`, where its description says so. Keys and values may be
added; until 1.0 a minor version may change others, and [CHANGELOG.md](../CHANGELOG.md) says so. Texts without a list of
values, such as `found`, `remedy` and `notes`, are for people, and may change at any time. `status`, `pools`
and `doctor` print the same as YAML with `-o yaml`.

MACs are written as `02:00:00:00:00:01`, IPv4 addresses as `192.0.2.10`. Keys that end in `_seconds` or contain
`_seconds_` are in seconds. The examples are shortened.
";

struct Row {
    key: String,
    kind: String,
    meaning: String,
}

/// Returns the schema of a type as it is serialised, without references.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|it| it.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Returns a text of a schema, as one line.
fn line(schema: &Value, key: &str) -> String {
    schema[key].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn list(schema: &Value, key: &str) -> Vec<Value> {
    schema[key].as_array().cloned().unwrap_or_default()
}

/// Returns the schema of a value that is not null, and true if the value may be null.
fn unless_null(schema: &Value) -> (Value, bool) {
    let is_null = |schema: &Value| schema["type"] == "null";
    let others = list(schema, "anyOf");
    if others.iter().any(is_null) {
        let other = others.into_iter().find(|other| !is_null(other)).expect("something else than null");
        return (other, true);
    }
    let mut other = schema.clone();
    let types = list(schema, "type");
    if let Some(kind) = types.iter().find(|kind| *kind != "null") {
        other["type"] = kind.clone();
    }
    (other, !types.is_empty())
}

/// Returns the values of a string type, each with its description if it has one.
fn values(schema: &Value) -> Option<String> {
    let quoted = |value: &Value| format!("`{}`", value.as_str().unwrap_or_default());
    let plain = list(schema, "enum").into_iter().filter(|value| !value.is_null());
    let described = list(schema, "oneOf").into_iter().filter(|one| one.get("const").is_some());
    let described = described.map(|one| {
        let meaning = line(&one, "description");
        format!("{} ({})", quoted(&one["const"]), meaning.trim_end_matches('.'))
    });
    let all: Vec<_> = plain.map(|value| quoted(&value)).chain(described).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    /// Lists of values, by the first key that has them.
    values: BTreeMap<String, String>,
}

impl Rows {
    /// Adds the keys of an object, in the order in which they are printed.
    fn add_all(&mut self, object: &Value, path: &str) {
        for key in list(object, "required").iter().filter_map(Value::as_str) {
            self.add(&object["properties"][key], format!("{path}{key}"));
        }
        let of_each = &object["additionalProperties"];
        if of_each.is_object() {
            let mut of_each = of_each.clone();
            let keys = values(&object["propertyNames"]).expect("the keys of a map are known");
            of_each["description"] = format!("{} Keys: {keys}.", line(&of_each, "description")).into();
            self.add(&of_each, format!("{path}*"));
        }
    }

    fn add(&mut self, schema: &Value, key: String) {
        let (other, nullable) = unless_null(schema);
        let items = &other["items"];
        let name = match other["type"].as_str() {
            Some("string") | None => "text".to_owned(),
            Some("array") if items["type"] == "object" => "list of objects".to_owned(),
            Some("array") if items["type"] == "integer" => "list of integers".to_owned(),
            Some("array") => "list of texts".to_owned(),
            Some(name) => name.to_owned(),
        };
        let kind = if nullable { format!("{name} or null") } else { name };
        let mut meaning = line(schema, "description");
        assert!(!meaning.is_empty(), "{key} has no description");
        if let Some(values) = values(&other) {
            meaning = match self.values.get(&values) {
                Some(first) => format!("{meaning} The values are those of `{first}`."),
                None => format!("{meaning} One of {values}."),
            };
            self.values.entry(values).or_insert_with(|| key.clone());
        }
        let path = format!("{key}{}", if items.is_object() { "[]." } else { "." });
        self.rows.push(Row { key, kind, meaning });
        self.add_all(if items.is_object() { items } else { &other }, &path);
    }
}

/// Returns JSON with each key of the outermost object, and each object of a list in it, on a line.
fn in_few_lines(value: &impl Serialize) -> String {
    let pretty = serde_json::to_string_pretty(value).expect("it serialises");
    let mut lines: Vec<String> = Vec::new();
    for line in pretty.lines() {
        let text = line.trim_start();
        let is_closing = text.starts_with(['}', ']']);
        let joined = match line.len() - text.len() {
            0 => false,
            2 => {
                is_closing
                    && !(text.starts_with(']') && lines.last().is_some_and(|last| last.starts_with("    ")))
            }
            4 => !text.starts_with('{'),
            _ => true,
        };
        match lines.last_mut().filter(|_| joined) {
            Some(last) => {
                let space = if is_closing || last.ends_with(['{', '[']) { "" } else { " " };
                *last = format!("{last}{space}{text}");
            }
            None => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

fn table(rows: &[Row]) -> String {
    let mut text = "| key | type | meaning |\n|---|---|---|\n".to_owned();
    for Row { key, kind, meaning } in rows {
        assert!(!meaning.contains('|'), "{key}: a bar ends the cell");
        writeln!(text, "| `{key}` | {kind} | {} |", meaning.trim()).expect("a String takes everything");
    }
    text
}

/// Returns the section of a command that prints a `T`.
fn section<T: JsonSchema + Serialize>(command: &str, example: &T) -> String {
    let schema = schema::<T>();
    let mut rows = Rows::default();
    rows.add_all(&schema, "");
    let example = in_few_lines(example);
    let (what, table) = (line(&schema, "description"), table(&rows.rows));
    format!("\n## {command}\n\n{what}\n\n```json\n{example}\n```\n\n{table}")
}

/// Returns the section of `vipward watch`, which prints one of several objects a line.
fn watch() -> String {
    let schema = schema::<Line<'_>>();
    let mut rows = Rows::default();
    rows.add(&schema["properties"]["time"], "time".to_owned());
    let mut text = format!("\n## vipward watch\n\n{}\n\n```json\n", line(&schema, "description"));
    for change in samples::watch() {
        let line = Line { time: "2026-10-17T08:15:00.000Z".to_owned(), change: &change };
        let line = serde_json::to_string(&line).expect("it serialises");
        writeln!(text, "{line}").expect("a String takes everything");
    }
    for event in list(&schema, "oneOf") {
        let name = event["properties"]["event"]["const"].as_str().expect("an event").to_owned();
        let meaning = line(&event, "description");
        rows.rows.push(Row { key: format!("event: {name}"), kind: "text".to_owned(), meaning });
        let mut keys = event.clone();
        let required = list(&event, "required").into_iter().filter(|key| key != "event");
        keys["required"] = required.collect();
        rows.add_all(&keys, &format!("{name}: "));
    }
    text + "```\n\n" + &table(&rows.rows)
}

fn page() -> String {
    [
        HEAD.to_owned(),
        section::<who_has::Report>("vipward who-has", &samples::who_has()),
        section::<Explanation>("vipward explain ADDRESS", &samples::explain()),
        section::<ServiceExplanation>("vipward explain SERVICE", &samples::explain_service()),
        section::<Report>("vipward doctor", &samples::doctor()),
        section::<Status>("vipward status", &samples::status()),
        section::<Overview>("vipward status --cluster", &samples::cluster()),
        section::<PoolList>("vipward pools", &samples::pools()),
        watch(),
    ]
    .concat()
}

#[test]
fn the_page_is_what_the_types_say() {
    let (path, page) = (Path::new(PAGE), page());
    if env::var_os(WRITE).is_some() {
        fs::write(path, &page).expect("the page can be written");
    }
    let committed = fs::read_to_string(path).expect("the page can be read");
    assert!(
        page == committed,
        "docs/JSON.md is not what the types say: {WRITE}=1 cargo test -p vipward --lib documented"
    );
}
