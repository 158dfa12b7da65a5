//! `licences`: the list of the licences of everything that is linked into the agent.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::{
    process,
    setup::{self, Need},
    workspace::Workspace,
};

/// Path of the list, which goes with every binary that is handed on.
pub(crate) const LIST: &str = "THIRD-PARTY.txt";
/// The C library in a static binary, its notices as Debian has them, and the licence that they name.
const GLIBC: &str = "glibc";
const GLIBC_LICENCE: &str = "LGPL-2.1-or-later";
const GLIBC_NOTICES: &str = include_str!("licences/glibc.txt");
const LGPL: &str = include_str!("licences/lgpl-2.1.txt");

/// Directories of the programs that are shipped: the agent, and the XDP program in it. Each has the
/// configuration of cargo-about, which names the targets.
const PROGRAMS: [&str; 2] = ["agent", "agent-ebpf"];
const CONFIGURATION: &str = "about.toml";

/// The licence whose text alone must go with a program. The others' has a line of copyright.
const WITHOUT_COPYRIGHT: &str = "Apache-2.0";
/// Line above each section of the list.
const RULE: &str = "================================================================================";
const MARK: &str = "- ";

const HEAD: &str = "\
Third-party software in Vipward

The agent is linked with the crates below, or contains the XDP program that is. Of a crate that
offers licences to choose from, one is named. A static binary also contains glibc (its section is below),
parts of GCC's library (GPL-3.0 WITH GCC-exception-3.1, which asks for nothing of a program), and
Rust's standard library. The notices of the latter are in RUST-LIBRARY.html in an image, and in
share/doc/rust/COPYRIGHT-library.html of a toolchain. GLIBC.txt in an image says which glibc it is,
and how to link the binary with another. The table of MAC addresses is from the public listings of the
IEEE Registration Authority, by way of the crate oui-data (MIT, Jason Walton).

`cargo xtask licences` makes this file with cargo-about.
";

type Licence = (String, String);
/// The names and versions of the crates under each licence.
type Sections = BTreeMap<Licence, BTreeSet<String>>;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    setup::ensure(workspace, &[Need::Licences])?;
    let linked = linked(workspace)?;
    let mut sections = Sections::new();
    for directory in PROGRAMS {
        process::step(&format!("reading the licences of what {directory} is linked with"));
        gather(&about(workspace, directory)?, &linked, &mut sections)?;
    }
    let glibc = (GLIBC_LICENCE.to_owned(), format!("{}\n\n{}", tidy(GLIBC_NOTICES), tidy(LGPL)));
    sections.entry(glibc).or_default().insert(GLIBC.to_owned());
    let list = render(&sections)?;
    let path = workspace.root.join(LIST);
    fs::write(&path, &list).with_context(|| format!("failed to write {}", path.display()))?;
    println!("{LIST}: {} licences of {} crates, {} bytes", sections.len(), linked.len(), list.len());
    check(workspace)
}

/// Fails unless the list names what is linked, and nothing else.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let path = workspace.root.join(LIST);
    let list = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let mut expected = linked(workspace)?;
    expected.insert(GLIBC.to_owned());
    compare(&expected, &named(&list))
}

fn compare(linked: &BTreeSet<String>, named: &BTreeSet<String>) -> Result<()> {
    let lacks: Vec<_> = linked.difference(named).map(String::as_str).collect();
    let stale: Vec<_> = named.difference(linked).map(String::as_str).collect();
    ensure!(
        lacks.is_empty() && stale.is_empty(),
        "{LIST} lacks [{}], and names [{}], which is not linked: run `cargo xtask licences`",
        lacks.join(", "),
        stale.join(", ")
    );
    Ok(())
}

/// Returns the names and versions of the crates of others that are linked, as cargo resolves them.
fn linked(workspace: &Workspace) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for directory in PROGRAMS {
        let path = workspace.root.join(directory).join(CONFIGURATION);
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let targets = list(&text, "targets").with_context(|| format!("failed to read {}", path.display()))?;
        for target in targets {
            let mut tree = process::cargo();
            tree.current_dir(workspace.root.join(directory)).args(["tree", "--locked", "--target", &target]);
            tree.args(["--edges=normal,no-proc-macro", "--prefix=none", "--format={p}"]);
            all.extend(process::output(&mut tree)?.lines().filter_map(crate_of_others));
        }
    }
    Ok(all)
}

/// Returns a list of names in a configuration of cargo-about.
fn list(configuration: &str, key: &str) -> Result<BTreeSet<String>> {
    let table: toml::Table = configuration.parse().context("it is no TOML")?;
    let names = table.get(key).and_then(toml::Value::as_array).with_context(|| format!("no list {key}"))?;
    Ok(names.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect())
}

/// Returns name and version in a line of `cargo tree`, or `None` for a crate of this workspace, which
/// has a path.
fn crate_of_others(line: &str) -> Option<String> {
    let (name, rest) = line.split_once(" v")?;
    let (version, place) = rest.split_once(' ').unwrap_or((rest, ""));
    (!place.starts_with("(/")).then(|| format!("{name} {version}"))
}

/// Runs cargo-about and returns what it prints. What it warns of it leaves out or makes up, so a
/// warning is an error.
fn about(workspace: &Workspace, directory: &str) -> Result<Value> {
    let program = process::find("cargo-about").context("cargo-about is not installed")?;
    let mut about = Command::new(program);
    about.current_dir(workspace.root.join(directory));
    about.args(["generate", "--fail", "--locked", "--format=json"]);
    let output =
        about.output().with_context(|| format!("failed to start `{}`", process::command_line(&about)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || !said.trim().is_empty() {
        bail!("`{}`: {}: {}", process::command_line(&about), output.status, said.trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo-about printed no JSON")
}

/// Adds the licences of the linked crates to `sections`.
fn gather(about: &Value, linked: &BTreeSet<String>, sections: &mut Sections) -> Result<()> {
    for licence in about["licenses"].as_array().context("cargo-about names no licences")? {
        let field = |name: &str| licence[name].as_str().with_context(|| format!("a licence has no {name}"));
        let (id, text) = (field("id")?, field("text")?);
        let users = licence["used_by"].as_array().context("a licence has no users")?;
        let users = users.iter().map(|user| {
            let field = |name: &str| user["crate"][name].as_str();
            let (name, version) = field("name").zip(field("version")).context("a crate has no name")?;
            Ok(format!("{name} {version}"))
        });
        let users: BTreeSet<_> = users.collect::<Result<_>>()?;
        let users: BTreeSet<_> = users.intersection(linked).cloned().collect();
        if users.is_empty() {
            continue;
        }
        // Then it is the licence as SPDX has it, with blanks for the names.
        let is_made_up = licence["source_path"].is_null() && id != WITHOUT_COPYRIGHT;
        ensure!(
            !is_made_up,
            "cargo-about found no text of the {id} of {users:?}: name the file in {CONFIGURATION}"
        );
        sections.entry((id.to_owned(), tidy(text))).or_default().extend(users);
    }
    Ok(())
}

/// Returns a text without the line ends of other systems, and without blank lines at both ends.
fn tidy(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

fn render(sections: &Sections) -> Result<String> {
    let mut list = HEAD.to_owned();
    for ((id, text), names) in sections {
        ensure!(!text.lines().any(|line| line == RULE), "a text of {id} has a line like those between texts");
        write!(list, "\n{RULE}\n{id}\n").expect("invariant: a String takes everything");
        for name in names {
            writeln!(list, "{MARK}{name}").expect("invariant: a String takes everything");
        }
        writeln!(list, "\n{text}").expect("invariant: a String takes everything");
    }
    Ok(list)
}

/// Returns the names and versions at the heads of the list's sections.
fn named(list: &str) -> BTreeSet<String> {
    let sections = list.split(RULE).skip(1);
    let heads =
        sections.flat_map(|section| section.lines().skip(2).map_while(|line| line.strip_prefix(MARK)));
    heads.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
