//! Checks of the kernel, and of the rights of the agent or of this process.

use super::{
    check::{SEE_ALL, known},
    facts::{Agent, Facts},
};

use crate::diagnosis::finding::{Finding, State};

/// Locked memory with which a process can load everything on a kernel
/// that counts BPF memory as locked memory.
const ENOUGH_LOCKED_BYTES: u64 = 256 << 20;
/// Clock sources that are read from a device, or jump by whole ticks.
const SLOW_CLOCKS: [&str; 5] = ["acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies"];
const NEEDED: &str = "CAP_BPF CAP_NET_ADMIN CAP_NET_RAW CAP_PERFMON";

pub(super) fn checks(facts: &Facts) -> Vec<Finding> {
    vec![
        kernel(facts),
        btf(facts),
        capabilities(facts),
        memlock(facts),
        unprivileged_bpf(facts),
        clock_source(facts),
    ]
}

fn kernel(facts: &Facts) -> Finding {
    known("kernel", facts.machine.kernel.as_ref(), |kernel| match &kernel.lacks {
        None => Finding::green("kernel", &kernel.release),
        Some(lacks) => Finding::red(
            "kernel",
            format!("{} lacks {lacks}", kernel.release),
            "boot a kernel that has it: 5.12 or newer",
        ),
    })
}

fn btf(facts: &Facts) -> Finding {
    known("btf", facts.machine.btf.as_ref(), |present| {
        if *present {
            return Finding::green("btf", "/sys/kernel/btf/vmlinux");
        }
        let remedy = "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y (those of current distributions are), and \
                      mount /sys";
        Finding::red("btf", "/sys/kernel/btf/vmlinux is missing", remedy)
    })
}

/// Checks the agent's capabilities, or this process's if no agent runs.
fn capabilities(facts: &Facts) -> Finding {
    let name = "capabilities";
    known(name, facts.agent.as_ref().zip(facts.machine.missing.as_ref()), |(agent, missing)| {
        let who = match agent {
            Agent::Runs(Some(_)) => "the agent",
            Agent::Runs(None) => {
                let found = "an agent runs, and its process is not seen (it is in another PID namespace)";
                return Finding::new(name, State::Unknown, found, Some(SEE_ALL.to_owned()));
            }
            Agent::None => "this process",
        };
        if missing.is_empty() {
            return Finding::green(name, format!("{who} has {NEEDED}"));
        }
        let remedy = format!(
            "run the agent as root (sudo), or with AmbientCapabilities={NEEDED} in its systemd unit, or with these in \
             its container's securityContext"
        );
        Finding::red(name, format!("{who} lacks {}", missing.join(" ")), remedy)
    })
}

fn memlock(facts: &Facts) -> Finding {
    let name = "memlock";
    known(name, facts.machine.kernel.as_ref(), |kernel| {
        if !kernel.counts_bpf_as_locked {
            return Finding::not_applicable(name, "this kernel counts BPF memory in the cgroup");
        }
        known(name, facts.machine.memlock_bytes.as_ref(), |bytes| {
            if *bytes >= ENOUGH_LOCKED_BYTES {
                return Finding::green(name, format!("{bytes} bytes may be locked"));
            }
            let remedy = "raise it: LimitMEMLOCK=infinity in the systemd unit, or ulimit -l unlimited";
            Finding::yellow(name, format!("{bytes} bytes may be locked, and maps count as that here"), remedy)
        })
    })
}

fn unprivileged_bpf(facts: &Facts) -> Finding {
    let name = "unprivileged-bpf";
    known(name, facts.machine.unprivileged_bpf_disabled.as_ref(), |disabled| match disabled {
        0 => Finding::yellow(
            name,
            "every user may load BPF programs",
            "Vipward does not need it: sysctl -w kernel.unprivileged_bpf_disabled=2",
        ),
        _ => Finding::green(name, format!("kernel.unprivileged_bpf_disabled={disabled}")),
    })
}

fn clock_source(facts: &Facts) -> Finding {
    let name = "clock-source";
    known(name, facts.machine.clock_source.as_ref(), |clock| {
        if !SLOW_CLOCKS.contains(&clock.as_str()) {
            return Finding::green(name, clock);
        }
        let remedy = "see `dmesg | grep -i clocksource` for why a better one was given up, and mend that, or boot with \
                      clocksource=tsc (on a virtual machine, the host's paravirtual clock)";
        Finding::yellow(
            name,
            format!("{clock}: slow to read, and the lease deadline is a time of this clock"),
            remedy,
        )
    })
}

/// Returns the text that names an agent's process.
pub(super) fn process(agent: Agent) -> Option<String> {
    match agent {
        Agent::Runs(Some(pid)) => Some(format!("an agent runs (pid {pid})")),
        Agent::Runs(None) => Some("an agent runs".to_owned()),
        Agent::None => None,
    }
}
