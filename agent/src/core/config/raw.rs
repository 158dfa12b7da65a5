//! The file as YAML: which keys there are, and where each value stands.

use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::{ConfigError, fault::Place};

/// A text and where it stands, in little room: there may be a hundred thousand VIPs.
pub(super) struct Text {
    pub(super) value: Box<str>,
    pub(super) place: Place,
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, defined: _ } = Spanned::<Box<str>>::deserialize(deserializer)?;
        Ok(Self { value, place: Place::from(&referenced) })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    pub(super) node: Option<Text>,
    pub(super) interfaces: Option<Vec<Text>>,
    pub(super) vips: Vec<RawVip>,
    #[serde(default)]
    pub(super) peers: Vec<Text>,
    pub(super) xdp: Option<Text>,
    #[serde(default)]
    pub(super) fence: RawFence,
    #[serde(default)]
    pub(super) announce: RawAnnounce,
    pub(super) shutdown: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawVip {
    pub(super) address: Text,
    pub(super) interface: Option<Text>,
    pub(super) bind: Option<Text>,
    pub(super) mac: Option<Text>,
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

/// Reads the YAML; what is wrong here ends the reading, so it is told alone.
pub(super) fn read(text: &str, file: &str) -> Result<RawConfig, ConfigError> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Err(ConfigError::Empty { file: file.to_owned() });
    }
    serde_saphyr::from_str(text).map_err(|error| ConfigError::Yaml {
        file: file.to_owned(),
        place: error.location().map_or(Place::START, |location| Place::from(&location)),
        reason: reason(&error),
    })
}

/// What the reader says, without the place that it repeats and the hint that is for programmers.
fn reason(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    text.split(", set DuplicateKeyPolicy").next().unwrap_or_default().to_owned()
}
