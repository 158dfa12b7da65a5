//! Draws time as a strip of characters, one column for each interval.

use std::time::{Duration, SystemTime};

/// Columns in one strip.
const COLUMNS: usize = 60;
/// Columns between two marks of the ruler.
const MARK: usize = 10;

/// Window of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    /// Start of the column with the index `before`.
    instant: SystemTime,
    before: usize,
    column: Duration,
}

impl Timeline {
    /// Returns the window around an instant with `before` columns before it.
    pub(super) fn around(instant: SystemTime, before: usize, column: Duration) -> Self {
        Self { instant, before: before.min(COLUMNS), column }
    }

    /// Draws a row. A column is a block if all its requests meet the condition, a half-tone if some do,
    /// and a dot if none does. It is blank without requests.
    pub(super) fn row(&self, requests: impl IntoIterator<Item = (SystemTime, bool)>) -> String {
        let mut columns = [(0_u32, 0_u32); COLUMNS];
        for (at, came) in requests {
            if let Some(column) = self.column_of(at) {
                columns[column].0 += 1;
                columns[column].1 += u32::from(came);
            }
        }
        let glyph = |(requests, came)| match (requests, came) {
            (0, _) => ' ',
            (_, 0) => '·',
            (requests, came) if requests == came => '█',
            _ => '▒',
        };
        columns.into_iter().map(glyph).collect()
    }

    /// Draws the ruler: milliseconds from the instant, at every tenth column.
    pub(super) fn ruler(&self) -> String {
        let mut ruler = String::new();
        for column in (self.before % MARK..COLUMNS).step_by(MARK) {
            let millis =
                |columns: usize| (self.column * u32::try_from(columns).unwrap_or(u32::MAX)).as_millis();
            let label = match column.checked_sub(self.before) {
                Some(0) => "0 ms".to_owned(),
                Some(after) => format!("+{}", millis(after)),
                None => format!("-{}", millis(self.before - column)),
            };
            ruler.push_str(&" ".repeat(column.saturating_sub(ruler.chars().count())));
            ruler.extend(["|", &label]);
        }
        ruler
    }

    fn column_of(&self, at: SystemTime) -> Option<usize> {
        let start = self.instant - self.column * u32::try_from(self.before).ok()?;
        let since = at.duration_since(start).ok()?;
        let column = usize::try_from(since.as_nanos() / self.column.as_nanos()).ok()?;
        (column < COLUMNS).then_some(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMN: Duration = Duration::from_millis(10);

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1) + Duration::from_millis(millis)
    }

    #[test]
    fn each_column_shows_what_came_of_what_was_asked_in_it() {
        let timeline = Timeline::around(at(20), 2, COLUMN);
        let requests =
            [(at(0), true), (at(9), true), (at(10), false), (at(20), true), (at(25), false), (at(40), true)];
        let row = timeline.row(requests);
        assert_eq!(row.trim_end(), "█·▒ █");
        assert_eq!(row.chars().count(), COLUMNS);
    }

    #[test]
    fn what_is_outside_of_the_window_is_left_out() {
        let timeline = Timeline::around(at(0), 0, COLUMN);
        let end = 10 * u64::try_from(COLUMNS).expect("a small number");
        let outside = [(at(0) - Duration::from_millis(1), true), (at(end), true)];
        assert_eq!(timeline.row(outside).trim(), "");
    }

    #[test]
    fn the_ruler_counts_from_the_instant() {
        let ruler = Timeline::around(at(0), 10, COLUMN).ruler();
        assert!(ruler.starts_with("|-100     |0 ms     |+100     |+200"), "{ruler}");
    }
}
