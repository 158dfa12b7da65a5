//! Parses the log lines of an agent.

use std::fmt;

use serde_json::Value;

/// Log line: an object of `--log-format json`, or other text such as a panic.
#[derive(Clone, PartialEq, Debug)]
pub struct LogLine {
    raw: String,
    json: Value,
}

impl LogLine {
    /// Parses a line. One without a newline is incomplete and yields `None`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let raw = line.strip_suffix('\n')?.to_owned();
        let json = serde_json::from_str(&raw).unwrap_or(Value::Null);
        Some(Self { raw, json })
    }

    /// Returns the message, or the whole line if it is not JSON.
    pub fn message(&self) -> &str {
        self.field("message").and_then(Value::as_str).unwrap_or(&self.raw)
    }

    /// Returns the level, such as `INFO`, or an empty text if the line is not JSON.
    pub fn level(&self) -> &str {
        self.json.get("level").and_then(Value::as_str).unwrap_or_default()
    }

    pub fn field(&self, name: &str) -> Option<&Value> {
        self.json.get("fields").and_then(|fields| fields.get(name)).or_else(|| self.json.get(name))
    }

    /// Returns true if a field has this value. Strings are without quotes.
    pub fn has(&self, name: &str, value: impl fmt::Display) -> bool {
        let found = self.field(name).map(|found| match found {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        found == Some(value.to_string())
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raw)
    }
}
