//! What the types that agents write demand of their values, beyond each being of the right type.

use serde::de::Error as _;
use serde_json::Value;

use super::refusal::{Fault, FieldFault};

/// What is wrong with an object that comes in the place of another, or of none.
pub(super) type Check = fn(before: Option<&Value>, after: &Value) -> Vec<FieldFault>;

/// Where objects have times with microseconds.
const MICRO_TIMES: [&str; 4] =
    ["/spec/renewTime", "/spec/acquireTime", "/eventTime", "/series/lastObservedTime"];
/// Their form; Go's time package writes the digits that way.
const MICRO_FORM: &str = "2006-01-02T15:04:05.000000Z07:00";
/// In bytes.
const NOTE_LIMIT: usize = 1_024;
/// In bytes; of a reason, an action, and who reports.
const NAME_LIMIT: usize = 128;
/// What the update of an Event cannot change.
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

/// For most types.
pub(super) fn nothing(_: Option<&Value>, _: &Value) -> Vec<FieldFault> {
    Vec::new()
}

/// Refuses times that have not just six digits behind the point.
pub(super) fn micro_times(object: &Value) -> Result<(), serde_json::Error> {
    let wrong = MICRO_TIMES
        .into_iter()
        .filter_map(|path| object.pointer(path)?.as_str())
        .find(|text| !has_microseconds(text));
    match wrong {
        Some(text) => Err(serde_json::Error::custom(format!("parsing time {text:?} as {MICRO_FORM:?}"))),
        None => Ok(()),
    }
}

fn has_microseconds(time: &str) -> bool {
    let Some((_, fraction)) = time.split_once('.') else { return false };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    digits == 6
}

/// Of `coordination.k8s.io/v1`.
pub(super) fn lease(_: Option<&Value>, lease: &Value) -> Vec<FieldFault> {
    let number = |name: &str| lease["spec"][name].as_i64();
    let rows = [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ];
    rows.into_iter()
        .filter_map(|(name, least, why)| {
            let value = number(name).filter(|number| *number < least)?;
            Some(unfit(&format!("spec.{name}"), value.into(), why.to_owned()))
        })
        .collect()
}

/// Of `events.k8s.io/v1`.
pub(super) fn event(before: Option<&Value>, event: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let text = |name: &str| event[name].as_str().unwrap_or_default();
    for name in ["eventTime", "reportingController", "reportingInstance", "action", "reason"] {
        if text(name).is_empty() {
            faults.push(FieldFault { path: name.to_owned(), fault: Fault::Required });
        }
    }
    let limits = [
        ("reportingInstance", NAME_LIMIT),
        ("action", NAME_LIMIT),
        ("reason", NAME_LIMIT),
        ("note", NOTE_LIMIT),
    ];
    for (name, limit) in limits {
        if text(name).len() > limit {
            faults.push(unfit(name, "".into(), format!("can have at most {limit} characters")));
        }
    }
    if !["Normal", "Warning"].contains(&text("type")) {
        faults.push(unfit("type", "".into(), format!("has invalid value: {}", text("type"))));
    }
    if event["series"].is_object() && event["series"]["count"].as_i64().unwrap_or_default() < 2 {
        faults.push(unfit("series.count", "".into(), "should be at least 2".to_owned()));
    }
    let Some(before) = before else { return faults };
    for name in FIXED_IN_EVENTS {
        if before[name] != event[name] {
            faults.push(unfit(name, event[name].clone(), "field is immutable".to_owned()));
        }
    }
    faults
}

fn unfit(path: &str, value: Value, why: String) -> FieldFault {
    // Events are looked at in the words of the older of their two groups.
    let path = match path {
        "note" => "message",
        "regarding" => "involvedObject",
        other => other,
    };
    FieldFault { path: path.to_owned(), fault: Fault::Unfit { value, why } }
}
