//! The end of a report: its files, and docs/measured/bench.csv with a row for each figure, and one more
//! for each of its baselines.

#[cfg(test)]
mod tests;

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};
use csv::{ReaderBuilder, WriterBuilder};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use vipward_tests::kit::tools::in_checkout;

use super::{
    figures::{Bar, Item, Limit, Report, Unit},
    machine::Machine,
    output::{Options, write_files},
    stats::Samples,
};

const FILE: &str = "docs/measured/bench.csv";

/// What a row says of a figure. The columns `measured` and `cpu` follow.
#[derive(Serialize)]
pub(crate) struct Row {
    group: String,
    name: String,
    /// Baseline; empty for the figure itself.
    relative_to: &'static str,
    /// That of the difference to a baseline, and `ratio` for a ratio.
    unit: Unit,
    median: String,
    least: String,
    most: String,
    bar: String,
    met: Option<bool>,
}

impl Row {
    /// Returns the row of a figure that has no bar.
    pub(crate) fn new(group: String, name: String, unit: Unit, samples: &Samples) -> Self {
        let [median, least, most] = [samples.median(), samples.min(), samples.max()].map(digits);
        Self { group, name, relative_to: "", unit, median, least, most, bar: String::new(), met: None }
    }
}

impl Item {
    fn recorded(&self) -> Result<Vec<Row>> {
        let group = serde_json::to_value(self.group)?;
        let group = group.as_str().context("invariant: a group's name is a text")?;
        let row = |relative_to, unit, [median, least, most]: [String; 3], bar: Option<Bar>| {
            let (group, name) = (group.to_owned(), self.name.clone());
            let (met, bar) = (bar.map(|bar| bar.met), bar.map(|bar| show(bar.limit)).unwrap_or_default());
            Row { group, name, relative_to, unit, median, least, most, bar, met }
        };
        let own = row("", self.unit, [self.value, self.least, self.most].map(digits), self.bar);
        let relative = self.relative.iter().map(|it| {
            let unit = if it.difference { self.unit } else { Unit::Ratio };
            row(it.to, unit, [digits(it.value), String::new(), String::new()], it.bar)
        });
        Ok([own].into_iter().chain(relative).collect())
    }
}

impl Report {
    /// Prints the table, writes a file and records the figures. Returns how many bars were missed.
    pub(crate) fn finish(&mut self, started: Instant, options: &Options, file: &str) -> Result<usize> {
        self.seconds = started.elapsed().as_secs();
        println!("{self}");
        write_files(options, &[(file, serde_json::to_string_pretty(self)? + "\n")])?;
        self.record(options)?;
        Ok(self.missed())
    }

    /// Records the figures, if the options say so.
    pub(crate) fn record(&self, options: &Options) -> Result<()> {
        let rows: Vec<Vec<Row>> = self.items.iter().map(Item::recorded).collect::<Result<_>>()?;
        record(options, &self.machine, rows.into_iter().flatten().collect())
    }
}

/// Puts the rows into the file, in place of those of the same groups, if the options say so.
pub(crate) fn record(options: &Options, machine: &Machine, rows: Vec<Row>) -> Result<()> {
    if !options.record {
        return Ok(());
    }
    let path = in_checkout(FILE);
    let known = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let text = merged(&known, rows, &today(), machine.cpu())?;
    fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}

pub(crate) fn today() -> String {
    Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// Returns the table with new rows: those of a group stand where its first row stood, or else at the end.
fn merged(known: &str, mut rows: Vec<Row>, measured: &str, cpu: &str) -> Result<String> {
    let ran: Vec<String> = rows.iter().map(|row| row.group.clone()).collect();
    let mut reader = ReaderBuilder::new().has_headers(false).from_reader(known.as_bytes());
    let mut writer = WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    for record in reader.records() {
        let record = record?;
        if !ran.iter().any(|group| *group == record[0]) {
            writer.write_record(&record)?;
        }
        // Empty but for the first row of a group that ran.
        let (here, later) = rows.into_iter().partition::<Vec<_>, _>(|row| row.group == record[0]);
        rows = later;
        here.iter().try_for_each(|row| writer.serialize((row, measured, cpu)))?;
    }
    rows.iter().try_for_each(|row| writer.serialize((row, measured, cpu)))?;
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// Returns a whole number as it is, and any other with six digits.
fn digits(value: f64) -> String {
    let value = if value.fract() == 0.0 { value } else { format!("{value:.5e}").parse().unwrap_or(value) };
    value.to_string()
}

fn show(limit: Limit) -> String {
    match limit {
        Limit::AtMost(limit) => format!("<= {limit}"),
        Limit::AtLeast(limit) => format!(">= {limit}"),
    }
}
