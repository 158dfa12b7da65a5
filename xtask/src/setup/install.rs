//! Installs missing requirements, or prints the commands for that.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::{
    probe,
    requirements::{CargoTool, LLVM_PREFIX, Requirement, Source},
};
use crate::{process, root, workspace::Workspace};

/// Distribution of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Host {
    /// Debian or a derivative, with apt-get and dpkg-deb.
    Debian,
    Other,
}

impl Host {
    pub(super) fn detect() -> Self {
        Self::of(&std::fs::read_to_string("/etc/os-release").unwrap_or_default())
    }

    /// Reads the distribution from the text of os-release(5).
    pub(super) fn of(os_release: &str) -> Self {
        let values =
            os_release.lines().filter_map(|line| line.strip_prefix("ID=").or(line.strip_prefix("ID_LIKE=")));
        let mut names = values.flat_map(|value| value.trim_matches('"').split_whitespace());
        if names.any(|name| matches!(name, "debian" | "ubuntu")) { Self::Debian } else { Self::Other }
    }
}

/// Missing requirements, by the way to install them.
pub(super) struct Plan {
    host: Host,
    pub(super) apt: BTreeSet<&'static str>,
    pub(super) unpacked: Vec<&'static str>,
    pub(super) cargo: Vec<&'static CargoTool>,
}

impl Plan {
    pub(super) fn of(missing: &[&'static Requirement], host: Host) -> Self {
        let mut plan = Self { host, apt: BTreeSet::new(), unpacked: Vec::new(), cargo: Vec::new() };
        for requirement in missing {
            match &requirement.source {
                Source::Apt(packages) => plan.apt.extend(*packages),
                Source::Unpacked { package, .. } => plan.unpacked.push(package),
                Source::Cargo(tool) => plan.cargo.push(tool),
            }
        }
        plan
    }

    /// Returns the commands that install everything.
    pub(super) fn commands(&self, tools: &Path) -> Vec<String> {
        let mut commands = Vec::new();
        if !self.apt.is_empty() || !self.unpacked.is_empty() {
            commands.push("apt-get update".to_owned());
        }
        if !self.apt.is_empty() {
            let packages: Vec<_> = self.apt.iter().copied().collect();
            commands.push(format!("{} {}", APT_INSTALL.join(" "), packages.join(" ")));
        }
        for package in &self.unpacked {
            let dir = tools.join(probe::unpacked_name(package));
            let dir = process::quoted(&dir.to_string_lossy());
            commands.push(format!(
                "mkdir -p {dir} && cd {dir} && apt-get download {package} && dpkg-deb -x {package}_*.deb ."
            ));
        }
        commands.extend(self.cargo.iter().map(|tool| {
            let variables = tool.variables.iter().map(|(name, value)| format!("{name}={value}"));
            variables
                .chain([process::command_line(&cargo_install(tool, tools))])
                .collect::<Vec<_>>()
                .join(" ")
        }));
        commands
    }
}

const APT_INSTALL: [&str; 4] = ["apt-get", "install", "-y", "--no-install-recommends"];

pub(super) fn carry_out(workspace: &Workspace, plan: &Plan) -> Result<()> {
    let commands = plan.commands(&workspace.tools());
    match plan.host {
        Host::Debian => eprintln!("installing what is missing:\n  {}", commands.join("\n  ")),
        Host::Other => bail!(
            "this is not Debian or Ubuntu, so nothing is installed by itself. On Debian it would be:\n  {}\n\
             Get the same programs from this system's packages; for the compiler, `rustup component add rust-src`, \
             and a prebuilt bpf-linker (`cargo binstall bpf-linker`) if there is no LLVM to build it on.",
            commands.join("\n  ")
        ),
    }
    if !plan.apt.is_empty() || !plan.unpacked.is_empty() {
        process::step("apt-get update");
        process::run(apt("apt-get")?.args(["update", "-qq"]))?;
    }
    install_packages(&[], plan.apt.iter().copied())?;
    for package in &plan.unpacked {
        unpack(workspace, package)?;
    }
    for tool in &plan.cargo {
        process::step(&format!(
            "building {} {} (about {} s on two cores)",
            tool.name, tool.version, tool.seconds
        ));
        process::run(&mut cargo_install(tool, &workspace.tools()))?;
    }
    Ok(())
}

fn apt(program: &str) -> Result<Command> {
    root::command(program, &[("DEBIAN_FRONTEND", OsString::from("noninteractive"))])
}

fn install_packages<'a>(more_options: &[&str], packages: impl Iterator<Item = &'a str>) -> Result<()> {
    let packages: Vec<_> = packages.collect();
    if packages.is_empty() {
        return Ok(());
    }
    process::step(&format!("apt-get install {}", packages.join(" ")));
    let [program, options @ ..] = APT_INSTALL;
    process::run(apt(program)?.args(options).arg("-qq").args(more_options).args(packages)).context(
        "apt-get could not install everything; where this release has no rustc-web, get the compiler with \
         `rustup component add rust-src` and a prebuilt bpf-linker with `cargo binstall bpf-linker`",
    )
}

fn cargo_install(tool: &CargoTool, tools: &Path) -> Command {
    let mut command = Command::new("cargo");
    // Forced, because a program whose LLVM is gone or too old must be built again.
    command
        .args(["install", "--locked", "--force", "--version", tool.version])
        .args(tool.options)
        .arg(tool.name);
    if tool.is_own {
        command.arg("--root").arg(tools);
    }
    command.envs(tool.variables.iter().copied());
    if let Ok(path) = process::path_with(&[PathBuf::from(LLVM_PREFIX).join("bin")]) {
        command.env("PATH", path);
    }
    // These variables are meant for this workspace.
    command.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
    command
}

/// Downloads and unpacks a package without installing it, and installs the libraries it needs.
fn unpack(workspace: &Workspace, package: &str) -> Result<()> {
    process::step(&format!("unpacking {package}"));
    let into = probe::unpacked_dir(workspace, package);
    let download = into.with_extension("download");
    std::fs::create_dir_all(&download).with_context(|| format!("failed to create {}", download.display()))?;
    process::run(
        Command::new("apt-get")
            .args(["download", "-qq", "-o", "APT::Sandbox::User=root", package])
            .current_dir(&download),
    )?;
    let archive = only_file(&download)?;
    let depends = process::output(Command::new("dpkg-deb").arg("-f").arg(&archive).arg("Depends"))?;
    // Installed versions are recent enough, and libc is one of these libraries.
    install_packages(&["--no-upgrade"], libraries(&depends).into_iter())?;
    process::run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&into))?;
    std::fs::remove_dir_all(&download).with_context(|| format!("failed to remove {}", download.display()))
}

fn only_file(dir: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("failed to list {}", dir.display()))?;
    let mut files = entries.flatten().map(|entry| entry.path());
    files.next().with_context(|| format!("apt-get left no package in {}", dir.display()))
}

/// Returns the libraries in a `Depends` field: of alternatives, the first.
pub(super) fn libraries(depends: &str) -> Vec<&str> {
    let first_names =
        depends.split(',').filter_map(|group| group.split(['|', '(', ':']).next()).map(str::trim);
    // Libraries of web pages are not needed here.
    first_names.filter(|name| name.starts_with("lib") && !name.starts_with("libjs-")).collect()
}
