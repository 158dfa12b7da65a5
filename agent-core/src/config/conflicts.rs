//! The section `conflicts`.

use std::time::Duration;

use super::{
    FaultKind,
    raw::RawConflicts,
    values::{Validator, duration_of},
};
use crate::segment::conflict::{Defend, Settings};

/// Parses the quiet time that ends a conflict. Fails if
/// the text is no duration from one second to 30 days.
pub fn conflict_quiet(text: &str) -> Result<Duration, FaultKind> {
    const LEAST: Duration = Duration::from_secs(1);

    duration_of(text, "conflicts.quiet", LEAST)
}

impl Validator<'_> {
    pub(super) fn conflicts(&mut self, raw: &RawConflicts) -> Option<Settings> {
        let words = "match, always, once, never";
        let defend = self.word(raw.defend.as_ref(), "conflicts.defend", words, |word| match word {
            "match" => Some(Defend::Match),
            "always" => Some(Defend::Always),
            "once" => Some(Defend::Once),
            "never" => Some(Defend::Never),
            _ => None,
        });
        let quiet = self.optional(raw.quiet.as_ref(), conflict_quiet);
        Some(Settings {
            defend: defend?.unwrap_or(Settings::DEFAULT.defend),
            quiet: quiet?.unwrap_or(Settings::DEFAULT.quiet),
        })
    }
}
