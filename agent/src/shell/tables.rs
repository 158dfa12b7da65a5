//! How every table for people looks.

use comfy_table::{ContentArrangement, Table, presets::NOTHING};

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table
}

pub(super) fn yes(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

pub(super) fn or_dash(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}
