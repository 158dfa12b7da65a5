//! Reports of the machines' tests: a row for each kind of link, and the verifier's counts.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{process, table};

const HEADER: [&str; 7] = ["KERNEL", "NIC", "LINK", "MODE", "VIP ANSWERED", "KERNEL'S OWN", "RESULT"];

/// Rows of all machines.
#[derive(Default)]
pub(super) struct Results {
    links: Vec<[String; 7]>,
    /// Kernel, object, program and processed instructions.
    programs: BTreeSet<String>,
}

impl Results {
    /// Takes a line of a report.
    pub(super) fn take(&mut self, line: &str) -> Result<()> {
        let row: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
        let text = |key: &str| match &row[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match row["program"].as_str() {
            Some(program) => {
                let (kernel, object) = (text("kernel"), text("object"));
                self.programs.insert(format!("{kernel} {object} {program} {}", text("instructions")));
            }
            None => self.links.push(["kernel", "nic", "link", "mode", "vip", "own", "result"].map(text)),
        }
        Ok(())
    }

    /// Prints the tables, and writes them into `dir`: `links.md` and `verifier.txt`.
    pub(super) fn publish(&self, dir: &Path, conditions: &str) -> Result<()> {
        if !self.links.is_empty() {
            println!("\n{}", table::render(HEADER, &[], &self.links));
            write(&dir.join("links.md"), &format!("{conditions}\n\n{}", self.markdown()))?;
        }
        if !self.programs.is_empty() {
            let lines: Vec<_> = self.programs.iter().map(|line| format!("{line}\n")).collect();
            println!("\ninstructions that the verifier processed:\n{}", lines.concat());
            write(&dir.join("verifier.txt"), &lines.concat())?;
        }
        Ok(())
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let header = HEADER.map(str::to_lowercase);
        let mut text = line(&header) + &line(&header.map(|_| "---".to_owned()));
        text.extend(self.links.iter().map(|row| line(row)));
        text
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    process::write_if_changed(path, text.as_bytes())?;
    process::step(&format!("written: {}", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_links_and_counts_of_programs_are_told_apart() {
        let mut results = Results::default();
        let link = r#"{"kernel":"6.1","nic":"e1000e","link":"bond","mode":"native","vip":"0 of 400","own":"400 of 400","result":"dark"}"#;
        let program = r#"{"kernel":"6.1","object":"vipward.o","program":"vipward","instructions":1234}"#;
        for line in [link, program, program] {
            results.take(line).expect("JSON");
        }
        assert_eq!(
            results.markdown(),
            "| kernel | nic | link | mode | vip answered | kernel's own | result |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n\
             | 6.1 | e1000e | bond | native | 0 of 400 | 400 of 400 | dark |\n"
        );
        assert_eq!(results.programs, BTreeSet::from(["6.1 vipward.o vipward 1234".to_owned()]));
        assert!(results.take("vm").is_err());
    }
}
