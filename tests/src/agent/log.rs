//! Lines that an agent logged.

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

/// One line of a log: an object of `--log-format json`, or anything else, such as a panic.
#[derive(Clone, PartialEq, Debug)]
pub struct LogLine {
    raw: String,
    json: Value,
}

impl LogLine {
    /// Reads a line that ends with a newline; without one it is still being written and is none yet.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let raw = line.strip_suffix('\n')?.to_owned();
        let json = serde_json::from_str(&raw).unwrap_or(Value::Null);
        Some(Self { raw, json })
    }

    /// The message; the whole line when it is not JSON.
    pub fn message(&self) -> &str {
        self.field("message").and_then(Value::as_str).unwrap_or(&self.raw)
    }

    /// The level (`INFO`, …); empty when the line is not JSON.
    pub fn level(&self) -> &str {
        self.json.get("level").and_then(Value::as_str).unwrap_or_default()
    }

    /// A field of the event.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.json.get("fields").and_then(|fields| fields.get(name)).or_else(|| self.json.get(name))
    }

    /// Whether a field is there and reads like this; strings without their quotes.
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
