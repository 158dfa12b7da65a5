//! What stdout is: a terminal that wants colours, or not.

use std::{
    env,
    io::{IsTerminal, stdout},
};

/// How text for people is set off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Colours(bool);

impl Colours {
    /// None: for files and programs.
    pub const NONE: Self = Self(false);

    /// For a terminal.
    pub const ALL: Self = Self(true);

    /// As stdout wants them: only a terminal does, and not with `NO_COLOR` (<https://no-color.org>).
    pub fn of_stdout() -> Self {
        Self(stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    /// Returns what is wrong.
    pub fn bad(self, text: &str) -> String {
        self.set("1;31", text)
    }

    /// Returns what is in doubt.
    pub fn doubtful(self, text: &str) -> String {
        self.set("1;33", text)
    }

    /// Returns what is as it should be.
    pub fn good(self, text: &str) -> String {
        self.set("1;32", text)
    }

    /// Returns what does not matter.
    pub fn aside(self, text: &str) -> String {
        self.set("2", text)
    }

    fn set(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
