//! docs/JSON.md and what the commands print with `-o json` say the same: keys, types, what may be null, values.
//!
//! [`samples`] has a value of each report in which nothing is left out: a field that is new does not compile before it is
//! there, and is then a key that the page must have.

mod page;
mod samples;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use self::page::{Keys, section};
use super::bpf;
use crate::core::{explain, overview::VipState, who_has};

/// What a command prints.
#[derive(Debug, Default)]
struct Printed {
    /// The type of each key.
    types: BTreeMap<String, String>,
    /// The keys that were null.
    nulls: BTreeSet<String>,
    /// Texts that stood there.
    texts: BTreeMap<String, BTreeSet<String>>,
    /// The keys whose own keys are values.
    maps: &'static [&'static str],
}

impl Printed {
    /// `full` is a report in which nothing is null or empty; in each of `bare` something is null.
    fn of<T: Serialize>(full: &T, bare: &[T], maps: &'static [&'static str]) -> Self {
        let mut printed = Self { maps, ..Self::default() };
        let value = |report: &T| serde_json::to_value(report).expect("it serialises");
        printed.add("", "", &value(full));
        assert!(printed.nulls.is_empty(), "null in what should be full: {:?}", printed.nulls);
        let types = printed.types.clone();
        assert!(
            !types.values().any(|kind| kind == "empty list"),
            "empty lists in what should be full: {types:#?}"
        );
        for report in bare {
            printed.add("", "", &value(report));
        }
        // What is bare adds no key and no type.
        assert_eq!(printed.types, types);
        printed
    }

    /// Adds the keys of `object`, which are those of the event that `of` begins with, if any.
    fn add(&mut self, of: &str, path: &str, object: &Value) {
        for (key, value) in object.as_object().into_iter().flatten() {
            let parent = path.trim_end_matches('.');
            let key = if self.maps.contains(&parent) { "*" } else { key.as_str() };
            let path = format!("{of}{path}{key}");
            let kind = match value {
                Value::Null => {
                    self.nulls.insert(path);
                    continue;
                }
                Value::Bool(_) => "boolean",
                Value::Number(number) if number.is_f64() => "number",
                Value::Number(_) => "integer",
                Value::String(text) => {
                    self.texts.entry(path.clone()).or_default().insert(text.clone());
                    "text"
                }
                Value::Object(_) => {
                    self.add("", &format!("{path}."), value);
                    "object"
                }
                Value::Array(items) => {
                    for item in items {
                        self.add("", &format!("{path}[]."), item);
                    }
                    match items.first() {
                        None => "empty list",
                        Some(Value::String(_)) => "list of text",
                        Some(_) => "list of objects",
                    }
                }
            };
            let known = self.types.insert(path.clone(), kind.to_owned());
            assert!(known.is_none_or(|known| known == kind), "{path} has two types");
        }
    }

    /// Compares it with a section of the page, whose closed sets of values are `values`.
    fn assert_documented(&self, heading: &str, values: &[(&str, BTreeSet<String>)]) {
        let documented: Keys = section(heading);
        let of = |keys: BTreeSet<&String>, other: &BTreeSet<&String>| -> Vec<String> {
            keys.difference(other).map(|key| (*key).clone()).collect()
        };
        let (said, written) = (self.types.keys().collect(), documented.keys().collect());
        let (missing, unsaid) = (of(BTreeSet::clone(&said), &written), of(written, &said));
        assert!(
            missing.is_empty() && unsaid.is_empty(),
            "{heading}: not in the page: {missing:?}; in it only: {unsaid:?}"
        );
        let values: BTreeMap<_, _> = values.iter().map(|(key, values)| (*key, values)).collect();
        for (key, row) in &documented {
            let kind = &self.types[key];
            let (name, unit) = row.kind.split_once(", ").unwrap_or((row.kind.as_str(), ""));
            assert_eq!(name, kind, "{heading}: the type of {key}");
            assert_eq!(unit.is_empty(), kind != "number", "{heading}: the unit of {key}");
            let in_seconds = key.ends_with("_seconds") || key.contains("_seconds_");
            assert_eq!(unit == "seconds", in_seconds, "{heading}: the unit of {key}");
            assert_eq!(row.nullable, self.nulls.contains(key), "{heading}: whether {key} may be null");
            match values.get(key.as_str()) {
                Some(values) => assert_eq!(&&row.values, values, "{heading}: the values of {key}"),
                None => assert!(row.values.is_empty(), "{heading}: who says so of {key}? {:?}", row.values),
            }
            let strange =
                self.texts.get(key).filter(|texts| !row.values.is_empty() && !texts.is_subset(&row.values));
            assert_eq!(strange, None, "{heading}: a text of {key} that is no value of it");
        }
        let unknown: Vec<_> = values.keys().filter(|key| !documented.contains_key(**key)).collect();
        assert!(unknown.is_empty(), "{heading}: values of no key: {unknown:?}");
    }
}

#[test]
fn who_has_prints_what_the_page_says() {
    let (full, bare) = samples::who_has();
    Printed::of(&full, &bare, &[]).assert_documented(
        "vipward who-has",
        &[
            ("verdict", values::serialised::<who_has::Verdict>()),
            ("answers[].relation", values::serialised::<who_has::Relation>()),
            ("answers[].seen", values::serialised::<who_has::Seen>()),
            ("answers[].silent_because", values::silences()),
        ],
    );
}

#[test]
fn explain_prints_what_the_page_says() {
    let (full, bare) = samples::explain();
    Printed::of(&full, &bare, &[]).assert_documented(
        "vipward explain",
        &[
            ("broken", values::serialised::<explain::Link>()),
            ("attached.mode", values::serialised::<explain::Mode>()),
            ("steps[].link", values::serialised::<explain::Link>()),
            ("steps[].verdict", values::serialised::<explain::Verdict>()),
        ],
    );
}

#[test]
fn doctor_prints_what_the_page_says() {
    let (full, bare) = samples::doctor();
    Printed::of(&full, &bare, &["summary"]).assert_documented(
        "vipward doctor",
        &[("summary.*", values::states()), ("checks[].state", values::states())],
    );
}

#[test]
fn status_prints_what_the_page_says() {
    let (full, bare) = samples::status();
    Printed::of(&full, &bare, &["counters"]).assert_documented(
        "vipward status",
        &[
            ("fence.state", values::fence_states()),
            ("fence.policy", values::policies()),
            ("interfaces[].mode", values::serialised::<bpf::Mode>()),
            ("vips[].role", values::roles()),
            ("vips[].silent_because", values::silences()),
            ("offenders[].kind", values::offences()),
            ("counters.*", values::outcomes()),
        ],
    );
}

#[test]
fn status_of_a_cluster_prints_what_the_page_says() {
    let (full, bare) = samples::cluster();
    Printed::of(&full, &bare, &[])
        .assert_documented("vipward status --cluster", &[("vips[].state", values::serialised::<VipState>())]);
}

#[test]
fn watch_prints_what_the_page_says() {
    let (full, bare) = samples::watch();
    let mut printed = Printed::default();
    for line in full.iter().chain(&bare) {
        let event = line["event"].as_str().expect("an event");
        let (every, its): (BTreeMap<_, _>, BTreeMap<_, _>) = line
            .as_object()
            .expect("an object")
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .partition(|(key, _)| key == "time" || key == "event");
        printed.add("every/", "", &serde_json::to_value(every).expect("it serialises"));
        printed.add(&format!("{event}/"), "", &serde_json::to_value(its).expect("it serialises"));
    }
    let events = values::events();
    assert_eq!(printed.texts["every/event"], events, "there is a sample of each");
    printed.assert_documented(
        "vipward watch",
        &[
            ("every/event", events),
            ("start/fence", values::fence_states()),
            ("fence/from", values::fence_states()),
            ("fence/to", values::fence_states()),
            ("role/from", values::roles()),
            ("role/to", values::roles()),
            ("answering/silent_because", values::silences()),
            ("offender/kind", values::offences()),
        ],
    );
}
