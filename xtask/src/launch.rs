//! `demo` and `bench`: build a program and become it.

use std::{ffi::OsString, os::unix::process::CommandExt as _};

use anyhow::{Context as _, Result};

use crate::{
    build_ebpf, process, programs, root,
    setup::{self, Need},
    test_run,
    workspace::Workspace,
};

#[derive(Clone, Copy)]
pub(crate) enum Program {
    Demo,
    Bench,
}

/// Builds the program and replaces this process with it, so that the program receives Ctrl-C and can
/// clean up. Returns only if that fails.
pub(crate) fn run(workspace: &Workspace, program: Program, args: Vec<OsString>) -> Result<()> {
    root::check()?;
    let (name, directory) = match program {
        Program::Demo => {
            setup::ensure(workspace, &[Need::Build, Need::Demo])?;
            build_ebpf::build_embedded(workspace)?;
            (programs::DEMO, programs::debug(workspace)?)
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
