//! What a table has: columns, their importance, and rows of cells.

use vipward_core::{base::legible::Excerpt, diagnosis::finding::State};

/// The cell without a value.
pub(super) const NONE: &str = "-";

/// Largest number of characters of a cell or a line.
pub(super) const MOST: usize = 4_096;

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
    pub(super) text: String,
    /// The state whose colour the text has.
    pub(super) state: Option<State>,
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
    pub(super) columns: Vec<(&'static str, Need)>,
    pub(super) rows: Vec<Row>,
}

#[derive(Clone, Debug)]
pub(super) enum Row {
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
    pub(super) fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
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
}

/// Returns a text as a terminal may have it: nodes and users have written parts of it.
pub(crate) fn shown(text: &str) -> Excerpt {
    Excerpt::of(text, MOST)
}
