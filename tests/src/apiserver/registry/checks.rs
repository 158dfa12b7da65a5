//! The checks of built-in types that agents write, besides the types of values.

use serde::de::Error as _;
use serde_json::Value;

use crate::apiserver::refusal::Fault;

/// The form of a time with microseconds, as Go writes it.
const MICRO_FORM: &str = "2006-01-02T15:04:05.000000Z07:00";
/// The longest note of an Event, in bytes.
const NOTE_LIMIT: usize = 1_024;
/// The longest reason, action and reporter of an Event, in bytes.
const NAME_LIMIT: usize = 128;
/// The fields of an Event that an update cannot change.
const FIXED_IN_EVENTS: [&str; 9] = [
    "regarding",
    "related",
    "reason",
    "reportingController",
    "reportingInstance",
    "eventTime",
    "type",
    "action",
    "note",
];

/// Refuses times without exactly six digits after the point.
pub(crate) fn micro_times(object: &Value) -> Result<(), serde_json::Error> {
    let times =
        ["/spec/renewTime", "/spec/acquireTime", "/eventTime", "/series/lastObservedTime"].into_iter();
    let wrong = times
        .filter_map(|path| object.pointer(path)?.as_str())
        .find(|text| text.split_once('.').is_none_or(|(_, fraction)| digits(fraction) != 6));
    match wrong {
        Some(text) => Err(serde_json::Error::custom(format!("parsing time {text:?} as {MICRO_FORM:?}"))),
        None => Ok(()),
    }
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Returns the faults of a `coordination.k8s.io/v1` Lease.
pub(crate) fn lease(_: Option<&Value>, lease: &Value) -> Vec<Fault> {
    let rows = [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ];
    let rows = rows
        .into_iter()
        .filter(|(name, least, _)| lease["spec"][name].as_i64().is_some_and(|number| number < *least));
    rows.map(|(name, _, why)| Fault::invalid(format!("spec.{name}"), &lease["spec"][name], why)).collect()
}

/// Returns the faults of a Secret: names of entries that no file can have.
pub(crate) fn secret(_: Option<&Value>, secret: &Value) -> Vec<Fault> {
    let is_fit = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    let names = secret["data"].as_object().into_iter().flatten().map(|(name, _)| name);
    let unfit = names.filter(|name| !is_fit(name));
    let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
    unfit.map(|name| Fault::invalid(format!("data[{name}]"), &Value::from(name.as_str()), why)).collect()
}

/// Returns the faults of an `events.k8s.io/v1` Event.
pub(crate) fn event(before: Option<&Value>, event: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let text = |name: &str| event[name].as_str().unwrap_or_default();
    for name in ["eventTime", "reportingController", "reportingInstance", "action", "reason"] {
        if text(name).is_empty() {
            faults.push(Fault::required(name));
        }
    }
    let mut unfit = |name: &str, why: String| {
        faults.push(Fault::invalid(path_of(name), &Value::from(""), why));
    };
    let names = ["reportingInstance", "action", "reason"].map(|name| (name, NAME_LIMIT));
    for (name, limit) in names.into_iter().chain([("note", NOTE_LIMIT)]) {
        if text(name).len() > limit {
            unfit(name, format!("can have at most {limit} characters"));
        }
    }
    if !["Normal", "Warning"].contains(&text("type")) {
        unfit("type", format!("has invalid value: {}", text("type")));
    }
    if event["series"].is_object() && event["series"]["count"].as_i64().unwrap_or_default() < 2 {
        unfit("series.count", "should be at least 2".to_owned());
    }
    if let Some(before) = before {
        let changed = FIXED_IN_EVENTS.into_iter().filter(|name| before[name] != event[name]);
        faults.extend(changed.map(|name| Fault::invalid(path_of(name), &event[name], "field is immutable")));
    }
    faults
}

/// Returns a field's name in the older of the two groups of Events, which the messages use.
fn path_of(name: &str) -> &str {
    match name {
        "note" => "message",
        "regarding" => "involvedObject",
        other => other,
    }
}
