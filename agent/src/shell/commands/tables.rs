//! The style of tables.

use std::fmt;

use comfy_table::{ContentArrangement, Table, presets::NOTHING};

use vipward_core::{base::legible::Excerpt, diagnosis::pinned::VipStatus, host::answering::Answering};

/// Largest number of characters of a cell or a line.
const MOST: usize = 4_096;

pub(crate) struct Rows(Table);

impl Rows {
    /// Adds a row, with its cells made legible.
    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item: AsRef<str>>) {
        self.0.add_row(cells.into_iter().map(|cell| shown(cell.as_ref()).to_string()));
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns a text as a terminal may have it: nodes and users have written parts of it.
pub(crate) fn shown(text: &str) -> Excerpt {
    Excerpt::of(text, MOST)
}

pub(crate) fn table(header: &[&str]) -> Rows {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    Rows(table)
}

/// Prints a table without spaces at the ends of its lines.
pub(crate) fn print(f: &mut fmt::Formatter<'_>, table: &Rows) -> fmt::Result {
    table.to_string().lines().try_for_each(|line| writeln!(f, "{}", line.trim_end()))
}

pub(crate) fn yes(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

pub(crate) fn or_dash(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

/// Returns a cell that shows whether this node answers for a VIP, or the reason why it has the VIP and
/// does not.
pub(crate) fn answering(vip: &VipStatus) -> String {
    match (vip.answers, vip.part.silent_because()) {
        (Answering::Yes | Answering::Unproven | Answering::No, _) | (Answering::Silent, None) => {
            vip.answers.name().to_owned()
        }
        (Answering::Blind | Answering::Failing(_) | Answering::Doubled, _) => {
            format!("no: {}", vip.answers.name())
        }
        (Answering::Silent, Some(why)) => format!("no: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_line_whatever_nodes_and_users_have_written() {
        let mut rows = table(&["VIP", "CONFLICT"]);
        rows.add_row(["192.0.2.10", "a\n192.0.2.11 \x1b[31mforged\u{202e}"]);
        rows.add_row(["192.0.2.12", "x".repeat(200_000).as_str()]);
        let text = rows.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[1].contains(r"a\n192.0.2.11 \u{1b}[31mforged\u{202e}"), "{:?}", lines[1]);
        assert!(lines[2].trim().chars().count() < MOST + 20);
    }
}
