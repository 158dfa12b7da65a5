//! `lint`: every check that needs no kernel, with a table of results at the end.

mod members;
mod sources;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    build_ebpf,
    compiler::Toolchain,
    process::{self, Stopwatch},
    setup::{self, Need},
    table, vendors,
    workspace::Workspace,
};

/// A check: what it is called, and how it is done.
type Check = (&'static str, fn(&Workspace) -> Result<()>);

const CHECKS: &[Check] = &[
    ("formatting", formatting),
    ("every crate has the lints", lints_everywhere),
    ("the core does no I/O", pure_core),
    ("no leftovers", leftovers),
    ("shell scripts parse", shell_scripts),
    ("licences, bans, sources", dependencies),
    ("unused dependencies", unused_dependencies),
    ("clippy, eBPF", clippy_ebpf),
    ("clippy, host", clippy_host),
    ("clippy, fuzz targets", clippy_fuzz),
    ("documentation", documentation),
    ("the CRD is the Rust type's", crd),
];

/// What `kubectl apply` is given, which the agent's type defines.
const CRD: &str = "deploy/kubernetes/base/crd.yaml";

/// The fuzz targets are a workspace of their own, which `--workspace` and `--all` do not reach.
const FUZZ: &str = "fuzz/Cargo.toml";

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    setup::ensure(workspace, &[Need::Build, Need::Lint])?;
    build_ebpf::build(workspace)?; // the agent embeds the object
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

/// The committed definition is what the agent prints.
fn crd(workspace: &Workspace) -> Result<()> {
    let printed = process::output(&mut cargo(
        workspace,
        &["run", "--quiet", "-p", "vipward", "--bin", "vipward", "--", "crd"],
    ))?;
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
    // Not `--all`, which formats the path dependencies again.
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

fn pure_core(workspace: &Workspace) -> Result<()> {
    let files = tracked(workspace)?.into_iter().filter(|file| sources::is_core(file));
    report(workspace, files, sources::impure_lines)
}

fn leftovers(workspace: &Workspace) -> Result<()> {
    // There are companies of such names.
    let files = tracked(workspace)?.into_iter().filter(|file| file != vendors::TABLE);
    report(workspace, files, |_, text| sources::leftover_lines(text))
}

/// Fails with the lines that `find` objects to. Files that are no UTF-8 have no lines.
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

/// The files that belong to the project: tracked by git, or about to be.
fn tracked(workspace: &Workspace) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    Ok(process::output(&mut git)?.split_terminator('\0').map(str::to_owned).collect())
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
    process::run(cargo(workspace, &scope).args(["--", "-D", "warnings"]))
}

fn clippy_fuzz(workspace: &Workspace) -> Result<()> {
    let mut clippy = cargo(workspace, &["clippy", "--quiet", "--manifest-path", FUZZ, "--all-targets"]);
    clippy.arg("--target-dir").arg(workspace.target.join("fuzz-clippy"));
    clippy.env("VIPWARD_EBPF_OBJECT", workspace.bpf().join("vipward.o"));
    process::run(clippy.args(["--", "-D", "warnings"]))
}

/// `cargo clippy` would take the clippy of cargo's own toolchain; this is that of the eBPF compiler.
fn clippy_ebpf(workspace: &Workspace) -> Result<()> {
    let toolchain = Toolchain::find()?;
    let driver = setup::clippy_driver(&toolchain.compiler);
    let driver = driver.with_context(|| format!("{} has no clippy beside it", toolchain.compiler))?;
    for features in [&[][..], &["--features=bench"], &["--no-default-features"]] {
        let mut check = toolchain.cargo(workspace, "check");
        check.args(features).arg("--target-dir").arg(workspace.target.join("bpf-clippy"));
        check.env("RUSTC_WORKSPACE_WRAPPER", &driver).env("CLIPPY_CONF_DIR", &workspace.root);
        // What cargo-clippy passes for `-- -D warnings`: the driver's own separator between words.
        check.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
        process::run(check.stdout(Stdio::inherit()))?;
    }
    Ok(())
}

fn documentation(workspace: &Workspace) -> Result<()> {
    let scope = ["doc", "--quiet", "--no-deps", "--workspace", "--exclude=vipward-ebpf"];
    process::run(cargo(workspace, &scope).env("RUSTDOCFLAGS", "-Dwarnings"))
}
