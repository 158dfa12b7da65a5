//! Tools that Vipward's commands need, and their sources on Debian.

use std::fmt;

use self::Need::{Build, Demo, Docs, Licences, Lint, Test, Vm};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    Build,
    Test,
    Lint,
    Demo,
    Vm,
    Licences,
    Docs,
}

impl Need {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Test => "test",
            Self::Lint => "lint",
            Self::Demo => "demo",
            Self::Vm => "vm",
            Self::Licences => "licences",
            Self::Docs => "docs",
        }
    }
}

/// Tool that must be installed.
pub(crate) struct Requirement {
    pub(super) name: &'static str,
    pub(super) needed_for: &'static [Need],
    pub(super) probe: Probe,
    pub(super) source: Source,
}

#[derive(Clone, Copy)]
pub(super) enum Probe {
    /// The program that has the requirement's name, on PATH.
    Program,
    /// The compiler of the XDP program.
    Compiler,
    Linker,
    /// The LLVM of bpf-linker.
    Llvm,
    /// The clippy beside the compiler of the XDP program.
    EbpfClippy,
    IputilsArping,
    /// The program of a [`Source::Unpacked`].
    Unpacked,
    /// A python3 that can import scapy.
    Scapy,
    /// The program of a [`CargoTool`] in the target directory.
    Own,
}

pub(super) enum Source {
    Apt(&'static [&'static str]),
    /// A program from a Debian package that is unpacked into the target directory. Only the
    /// libraries that it needs are installed.
    ///
    /// The reason is a conflict, as between habets' arping and iputils' arping, a package that starts a
    /// daemon when it is installed, or an old version beside a newer one.
    Unpacked {
        package: &'static str,
        program: &'static str,
    },
    /// A crate that `cargo install` builds.
    Cargo(&'static CargoTool),
}

pub(super) struct CargoTool {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    pub(super) options: &'static [&'static str],
    pub(super) variables: &'static [(&'static str, &'static str)],
    /// True if it is installed for this workspace only, in the target directory.
    pub(super) is_own: bool,
    /// Measured build time on two cores.
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

/// Debian's directory of the LLVM that bpf-linker is built on: the version of Debian's rustc.
pub(super) const LLVM_PREFIX: &str = "/usr/lib/llvm-22";

// Without optimisation and debug information cargo-deny builds in 1 minute instead of 3.
const QUICK: &[&str] = &["--debug"];
const NO_DEBUG_INFO: &[(&str, &str)] = &[("CARGO_PROFILE_DEV_DEBUG", "0")];

const BPF_LINKER: CargoTool = CargoTool {
    name: "bpf-linker",
    version: "0.13.0",
    options: &["--no-default-features", "--features=llvm-22"],
    variables: &[("LLVM_PREFIX", LLVM_PREFIX)],
    is_own: false,
    seconds: 40,
};
const CARGO_DENY: CargoTool = CargoTool {
    name: "cargo-deny",
    version: "0.20.2",
    options: QUICK,
    variables: NO_DEBUG_INFO,
    is_own: false,
    seconds: 60,
};
const CARGO_MACHETE: CargoTool = CargoTool {
    name: "cargo-machete",
    version: "0.9.2",
    options: QUICK,
    variables: NO_DEBUG_INFO,
    is_own: false,
    seconds: 25,
};
const CARGO_FUZZ: CargoTool = CargoTool {
    name: "cargo-fuzz",
    version: "0.13.2",
    options: QUICK,
    variables: NO_DEBUG_INFO,
    is_own: false,
    seconds: 15,
};
const CARGO_ABOUT: CargoTool = CargoTool {
    name: "cargo-about",
    version: "0.9.3",
    options: &["--debug", "--features=cli"],
    variables: NO_DEBUG_INFO,
    is_own: false,
    seconds: 60,
};

const MDBOOK: CargoTool = CargoTool {
    name: "mdbook",
    version: "0.5.4",
    options: &["--debug", "--no-default-features", "--features=search"],
    variables: NO_DEBUG_INFO,
    is_own: true,
    seconds: 60,
};

/// All requirements, in the order of installation.
pub(super) const REQUIREMENTS: &[Requirement] = &[
    apt("cc", &[Build], Probe::Program, &["gcc", "libc6-dev"]),
    apt("eBPF compiler", &[Build], Probe::Compiler, &["rustc-web", "libstd-rust-web-dev-bpf"]),
    apt("LLVM", &[Build], Probe::Llvm, &["llvm-22-dev", "libpolly-22-dev", "zlib1g-dev", "libzstd-dev"]),
    Requirement {
        name: "bpf-linker",
        needed_for: &[Build],
        probe: Probe::Linker,
        source: Source::Cargo(&BPF_LINKER),
    },
    apt("bpftool", &[Test, Demo], Probe::Program, &["bpftool"]),
    apt("ip", &[Test, Demo], Probe::Program, &["iproute2"]),
    apt("arping (iputils)", &[Test, Demo], Probe::IputilsArping, &["iputils-arping"]),
    unpacked("arping (habets)", "arping", "usr/sbin/arping"),
    unpacked("keepalived", "keepalived", "usr/sbin/keepalived"),
    unpacked("ucarp", "ucarp", "usr/sbin/ucarp"),
    unpacked("prometheus", "prometheus", "usr/bin/prometheus"),
    unpacked("kubectl 1.20", "kubernetes-client", "usr/bin/kubectl"),
    apt("arp-scan", &[Test], Probe::Program, &["arp-scan"]),
    apt("ndisc6", &[Test], Probe::Program, &["ndisc6"]),
    apt("ping", &[Test], Probe::Program, &["iputils-ping"]),
    apt("tcpdump", &[Test], Probe::Program, &["tcpdump"]),
    apt("scapy", &[Test], Probe::Scapy, &["python3-scapy"]),
    apt("g++", &[Test, Lint], Probe::Program, &["g++"]),
    Requirement {
        name: "cargo-fuzz",
        needed_for: &[Test],
        probe: Probe::Program,
        source: Source::Cargo(&CARGO_FUZZ),
    },
    apt("clippy for eBPF", &[Lint], Probe::EbpfClippy, &["rust-web-clippy"]),
    Requirement {
        name: "cargo-deny",
        needed_for: &[Lint],
        probe: Probe::Program,
        source: Source::Cargo(&CARGO_DENY),
    },
    Requirement {
        name: "cargo-machete",
        needed_for: &[Lint],
        probe: Probe::Program,
        source: Source::Cargo(&CARGO_MACHETE),
    },
    apt("qemu-system-x86_64", &[Vm], Probe::Program, &["qemu-system-x86"]),
    apt("qemu-system-aarch64", &[Vm], Probe::Program, &["qemu-system-arm"]),
    apt("aarch64-linux-gnu-gcc", &[Vm], Probe::Program, &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"]),
    apt("xz", &[Vm], Probe::Program, &["xz-utils"]),
    Requirement {
        name: "cargo-about",
        needed_for: &[Licences],
        probe: Probe::Program,
        source: Source::Cargo(&CARGO_ABOUT),
    },
    Requirement { name: "mdbook", needed_for: &[Docs], probe: Probe::Own, source: Source::Cargo(&MDBOOK) },
];

const fn apt(
    name: &'static str,
    needed_for: &'static [Need],
    probe: Probe,
    packages: &'static [&'static str],
) -> Requirement {
    Requirement { name, needed_for, probe, source: Source::Apt(packages) }
}

const fn unpacked(name: &'static str, package: &'static str, program: &'static str) -> Requirement {
    Requirement {
        name,
        needed_for: &[Test],
        probe: Probe::Unpacked,
        source: Source::Unpacked { package, program },
    }
}
