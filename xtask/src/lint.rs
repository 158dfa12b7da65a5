//! `lint`: runs the checks that need no kernel, and prints a table of their results.

mod members;
mod rooms;
mod sources;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    build_ebpf,
    compiler::Toolchain,
    licences, pages,
    process::{self, Stopwatch},
    programs,
    setup::{self, Need},
    table, vendors,
    workspace::Workspace,
};

type Check = (&'static str, fn(&Workspace) -> Result<()>);

const CHECKS: &[Check] = &[
    ("formatting", formatting),
    ("every crate has the lints", lints_everywhere),
    ("no leftovers", leftovers),
    ("words in the log", debug_in_log),
    ("shell scripts parse", shell_scripts),
    ("rooms import only earlier rooms", rooms),
    ("pages and their links", links),
    ("licences, bans, sources", dependencies),
    ("licences of what is linked", licences::check),
    ("unused dependencies", unused_dependencies),
    ("clippy, eBPF", clippy_ebpf),
    ("clippy, host", clippy_host),
    ("clippy, fuzz targets", clippy_fuzz),
    ("documentation", documentation),
    ("the CRD is the Rust type's", crd),
];

/// Custom resource definition, generated from the agent's type.
const CRD: &str = "deploy/kubernetes/base/crd.yaml";

/// Manifest of the fuzz targets, a workspace that `--workspace` and `--all` do not reach.
const FUZZ: &str = "fuzz/Cargo.toml";

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    setup::ensure(workspace, &[Need::Build, Need::Lint])?;
    build_ebpf::build_versions(workspace)?;
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    for (name, check) in CHECKS {
        process::step(name);
        let watch = Stopwatch::start();
        let outcome = check(workspace);
        if let Err(error) = &outcome {
            eprintln!("{name}: {error:#}");
            failed.push(*name);
        }
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        rows.push([(*name).to_owned(), verdict.to_owned(), format!("{:.1}", watch.seconds())]);
    }
    println!("\n{}", table::render(["CHECK", "RESULT", "SECONDS"], &[2], &rows));
    if failed.is_empty() { Ok(()) } else { bail!("{} failed: {}", failed.len(), failed.join("; ")) }
}

/// Checks that the committed definition is the one that the agent prints.
fn crd(workspace: &Workspace) -> Result<()> {
    let agent = programs::debug(workspace)?.join("vipward");
    let printed = process::output(Command::new(agent).arg("crd"))?;
    let path = workspace.root.join(CRD);
    let committed =
        fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    if printed == committed {
        return Ok(());
    }
    bail!("{CRD} is not what the agent's type says: `cargo run -p vipward -- crd > {CRD}`")
}

fn cargo(workspace: &Workspace, args: &[&str]) -> Command {
    let mut cargo = process::cargo();
    cargo.current_dir(&workspace.root).args(args);
    cargo
}

fn formatting(workspace: &Workspace) -> Result<()> {
    process::run(&mut cargo(workspace, &["fmt", "--all", "--check"]))?;
    // `--all` would format the path dependencies again.
    process::run(&mut cargo(workspace, &["fmt", "--manifest-path", FUZZ, "--check"]))
}

fn lints_everywhere(workspace: &Workspace) -> Result<()> {
    let mut exempt = Vec::new();
    for path in &workspace.manifests {
        let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        let inherits = members::inherits_lints(&text);
        if !inherits.with_context(|| format!("failed to parse {}", path.display()))? {
            exempt.push(path.display().to_string());
        }
    }
    if !exempt.is_empty() {
        bail!("`[lints] workspace = true` is missing in {}", exempt.join(", "));
    }
    let read = |manifest: &str| {
        fs::read_to_string(workspace.root.join(manifest))
            .with_context(|| format!("failed to read {manifest}"))
    };
    if members::same_lints(&read("Cargo.toml")?, &read(FUZZ)?)? {
        return Ok(());
    }
    bail!("`[lints]` of {FUZZ} is not `[workspace.lints]` of Cargo.toml: copy it")
}

fn debug_in_log(workspace: &Workspace) -> Result<()> {
    let is_agents = |file: &String| file.starts_with("agent/src/") || file.starts_with("agent-core/src/");
    let is_test = |file: &String| file.contains("/tests/") || file.ends_with("/tests.rs");
    let files = tracked(workspace)?.into_iter().filter(|file| is_agents(file) && !is_test(file));
    report(workspace, files, |_, text| sources::debug_lines(text))
}

fn leftovers(workspace: &Workspace) -> Result<()> {
    // Names of companies and the texts of others contain such words.
    let files = tracked(workspace)?.into_iter();
    let files = files.filter(|file| ![vendors::TABLE, licences::LIST].contains(&file.as_str()));
    report(workspace, files, |_, text| sources::leftover_lines(text))
}

/// Fails with the lines that `find` returns. Skips files that are not UTF-8.
fn report(
    workspace: &Workspace,
    files: impl Iterator<Item = String>,
    find: fn(&str, &str) -> Vec<(usize, String)>,
) -> Result<()> {
    let mut lines = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(workspace.root.join(&file)) else { continue };
        lines.extend(find(&file, &text).into_iter().map(|(number, line)| format!("{file}:{number}: {line}")));
    }
    if lines.is_empty() { Ok(()) } else { bail!("\n  {}", lines.join("\n  ")) }
}

/// Returns the project's files: those that git tracks or would add.
pub(crate) fn tracked(workspace: &Workspace) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    Ok(process::output(&mut git)?.split_terminator('\0').map(str::to_owned).collect())
}

fn rooms(workspace: &Workspace) -> Result<()> {
    let files = tracked(workspace)?.into_iter();
    let files = files.filter(|file| Path::new(file).extension().is_some_and(|extension| extension == "rs"));
    let read = |file: String| Some((file.clone(), fs::read_to_string(workspace.root.join(file)).ok()?));
    rooms::check(&files.filter_map(read).collect())
}

/// Checks that links of pages lead somewhere, that the site has every page, and that prose is wrapped.
fn links(workspace: &Workspace) -> Result<()> {
    let files = tracked(workspace)?;
    let pages = pages::read(workspace, &files)?;
    let files = files.iter().filter(|file| workspace.root.join(file).is_file());
    let files: BTreeSet<_> = files.flat_map(|file| Path::new(file).ancestors()).collect();
    let faults = pages::faults(&pages, |path| files.contains(Path::new(path)));
    if faults.is_empty() { Ok(()) } else { bail!("\n  {}", faults.join("\n  ")) }
}

fn shell_scripts(workspace: &Workspace) -> Result<()> {
    for file in tracked(workspace)? {
        let path = workspace.root.join(&file);
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if let Some(shell) = sources::shell_of(&file, &text) {
            process::run(Command::new(shell).arg("-n").arg(&path))?;
        }
    }
    Ok(())
}

fn dependencies(workspace: &Workspace) -> Result<()> {
    let mut deny = Command::new(installed("cargo-deny")?);
    deny.current_dir(&workspace.root).args(["--all-features", "check", "--hide-inclusion-graph"]);
    process::run(deny.args(["licenses", "bans", "sources"]))
}

fn unused_dependencies(workspace: &Workspace) -> Result<()> {
    process::run(Command::new(installed("cargo-machete")?).current_dir(&workspace.root))
}

fn installed(program: &str) -> Result<PathBuf> {
    process::find(program).with_context(|| format!("{program} is not installed: run `cargo xtask setup`"))
}

fn clippy_host(workspace: &Workspace) -> Result<()> {
    let scope = ["clippy", "--quiet", "--workspace", "--exclude=vipward-ebpf", "--all-targets"];
    process::run(cargo(workspace, &scope).args(["--", "-D", "warnings"]))?;
    // The invented next version: the agent and what it is made of.
    let scope = ["clippy", "--quiet", "-p", "vipward", "-p", "vipward-common", "-p", "vipward-core"];
    let next = ["--features", programs::NEXT, "--", "-D", "warnings"];
    process::run(cargo(workspace, &scope).args(next))
}

fn clippy_fuzz(workspace: &Workspace) -> Result<()> {
    let mut clippy = cargo(workspace, &["clippy", "--quiet", "--manifest-path", FUZZ, "--all-targets"]);
    clippy.arg("--target-dir").arg(workspace.target.join("fuzz-clippy"));
    // Nothing is linked, so libFuzzer's C++ need not be compiled: any path will do.
    clippy.env("CUSTOM_LIBFUZZER_PATH", workspace.target.join("libfuzzer.a"));
    process::run(clippy.args(["--", "-D", "warnings"]))
}

/// Runs the clippy of the eBPF compiler. `cargo clippy` would run the clippy of cargo's own toolchain.
fn clippy_ebpf(workspace: &Workspace) -> Result<()> {
    let toolchain = Toolchain::find()?;
    let driver = setup::clippy_driver(&toolchain.compiler);
    let driver = driver.with_context(|| format!("{} has no clippy beside it", toolchain.compiler))?;
    for features in [&[][..], &["--features=bench"], &["--no-default-features"], &["--features=next-layout"]]
    {
        let mut check = toolchain.cargo(workspace, "check");
        check.arg("--quiet").args(features);
        check.env("RUSTC_WORKSPACE_WRAPPER", &driver).env("CLIPPY_CONF_DIR", &workspace.root);
        // cargo-clippy passes `-- -D warnings` to the driver in this form.
        check.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
        process::run(check.stdout(Stdio::inherit()))?;
    }
    Ok(())
}

fn documentation(workspace: &Workspace) -> Result<()> {
    let scope = ["doc", "--quiet", "--no-deps", "--workspace", "--exclude=vipward-ebpf"];
    process::run(cargo(workspace, &scope).env("RUSTDOCFLAGS", "-Dwarnings"))
}
