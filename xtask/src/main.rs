//! Vipward's build, test and lint commands: `cargo xtask COMMAND`.

mod build_ebpf;
mod compiler;
mod docs;
mod fuzz;
mod image;
mod launch;
mod licences;
mod lint;
mod object;
mod pages;
mod process;
mod programs;
mod quiet;
mod root;
mod search;
mod setup;
mod simulate;
mod table;
mod test_run;
mod vendors;
mod version;
mod vm;
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
    /// Find the tools that the other commands need, and install missing ones
    ///
    /// On Debian and Ubuntu it prints and runs the commands of apt-get and cargo that install them.
    /// Elsewhere it prints these commands and exits with 1. It takes less than two seconds when
    /// nothing is missing.
    ///
    /// The eBPF compiler is the first of these: the rustc that `VIPWARD_EBPF_RUSTC` names, a
    /// distribution's rustc with `core` precompiled for bpfel-unknown-none, a rustup toolchain with
    /// rust-src.
    Setup(setup::Args),
    /// Build the XDP objects and check them: BTF, programs and maps
    BuildEbpf(build_ebpf::Args),
    /// Run all tests in this machine's kernel (needs root)
    ///
    /// Builds the XDP objects and the agent, then runs unit tests, kernel
    /// fixtures, tests in network namespaces, 20,000 simulated schedules, and
    /// each fuzz target on its corpus and 5,000 inputs like it. Schedules, frames
    /// and the inputs of fuzz targets and property tests are the same on every
    /// day. The last line is `N passed, N failed`.
    Test(test_run::Args),
    /// Run the scenarios of a cluster: three nodes, a client, an API server (needs root)
    ///
    /// `test` runs them too. With `KUBECONFIG` set they run against the API server that it names.
    /// They create and delete Nodes, Services and `VirtualIP` objects there, so use a server for
    /// tests. `VIPWARD_API_BACKUP` names a program that restores its store (CONTRIBUTING.md).
    E2e(test_run::ClusterArgs),
    /// Run the tests of network cards in virtual machines with Debian's kernels
    ///
    /// Boots 6.1 and 6.12 in QEMU with each model of network cards, and runs a selection of the
    /// tests. `--all` runs all of them, on arm64 too. Prints a table of links and the verifier's
    /// instruction counts, and writes them to target/vm. `setup --vm` installs QEMU.
    Vm(vm::Args),
    /// Run random schedules of crashes, pauses and partitions against the ownership engine
    ///
    /// `--seeds N` sets their number, `--seed S` the first, `--trace --seed S` shows one.
    /// docs/internals/simulation.md has the rest.
    Simulate(PassedOn),
    /// Search for faults at random, for a limited time (needs root)
    ///
    /// Fuzzes each target, simulates schedules, and runs unit tests and kernel fixtures with random
    /// inputs. Adds an input that fails to the corpus of its fuzz target, prints the lines for
    /// simulation/schedules.txt, and the seeds of failed tests.
    Search(search::Args),
    /// Check formatting, lints, licences, unused dependencies and documentation
    Lint,
    /// Build a site of the pages with mdBook, in target/docs
    ///
    /// The contents are docs/SUMMARY.md. The last line is the path to open.
    Docs,
    /// Show Vipward on a LAN and in a cluster, in network namespaces (needs root)
    ///
    /// Builds behind one line, measures, prints the result and then the story.
    Demo(DemoArgs),
    /// Build what the demo needs
    #[command(hide = true)]
    BuildDemo,
    /// Measure speed and memory against the kernel and bare XDP programs (needs root)
    ///
    /// `bench kubernetes` measures three agents and their API server with 10,000 Services, `bench
    /// rest` the CPU time of agents at rest, and `bench peers` keepalived, ucarp and the kernel's
    /// ARP beside Vipward. `--record` writes the figures into docs/measured/bench.csv.
    Bench(PassedOn),
    /// Generate the table of MAC vendors from the listings in the crate oui-data
    Vendors,
    /// Write THIRD-PARTY.txt, the licences of what is linked into the agent, with cargo-about
    Licences,
    /// Build the agent as a static binary for this machine's architecture, and an image with
    /// nothing else in it
    ///
    /// It uses the first of buildah, podman and docker that works here.
    Image(image::Args),
}

#[derive(clap::Args)]
struct DemoArgs {
    /// Show a part in half a minute: a killed agent, a crowd of askers, a silent rival, a node without
    /// power, a planned move
    #[arg(long, conflicts_with = "down")]
    short: bool,
    /// Leave the LAN up and print commands to try
    #[arg(long, conflicts_with = "down")]
    keep: bool,
    /// Remove the LAN that `--keep` left
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
        Command::Vm(args) => vm::run(&workspace, &args),
        Command::Simulate(args) => simulate::run(&workspace, &args.args),
        Command::Search(args) => search::run(&workspace, &args),
        Command::Lint => lint::run(&workspace),
        Command::Docs => docs::run(&workspace),
        Command::BuildDemo => launch::build_demo(&workspace),
        Command::Demo(args) => {
            let flags = [(args.short, "--short"), (args.keep, "--keep"), (args.down, "--down")];
            let flags = flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag.into());
            launch::run(&workspace, launch::Program::Demo, flags.chain(args.rest.args).collect())
        }
        Command::Licences => licences::run(&workspace),
        Command::Vendors => vendors::run(&workspace),
        Command::Image(args) => image::run(&workspace, &args),
        Command::Bench(args) => {
            // After a subcommand's name, clap passes `--` on as an argument.
            let args = args.args.into_iter().filter(|arg| arg != "--").collect();
            launch::run(&workspace, launch::Program::Bench, args)
        }
    }
}
