//! docs/reference/json.md, and in docs/reference/json the schemas and examples of what the commands
//! print with `-o json`.
//!
//! Descriptions are the doc comments of the types.

use std::{collections::BTreeSet, fmt::Write as _, fs};

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

use super::{GENERATED, assert_committed, head, reference, row, samples};
use crate::shell::commands::{doctor::Report, live::Line};

const PAGE: &str = "json.md";
const DIRECTORY: &str = "json";

const HEAD: &str = "\
For scripts and programs that read what a command prints with `-o json`. Each output has a JSON
schema with a description of every key, and an example.

- Every key is always there. A key without a value is `null`, where the schema says so.
- Keys and values may be added. Until 1.0 a minor version may change others, and
  [CHANGELOG.md](../../CHANGELOG.md) names the change.
- Texts without a list of values, such as `found`, `remedy` and `notes`, are for people, and may
  change at any time.
- MACs are written as `02:00:00:00:00:01`, IPv4 addresses as `192.0.2.10`. Keys that end in
  `_seconds` or contain `_seconds_` are in seconds.
- `status`, `pools` and `doctor` print the same as YAML with `-o yaml`.

";

/// An output: its command, the name of its files, its schema, and the example as it is printed.
struct Output {
    command: &'static str,
    name: &'static str,
    schema: Value,
    example: String,
    /// The extension of the example: `json`, or `jsonl` if each line is an object.
    extension: &'static str,
}

fn output<T: JsonSchema + Serialize>(command: &'static str, name: &'static str, example: &T) -> Output {
    let example = serde_json::to_string_pretty(example).expect("it serialises") + "\n";
    Output { command, name, schema: schema::<T>(command), example, extension: "json" }
}

fn outputs() -> [Output; 8] {
    let lines = samples::watch();
    let time = "2026-10-17T08:15:00.000Z";
    let lines = lines.iter().map(|change| Line { time: time.to_owned(), change });
    let lines = lines.map(|line| serde_json::to_string(&line).expect("it serialises") + "\n");
    let watch = Output {
        command: "vipward watch --plain",
        name: "watch",
        schema: schema::<Line<'_>>("vipward watch --plain"),
        example: lines.collect(),
        extension: "jsonl",
    };
    [
        output::<who_has::Report>("vipward who-has", "who-has", &samples::who_has()),
        output::<Explanation>("vipward explain ADDRESS", "explain-address", &samples::explain()),
        output::<ServiceExplanation>(
            "vipward explain SERVICE",
            "explain-service",
            &samples::explain_service(),
        ),
        output::<Report>("vipward doctor", "doctor", &samples::doctor()),
        output::<Status>("vipward status", "status", &samples::status()),
        output::<Overview>("vipward status --cluster", "status-cluster", &samples::cluster()),
        output::<PoolList>("vipward pools", "pools", &samples::pools()),
        watch,
    ]
}

/// Returns the schema of a type as it is serialised, without references.
fn schema<T: JsonSchema>(command: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|it| it.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    schema["title"] = format!("{command} -o json").into();
    one_line(&mut schema);
    // Otherwise another crate's features decide on the order.
    schema.sort_all_objects();
    schema
}

/// Joins the lines of the descriptions.
fn one_line(schema: &mut Value) {
    if let Some(text) = schema["description"].as_str() {
        schema["description"] = text.split_whitespace().collect::<Vec<_>>().join(" ").into();
    }
    let below: Vec<&mut Value> = match schema {
        Value::Object(keys) => keys.values_mut().collect(),
        Value::Array(values) => values.iter_mut().collect(),
        _ => Vec::new(),
    };
    below.into_iter().filter(|it| it.is_object() || it.is_array()).for_each(one_line);
}

/// Fails if a key has no description. The description of an event's value is enough for its key.
fn assert_described(schema: &Value, path: &str) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_described = property["description"].is_string() || property["const"].is_string();
        assert!(is_described, "{path}.{key} has no description");
    }
    let below = schema.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value));
    for (key, value) in below {
        for value in value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice) {
            assert_described(value, &format!("{path}.{key}"));
        }
    }
}

#[test]
fn every_output_has_its_schema_and_an_example_in_the_reference() {
    let mut page = format!("# What `-o json` prints\n\n{GENERATED}\n\n{HEAD}");
    page += &head(&["command", "it prints", "schema", "example"]);
    let mut files = BTreeSet::new();
    for Output { command, name, schema, example, extension } in outputs() {
        assert_described(&schema, command);
        let link = |file: &str| format!("[{file}]({DIRECTORY}/{file})");
        let (of_schema, of_example) = (format!("{name}.schema.json"), format!("{name}.{extension}"));
        let what = schema["description"].as_str().expect("it is described");
        page += &row(&[&format!("`{command}`"), what, &link(&of_schema), &link(&of_example)]);
        let mut text = serde_json::to_string_pretty(&schema).expect("it serialises");
        writeln!(text).expect("a String takes everything");
        assert_committed(&format!("{DIRECTORY}/{of_schema}"), &text);
        assert_committed(&format!("{DIRECTORY}/{of_example}"), &example);
        files.extend([of_schema, of_example]);
    }
    assert_committed(PAGE, &page);
    let there = fs::read_dir(reference(DIRECTORY)).expect("a directory of the checkout");
    let there = there.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    assert_eq!(there.collect::<BTreeSet<_>>(), files, "docs/reference/{DIRECTORY}");
}
