//! Records the story chapter by chapter, and prints it behind its result, in colours on a terminal.

use std::cell::RefCell;
use std::env;
use std::fmt::Write as _;
use std::io::{IsTerminal, stderr, stdout};
use std::path::Path;
use std::time::Instant;

use super::findings::Row;

#[derive(Debug)]
pub(super) struct Narrator {
    colours: bool,
    /// True to show on the terminal which chapter runs.
    shows_progress: bool,
    began: Instant,
    story: RefCell<Story>,
}

#[derive(Default, Debug)]
struct Story {
    text: String,
    chapters: usize,
    /// Paths, and the words that stand for them.
    aliases: Vec<(String, &'static str)>,
}

impl Narrator {
    /// Uses colours on a terminal, unless the user forbids them (<https://no-color.org>).
    pub(super) fn new() -> Self {
        Self {
            colours: stdout().is_terminal() && env::var_os("NO_COLOR").is_none(),
            shows_progress: stderr().is_terminal(),
            began: Instant::now(),
            story: RefCell::default(),
        }
    }

    /// Begins a chapter, with the next number.
    pub(super) fn chapter(&self, title: &str) {
        let number = {
            let mut story = self.story.borrow_mut();
            story.chapters += 1;
            story.chapters
        };
        self.heading(&format!("{number}. {title}"));
    }

    /// Begins a part that has no number.
    pub(super) fn heading(&self, title: &str) {
        if self.shows_progress {
            let title: String = title.chars().take(60).collect();
            eprint!("\r\x1b[K  {} s  {title}", self.began.elapsed().as_secs());
        }
        let title = self.painted("1;36", title);
        self.write(&format!("\n{title}\n"));
    }

    /// Writes a word in place of a path from now on.
    pub(super) fn alias(&self, path: &Path, word: &'static str) {
        self.story.borrow_mut().aliases.push((path.display().to_string(), word));
    }

    pub(super) fn text(&self, text: &str) {
        self.line(None, text);
    }

    pub(super) fn act(&self, text: &str) {
        self.line(Some(("2", "$")), text);
    }

    pub(super) fn found(&self, good: bool, text: &str) {
        let (colour, mark) = mark(good);
        self.line(Some((colour, mark)), text);
    }

    /// Prints the result, and then the story.
    pub(super) fn tell(&self, rows: &[Row]) {
        self.clear_progress();
        println!("\n{}", self.painted("1;36", "Result"));
        for (good, line) in table(rows) {
            let mark = good.map_or_else(
                || " ".to_owned(),
                |good| {
                    let (colour, mark) = mark(good);
                    self.painted(colour, mark)
                },
            );
            println!("  {mark} {line}");
        }
        self.tell_story();
    }

    /// Prints what has been recorded.
    pub(super) fn tell_story(&self) {
        self.clear_progress();
        print!("{}", std::mem::take(&mut self.story.borrow_mut().text));
    }

    fn clear_progress(&self) {
        if self.shows_progress {
            eprint!("\r\x1b[K");
        }
    }

    fn line(&self, mark: Option<(&str, &str)>, text: &str) {
        let mark = mark.map(|(colour, mark)| self.painted(colour, mark) + " ").unwrap_or_default();
        self.write(&format!("{}\n", format!("  {mark}{text}").trim_end()));
    }

    fn write(&self, text: &str) {
        let mut story = self.story.borrow_mut();
        let Story { aliases, .. } = &*story;
        let text = aliases.iter().fold(text.to_owned(), |text, (path, word)| text.replace(path, word));
        // Writing to a String cannot fail.
        let _ = story.text.write_str(&text);
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Returns the colour and the sign of a finding.
const fn mark(good: bool) -> (&'static str, &'static str) {
    if good { ("1;32", "✓") } else { ("1;31", "✗") }
}

/// Returns the lines of the result, each with its verdict. The first is the head.
fn table(rows: &[Row]) -> Vec<(Option<bool>, String)> {
    let head = ["", "Vipward", "ordinary kernel"];
    let cells = rows.iter().map(|row| (Some(row.good), [&*row.what, &*row.vipward, &*row.kernel]));
    let cells: Vec<_> = [(None, head)].into_iter().chain(cells).collect();
    let width =
        |column: usize| cells.iter().map(|(_, row)| row[column].chars().count()).max().unwrap_or_default();
    let (first, second) = (width(0), width(1));
    let line = |[what, vipward, kernel]: [&str; 3]| format!("{what:first$}   {vipward:second$}   {kernel}");
    cells.into_iter().map(|(good, row)| (good, line(row).trim_end().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_has_two_columns_and_a_verdict_for_each_row() {
        let row = |good, what: &str, vipward: &str, kernel: &str| Row {
            good,
            what: what.to_owned(),
            vipward: vipward.to_owned(),
            kernel: kernel.to_owned(),
        };
        let rows = [row(true, "a move", "0 of 7", "–"), row(false, "askers", "1", "1,024")];
        let expected = [
            (None, "         Vipward   ordinary kernel"),
            (Some(true), "a move   0 of 7    –"),
            (Some(false), "askers   1         1,024"),
        ];
        assert_eq!(table(&rows), expected.map(|(good, line)| (good, line.to_owned())));
    }

    #[test]
    fn chapters_are_numbered_and_paths_have_other_names() {
        let narrator = Narrator::new();
        narrator.alias(Path::new("/tmp/pins-x1"), "$PINS");
        narrator.heading("A LAN");
        narrator.chapter("First");
        narrator.text("status --pin-dir /tmp/pins-x1/node-a");
        narrator.chapter("Second");
        let text = narrator.story.borrow().text.clone();
        let plain = text.replace("\x1b[1;36m", "").replace("\x1b[0m", "");
        assert_eq!(plain, "\nA LAN\n\n1. First\n  status --pin-dir $PINS/node-a\n\n2. Second\n");
    }
}
