//! Configuration of a standalone agent: a YAML file, validated, with every default filled in.
//!
//! docs/standalone/configuration.md describes every key. All faults of a file's values
//! are reported at once. Each has the value, its place and the remedy.

mod announcing;
mod conflicts;
mod effective;
mod fault;
mod probe;
mod raw;
mod sections;
#[cfg(test)]
mod tests;
mod values;

pub use self::{
    conflicts::conflict_quiet,
    effective::{Config, OnYield, Shutdown, VipConfig},
    fault::{ConfigError, Fault, FaultKind},
    probe::{probe_repeat, probe_timing},
};

impl Config {
    /// Parses a file's `text`. `source` is its name in errors.
    /// `host` is the node's name if the file names none.
    ///
    /// Fails if the text is empty, or is no YAML of this
    /// form. Otherwise fails with all faults of the values.
    pub fn parse(text: &str, source: &str, host: &str) -> Result<Self, ConfigError> {
        let raw = raw::read(text, source)?;
        let mut faults = Vec::new();
        let config = values::validate(raw, host, &mut faults);
        match config {
            Some(config) if faults.is_empty() => Ok(config),
            Some(_) | None => {
                faults.sort_by_key(|fault| fault.place);
                Err(ConfigError::Values { file: source.to_owned(), faults })
            }
        }
    }
}
