//! The capabilities of stdout: a terminal that wants colours, or not.

use std::{
    env,
    io::{IsTerminal, stdout},
};

use vipward_core::diagnosis::finding::State;

/// The choice of coloured or plain text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Colours(bool);

impl Colours {
    pub const NONE: Self = Self(false);

    pub const ALL: Self = Self(true);

    /// Returns the choice for stdout: colours only on a terminal, and not
    /// with `NO_COLOR` (<https://no-color.org>).
    pub fn of_stdout() -> Self {
        Self(stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    /// Returns `text` in the colour of `state`.
    pub fn of(self, state: State, text: &str) -> String {
        let code = match state {
            State::Green => "1;32",
            State::Yellow | State::Unknown => "1;33",
            State::Red => "1;31",
            State::NotApplicable => "2",
        };
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
