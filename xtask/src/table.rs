//! Renders the tables that the commands print.

use comfy_table::{CellAlignment, Table, presets};

/// Returns a table without borders: a header, two spaces between columns, no trailing blanks. The
/// columns in `numbers` are aligned to the right.
pub(crate) fn render<const N: usize>(header: [&str; N], numbers: &[usize], rows: &[[String; N]]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header).add_rows(rows.iter().map(|row| row.iter()));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for &column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}
