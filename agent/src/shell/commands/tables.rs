//! Tables that fit the terminal.
//!
//! No address and no MAC is ever cut, and no column that has one is left out. On a narrow terminal the less
//! important columns go first. Then free text takes more lines, and then the columns themselves do. In a
//! pipe, a table has all columns, one line a row.

mod layout;
mod wrapping;

#[cfg(test)]
mod tests;

use vipward_core::{
    base::legible::Excerpt,
    diagnosis::{finding::State, pinned::VipStatus},
    host::answering::Answering,
};

use self::layout::width_of;
pub(crate) use self::{layout::Layout, wrapping::wrap};
use super::terminal::{Colours, Screen};

/// Largest number of characters of a cell or a line.
const MOST: usize = 4_096;

/// The importance of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Always shown, and never cut: what identifies the row, addresses and MACs.
    Always,
    /// Left out on a narrow terminal, the largest number first.
    Room(u8),
    /// Free text. Its words are wrapped on a narrow terminal.
    Text,
}

#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    /// The state whose colour the text has.
    state: Option<State>,
}

impl Cell {
    /// Makes a cell of a legible text.
    pub(crate) fn of(text: impl AsRef<str>) -> Self {
        Self { text: shown(text.as_ref()).to_string(), state: None }
    }

    pub(crate) fn coloured(self, state: State) -> Self {
        Self { state: Some(state), ..self }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::of(text)
    }
}

/// A part of a line, with the state whose colour it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) state: Option<State>,
}

/// The pieces of a line on the terminal.
pub(crate) type Line = Vec<Piece>;

#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Need)>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
enum Row {
    Cells(Vec<Cell>),
    /// A line that names the subject of the rows below it.
    Heading(&'static str),
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = (&'static str, Need)>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    pub(crate) fn add_row<const N: usize>(&mut self, cells: [impl Into<Cell>; N]) {
        self.rows.push(Row::Cells(cells.into_iter().map(Into::into).collect()));
    }

    pub(crate) fn add_heading(&mut self, subject: &'static str) {
        self.rows.push(Row::Heading(subject));
    }

    /// Colours all cells of the last row.
    pub(crate) fn colour_last(&mut self, state: State) {
        if let Some(Row::Cells(cells)) = self.rows.last_mut() {
            for cell in cells {
                cell.state = Some(state);
            }
        }
    }

    /// Returns the cells of a column.
    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(move |row| match row {
            Row::Cells(cells) => Some(cells[column].text.as_str()),
            Row::Heading(_) => None,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

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

/// Returns a text as a terminal may have it: nodes and users have written parts of it.
pub(crate) fn shown(text: &str) -> Excerpt {
    Excerpt::of(text, MOST)
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

/// The cell without a value.
const NONE: &str = "-";

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
