//! `demo` and `bench`: build the program in `vipward-tests`, and become it.

use std::{ffi::OsString, os::unix::process::CommandExt as _};

use anyhow::{Context as _, Result};

use crate::{
    build_ebpf, process, root,
    setup::{self, Need},
    test_run,
    workspace::Workspace,
};

#[derive(Clone, Copy)]
pub(crate) enum Program {
    Demo,
    Bench,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Demo => "vipward-demo",
            Self::Bench => "vipward-bench",
        }
    }

    fn needs(self) -> &'static [Need] {
        match self {
            Self::Demo => &[Need::Build, Need::Demo],
            Self::Bench => &[Need::Build],
        }
    }
}

/// Does not return on success: the program takes our place, so that it gets Ctrl-C itself and can clean up.
pub(crate) fn run(workspace: &Workspace, program: Program, args: Vec<OsString>) -> Result<()> {
    root::check()?;
    setup::ensure(workspace, program.needs())?;
    build_ebpf::build(workspace)?;
    process::step(&format!("building {} and the agent", program.name()));
    let mut cargo = process::cargo();
    cargo.current_dir(&workspace.root).args([
        "build",
        "--release",
        "--bin",
        "vipward",
        "--bin",
        program.name(),
    ]);
    process::run(cargo.args(["-p", "vipward", "-p", "vipward-tests"]))?;

    let release = workspace.target.join("release");
    let variables = test_run::variables(workspace, &release.join("vipward"))?;
    let mut command = root::command(release.join(program.name()), &variables)?;
    let error = command.args(args).exec();
    Err(error).with_context(|| format!("failed to start `{}`", process::shown(&command)))
}
