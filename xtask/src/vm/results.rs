//! Reports of the machines' tests: a row for each kind of link and each scenario, and the verifier's
//! counts.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{process, table};

const LINKS: [&str; 7] = ["KERNEL", "NIC", "LINK", "MODE", "VIP ANSWERED", "KERNEL'S OWN", "RESULT"];
const SCENARIOS: [&str; 7] = ["KERNEL", "NIC", "SCENARIO", "MODE", "VIP ANSWERED", "KERNEL'S OWN", "RESULT"];

/// Rows of all machines.
#[derive(Default)]
pub(super) struct Results {
    links: Vec<[String; 7]>,
    scenarios: Vec<[String; 7]>,
    /// Kernel, object, program and processed instructions.
    programs: BTreeSet<String>,
}

impl Results {
    /// Records a line of a report. The row of a test's second run replaces the row of its first.
    pub(super) fn take(&mut self, line: &str) -> Result<()> {
        let row: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
        let text = |key: &str| match &row[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let cells = |what| ["kernel", "nic", what, "mode", "vip", "own", "result"].map(text);
        if let Some(program) = row["program"].as_str() {
            let (kernel, object) = (text("kernel"), text("object"));
            self.programs.insert(format!("{kernel} {object} {program} {}", text("instructions")));
        } else if row["scenario"].is_string() {
            put(&mut self.scenarios, cells("scenario"));
        } else {
            put(&mut self.links, cells("link"));
        }
        Ok(())
    }

    /// Puts the rows into the table of all runs.
    pub(super) fn record(&self, path: &Path) -> Result<()> {
        let known = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        write(path, &merged(&known, [("link", &self.links), ("scenario", &self.scenarios)]))
    }

    /// Prints the tables, and writes them into `dir`: `links.md`, `scenarios.md` and
    /// `verifier.txt`.
    pub(super) fn publish(&self, dir: &Path, conditions: &str) -> Result<()> {
        let tables = [("links.md", LINKS, &self.links), ("scenarios.md", SCENARIOS, &self.scenarios)];
        for (file, header, rows) in tables.into_iter().filter(|(_, _, rows)| !rows.is_empty()) {
            println!("\n{}", table::render(header, &[], rows));
            write(&dir.join(file), &format!("{conditions}\n\n{}", markdown(header, rows)))?;
        }
        if !self.programs.is_empty() {
            let lines: Vec<_> = self.programs.iter().map(|line| format!("{line}\n")).collect();
            println!("\ninstructions that the verifier processed:\n{}", lines.concat());
            write(&dir.join("verifier.txt"), &lines.concat())?;
        }
        Ok(())
    }
}

/// Returns a table of values separated by commas in which the rows of these kinds replace those of the same
/// kernel, NIC, kind, and link or scenario. The others stay, in their order.
fn merged(known: &str, kinds: [(&str, &[[String; 7]]); 2]) -> String {
    let mut lines: Vec<String> = known.lines().map(str::to_owned).collect();
    for (kind, rows) in kinds {
        for [kernel, nic, what, rest @ ..] in rows {
            let subject = format!("{kernel},{nic},{kind},{},", quoted(what));
            let line = format!("{subject}{}", rest.each_ref().map(|cell| quoted(cell)).join(","));
            match lines.iter_mut().find(|line| line.starts_with(&subject)) {
                Some(known) => *known = line,
                None => lines.push(line),
            }
        }
    }
    lines.join("\n") + "\n"
}

/// Returns a value as RFC 4180 writes it. An empty one stands for a dash.
fn quoted(cell: &str) -> String {
    let cell = if cell == "–" { "" } else { cell };
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Adds a row, or replaces the one of the same kernel, NIC, and link or scenario.
fn put(rows: &mut Vec<[String; 7]>, row: [String; 7]) {
    match rows.iter_mut().find(|known| known[..3] == row[..3]) {
        Some(known) => *known = row,
        None => rows.push(row),
    }
}

fn markdown(header: [&str; 7], rows: &[[String; 7]]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let header = header.map(str::to_lowercase);
    let mut text = line(&header) + &line(&header.map(|_| "---".to_owned()));
    text.extend(rows.iter().map(|row| line(row)));
    text
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
    fn a_row_of_a_test_that_ran_again_replaces_the_first() {
        let row = |link: &str, result: &str| {
            let row = serde_json::json!({
                "kernel": "6.1", "nic": "e1000e", "link": link,
                "mode": "tc", "vip": "1 of 1", "own": "1 of 1", "result": result,
            });
            row.to_string()
        };
        let mut results = Results::default();
        for (link, result) in [("bond", "dark"), ("plain", "works"), ("bond", "works")] {
            results.take(&row(link, result)).expect("JSON");
        }
        let found: Vec<_> = results.links.iter().map(|row| [row[2].as_str(), row[6].as_str()]).collect();
        assert_eq!(found, [["bond", "works"], ["plain", "works"]]);
    }

    #[test]
    fn a_recorded_row_replaces_the_one_of_the_same_link_and_others_stay() {
        let known = "kernel,nic,kind,what,mode,vip_answered,own_answered,result\n\
                     6.1,e1000e,link,\"VLAN, later\",tc,1 of 9,1 of 1,dark\n\
                     6.1,e1000e,scenario,bond,tc,,1 of 1,works\n";
        let row = |what: &str, vip: &str| {
            ["6.1", "e1000e", what, "eth0 tc, nic0 native", vip, "1 of 1", "works"].map(str::to_owned)
        };
        let rows = [row("VLAN, later", "9 of 9"), row("bond", "–")];
        assert_eq!(
            merged(known, [("link", &rows), ("scenario", &[])]),
            "kernel,nic,kind,what,mode,vip_answered,own_answered,result\n\
             6.1,e1000e,link,\"VLAN, later\",\"eth0 tc, nic0 native\",9 of 9,1 of 1,works\n\
             6.1,e1000e,scenario,bond,tc,,1 of 1,works\n\
             6.1,e1000e,link,bond,\"eth0 tc, nic0 native\",,1 of 1,works\n",
        );
    }
}
