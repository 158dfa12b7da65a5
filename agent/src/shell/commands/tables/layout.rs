//! The columns of a table on a terminal: which are shown, on which line of a row, and how wide.

use super::{
    table::{Cell, Line, NONE, Need, Piece, Row, Table},
    wrapping::{self, width_of, wrap},
};

/// Cells between two columns.
const GAP: usize = 2;
/// Cells before the first column, and before the further lines of a row.
const MARGIN: usize = 1;
const INDENT: usize = 4;
/// The width that free text has at least, if it is as long.
const LEAST_TEXT: usize = 24;

/// The columns of each line of a row, with their widths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    bands: Vec<Vec<Placed>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Placed {
    column: usize,
    width: usize,
}

/// The widths that a column can have.
struct Bounds {
    column: usize,
    least: usize,
    /// The width of its longest cell.
    most: usize,
    need: Need,
    /// True if no row has a value.
    is_blank: bool,
}

impl Layout {
    pub(super) fn of(table: &Table, width: Option<usize>) -> Self {
        let mut columns: Vec<Bounds> = (0..table.columns.len()).map(|at| bounds(table, at)).collect();
        let Some(width) = width else {
            let placed = columns.iter().map(|it| Placed { column: it.column, width: it.most }).collect();
            return Self { bands: vec![placed] };
        };
        while needed(MARGIN, &columns) > width
            && let Some(at) = least_important(&columns)
        {
            columns.remove(at);
        }
        let mut bands: Vec<Vec<Bounds>> = vec![Vec::new()];
        for column in columns {
            let band = bands.last().expect("invariant: there is a first line");
            let more = if band.is_empty() { 0 } else { GAP + column.least };
            if needed(margin(bands.len() - 1), band) + more > width {
                bands.push(Vec::new());
            }
            bands.last_mut().expect("invariant: there is a first line").push(column);
        }
        let placed = |(at, band): (usize, Vec<Bounds>)| widened(&band, margin(at), width);
        Self { bands: bands.into_iter().enumerate().map(placed).collect() }
    }

    pub(crate) fn header(&self, table: &Table) -> Vec<Line> {
        let title = |column: usize| Piece { text: table.columns[column].0.to_owned(), state: None };
        self.lines(title)
    }

    pub(crate) fn row(&self, table: &Table, row: usize) -> Vec<Line> {
        match &table.rows[row] {
            Row::Cells(cells) => {
                self.lines(|column| Piece { text: cells[column].text.clone(), state: cells[column].state })
            }
            Row::Heading(subject) => vec![vec![Piece { text: (*subject).to_owned(), state: None }]],
        }
    }

    /// Returns the number of lines of the tallest row.
    pub(crate) fn tallest(&self, table: &Table) -> usize {
        let placed = || self.bands.iter().flatten();
        let is_wrapped = |cells: &[Cell]| placed().any(|at| width_of(&cells[at.column].text) > at.width);
        let height = |(row, it): (usize, &Row)| match it {
            Row::Cells(cells) if is_wrapped(cells) => self.row(table, row).len(),
            Row::Cells(_) => self.bands.len(),
            Row::Heading(_) => 1,
        };
        table.rows.iter().enumerate().map(height).max().unwrap_or(1)
    }

    fn lines(&self, cell: impl Fn(usize) -> Piece) -> Vec<Line> {
        let mut lines = Vec::new();
        for (at, band) in self.bands.iter().enumerate() {
            let cells: Vec<(Vec<String>, Placed, Piece)> = (band.iter())
                .map(|placed| {
                    let piece = cell(placed.column);
                    let fits = width_of(&piece.text) <= placed.width;
                    let text = if fits { vec![piece.text.clone()] } else { wrap(&piece.text, placed.width) };
                    (text, *placed, piece)
                })
                .collect();
            let height = cells.iter().map(|(text, ..)| text.len()).max().unwrap_or_default();
            lines.extend((0..height).map(|number| line(&cells, number, margin(at))));
        }
        lines
    }
}

/// Returns a line of a row's columns, without blanks at its end.
fn line(cells: &[(Vec<String>, Placed, Piece)], number: usize, margin: usize) -> Line {
    let mut line = Vec::new();
    let mut blanks = margin;
    for (text, placed, piece) in cells {
        let text = text.get(number).map(String::as_str).unwrap_or_default();
        if !text.is_empty() {
            line.push(Piece { text: " ".repeat(blanks), state: None });
            line.push(Piece { text: text.to_owned(), state: piece.state });
            blanks = 0;
        }
        blanks += placed.width.saturating_sub(width_of(text)) + GAP;
    }
    line
}

fn margin(band: usize) -> usize {
    if band == 0 { MARGIN } else { INDENT }
}

fn bounds(table: &Table, column: usize) -> Bounds {
    let (title, need) = table.columns[column];
    let cells = || table.cells(column);
    let most = cells().map(width_of).max().unwrap_or_default().max(width_of(title));
    let least = match need {
        Need::Always | Need::Room(_) => most,
        Need::Text => {
            let address = cells().map(wrapping::widest_address).max().unwrap_or_default();
            most.min(LEAST_TEXT).max(address).max(width_of(title))
        }
    };
    let is_blank = cells().all(|text| text.is_empty() || text == NONE);
    Bounds { column, least, most, need, is_blank }
}

/// Returns the least width of a line with these columns.
fn needed(margin: usize, columns: &[Bounds]) -> usize {
    let gaps = GAP * columns.len().saturating_sub(1);
    margin + gaps + columns.iter().map(|column| column.least).sum::<usize>()
}

/// Returns the column that goes first on a narrow terminal, if any may go.
fn least_important(columns: &[Bounds]) -> Option<usize> {
    let rank = |column: &Bounds| match column.need {
        _ if column.is_blank && column.column > 0 => Some(u16::MAX),
        Need::Room(rank) => Some(u16::from(rank)),
        Need::Always | Need::Text => None,
    };
    let ranked = columns.iter().enumerate().filter_map(|(at, column)| Some((rank(column)?, at)));
    ranked.max().map(|(_, at)| at)
}

/// Returns the columns of a line, with the room that is left given to free text.
fn widened(band: &[Bounds], margin: usize, width: usize) -> Vec<Placed> {
    let mut left = width.saturating_sub(needed(margin, band));
    let mut placed: Vec<Placed> =
        band.iter().map(|column| Placed { column: column.column, width: column.least }).collect();
    loop {
        let mut is_wider = false;
        for (column, placed) in band.iter().zip(&mut placed) {
            if left > 0 && placed.width < column.most {
                (placed.width, left, is_wider) = (placed.width + 1, left - 1, true);
            }
        }
        if !is_wider {
            return placed;
        }
    }
}
