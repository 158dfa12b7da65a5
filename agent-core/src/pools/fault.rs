//! Faults of a pool's values, each with the field.

use thiserror::Error;

use super::range::{AddressRange, MOST_RANGES, RangeError};
use crate::{
    base::{legible::Excerpt, pattern::PatternError},
    records::{Selector, SelectorError},
};

/// A fault in a pool's value, with the field.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{field}: {why}")]
pub struct PoolFault {
    /// The field's path below `spec`.
    pub field: String,
    pub why: PoolFaultKind,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PoolFaultKind {
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error(transparent)]
    Selector(#[from] SelectorError),
    #[error(transparent)]
    Interface(#[from] PatternError),
    #[error("{text:?} is no time to keep an address for; write 0s, a duration such as 24h, or forever")]
    Keep { text: Excerpt },
    /// Two ranges of one pool with the same address.
    #[error("{range} has addresses of {other} too; write each address once")]
    Twice {
        /// The later range.
        range: AddressRange,
        /// The earlier one.
        other: AddressRange,
    },
    /// More ranges than a pool may have.
    #[error(
        "there are {count} ranges, and a pool may have {MOST_RANGES}: the others are left out; write \
         networks, or make a second pool"
    )]
    TooMany { count: usize },
    #[error("it has no usable address; write at least one network, range or address")]
    Empty,
}

/// Reads selectors. Those with a fault are left out.
pub(super) fn selectors(field: &str, texts: &[Box<str>], faults: &mut Vec<PoolFault>) -> Vec<Selector> {
    let mut selectors = Vec::new();
    for (position, text) in texts.iter().enumerate() {
        let read: Result<Selector, SelectorError> = text.parse();
        match read {
            Ok(selector) => selectors.push(selector),
            Err(why) => push(faults, field.replace('#', &position.to_string()), why.into()),
        }
    }
    selectors
}

pub(super) fn push(faults: &mut Vec<PoolFault>, field: String, why: PoolFaultKind) {
    faults.push(PoolFault { field, why });
}
