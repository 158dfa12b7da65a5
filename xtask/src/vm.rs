//! `vm`: boots Debian's kernels in QEMU, and runs the tests of real network cards in them.

mod accelerator;
mod archive;
mod guest;
mod initramfs;
mod kernels;
mod modules;
mod programs;
mod qemu;
mod results;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use self::{
    archive::Archive,
    guest::Root,
    initramfs::Initramfs,
    kernels::{Arch, Kernel, Unpacked},
    programs::Programs,
    qemu::{Accelerator, CLIENT, Machine, NODE, Nic},
    results::Results,
};
use crate::{
    build_ebpf,
    process::{self, Stopwatch},
    setup::{self, Need},
    test_run::{self, tally::Tally},
    version::Version,
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this kernel
    #[arg(long, value_enum)]
    kernel: Vec<Kernel>,
    /// Only this model of NICs
    #[arg(long, value_enum)]
    nic: Vec<Nic>,
    /// All tests on all kernels, arm64 too
    #[arg(long)]
    all: bool,
    /// Write the rows into docs/measured/links.csv too
    #[arg(long)]
    record: bool,
    /// Fetch the newest kernels first
    #[arg(long)]
    fetch: bool,
    /// Only tests whose name contains one of these
    filters: Vec<String>,
}

/// Tests that a merge needs.
const SHORT: [&str; 13] = [
    "bonds::failover::every_vip",
    "bonds::failover::a_machine",
    "receiving::",
    "links::plain",
    "links::bridge",
    "links::bond",
    "links::vlan_later",
    "links::macvlan_later",
    "proving::",
    "takeovers::",
    "verifier::",
    "vlans::",
    "yields::",
];
/// Tests to run once for each kernel, and not with each model of NICs.
const ONCE: [&str; 4] = ["proving::", "takeovers::", "verifier::", "yields::"];
/// Long tests, for two models of NICs; of those that a merge needs, for one. They need the programs of
/// this machine, such as ip, and so its root directory.
const LONG: [&str; 2] = ["bonds::", "scenarios::"];
/// Longest time without a line of output: a boot or a test.
const SILENCE: Duration = Duration::from_mins(4);
/// Most reruns of a machine's failed tests.
const TRIES_AGAIN: usize = 1;
/// Most failed tests of a machine that are run again: more of them are a fault.
const MOST_AGAIN: usize = 3;

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    ensure!(cfg!(target_arch = "x86_64"), "the virtual machines share the programs of an amd64 machine");
    let missing = setup::missing_for(workspace, Need::Vm);
    if !missing.is_empty() {
        println!(
            "skipped: the tests in virtual machines need {}; `cargo xtask setup --vm` installs them",
            missing.join(", ")
        );
        return Ok(());
    }
    setup::ensure(workspace, &[Need::Build])?;
    let lab = Lab { workspace, dir: workspace.target.join("vm") };
    fs::create_dir_all(&lab.dir).with_context(|| format!("failed to make {}", lab.dir.display()))?;
    if args.fetch {
        lab.forget_kernels()?;
    }
    build_ebpf::build_all(workspace)?;

    let (mut tally, mut results) = (Tally::default(), Results::default());
    for kernel in Kernel::ALL {
        let chosen = args.kernel.contains(&kernel);
        if chosen || (args.kernel.is_empty() && (args.all || kernel.arch() == Arch::Amd64)) {
            lab.run_kernel(kernel, args, &mut tally, &mut results)?;
        }
    }
    results.publish(&lab.dir, &lab.conditions()?)?;
    if args.record {
        results.record(&workspace.root.join("docs/measured/links.csv"))?;
    }
    test_run::print_names(&tally);
    println!("{tally}");
    ensure!(tally.failed() == 0, "{} tests failed in virtual machines", tally.failed());
    ensure!(tally.passed() > 0, "no test was run: none has such a name");
    Ok(())
}

/// The machines of a workspace, with their files in `target/vm`.
struct Lab<'a> {
    workspace: &'a Workspace,
    dir: PathBuf,
}

impl Lab<'_> {
    fn forget_kernels(&self) -> Result<()> {
        let kernels = self.dir.join("kernels");
        if kernels.exists() {
            fs::remove_dir_all(&kernels)
                .with_context(|| format!("failed to remove {}", kernels.display()))?;
        }
        Ok(())
    }

    /// Boots a kernel once for each model of NICs.
    fn run_kernel(
        &self,
        kernel: Kernel,
        args: &Args,
        tally: &mut Tally,
        results: &mut Results,
    ) -> Result<()> {
        let arch = kernel.arch();
        let unpacked = Unpacked::get(kernel, &self.dir)?;
        let busybox = self.busybox(arch)?;
        let programs = match arch {
            Arch::Amd64 => programs::own(self.workspace)?,
            Arch::Arm64 => programs::arm64(self.workspace, &self.dir)?,
        };
        let accelerator = accelerator::choose(arch, &unpacked, &busybox, &self.dir)?;
        let modules = modules::load_order(&unpacked.modules)?;
        for (number, nic) in nics(kernel, args).into_iter().enumerate() {
            let is_chosen = args.all || !args.filters.is_empty();
            let with_long = arch == Arch::Amd64 && nic != Nic::Vmxnet3 && (is_chosen || number == 0);
            let boot = Boot { kernel, unpacked: &unpacked, programs: &programs, accelerator, nic };
            let mut run = |tests: &[String]| {
                let initramfs = Initramfs::new(&busybox, &modules)?;
                self.boot(&boot, initramfs, &[tests, &["--ignored".to_owned()]].concat(), results)
            };
            let mut machine = run(&selection(args, number == 0, with_long))?;
            test_run::run_failed_again(&mut machine, TRIES_AGAIN, MOST_AGAIN, run)?;
            tally.append(machine);
        }
        Ok(())
    }

    /// Boots a machine, and runs tests in it.
    fn boot(
        &self,
        boot: &Boot<'_>,
        mut initramfs: Initramfs,
        tests: &[String],
        results: &mut Results,
    ) -> Result<Tally> {
        let name = format!("{}-{}", boot.kernel.name(), boot.nic.name());
        process::step(&format!(
            "booting {} with {} ({:?})",
            boot.unpacked.release,
            boot.nic.name(),
            boot.accelerator
        ));
        let root = self.furnish(boot, &mut initramfs, tests)?;
        let (path, console) =
            (self.dir.join(format!("{name}.cpio")), self.dir.join(format!("{name}.console")));
        initramfs.write(&path)?;
        let machine = Machine {
            arch: boot.kernel.arch(),
            accelerator: boot.accelerator,
            kernel: boot.unpacked,
            initramfs: &path,
            root,
            nic: boot.nic,
            console: &console,
        };
        let mut received = receive(&machine, &name);
        if received.ended.is_err() && machine.died_of_emulation() {
            process::step(&format!("{name}: its kernel died of the emulator's int3 fault; booting it again"));
            received = receive(&machine, &name);
        }
        let mut tally = Tally::default();
        tally.begin(&format!("vm {name}"));
        received.lines.iter().for_each(|line| tally.line(line));
        tally.finish();
        // The other machines run all the same.
        if let Err(error) = &received.ended {
            eprintln!("{name}: {error:#}");
        }
        received.rows.iter().try_for_each(|row| results.take(row))?;
        Ok(tally)
    }

    /// Puts the first process, the tests and what they need into a machine.
    fn furnish(&self, boot: &Boot<'_>, initramfs: &mut Initramfs, tests: &[String]) -> Result<Root> {
        let path = |path: &Path| path.display().to_string();
        let mut variables = vec![
            ("VIPWARD_VM", boot.nic.name().to_owned()),
            ("VIPWARD_VM_CLIENT", CLIENT.join(",")),
            ("VIPWARD_VM_NODE", NODE.join(",")),
            ("VIPWARD_VM_REPORT", "/vm-report".to_owned()),
        ];
        let root = match boot.kernel.arch() {
            Arch::Amd64 => Root::Host,
            Arch::Arm64 => Root::Initramfs,
        };
        let (agent, objects, program, directory) = match root {
            Root::Host => {
                variables.push(("PATH", process::path_with(&[])?.to_string_lossy().into_owned()));
                let bpf = path(&self.workspace.bpf());
                let directory = path(&self.workspace.root.join("tests"));
                (path(&boot.programs.agent), bpf, path(&boot.programs.tests), directory)
            }
            Root::Initramfs => {
                initramfs.program("vipward", &boot.programs.agent)?;
                initramfs.program("vm", &boot.programs.tests)?;
                initramfs.files("bpf", &self.workspace.bpf())?;
                ("/vipward".to_owned(), "/bpf".to_owned(), "/vm".to_owned(), "/".to_owned())
            }
        };
        variables.extend([("VIPWARD_BIN", agent), ("VIPWARD_EBPF_DIR", objects)]);
        initramfs.script("init", &guest::init(root));
        initramfs.script("tests", &guest::tests(&variables, &directory, &program, tests));
        Ok(root)
    }

    fn busybox(&self, arch: Arch) -> Result<PathBuf> {
        let dir = self.dir.join(format!("busybox-{}", arch.debian()));
        if !dir.is_dir() {
            Archive::open(&self.dir.join("apt"), arch.debian())?.unpack("busybox-static", &dir)?;
        }
        Ok(dir.join("bin/busybox"))
    }

    /// Returns a line with the time and the versions of the tables.
    fn conditions(&self) -> Result<String> {
        let date = process::output(Command::new("date").args(["--utc", "+%F"]))?;
        let qemu = process::output(Command::new(qemu::program(Arch::Amd64)).arg("--version"))?;
        let qemu = Version::find(&qemu).map_or_else(|| "?".to_owned(), |version| version.to_string());
        let releases =
            Kernel::ALL.iter().filter(|kernel| self.dir.join("kernels").join(kernel.name()).is_dir());
        let releases = releases.map(|kernel| {
            let unpacked = Unpacked::get(*kernel, &self.dir)?;
            Ok(format!("{} is {}", kernel.name(), unpacked.release))
        });
        let releases = releases.collect::<Result<Vec<_>>>()?;
        Ok(format!("Measured {} in QEMU {qemu}; {}.", date.trim(), releases.join(", ")))
    }
}

/// What a machine has printed, and its exit code.
struct Received {
    ended: Result<i32>,
    lines: Vec<String>,
    rows: Vec<String>,
}

/// Runs a machine, and prints its lines.
fn receive(machine: &Machine<'_>, name: &str) -> Received {
    let watch = Stopwatch::start();
    let (mut up, mut lines, mut rows) = (0.0, Vec::new(), Vec::new());
    let ended = machine.run(SILENCE, |line| {
        if line == guest::UP {
            up = watch.seconds();
        } else if let Some(row) = line.strip_prefix(guest::ROW) {
            rows.push(row.to_owned());
        } else {
            println!("{line}");
            lines.push(line.to_owned());
        }
    });
    if let Ok(code) = ended {
        let done = watch.seconds();
        process::step(&format!("{name}: up after {up:.0} s, done after {done:.0} s, exit code {code}"));
    }
    Received { ended, lines, rows }
}

struct Boot<'a> {
    kernel: Kernel,
    unpacked: &'a Unpacked,
    programs: &'a Programs,
    accelerator: Accelerator,
    nic: Nic,
}

/// Returns the models of NICs to boot a kernel with.
fn nics(kernel: Kernel, args: &Args) -> Vec<Nic> {
    let is_for_a_merge = !args.all && args.filters.is_empty() && args.nic.is_empty();
    let every: &[Nic] = match kernel {
        // A merge needs each model on one kernel.
        Kernel::V6_1 if is_for_a_merge => &[Nic::VirtioNet, Nic::E1000e],
        Kernel::V6_12 if is_for_a_merge => &[Nic::VirtioNet, Nic::Vmxnet3],
        Kernel::V6_1 | Kernel::V6_12 => &Nic::ALL,
        // One boot shows that the program works there.
        Kernel::Arm64 => &[Nic::VirtioNet],
    };
    let chosen = every.iter().copied().filter(|nic| args.nic.is_empty() || args.nic.contains(nic));
    let is_once = |filter: &String| ONCE.iter().any(|module| filter.starts_with(module));
    let boots = if !args.filters.is_empty() && args.filters.iter().all(is_once) { 1 } else { every.len() };
    chosen.take(boots).collect()
}

/// Returns the arguments of the test program that select the tests of a machine.
fn selection(args: &Args, first: bool, with_long: bool) -> Vec<String> {
    let mut filters = args.filters.clone();
    if filters.is_empty() && !args.all {
        filters.extend(SHORT.map(str::to_owned));
    }
    if !first {
        filters.extend(ONCE.map(|module| format!("--skip={module}")));
    }
    if !with_long {
        filters.extend(LONG.map(|module| format!("--skip={module}")));
    }
    filters.push("--test-threads=1".to_owned());
    filters
}
