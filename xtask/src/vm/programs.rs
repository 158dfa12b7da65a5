//! Builds the tests of the machines, and the agent, for a machine's architecture.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{archive::Archive, kernels::Arch};
use crate::{process, programs, workspace::Workspace};

const TESTS: &str = "vm";
const ARM64: &str = "aarch64-unknown-linux-gnu";
/// Debian's compiler, whose standard library Debian has for every architecture.
const DEBIANS_RUSTC: &str = "/usr/bin/rustc";
const DEBIANS_STD: &str = "libstd-rust-web-dev";

pub(super) struct Programs {
    pub(super) agent: PathBuf,
    pub(super) tests: PathBuf,
}

/// Builds the programs of this machine. The selection is the same as in `cargo xtask test`, so that
/// nothing is compiled twice.
pub(super) fn own(workspace: &Workspace) -> Result<Programs> {
    let agent = programs::debug(workspace)?.join("vipward");
    let mut cargo = process::cargo();
    cargo.current_dir(&workspace.root).args(["test", "--workspace", "--exclude=vipward-ebpf"]);
    cargo.args(["--exclude=vipward-simulation", "--test", TESTS]);
    Ok(Programs { agent, tests: test_program(&mut cargo)? })
}

pub(super) fn arm64(workspace: &Workspace, dir: &Path) -> Result<Programs> {
    process::step("building the agent and the tests for arm64 (about eight minutes at first)");
    let target = dir.join("arm64");
    let compiler = Compiler::find(dir)?;
    let cargo = |arguments: &[&str]| {
        let mut cargo = process::cargo();
        cargo.current_dir(&workspace.root).args(arguments);
        cargo.args(["-p", "vipward", "-p", "vipward-tests", "--target", ARM64, "--target-dir"]).arg(&target);
        compiler.set(&mut cargo);
        cargo
    };
    process::run(&mut cargo(&["build", "--bin", "vipward"]))?;
    let tests = test_program(&mut cargo(&["test", "--test", TESTS]))?;
    Ok(Programs { agent: target.join(ARM64).join("debug/vipward"), tests })
}

/// Compiler for arm64: rustup's, if it has the target, else Debian's with Debian's library.
enum Compiler {
    Rustup,
    Debian { sysroot: PathBuf },
}

impl Compiler {
    fn find(dir: &Path) -> Result<Self> {
        let mut ask = Command::new("rustc");
        let libraries = process::output(ask.args(["--print=target-libdir", "--target", ARM64]));
        if libraries.is_ok_and(|libraries| Path::new(libraries.trim()).is_dir()) {
            return Ok(Self::Rustup);
        }
        let sysroot = dir.join("arm64-std");
        if !sysroot.is_dir() {
            Archive::open(&dir.join("apt"), Arch::Arm64.debian())?.unpack(DEBIANS_STD, &sysroot)?;
        }
        Ok(Self::Debian { sysroot: sysroot.join("usr") })
    }

    fn set(&self, cargo: &mut Command) {
        let mut flags = vec![programs::STATIC.to_owned()];
        if let Self::Debian { sysroot } = self {
            flags.push(format!("--sysroot={}", sysroot.display()));
            cargo.env("RUSTC", DEBIANS_RUSTC);
        }
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", flags.join(" "));
        // The programs go into the machine's memory.
        cargo.env("CARGO_PROFILE_DEV_STRIP", "symbols");
        cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    }
}

/// Builds the test program that `cargo test …` selects, and returns its path.
fn test_program(cargo: &mut Command) -> Result<PathBuf> {
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let output = cargo.stderr(std::process::Stdio::inherit()).output().context("failed to start cargo")?;
    if !output.status.success() {
        bail!("`{}` failed: {}", process::command_line(cargo), output.status);
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let program = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_it = message["reason"] == "compiler-artifact" && message["target"]["name"] == TESTS;
        if is_it { message["executable"].as_str().map(PathBuf::from) } else { None }
    });
    program.with_context(|| format!("cargo built no test program {TESTS}"))
}
