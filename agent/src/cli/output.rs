//! The forms in which commands print.

use clap::ValueEnum;

/// The form of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Output {
    /// Tables.
    Table,
    /// One JSON object.
    Json,
    /// The same in YAML.
    Yaml,
}

/// The form of a report that is not printed as YAML.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Table,
    /// One JSON object.
    Json,
}
