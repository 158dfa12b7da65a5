//! Figures of every system, their table and their JSON.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::{scene::Scene, system::System};
use crate::report::{Machine, Row as Recorded, Samples, Unit, today};

/// Everything that one run of the comparison measured.
pub(super) struct Figures {
    pub(super) machine: Machine,
    date: String,
    runs: u32,
    pub(super) seconds: u64,
    pub(super) versions: BTreeMap<System, String>,
    /// Systems that are missing, and how to get them.
    pub(super) skipped: BTreeMap<System, String>,
    /// Rows in the order of their first figure.
    rows: Vec<Row>,
}

/// One figure of every system.
struct Row {
    scene: Scene,
    what: String,
    unit: Unit,
    of: BTreeMap<System, Samples>,
}

impl Figures {
    pub(super) fn new(machine: Machine, runs: u32) -> Self {
        let (versions, skipped) = (BTreeMap::new(), BTreeMap::new());
        Self { machine, date: today(), runs, seconds: 0, versions, skipped, rows: Vec::new() }
    }

    /// Adds what one run measured.
    pub(super) fn record(&mut self, scene: Scene, what: &str, unit: Unit, system: System, value: f64) {
        let place = self.rows.iter().position(|row| row.scene == scene && row.what == what);
        let place = place.unwrap_or_else(|| {
            self.rows.push(Row { scene, what: what.to_owned(), unit, of: BTreeMap::new() });
            self.rows.len() - 1
        });
        self.rows[place].of.entry(system).or_default().push(value);
    }

    pub(super) fn json(&self) -> Value {
        let of = |row: &Row| -> Vec<Value> {
            let figure = |(system, samples): (&System, &Samples)| {
                json!({
                    "system": system,
                    "median": samples.median(),
                    "least": samples.min(),
                    "most": samples.max(),
                })
            };
            row.of.iter().map(figure).collect()
        };
        let row = |row: &Row| json!({"scene": row.scene, "what": row.what, "unit": row.unit, "of": of(row)});
        json!({
            "machine": self.machine,
            "date": self.date,
            "runs": self.runs,
            "seconds": self.seconds,
            "versions": self.versions,
            "skipped": self.skipped,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// Returns a row for each figure of each system. Each scene is a group.
    pub(super) fn recorded(&self) -> Vec<Recorded> {
        let of = |row: &Row| -> Vec<Recorded> {
            let recorded = |(system, samples): (&System, &Samples)| {
                let (group, name) = (format!("peers: {}", row.scene), format!("{}: {system}", row.what));
                Recorded::new(group, name, row.unit, samples)
            };
            row.of.iter().map(recorded).collect()
        };
        self.rows.iter().flat_map(of).collect()
    }

    /// Returns the lines of the table, with a header and a rule.
    fn lines(&self) -> Vec<Vec<String>> {
        let systems: Vec<System> =
            System::ALL.into_iter().filter(|system| self.versions.contains_key(system)).collect();
        let mut lines = vec![vec![format!("median / worst of {} runs", self.runs)], vec!["---".to_owned()]];
        for system in &systems {
            lines[0].push(system.to_string());
            lines[1].push("--:".to_owned());
        }
        for row in &self.rows {
            let cell = |system: &System| row.of.get(system).map_or_else(|| "–".to_owned(), |of| row.show(of));
            let name = format!("{}: {}", row.scene, row.what);
            lines.push([name].into_iter().chain(systems.iter().map(cell)).collect());
        }
        lines
    }
}

impl Row {
    /// Returns the median and the worst value: the least of a rate or of answered askers, else the
    /// greatest.
    fn show(&self, of: &Samples) -> String {
        let more_is_better = matches!(self.scene, Scene::Flood | Scene::Askers);
        let worst = if more_is_better { of.min() } else { of.max() };
        let (median, worst) = (self.unit.show(of.median()), self.unit.show(worst));
        if median == worst { median } else { format!("{median} / {worst}") }
    }
}

/// The table, which is Markdown too.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines();
        let columns = lines.first().map_or(0, Vec::len);
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for line in &lines {
            let cells = line.iter().zip(&widths).enumerate();
            for (column, (cell, width)) in cells {
                if column == 0 { write!(f, "| {cell:width$} ")? } else { write!(f, "| {cell:>width$} ")? }
            }
            writeln!(f, "|")?;
        }
        writeln!(f)?;
        for (system, version) in &self.versions {
            writeln!(f, "- {system}: {version}")?;
        }
        for (system, why) in &self.skipped {
            writeln!(f, "- {system} was skipped: {why}")?;
        }
        write!(f, "\n{}\n{}, in {} s", self.machine, self.date, self.seconds)
    }
}
