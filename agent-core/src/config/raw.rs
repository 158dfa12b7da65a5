//! The file as YAML: its keys, and the place of each value.

use serde::{Deserialize, Deserializer};
use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter as _, Spanned};

use super::{ConfigError, fault::Place};
use crate::base::legible::Legible;

pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// A text and its place. The text is boxed, because there may be a hundred thousand VIPs.
pub(super) type Text = At<Box<str>>;

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, defined: _ } = Spanned::<T>::deserialize(deserializer)?;
        Ok(Self { value, place: Place::from(&referenced) })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    pub(super) node: Option<Text>,
    pub(super) interfaces: Option<At<Vec<Text>>>,
    /// `None` for a bare `vips:`, as in a truncated file.
    pub(super) vips: At<Option<Vec<RawVip>>>,
    #[serde(default)]
    pub(super) peers: Vec<Text>,
    pub(super) attach: Option<Text>,
    #[serde(default)]
    pub(super) fence: RawFence,
    #[serde(default)]
    pub(super) announce: RawAnnounce,
    #[serde(default)]
    pub(super) probe: RawProbe,
    #[serde(default)]
    pub(super) conflicts: RawConflicts,
    #[serde(rename = "yield")]
    pub(super) yields: Option<Text>,
    pub(super) shutdown: Option<Text>,
}

/// An entry of `vips`. Most of a hundred thousand have no key but the address.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawVip {
    pub(super) address: Text,
    pub(super) interface: Option<Box<Text>>,
    pub(super) vlan: Option<Box<Text>>,
    pub(super) bind: Option<Box<Text>>,
    pub(super) mac: Option<Box<Text>>,
    pub(super) force: Option<Box<Text>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawFence {
    pub(super) duration: Option<Text>,
    pub(super) heartbeat: Option<Text>,
    pub(super) policy: Option<Text>,
    pub(super) hold_for: Option<Text>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawAnnounce {
    pub(super) refresh: Option<Text>,
    pub(super) rate: Option<Text>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawProbe {
    pub(super) count: Option<Text>,
    pub(super) interval: Option<Text>,
    pub(super) repeat: Option<Text>,
    pub(super) rate: Option<Text>,
    pub(super) proxied: Option<Text>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawConflicts {
    pub(super) defend: Option<Text>,
    pub(super) quiet: Option<Text>,
}

/// Reads the YAML. A fault ends the reading, so it is the only one reported.
pub(super) fn read(text: &str, file: &str) -> Result<RawConfig, ConfigError> {
    let is_blank = |line: &str| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "---" || line == "..."
    };
    if text.lines().all(is_blank) {
        return Err(ConfigError::Empty { file: file.to_owned() });
    }
    // The limits guard against a small text that expands to a large one, not against a long list.
    let length = text.len();
    let mut options = serde_saphyr::options! {};
    if let Some(budget) = &mut options.budget {
        budget.max_nodes = budget.max_nodes.max(length);
        budget.max_events = budget.max_events.max(length);
        budget.max_total_scalar_bytes = budget.max_total_scalar_bytes.max(length);
    }
    serde_saphyr::from_str_with_options(text, options).map_err(|error| ConfigError::Yaml {
        file: file.to_owned(),
        place: error.location().map_or(Place::START, |location| Place::from(&location)),
        reason: Legible(reason(error.without_snippet())).to_string(),
    })
}

/// Returns the fault in words for the file's author. The YAML parser's messages are for
/// programmers.
fn reason(error: &Error) -> String {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown key `{field}`; the keys here are {}", expected.join(", "))
        }
        Error::SerdeMissingField { field: "vips", .. } => {
            "the key `vips` is missing; write `vips: []` for none".to_owned()
        }
        Error::SerdeMissingField { field, .. } => format!("the key `{field}` is missing"),
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("<<");
            format!("the key `{key}` is given twice; remove one of the two")
        }
        Error::Unexpected { expected, .. } => format!("this should be {}", shape(expected)),
        Error::NullIntoString { .. } => "there is no value; write one, or leave the key out".to_owned(),
        Error::MultipleDocuments { .. } => "there is a second YAML document; a file has one".to_owned(),
        other => DefaultMessageFormatter.format_message(other).into_owned(),
    }
}

/// Returns a description of a shape, as it appears in a file.
fn shape(expected: &str) -> &str {
    let words = [
        ("sequence", "a list: lines that begin with `- `, or [a, b]"),
        ("mapping", "`key: value` lines, or {key: value}"),
        ("scalar", "one value"),
    ];
    words.into_iter().find_map(|(name, words)| expected.contains(name).then_some(words)).unwrap_or(expected)
}
