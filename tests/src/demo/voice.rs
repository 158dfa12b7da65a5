//! What is told, in colours where somebody sees them.

use std::env;
use std::io::{IsTerminal, stdout};

/// Speaks to stdout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Voice {
    colours: bool,
}

impl Voice {
    /// Colours on a terminal only, and not against the user's wish (<https://no-color.org>).
    pub(super) fn new() -> Self {
        Self { colours: stdout().is_terminal() && env::var_os("NO_COLOR").is_none() }
    }

    /// A new chapter.
    pub(super) fn chapter(self, text: &str) {
        println!("\n{}", self.painted("1;36", text));
    }

    /// A sentence.
    pub(super) fn say(self, text: &str) {
        self.line(None, text);
    }

    /// What somebody does.
    pub(super) fn act(self, text: &str) {
        self.line(Some(("2", "$")), text);
    }

    /// What was seen and is as it should be, or the trouble that the story is about.
    pub(super) fn found(self, good: bool, text: &str) {
        self.line(Some(if good { ("1;32", "✓") } else { ("1;31", "✗") }), text);
    }

    fn line(self, mark: Option<(&str, &str)>, text: &str) {
        let mark = mark.map(|(colour, mark)| self.painted(colour, mark) + " ").unwrap_or_default();
        println!("  {mark}{text}");
    }

    fn painted(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
