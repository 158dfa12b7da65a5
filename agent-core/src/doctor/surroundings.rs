//! Checks of the host's other facts that matter to VIPs: the neighbour
//! table, and other software that holds addresses.

use super::{Check, Facts, Process, absent, known};

/// The kernel's default of `gc_thresh3`.
const DEFAULT_LIMIT: u32 = 1_024;
/// Percentage from which the table counts as nearly full.
const NEARLY_FULL: u64 = 75;
const FULL: u64 = 95;
/// Programs that hold virtual addresses, by the names of their processes.
const RIVALS: [(&str, &str); 7] = [
    ("keepalived", "keepalived"),
    ("kube-vip", "kube-vip"),
    ("speaker", "MetalLB's (or OpenELB's) speaker"),
    ("ucarp", "ucarp"),
    ("vrrpd", "vrrpd"),
    ("lbnodeagent", "PureLB's node agent"),
    ("pacemakerd", "pacemaker"),
];

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    vec![neighbour_table(facts), other_software(facts)]
}

/// Checks the neighbour table. Vipward answers without it, but the traffic that follows needs it.
fn neighbour_table(facts: &Facts) -> Check {
    const NAME: &str = "neighbour-table";
    known(NAME, &facts.neighbours, |table| {
        let [_, soft, hard] = table.limits;
        let found = format!("{} entries, limits {soft} and {hard} (gc_thresh2, gc_thresh3)", table.entries);
        let wanted = (hard.max(DEFAULT_LIMIT)).saturating_mul(4);
        let remedy = format!(
            "sysctl -w net.ipv4.neigh.default.gc_thresh3={wanted} net.ipv4.neigh.default.gc_thresh2={} (the whole machine's)",
            wanted / 2
        );
        let percent = u64::from(table.entries) * 100 / u64::from(hard.max(1));
        if percent >= FULL {
            let found = format!("{found}: full, so that hosts that are not in it cannot be reached");
            return Check::red(NAME, found, remedy);
        }
        if percent >= NEARLY_FULL {
            return Check::yellow(NAME, format!("{found}: nearly full"), remedy);
        }
        if table.overflows > 0 {
            let found =
                format!("{found}; it was full {} times since the machine was started", table.overflows);
            return Check::yellow(NAME, found, remedy);
        }
        if hard < DEFAULT_LIMIT {
            return Check::yellow(
                NAME,
                format!("{found}: less than the kernel's default {DEFAULT_LIMIT}"),
                remedy,
            );
        }
        Check::green(NAME, found)
    })
}

fn other_software(facts: &Facts) -> Check {
    const NAME: &str = "other-vip-software";
    known(NAME, &facts.processes, |processes| {
        let found: Vec<_> = processes.iter().filter_map(rival).collect();
        if found.is_empty() {
            return absent(NAME, facts, || Check::green(NAME, "none runs here"));
        }
        Check::yellow(
            NAME,
            found.join(", "),
            "two systems must not hold the same address: give each its own range, or stop the other (docs/migrating)",
        )
    })
}

fn rival(process: &Process) -> Option<String> {
    let is = |name: &str| process.name == name || process.program == name;
    let (_, what) = RIVALS.iter().find(|(name, _)| is(name))?;
    Some(format!("{what} (pid {})", process.pid))
}
