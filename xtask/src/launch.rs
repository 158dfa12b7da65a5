//! `demo` and `bench`: build a program and become it.

use std::{env, ffi::OsString, os::unix::process::CommandExt as _, process::Command};

use anyhow::{Context as _, Result};

use crate::{
    build_ebpf, process, programs, quiet, root,
    setup::{self, Need},
    test_run,
    workspace::Workspace,
};

#[derive(Clone, Copy)]
pub(crate) enum Program {
    Demo,
    Bench,
}

/// Builds what the demo needs, and installs what is missing for it.
pub(crate) fn build_demo(workspace: &Workspace) -> Result<()> {
    setup::ensure(workspace, &[Need::Build, Need::Demo])?;
    build_ebpf::build_embedded(workspace)?;
    programs::debug(workspace).map(drop)
}

/// Builds the program and replaces this process with it, so that the program receives Ctrl-C and can
/// clean up. Returns only if that fails.
pub(crate) fn run(workspace: &Workspace, program: Program, args: Vec<OsString>) -> Result<()> {
    root::check()?;
    let (name, directory) = match program {
        Program::Demo => {
            let mut build = Command::new(env::current_exe().context("failed to find this program")?);
            build.arg("build-demo");
            quiet::run(build, &workspace.target.join("demo.log"))?;
            (programs::DEMO, workspace.target.join("debug"))
        }
        Program::Bench => {
            setup::ensure(workspace, &[Need::Build])?;
            build_ebpf::build_all(workspace)?;
            (programs::BENCH, programs::release(workspace)?)
        }
    };
    let variables = test_run::variables(workspace, &directory.join("vipward"))?;
    let mut command = root::command(directory.join(name), &variables)?;
    let error = command.args(args).exec();
    Err(error).with_context(|| format!("failed to start `{}`", process::command_line(&command)))
}
