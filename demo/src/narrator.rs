//! Prints the story, in colours on a terminal.

use std::env;
use std::io::{IsTerminal, stdout};

#[derive(Clone, Copy, Debug)]
pub(super) struct Narrator {
    colours: bool,
}

impl Narrator {
    /// Uses colours on a terminal, unless the user forbids them (<https://no-color.org>).
    pub(super) fn new() -> Self {
        Self { colours: stdout().is_terminal() && env::var_os("NO_COLOR").is_none() }
    }

    pub(super) fn chapter(self, text: &str) {
        println!("\n{}", self.painted("1;36", text));
    }

    pub(super) fn text(self, text: &str) {
        self.line(None, text);
    }

    pub(super) fn act(self, text: &str) {
        self.line(Some(("2", "$")), text);
    }

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
