//! The systems that are compared, and their versions.

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use vipward_tests::{agent::Agent, kit::tools};

/// System that keeps a VIP answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum System {
    /// Three nodes of a cluster with the defaults, or one host where one host is enough.
    Vipward,
    /// VRRP with an advertisement a second, the default.
    Keepalived,
    /// VRRP version 3 with ten advertisements a second.
    KeepalivedFast,
    /// CARP with the defaults.
    Ucarp,
    /// An address on an interface.
    Kernel,
}

impl System {
    pub(super) const ALL: [Self; 5] =
        [Self::Vipward, Self::Keepalived, Self::KeepalivedFast, Self::Ucarp, Self::Kernel];

    /// Returns true if other hosts take the VIP over.
    pub(super) fn fails_over(self) -> bool {
        match self {
            Self::Vipward | Self::Keepalived | Self::KeepalivedFast | Self::Ucarp => true,
            Self::Kernel => false,
        }
    }

    /// Returns its version. The error tells how to get a system that is missing.
    pub(super) fn version(self) -> Result<String> {
        match self {
            Self::Vipward => {
                let agent = Agent::default_binary();
                ensure!(agent.is_file(), "{} is missing: run `cargo xtask bench`", agent.display());
                first_line(&agent, "--version")
            }
            Self::Keepalived | Self::KeepalivedFast => first_line(&tools::keepalived()?, "--version"),
            Self::Ucarp => first_line(&tools::ucarp()?, "--help"),
            Self::Kernel => {
                let release = nix::sys::utsname::uname()?.release().to_string_lossy().into_owned();
                Ok(format!("Linux {release}"))
            }
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Vipward => "Vipward",
            Self::Keepalived => "keepalived",
            Self::KeepalivedFast => "keepalived, 0.1 s",
            Self::Ucarp => "ucarp",
            Self::Kernel => "the kernel",
        })
    }
}

/// Returns the first line that a program prints. The exit code of ucarp's help is no success.
fn first_line(program: &Path, argument: &str) -> Result<String> {
    let output = Command::new(program).arg(argument).output();
    let output = output.with_context(|| format!("failed to start {}", program.display()))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.map(str::to_owned).with_context(|| format!("{} {argument} printed nothing", program.display()))
}
