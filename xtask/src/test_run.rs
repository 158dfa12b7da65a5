//! `test`: runs all tests in this machine's kernel, and adds up their results.

pub(crate) mod tally;

use std::{
    env,
    ffi::OsString,
    io::{self, BufRead as _, BufReader, Write as _},
    num::NonZero,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;

use self::tally::Tally;
use crate::{
    build_ebpf, fuzz,
    process::{self, Stopwatch},
    programs, root,
    setup::{self, Need},
    simulate, table,
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only unit tests and kernel fixtures: no network-namespace tests, no simulation, no fuzzing
    #[arg(long)]
    quick: bool,
    /// Only tests whose name contains one of these
    filters: Vec<String>,
}

/// Test program that needs a kernel, but no network namespaces.
const FIXTURES: &str = "fixtures";

const ALL: &[&str] = &["--workspace", "--exclude=vipward-ebpf", "--exclude=vipward-simulation"];
const QUICK: &[&str] = &[
    "--workspace",
    "--exclude=vipward-ebpf",
    "--exclude=vipward-simulation",
    "--lib",
    "--bins",
    "--test",
    FIXTURES,
];
/// Fixtures that take long, which `--quick` leaves out: random frames and races.
const SLOW: [&str; 2] = ["--skip=differential::", "--skip=yield_race::"];
/// Number of tests that run at a time on a core: long tests mostly wait for leases, rounds and
/// intervals.
const TESTS_A_CORE: usize = 3;
/// Most reruns of a test that failed beside others.
const TRIES_ALONE: usize = 2;
/// Most failed tests that are run again: more of them are a fault.
const MOST_ALONE: usize = 30;
/// Variables of the user that the tests get: the API server of the scenarios, the program that restores
/// its store, and the seeds.
const PASSED_ON: [&str; 4] = ["KUBECONFIG", "VIPWARD_API_BACKUP", SEEDS[0], SEEDS[1]];
/// Seeds of the property tests, and of the random frames of the fixtures.
const SEEDS: [&str; 2] = ["PROPTEST_RNG_SEED", "VIPWARD_SEED"];
const CLUSTER: &[&str] = &["-p", "vipward-tests", "--test", "kubernetes"];

#[derive(clap::Args)]
pub(crate) struct ClusterArgs {
    /// Only scenarios whose name contains one of these
    filters: Vec<String>,
}

/// Runs the scenarios of a cluster, and nothing else.
pub(crate) fn e2e(workspace: &Workspace, args: &ClusterArgs) -> Result<()> {
    root::check()?;
    setup::ensure(workspace, &[Need::Build, Need::Test])?;
    build_ebpf::build_all(workspace)?;
    let agents = programs::versions(workspace)?;
    process::step("building and running the scenarios of a cluster");
    let mut tally = Tally::default();
    let status = run_cargo_test(workspace, CLUSTER, &args.filters, &agents, None, &mut tally)?;
    print_names(&tally);
    println!("{tally}");
    verdict(&tally, status, &args.filters)
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    root::check()?;
    setup::ensure(workspace, &[Need::Build, Need::Test])?;
    build_ebpf::build_all(workspace)?;
    let agents = programs::versions(workspace)?;

    process::step("building and running tests");
    let mut tally = Tally::default();
    let mut status = if args.quick {
        let filters: Vec<_> = args.filters.iter().cloned().chain(SLOW.map(str::to_owned)).collect();
        run_cargo_test(workspace, QUICK, &filters, &agents, None, &mut tally)?
    } else {
        run_cargo_test(workspace, ALL, &args.filters, &agents, None, &mut tally)?
    };
    if status.success() && !args.quick {
        status = run_cargo_test(workspace, simulate::SCOPE, &args.filters, &agents, None, &mut tally)?;
    }
    let compiled = status.success() || tally.failed() > 0;
    if compiled && !args.quick {
        if let Some(simulated) = simulate::test(workspace, &args.filters)? {
            tally.add(simulate::NAME, simulated.passed, simulated.seconds);
        }
        for fuzzed in fuzz::run(workspace, &args.filters)? {
            tally.add(&format!("fuzz {}", fuzzed.target), fuzzed.passed, fuzzed.seconds);
        }
    }

    let header = ["SUITE", "PASSED", "FAILED", "IGNORED", "SECONDS"];
    eprintln!("\n{}", table::render(header, &[1, 2, 3, 4], &tally.rows()));
    print_names(&tally);
    println!("{tally}");
    io::stdout().flush().context("failed to write to stdout")?;
    verdict(&tally, status, &args.filters)
}

/// Runs unit tests and fixtures with random inputs for a time, at least once. Adds the failed tests to
/// `found`, each with the command that runs it again.
pub(crate) fn search(
    workspace: &Workspace,
    time: Duration,
    seed: u32,
    found: &mut Vec<String>,
) -> Result<()> {
    build_ebpf::build_all(workspace)?;
    let agents = programs::versions(workspace)?;
    let mut cargo = process::cargo();
    process::run(cargo.current_dir(&workspace.root).args(["test", "--no-run"]).args(QUICK))?;
    let watch = Stopwatch::start();
    // The frames of one seed are nearly those of the next.
    let mut seeds = Rng::with_seed(seed.into());
    while watch.elapsed() < time {
        let seed = seeds.u32(1..);
        let mut tally = Tally::default();
        let status = run_cargo_test(workspace, QUICK, &[], &agents, Some(seed), &mut tally)?;
        ensure!(
            status.success() || tally.failed() > 0,
            "`cargo test` failed without a failed test: {status}"
        );
        let again = SEEDS.map(|name| format!("{name}={seed}")).join(" ");
        let tests = tally.failed_tests().iter();
        found.extend(tests.map(|test| format!("{test} ({again} cargo xtask test NAME)")));
    }
    Ok(())
}

/// Names the tests that failed, at the first try or at all.
pub(crate) fn print_names(tally: &Tally) {
    for test in tally.passed_alone() {
        eprintln!("failed beside other tests, passed alone: {test}");
    }
    for test in tally.failed_tests() {
        eprintln!("failed: {test}");
    }
}

/// Fails unless a test ran and every test passed.
fn verdict(tally: &Tally, status: ExitStatus, filters: &[String]) -> Result<()> {
    ensure!(tally.failed() == 0, "{} of {} tests failed", tally.failed(), tally.failed() + tally.passed());
    ensure!(status.success(), "`cargo test` failed without a failed test: {status}");
    ensure!(tally.passed() > 0, "no test was run: none has a name that contains {}", filters.join(" or "));
    Ok(())
}

/// Returns the environment variables of the tests, the demo and the benchmark.
pub(crate) fn variables(workspace: &Workspace, agent: &Path) -> Result<Vec<(&'static str, OsString)>> {
    let mut variables = vec![
        ("PATH", process::path_with(&[])?),
        ("VIPWARD_BIN", agent.into()),
        ("VIPWARD_EBPF_DIR", workspace.bpf().into()),
        ("VIPWARD_TOOLS", workspace.tools().into()),
    ];
    variables.extend(setup::python_with_scapy().map(|python| ("VIPWARD_PYTHON", python.into())));
    Ok(variables)
}

/// Runs the failed tests of `tally` again, alone, with `run`, which takes their arguments: on a machine
/// that others keep busy, a test that measures time fails without a fault. Leaves it at that if they are
/// more than `most`, or if one has no name of its own.
pub(crate) fn run_failed_again(
    tally: &mut Tally,
    tries: usize,
    most: usize,
    mut run: impl FnMut(&[String]) -> Result<Tally>,
) -> Result<()> {
    for _ in 0..tries {
        let Some(mut names) = tally.names_to_run_again().filter(|names| names.len() <= most) else {
            break;
        };
        process::step(&format!("running again, alone, what failed: {}", names.join(" ")));
        names.extend(["--exact", "--test-threads=1"].map(str::to_owned));
        tally.pass_alone(&run(&names)?);
    }
    Ok(())
}

/// Runs the tests of `scope`, and again those that fail beside others.
fn run_cargo_test(
    workspace: &Workspace,
    scope: &[&str],
    filters: &[String],
    (agent, next): &(PathBuf, PathBuf),
    seed: Option<u32>,
    tally: &mut Tally,
) -> Result<ExitStatus> {
    let mut variables = variables(workspace, agent)?;
    variables.push(("VIPWARD_NEXT_BIN", next.into()));
    for name in PASSED_ON {
        let value = seed.filter(|_| SEEDS.contains(&name)).map(|seed| seed.to_string().into());
        variables.extend(value.or_else(|| env::var_os(name)).map(|value| (name, value)));
    }
    let run = |arguments: &[String], tally: &mut Tally| -> Result<ExitStatus> {
        let mut cargo = process::cargo();
        cargo.current_dir(&workspace.root).args(["test", "--no-fail-fast"]).args(scope);
        cargo.arg("--").args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
        run_as_root(&mut cargo, &variables)?;
        tally_while_shown(&mut cargo, tally)
    };

    let mut arguments = filters.to_vec();
    if !filters.iter().any(|filter| filter.starts_with("--test-threads")) {
        arguments.push(format!("--test-threads={}", threads(&variables)));
    }
    let mut status = run(&arguments, tally)?;
    run_failed_again(tally, TRIES_ALONE, MOST_ALONE, |arguments| {
        let mut again = Tally::default();
        status = run(arguments, &mut again)?;
        Ok(again)
    })?;
    Ok(status)
}

/// Returns the number of tests to run in parallel.
fn threads(variables: &[(&str, OsString)]) -> usize {
    if variables.iter().any(|(name, _)| *name == "KUBECONFIG") {
        // The scenarios share one API server, and a VIP is one object in the whole cluster.
        return 1;
    }
    thread::available_parallelism().map_or(1, NonZero::get) * TESTS_A_CORE
}

/// Makes cargo run the test programs with sudo.
fn run_as_root(cargo: &mut Command, variables: &[(&str, OsString)]) -> Result<()> {
    let prefix = root::prefix(variables)?;
    if prefix.is_empty() {
        return Ok(());
    }
    let words: Option<Vec<_>> = prefix.iter().map(|word| word.to_str()).collect();
    let words = words.context("PATH or the workspace's path is not UTF-8")?;
    if let Some(word) = words.iter().find(|word| word.contains(char::is_whitespace)) {
        bail!("cargo cannot pass {word:?} to sudo because of the blank in it: run this as root");
    }
    let runner = format!("CARGO_TARGET_{}_RUNNER", process::host()?.replace('-', "_").to_uppercase());
    cargo.env(runner, words.join(" "));
    Ok(())
}

/// Runs `cargo`, prints its output at once, and reads the results in it.
fn tally_while_shown(cargo: &mut Command, tally: &mut Tally) -> Result<ExitStatus> {
    // One pipe for both keeps the order: cargo names a test program on stderr, then the program
    // prints its results on stdout.
    let (reader, writer) = io::pipe().context("failed to make a pipe")?;
    cargo.stdout(writer.try_clone().context("failed to copy a pipe")?).stderr(writer);
    let mut child =
        cargo.spawn().with_context(|| format!("failed to start `{}`", process::command_line(cargo)))?;
    // Drops the writers here, so that the pipe ends with the child.
    cargo.stdout(io::stdout()).stderr(io::stderr());

    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).context("failed to read what the tests print")? > 0 {
        io::stdout().write_all(&line).context("failed to write to stdout")?;
        tally.line(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    let status = child.wait().context("failed to wait for `cargo test`")?;
    tally.finish();
    Ok(status)
}

#[cfg(test)]
mod tests;
