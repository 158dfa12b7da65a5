//! Label selectors, as `kubectl -l` takes them.

use std::{str::FromStr, sync::Arc};

use thiserror::Error;

use super::Labels;
use crate::base::legible::Excerpt;

#[cfg(test)]
mod tests;

/// Requirements on labels. Labels must meet all of them. Without requirements, all labels match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selector {
    text: Arc<str>,
    requirements: Arc<[Requirement]>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Requirement {
    key: String,
    holds: Holds,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Holds {
    Exists,
    Missing,
    In(Vec<String>),
    /// A missing label matches too.
    NotIn(Vec<String>),
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SelectorError {
    #[error(
        "{requirement:?} is no requirement on labels; write key=value, key!=value, key in (a,b), key notin \
         (a,b), key or !key"
    )]
    Requirement { requirement: Excerpt },
    #[error("the parentheses of {selector:?} do not match")]
    Parentheses { selector: Excerpt },
}

impl Selector {
    pub fn matches(&self, labels: &impl Labels) -> bool {
        self.requirements.iter().all(|Requirement { key, holds }| {
            let value = labels.value(key);
            match holds {
                Holds::Exists => value.is_some(),
                Holds::Missing => value.is_none(),
                Holds::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
                Holds::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
            }
        })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    /// Parses a selector. Fails if its parentheses do not match, or if a part is no requirement.
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let parts = split(text)?;
        let requirements: Result<_, _> = parts.into_iter().map(requirement).collect();
        Ok(Self { text: text.into(), requirements: requirements? })
    }
}

/// Splits a selector at the commas outside of parentheses. Returns no part for an empty text.
fn split(text: &str) -> Result<Vec<&str>, SelectorError> {
    let unbalanced = || SelectorError::Parentheses { selector: text.into() };
    let mut parts = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (position, character) in text.char_indices() {
        match character {
            '(' if inside => return Err(unbalanced()),
            '(' => inside = true,
            ')' if !inside => return Err(unbalanced()),
            ')' => inside = false,
            ',' if !inside => {
                parts.push(&text[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(unbalanced());
    }
    parts.push(&text[start..]);
    if parts.len() == 1 && text.trim().is_empty() {
        parts.clear();
    }
    Ok(parts)
}

fn requirement(part: &str) -> Result<Requirement, SelectorError> {
    let wrong = || SelectorError::Requirement { requirement: part.trim().into() };
    let name = |key: &str| {
        let key = key.trim();
        let named = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
        (!key.is_empty() && key.chars().all(named)).then(|| key.to_owned()).ok_or_else(wrong)
    };
    let value = |value: &str| {
        let value = value.trim();
        let plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        value.chars().all(plain).then(|| value.to_owned()).ok_or_else(wrong)
    };
    let set = |rest: &str| {
        let values =
            rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(wrong)?;
        values.split(',').map(value).collect::<Result<Vec<_>, _>>()
    };
    let part = part.trim();
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Requirement { key: name(key)?, holds: Holds::Missing });
    }
    if let Some((key, other)) = part.split_once("!=") {
        return Ok(Requirement { key: name(key)?, holds: Holds::NotIn(vec![value(other)?]) });
    }
    if let Some((key, wanted)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement { key: name(key)?, holds: Holds::In(vec![value(wanted)?]) });
    }
    let mut words = part.splitn(2, char::is_whitespace);
    let (key, rest) = (words.next().unwrap_or_default(), words.next().map(str::trim));
    let holds = match rest {
        None => Holds::Exists,
        Some(rest) if rest.starts_with("notin") => Holds::NotIn(set(&rest["notin".len()..])?),
        Some(rest) if rest.starts_with("in") => Holds::In(set(&rest["in".len()..])?),
        Some(_) => return Err(wrong()),
    };
    Ok(Requirement { key: name(key)?, holds })
}
