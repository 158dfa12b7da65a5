//! Vipward's build, test and lint commands: `cargo xtask COMMAND`.

mod build_ebpf;
mod compiler;
mod fuzz;
mod image;
mod launch;
mod lint;
mod object;
mod process;
mod root;
mod setup;
mod simulate;
mod table;
mod test_run;
mod vendors;
mod version;
mod workspace;

use std::{ffi::OsString, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Builds, tests, shows and measures Vipward.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find what building and testing need, and install what is missing
    ///
    /// On Debian and Ubuntu the missing is installed with apt-get and cargo, after saying what. Elsewhere the
    /// commands are printed and the exit code is 1. Running it again costs less than two seconds.
    ///
    /// The eBPF compiler is, in this order: the rustc named by `VIPWARD_EBPF_RUSTC`, a distribution's rustc with
    /// `core` precompiled for bpfel-unknown-none, a rustup toolchain with rust-src.
    Setup(setup::Args),
    /// Build the XDP objects and check them: BTF, programs and maps
    BuildEbpf(build_ebpf::Args),
    /// Run all tests in this machine's kernel (needs root)
    ///
    /// Builds the objects and the agent, then runs unit tests, kernel fixtures, network-namespace tests, 20,000
    /// simulated schedules and about ten seconds of each fuzz target. The last line is `N passed, N failed`.
    Test(test_run::Args),
    /// Play the scenarios of a cluster: three nodes, a client, an API server (needs root)
    ///
    /// They are part of `test` too. With `KUBECONFIG` set they run against the API server that it names, which should be
    /// one for tests: Nodes, Services and `VirtualIP` objects are made there, and removed.
    E2e(test_run::ClusterArgs),
    /// Play random schedules of crashes, pauses and partitions against the ownership engine
    ///
    /// `--seeds N` says how many, `--seed S` the first; `--trace --seed S` shows one; docs/SIMULATION.md has the rest.
    Simulate(PassedOn),
    /// Check formatting, lints, licences, unused dependencies and documentation
    Lint,
    /// Tell the story on a LAN and in a cluster in network namespaces (needs root)
    Demo(DemoArgs),
    /// Measure speed and memory against the kernel and bare XDP programs (needs root)
    ///
    /// `bench kubernetes` measures three agents and their API server with 10,000 Services.
    Bench(PassedOn),
    /// Make the table of MAC vendors anew, from the listings that the crate oui-data packs
    Vendors,
    /// Build the agent as a static binary, and an image that has it and nothing else
    ///
    /// With whichever of buildah, podman and docker works here, in this order.
    Image(image::Args),
}

#[derive(clap::Args)]
struct DemoArgs {
    /// Leave the LAN up and print what to try by hand
    #[arg(long, conflicts_with = "down")]
    keep: bool,
    /// Remove what `--keep` left
    #[arg(long)]
    down: bool,
    #[command(flatten)]
    rest: PassedOn,
}

#[derive(clap::Args)]
struct PassedOn {
    /// Arguments for the program itself (`-- --help` lists them)
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let workspace = Workspace::discover()?;
    match command {
        Command::Setup(args) => setup::run(&workspace, &args),
        Command::BuildEbpf(args) => build_ebpf::run(&workspace, &args),
        Command::Test(args) => test_run::run(&workspace, &args),
        Command::E2e(args) => test_run::e2e(&workspace, &args),
        Command::Simulate(args) => simulate::run(&workspace, &args.args),
        Command::Lint => lint::run(&workspace),
        Command::Demo(args) => {
            let flags = [(args.keep, "--keep"), (args.down, "--down")];
            let flags = flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag.into());
            launch::run(&workspace, launch::Program::Demo, flags.chain(args.rest.args).collect())
        }
        Command::Vendors => vendors::run(&workspace),
        Command::Image(args) => image::run(&workspace, &args),
        Command::Bench(args) => {
            // Behind the name of what is measured, `--` is an argument like any other to clap.
            let args = args.args.into_iter().filter(|arg| arg != "--").collect();
            launch::run(&workspace, launch::Program::Bench, args)
        }
    }
}
