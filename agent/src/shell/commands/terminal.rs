//! The capabilities of stdout: a terminal that wants colours, or not.

use std::{
    env,
    io::{IsTerminal, stdout},
};

/// The choice of coloured or plain text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Colours(bool);

impl Colours {
    /// No colours, for files and programs.
    pub const NONE: Self = Self(false);

    /// Colours, for a terminal.
    pub const ALL: Self = Self(true);

    /// Returns the choice for stdout: colours only on a terminal, and not
    /// with `NO_COLOR` (<https://no-color.org>).
    pub fn of_stdout() -> Self {
        Self(stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    pub fn bad(self, text: &str) -> String {
        self.set("1;31", text)
    }

    pub fn doubtful(self, text: &str) -> String {
        self.set("1;33", text)
    }

    pub fn good(self, text: &str) -> String {
        self.set("1;32", text)
    }

    pub fn aside(self, text: &str) -> String {
        self.set("2", text)
    }

    fn set(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
