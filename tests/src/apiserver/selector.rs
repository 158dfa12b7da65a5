//! Label and field selectors.

#[cfg(test)]
mod tests;

use serde_json::{Number, Value};

use super::refusal::Refusal;

/// Which objects a list or a watch is about.
#[derive(Debug, Clone, Default)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    pointer: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Reads both selectors; `fields` are the paths that this resource can be selected by.
    pub(super) fn parse(labels: &str, field_terms: &str, fields: &[&str]) -> Result<Self, Refusal> {
        let labels =
            split_outside_brackets(labels).into_iter().map(parse_requirement).collect::<Result<_, _>>()?;
        let fields = field_terms
            .split(',')
            .filter(|term| !term.is_empty())
            .map(|term| parse_field(term, fields))
            .collect::<Result<_, _>>()?;
        Ok(Self { labels, fields })
    }

    /// Just the object of this name, if it is selected.
    pub(super) fn and_name(mut self, name: &str) -> Self {
        let term = FieldTerm { pointer: "/metadata/name".to_owned(), value: name.to_owned(), equal: true };
        self.fields.push(term);
        self
    }

    /// Whether everything is selected.
    pub(super) const fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether `object` is selected.
    pub(super) fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| object.get("metadata")?.get("labels")?.get(key)?.as_str();
        self.labels.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => {
                label(key).is_some_and(|label| values.iter().any(|value| value == label))
            }
            Requirement::NotIn(key, values) => {
                label(key).is_none_or(|label| values.iter().all(|value| value != label))
            }
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Missing(key) => label(key).is_none(),
        }) && self.fields.iter().all(|term| {
            let found = object.pointer(&term.pointer);
            let is_it = match found {
                Some(Value::String(text)) => *text == term.value,
                Some(Value::Bool(flag)) => term.value.parse() == Ok(*flag),
                Some(Value::Number(number)) => {
                    term.value.parse().is_ok_and(|wanted: Number| wanted == *number)
                }
                Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => term.value.is_empty(),
            };
            is_it == term.equal
        })
    }
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (place, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn parse_requirement(text: &str) -> Result<Requirement, Refusal> {
    let bad = || Refusal::LabelSelector(text.to_owned());
    let key = |key: &str| {
        let key = key.trim();
        let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-._/".contains(c));
        is_key.then(|| key.to_owned()).ok_or_else(bad)
    };
    let text = text.trim();
    if let Some((front, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let (name, operator) = front.trim().rsplit_once(char::is_whitespace).ok_or_else(bad)?;
        return match operator {
            "in" => Ok(Requirement::In(key(name)?, values)),
            "notin" => Ok(Requirement::NotIn(key(name)?, values)),
            _ => Err(bad()),
        };
    }
    if let Some((name, value)) = text.split_once("!=") {
        return Ok(Requirement::NotIn(key(name)?, vec![value.trim().to_owned()]));
    }
    if let Some((name, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Requirement::In(key(name)?, vec![value.trim().to_owned()]));
    }
    match text.strip_prefix('!') {
        Some(name) => Ok(Requirement::Missing(key(name)?)),
        None => Ok(Requirement::Exists(key(text)?)),
    }
}

fn parse_field(text: &str, known: &[&str]) -> Result<FieldTerm, Refusal> {
    let (path, value, equal) = if let Some((path, value)) = text.split_once("!=") {
        (path, value, false)
    } else if let Some((path, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (path, value, true)
    } else {
        return Err(Refusal::FieldSelector(text.to_owned()));
    };
    if !["metadata.name", "metadata.namespace"].contains(&path) && !known.contains(&path) {
        return Err(Refusal::FieldLabel(path.to_owned()));
    }
    Ok(FieldTerm { pointer: format!("/{}", path.replace('.', "/")), value: value.to_owned(), equal })
}
