//! Labels of objects.

use std::{collections::BTreeMap, sync::Arc};

#[cfg(test)]
mod tests;

/// Labels that a [`Selector`](super::Selector) can look up.
pub trait Labels {
    fn value(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// The labels of a Service. There are thousands of Services with many labels each, which are rarely
/// looked up: so they are one text, which clones share.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServiceLabels {
    /// A line `key=value` for each. The API server lets neither have a line end, nor a key a `=`.
    lines: Arc<str>,
}

impl From<&BTreeMap<String, String>> for ServiceLabels {
    fn from(labels: &BTreeMap<String, String>) -> Self {
        let lines: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Self { lines: lines.join("\n").into() }
    }
}

impl Labels for ServiceLabels {
    fn value(&self, key: &str) -> Option<&str> {
        self.lines.split('\n').find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
    }
}
