//! What building, testing, linting and showing Vipward need, and where Debian has it.

use std::fmt;

use super::{
    Found,
    Need::{self, Build, Demo, Lint, Test},
    probe,
};
use crate::workspace::Workspace;

/// One thing that must be there.
pub(crate) struct Requirement {
    pub(super) name: &'static str,
    pub(super) needed_for: &'static [Need],
    pub(super) probe: fn(&Requirement, &Workspace) -> Option<Found>,
    pub(super) source: Source,
}

/// Where a requirement comes from.
pub(super) enum Source {
    /// Debian packages.
    Apt(&'static [&'static str]),
    /// One program from a Debian package that is unpacked into the target directory instead of installed, with
    /// the libraries that it needs installed.
    ///
    /// habets' arping conflicts with iputils', which has the same name; and what starts a daemon when it is installed must not.
    Unpacked { package: &'static str, program: &'static str },
    /// A crate with a program in it.
    Cargo(&'static CargoTool),
}

/// A crate to install.
pub(super) struct CargoTool {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    pub(super) options: &'static [&'static str],
    pub(super) variables: &'static [(&'static str, &'static str)],
    /// How long building it took on two cores.
    pub(super) seconds: u32,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apt(packages) => write!(f, "apt: {}", packages.join(" ")),
            Self::Unpacked { package, .. } => write!(f, "apt, unpacked only: {package}"),
            Self::Cargo(tool) => {
                write!(f, "cargo: {} {} (about {} s)", tool.name, tool.version, tool.seconds)
            }
        }
    }
}

/// Debian's directory of the LLVM that bpf-linker is built on, the one that its rustc uses.
pub(super) const LLVM_PREFIX: &str = "/usr/lib/llvm-22";

// Built without optimisation and debug information: cargo-deny takes 1 minute instead of 3 with its own release
// profile (fat LTO).
const QUICK: &[&str] = &["--debug"];
const NO_DEBUG_INFO: &[(&str, &str)] = &[("CARGO_PROFILE_DEV_DEBUG", "0")];

const BPF_LINKER: CargoTool = CargoTool {
    name: "bpf-linker",
    version: "0.13.0",
    options: &["--no-default-features", "--features=llvm-22"],
    variables: &[("LLVM_PREFIX", LLVM_PREFIX)],
    seconds: 40,
};
const CARGO_DENY: CargoTool = CargoTool {
    name: "cargo-deny",
    version: "0.20.2",
    options: QUICK,
    variables: NO_DEBUG_INFO,
    seconds: 60,
};
const CARGO_MACHETE: CargoTool = CargoTool {
    name: "cargo-machete",
    version: "0.9.2",
    options: QUICK,
    variables: NO_DEBUG_INFO,
    seconds: 25,
};
const CARGO_FUZZ: CargoTool = CargoTool {
    name: "cargo-fuzz",
    version: "0.13.2",
    options: QUICK,
    variables: NO_DEBUG_INFO,
    seconds: 15,
};

/// Everything, in the order in which it is installed.
pub(super) const REQUIREMENTS: &[Requirement] = &[
    apt("cc", &[Build], probe::program, &["gcc", "libc6-dev"]),
    apt("eBPF compiler", &[Build], probe::compiler, &["rustc-web", "libstd-rust-web-dev-bpf"]),
    apt("LLVM", &[Build], probe::llvm, &["llvm-22-dev", "libpolly-22-dev", "zlib1g-dev", "libzstd-dev"]),
    Requirement {
        name: "bpf-linker",
        needed_for: &[Build],
        probe: probe::linker,
        source: Source::Cargo(&BPF_LINKER),
    },
    apt("bpftool", &[Test, Demo], probe::program, &["bpftool"]),
    apt("ip", &[Test, Demo], probe::program, &["iproute2"]),
    apt("arping (iputils)", &[Test, Demo], probe::iputils_arping, &["iputils-arping"]),
    unpacked("arping (habets)", "arping", "usr/sbin/arping"),
    unpacked("keepalived", "keepalived", "usr/sbin/keepalived"),
    unpacked("ucarp", "ucarp", "usr/sbin/ucarp"),
    unpacked("prometheus", "prometheus", "usr/bin/prometheus"),
    apt("arp-scan", &[Test], probe::program, &["arp-scan"]),
    apt("tcpdump", &[Test], probe::program, &["tcpdump"]),
    apt("scapy", &[Test], probe::scapy, &["python3-scapy"]),
    apt("g++", &[Test, Lint], probe::program, &["g++"]),
    Requirement {
        name: "cargo-fuzz",
        needed_for: &[Test],
        probe: probe::program,
        source: Source::Cargo(&CARGO_FUZZ),
    },
    apt("clippy for eBPF", &[Lint], probe::ebpf_clippy, &["rust-web-clippy"]),
    Requirement {
        name: "cargo-deny",
        needed_for: &[Lint],
        probe: probe::program,
        source: Source::Cargo(&CARGO_DENY),
    },
    Requirement {
        name: "cargo-machete",
        needed_for: &[Lint],
        probe: probe::program,
        source: Source::Cargo(&CARGO_MACHETE),
    },
];

const fn apt(
    name: &'static str,
    needed_for: &'static [Need],
    probe: fn(&Requirement, &Workspace) -> Option<Found>,
    packages: &'static [&'static str],
) -> Requirement {
    Requirement { name, needed_for, probe, source: Source::Apt(packages) }
}

const fn unpacked(name: &'static str, package: &'static str, program: &'static str) -> Requirement {
    Requirement {
        name,
        needed_for: &[Test],
        probe: probe::unpacked,
        source: Source::Unpacked { package, program },
    }
}
