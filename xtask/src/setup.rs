//! `setup`: finds the tools that the other commands need, and installs missing ones.

mod install;
mod probe;
mod requirements;

use std::{path::PathBuf, thread};

use anyhow::{Result, bail};

use self::{
    install::{Host, Plan},
    probe::Found,
    requirements::{REQUIREMENTS, Requirement},
};
pub(crate) use self::{probe::clippy_driver, requirements::Need};
use crate::{
    compiler,
    process::{self, Stopwatch},
    table,
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only print the tools that are installed; fail if one is missing
    #[arg(long)]
    check: bool,
    /// Also install QEMU and the other tools of `cargo xtask vm`
    #[arg(long)]
    vm: bool,
}

type Probed = (&'static Requirement, Option<Found>);

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let watch = Stopwatch::start();
    compiler::check_override()?;
    // `licences` and `docs` install what only they need.
    let all = REQUIREMENTS.iter().filter(|r| match r.needed_for {
        [Need::Vm] => args.vm,
        [Need::Licences | Need::Docs] => false,
        _ => true,
    });
    let all: Vec<_> = all.collect();
    let probed = probe_all(workspace, &all);
    println!("{}", render(&probed));
    let missing = missing(&probed);
    if missing.is_empty() {
        process::step(&format!("nothing is missing ({:.1} s)", watch.seconds()));
        return Ok(());
    }
    if args.check {
        bail!(
            "missing: {}; `cargo xtask setup{}` installs them",
            names(&missing),
            if args.vm { " --vm" } else { "" }
        );
    }
    install_and_verify(workspace, &missing)?;
    println!("{}", render(&probe_all(workspace, &all)));
    process::step(&format!("installed what was missing ({:.0} s)", watch.seconds()));
    Ok(())
}

/// Installs the requirements of `needs` that are missing. Prints nothing if none is.
pub(crate) fn ensure(workspace: &Workspace, needs: &[Need]) -> Result<()> {
    compiler::check_override()?;
    let wanted: Vec<_> =
        REQUIREMENTS.iter().filter(|r| r.needed_for.iter().any(|need| needs.contains(need))).collect();
    let missing = missing(&probe_all(workspace, &wanted));
    if missing.is_empty() { Ok(()) } else { install_and_verify(workspace, &missing) }
}

/// Returns the names of the missing requirements of a need.
pub(crate) fn missing_for(workspace: &Workspace, need: Need) -> Vec<&'static str> {
    let wanted: Vec<_> = REQUIREMENTS.iter().filter(|r| r.needed_for.contains(&need)).collect();
    missing(&probe_all(workspace, &wanted)).iter().map(|requirement| requirement.name).collect()
}

pub(crate) fn python_with_scapy() -> Option<PathBuf> {
    probe::python_with_scapy().map(|(python, _)| python)
}

pub(crate) fn mdbook(workspace: &Workspace) -> PathBuf {
    probe::own(workspace, "mdbook")
}

fn install_and_verify(workspace: &Workspace, missing: &[&'static Requirement]) -> Result<()> {
    install::carry_out(workspace, &Plan::of(missing, Host::detect()))?;
    let still = self::missing(&probe_all(workspace, missing));
    if still.is_empty() {
        return Ok(());
    }
    bail!("still missing after installing: {}", names(&still))
}

/// Probes all requirements in parallel: most probes wait for a process.
fn probe_all(workspace: &Workspace, requirements: &[&'static Requirement]) -> Vec<Probed> {
    thread::scope(|scope| {
        let probes: Vec<_> =
            requirements.iter().map(|r| (*r, scope.spawn(|| probe::find(r, workspace)))).collect();
        let answer =
            |probe: thread::ScopedJoinHandle<'_, _>| probe.join().expect("invariant: probes do not panic");
        probes.into_iter().map(|(requirement, probe)| (requirement, answer(probe))).collect()
    })
}

fn missing(probed: &[Probed]) -> Vec<&'static Requirement> {
    probed.iter().filter(|(_, found)| found.is_none()).map(|(requirement, _)| *requirement).collect()
}

fn names(requirements: &[&Requirement]) -> String {
    requirements.iter().map(|r| r.name).collect::<Vec<_>>().join(", ")
}

fn render(probed: &[Probed]) -> String {
    let row = |(requirement, found): &Probed| {
        let needed_for: Vec<_> = requirement.needed_for.iter().map(|need| need.name()).collect();
        let (version, place) = match found {
            Some(found) => (found.version.clone(), found.path.display().to_string()),
            None => ("missing".to_owned(), "-".to_owned()),
        };
        let source = requirement.source.to_string();
        [requirement.name.to_owned(), needed_for.join(", "), version, place, source]
    };
    let rows: Vec<_> = probed.iter().map(row).collect();
    table::render(["NAME", "NEEDED FOR", "FOUND", "WHERE", "HOW TO GET IT"], &[], &rows)
}

#[cfg(test)]
mod tests;
