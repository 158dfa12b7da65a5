//! The options of every benchmark, and the files that it writes.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use vipward_tests::kit::tools::target_dir;

#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// True to measure fewer repetitions and sizes.
    pub(crate) quick: bool,
    /// True to put the figures into docs/measured/bench.csv.
    pub(crate) record: bool,
    /// Directory for tables and plots, unless `target/bench`.
    pub(crate) out: Option<PathBuf>,
}

/// Writes files into the directory of the options, and names them on stdout.
pub(crate) fn write_files(options: &Options, files: &[(&str, String)]) -> Result<()> {
    let out = options.out.clone().unwrap_or_else(|| target_dir().join("bench"));
    fs::create_dir_all(&out).with_context(|| format!("failed to make {}", out.display()))?;
    for (name, content) in files {
        let path = out.join(name);
        fs::write(&path, content).with_context(|| format!("failed to write {}", path.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}
