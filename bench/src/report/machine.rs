//! The machine that figures are good for.

use std::fmt;
use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;

const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";
/// The mitigations that make every call or return of a BPF program dearer.
const MITIGATIONS: [&str; 3] = ["spec_rstack_overflow", "retbleed", "spectre_v2"];

/// Facts about the machine that a report shows.
#[derive(Serialize)]
pub(crate) struct Machine {
    kernel: String,
    cpu: String,
    cpus: usize,
    memory_mib: u64,
    jit: String,
    /// Load of the last minute. Other processes make figures worse, and ratios less so.
    load: String,
    mitigations: Vec<(String, String)>,
}

impl Machine {
    pub(crate) fn read() -> Result<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").context("failed to read /proc/cpuinfo")?;
        let meminfo = fs::read_to_string("/proc/meminfo").context("failed to read /proc/meminfo")?;
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field(&meminfo, "MemTotal");
        let memory = memory.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        let mitigations = MITIGATIONS.into_iter().filter_map(|name| {
            let text = fs::read_to_string(format!("{VULNERABILITIES}/{name}")).ok()?;
            Some((name.to_owned(), text.trim().to_owned()))
        });
        let unknown = || "unknown".to_owned();
        Ok(Self {
            kernel: nix::sys::utsname::uname()?.release().to_string_lossy().into_owned(),
            // arm64 has no model name.
            cpu: field(&cpuinfo, "model name")
                .or_else(|| field(&cpuinfo, "CPU part"))
                .unwrap_or_else(unknown),
            cpus: aya::util::nr_cpus().map_err(|(_, error)| error).context("failed to count the CPUs")?,
            memory_mib: memory.unwrap_or_default() / 1024,
            jit: fs::read_to_string("/proc/sys/net/core/bpf_jit_enable")
                .map_or_else(|_| unknown(), |text| text.trim().to_owned()),
            load: fs::read_to_string("/proc/loadavg")
                .map_or_else(|_| unknown(), |text| text.split(' ').take(1).collect()),
            mitigations: mitigations.collect(),
        })
    }

    pub(super) fn cpu(&self) -> &str {
        &self.cpu
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, cpu, cpus, memory_mib, jit, load, mitigations } = self;
        write!(f, "Linux {kernel}, {cpus} × {cpu}, {memory_mib} MiB, bpf_jit_enable={jit}, load {load}")?;
        for (name, state) in mitigations {
            write!(f, "\n{name}: {state}")?;
        }
        Ok(())
    }
}
