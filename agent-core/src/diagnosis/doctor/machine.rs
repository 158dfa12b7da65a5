//! Checks of the kernel, and of the rights of the agent or of this process.

use super::{
    check::{Check, SEE_ALL, State, known},
    facts::{Agent, Facts},
};

/// Locked memory with which a process can load everything on a kernel
/// that counts BPF memory as locked memory.
const ENOUGH_LOCKED_BYTES: u64 = 256 << 20;
/// Clock sources that are read from a device, or jump by whole ticks.
const SLOW_CLOCKS: [&str; 5] = ["acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies"];
const NEEDED: &str = "CAP_BPF CAP_NET_ADMIN CAP_NET_RAW CAP_PERFMON";

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    vec![
        kernel(facts),
        btf(facts),
        capabilities(facts),
        memlock(facts),
        unprivileged_bpf(facts),
        clock_source(facts),
    ]
}

fn kernel(facts: &Facts) -> Check {
    known("kernel", &facts.machine.release, |release| match &facts.machine.lacks {
        None => Check::green("kernel", release),
        Some(lacks) => Check::red(
            "kernel",
            format!("{release} lacks {lacks}"),
            "boot a kernel that has it: 5.12 or newer",
        ),
    })
}

fn btf(facts: &Facts) -> Check {
    known("btf", &facts.machine.btf, |present| {
        if *present {
            return Check::green("btf", "/sys/kernel/btf/vmlinux");
        }
        let remedy = "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y (those of current distributions are), and \
                      mount /sys";
        Check::red("btf", "/sys/kernel/btf/vmlinux is missing", remedy)
    })
}

/// Checks the agent's capabilities. Checks those of this process if no agent runs.
fn capabilities(facts: &Facts) -> Check {
    let name = "capabilities";
    let (who, missing) = match (&facts.machine.missing_in_agent, &facts.agent) {
        (Some(missing), _) => ("the agent", missing),
        (None, Ok(Agent::Runs(_))) => {
            let found = "an agent runs, and its process is not seen (it is in another PID namespace)";
            return Check::new(name, State::Unknown, found, Some(SEE_ALL.to_owned()));
        }
        (None, Ok(Agent::None) | Err(_)) => ("this process", &facts.machine.missing_here),
    };
    known(name, missing, |missing| {
        if missing.is_empty() {
            return Check::green(name, format!("{who} has {NEEDED}"));
        }
        let remedy = format!(
            "run the agent as root (sudo), or with AmbientCapabilities={NEEDED} in its systemd unit, or with these in \
             its container's securityContext"
        );
        Check::red(name, format!("{who} lacks {}", missing.join(" ")), remedy)
    })
}

fn memlock(facts: &Facts) -> Check {
    let name = "memlock";
    if !facts.machine.memlock_counts {
        return Check::not_applicable(name, "this kernel counts BPF memory in the cgroup");
    }
    known(name, &facts.machine.memlock_bytes, |bytes| {
        if *bytes >= ENOUGH_LOCKED_BYTES {
            return Check::green(name, format!("{bytes} bytes may be locked"));
        }
        let remedy = "raise it: LimitMEMLOCK=infinity in the systemd unit, or ulimit -l unlimited";
        Check::yellow(name, format!("{bytes} bytes may be locked, and maps count as that here"), remedy)
    })
}

fn unprivileged_bpf(facts: &Facts) -> Check {
    let name = "unprivileged-bpf";
    known(name, &facts.machine.unprivileged_bpf_disabled, |disabled| match disabled {
        0 => Check::yellow(
            name,
            "every user may load BPF programs",
            "Vipward does not need it: sysctl -w kernel.unprivileged_bpf_disabled=2",
        ),
        _ => Check::green(name, format!("kernel.unprivileged_bpf_disabled={disabled}")),
    })
}

fn clock_source(facts: &Facts) -> Check {
    let name = "clock-source";
    known(name, &facts.machine.clock_source, |clock| {
        if !SLOW_CLOCKS.contains(&clock.as_str()) {
            return Check::green(name, clock);
        }
        let remedy = "see `dmesg | grep -i clocksource` for why a better one was given up, and mend that, or boot with \
                      clocksource=tsc (on a virtual machine, the host's paravirtual clock)";
        Check::yellow(name, format!("{clock}: slow to read, and the fence is kept by it"), remedy)
    })
}

/// Returns the process of an agent, in words for people.
pub(super) fn process(agent: Agent) -> Option<String> {
    match agent {
        Agent::Runs(Some(pid)) => Some(format!("an agent runs (pid {pid})")),
        Agent::Runs(None) => Some("an agent runs".to_owned()),
        Agent::None => None,
    }
}
