//! The capabilities of stdout: a terminal that wants colours, and its width.

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
    fn of_stdout() -> Self {
        Self(stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    /// Returns `text` in the colour of `state`. Each can be read on a dark and on a light background.
    pub fn of(self, state: State, text: &str) -> String {
        let code = match state {
            State::Green => "32",
            // Yellow letters cannot be read on white.
            State::Yellow => "30;43",
            State::Unknown => "1",
            State::Red => "1;31",
            State::NotApplicable => "2",
        };
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The form of a text on stdout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Screen {
    pub colours: Colours,
    /// The cells of a line. None in a pipe: there, lines are as long as they are.
    pub width: Option<usize>,
}

impl Screen {
    #[cfg(test)]
    pub const PIPE: Self = Self { colours: Colours::NONE, width: None };

    /// Returns the form for stdout. `COLUMNS` sets the width of a terminal. Some shells export it, and a
    /// pipe has none.
    pub fn of_stdout() -> Self {
        let columns = || env::var("COLUMNS").ok()?.parse().ok();
        let size = || Some(usize::from(ratatui::crossterm::terminal::size().ok()?.0));
        let width = if stdout().is_terminal() { columns().or_else(size) } else { None };
        Self { colours: Colours::of_stdout(), width: width.filter(|width| *width > 0) }
    }
}
