//! Tables that fit the terminal.
//!
//! No address and no MAC is ever cut, and no column that has one is left out. On a narrow terminal the less
//! important columns go first. Then free text takes more lines, and then the columns themselves do. In a
//! pipe, a table has all columns, one line a row.

mod layout;
mod table;
mod wrapping;

#[cfg(test)]
mod tests;

use vipward_core::{diagnosis::pinned::VipStatus, host::answering::Answering};

pub(crate) use self::{
    layout::Layout,
    table::{Cell, Need, Piece, Table, shown},
    wrapping::wrap,
};
use self::{table::NONE, wrapping::width_of};
use super::terminal::{Colours, Screen};

impl Table {
    /// Returns the layout for a width in cells, or for a pipe.
    pub(crate) fn layout(&self, width: Option<usize>) -> Layout {
        Layout::of(self, width)
    }

    /// Returns the lines of the header, if it has one, and of all rows.
    pub(crate) fn text(&self, screen: Screen) -> String {
        let layout = self.layout(screen.width);
        let has_header = self.columns.iter().any(|(title, _)| !title.is_empty());
        let header = has_header.then(|| layout.header(self)).into_iter().flatten();
        let rows = (0..self.rows.len()).flat_map(|row| layout.row(self, row));
        header.chain(rows).map(|line| painted(&line, screen.colours) + "\n").collect()
    }
}

/// Returns a line as a terminal may have it.
pub(crate) fn painted(line: &[Piece], colours: Colours) -> String {
    let paint = |piece: &Piece| match piece.state {
        Some(state) => colours.of(state, &piece.text),
        None => piece.text.clone(),
    };
    line.iter().map(paint).collect()
}

/// Returns a paragraph of legible text, with its words wrapped. `first` begins the first line, and blanks of
/// the same width the others.
pub(crate) fn paragraph(first: &str, text: &str, screen: Screen) -> String {
    let indent = width_of(first);
    let text = shown(text).to_string();
    let lines = match screen.width {
        Some(width) => wrap(&text, width.saturating_sub(indent)),
        None => vec![text],
    };
    let blanks = " ".repeat(indent);
    let begins = std::iter::once(first).chain(std::iter::repeat(blanks.as_str()));
    lines.iter().zip(begins).flat_map(|(line, begin)| [begin, line, "\n"]).collect()
}

pub(crate) fn yes(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

pub(crate) fn or_dash(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| NONE.to_owned(), ToString::to_string)
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
