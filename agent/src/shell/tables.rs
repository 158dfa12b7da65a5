//! The style of tables for people.

use std::fmt;

use comfy_table::{ContentArrangement, Table, presets::NOTHING};

use vipward_core::answering::Part;

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table
}

/// Prints a table without spaces at the ends of its lines.
pub(super) fn print(f: &mut fmt::Formatter<'_>, table: &Table) -> fmt::Result {
    table.to_string().lines().try_for_each(|line| writeln!(f, "{}", line.trim_end()))
}

pub(super) fn yes(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

pub(super) fn or_dash(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

/// Returns a cell that says if this node answers for a VIP, and if
/// not, why it does not answer for its own VIP.
pub(super) fn answering(part: Part) -> String {
    match part.silence() {
        Some(why) => format!("no: {}", why.name()),
        None => yes(part.is_answering()),
    }
}
