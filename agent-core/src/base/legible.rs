//! Texts of others as parts of messages: short, and without characters that a log or a terminal
//! obeys.
//!
//! A value that a user or another program has written enters a message as an [`Excerpt`], and a
//! message leaves the process as [`Legible`]: in a line of the log, an Event, a condition or a table.

use std::fmt::{self, Write as _};

#[cfg(test)]
mod tests;

/// Largest number of characters of a value that a message shows.
const MOST_SHOWN: usize = 200;
/// Length of the longest message of a condition, in characters.
pub const MAX_MESSAGE: usize = 32_768;

/// The beginning of a value: its first 200 characters by default. `Debug` writes them in quotes,
/// `Display` without. Both escape them as [`Legible`] does.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Excerpt(Box<str>);

/// Returns the number of texts that fit into so many bytes together, the first ones. The first one always does.
pub fn named_within(texts: &[String], most: usize) -> usize {
    let mut bytes = 0;
    let fits = |text: &&String| {
        bytes += text.len();
        bytes <= most
    };
    texts.iter().take_while(fits).count().max(1).min(texts.len())
}

impl Excerpt {
    /// Returns the first `most` characters of a text, with `…` in place of the rest.
    pub fn of(text: &str, most: usize) -> Self {
        match text.char_indices().nth(most) {
            Some((end, _)) => Self(format!("{}…", &text[..end]).into()),
            None => Self(text.into()),
        }
    }

    pub fn contains(&self, text: &str) -> bool {
        self.0.contains(text)
    }
}

impl From<&str> for Excerpt {
    fn from(text: &str) -> Self {
        Self::of(text, MOST_SHOWN)
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{:?}", self.0)
    }
}

/// A text in one line, with control characters, line ends and other invisible characters escaped as
/// `\u{202e}`. Backslashes and quotes stay, so that a legible text stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct Legible<T>(pub T);

impl<T: fmt::Display> fmt::Display for Legible<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

/// Returns the part of `text` that fits a condition's message, made legible.
pub fn message(text: &str) -> String {
    let mut text = Legible(text).to_string();
    if let Some((end, _)) = text.char_indices().nth(MAX_MESSAGE) {
        text.truncate(end);
    }
    text
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(is_escaped) {
            let (plain, from_here) = rest.split_at(at);
            let mut characters = from_here.chars();
            self.0.write_str(plain)?;
            if let Some(character) = characters.next() {
                write!(self.0, "{}", character.escape_debug())?;
            }
            rest = characters.as_str();
        }
        self.0.write_str(rest)
    }
}

/// Returns true for the Unicode categories C (controls, formats, bidirectional overrides and more)
/// and Z, except the space. Returns true for marks that combine with the character before.
pub fn is_escaped(character: char) -> bool {
    !matches!(character, ' '..='~') && character.escape_debug().len() > 1
}
