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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_stand_to_the_right() {
        let rows = [["ip".to_owned(), "6".to_owned()], ["tcpdump".to_owned(), "4100".to_owned()]];
        assert_eq!(render(["NAME", "BYTES"], &[1], &rows), "NAME     BYTES\nip           6\ntcpdump   4100");
    }

    #[test]
    fn a_table_without_rows_is_its_header() {
        assert_eq!(render(["NAME"], &[], &[]), "NAME");
    }
}
