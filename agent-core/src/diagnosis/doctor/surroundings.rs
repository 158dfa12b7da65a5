//! Checks of the host's other facts that matter to VIPs: the neighbour
//! table, other software that holds addresses, and other hosts that claim VIPs.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use vipward_common::{EventKind, MacAddr, Offender, OffenderKey, VipKey};

use super::{
    check::{absent, known, list, pinned},
    facts::{Facts, Process},
};
use crate::diagnosis::{
    fact::Fact,
    finding::Finding,
    pinned::{Contents, PRESENT},
};

/// The kernel's default of `gc_thresh3`.
const DEFAULT_LIMIT: u32 = 1_024;
/// Percentage from which the table counts as nearly full.
const NEARLY_FULL: u64 = 75;
const FULL: u64 = 95;
/// Age from which a claim of another host counts as over.
const LONG_AGO: Duration = Duration::from_mins(5);
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

pub(super) fn checks(facts: &Facts) -> Vec<Finding> {
    vec![neighbour_table(facts), other_software(facts), doubled(facts), unknown_hosts(facts)]
}

/// Checks the neighbour table. Vipward answers without it, but the traffic that follows needs it.
fn neighbour_table(facts: &Facts) -> Finding {
    const NAME: &str = "neighbour-table";
    if let Fact::Unread(why) = &facts.neighbours
        && why.is_skipped()
    {
        return Finding::not_applicable(NAME, &why.reason);
    }
    known(NAME, facts.neighbours.as_ref(), |table| {
        let [_, soft, hard] = table.limits;
        let found = format!("{} entries, limits {soft} and {hard} (gc_thresh2, gc_thresh3)", table.entries);
        let wanted = (hard.max(DEFAULT_LIMIT)).saturating_mul(4);
        let remedy = format!(
            "sysctl -w net.ipv4.neigh.default.gc_thresh3={wanted} net.ipv4.neigh.default.gc_thresh2={} (the \
            whole machine's)",
            wanted / 2
        );
        let percent = u64::from(table.entries) * 100 / u64::from(hard.max(1));
        if percent >= FULL {
            let found = format!("{found}: full, so that hosts that are not in it cannot be reached");
            return Finding::red(NAME, found, remedy);
        }
        if percent >= NEARLY_FULL {
            return Finding::yellow(NAME, format!("{found}: nearly full"), remedy);
        }
        if table.overflows > 0 {
            let found =
                format!("{found}; it was full {} times since the machine was started", table.overflows);
            return Finding::yellow(NAME, found, remedy);
        }
        if hard < DEFAULT_LIMIT {
            return Finding::yellow(
                NAME,
                format!("{found}: less than the kernel's default {DEFAULT_LIMIT}"),
                remedy,
            );
        }
        Finding::green(NAME, found)
    })
}

fn other_software(facts: &Facts) -> Finding {
    const NAME: &str = "other-vip-software";
    known(NAME, facts.processes.as_ref(), |processes| {
        let found: Vec<_> = processes.iter().filter_map(rival).collect();
        if found.is_empty() {
            return absent(NAME, facts, || Finding::green(NAME, "none runs here"));
        }
        Finding::yellow(
            NAME,
            found.join(", "),
            "two systems must not hold the same address: give each its own range, or stop the other (docs/kubernetes)",
        )
    })
}

fn rival(process: &Process) -> Option<String> {
    let is = |name: &str| process.name == name || process.program == name;
    let (_, what) = RIVALS.iter().find(|(name, _)| is(name))?;
    Some(format!("{what} (pid {})", process.pid))
}

/// Looks for peers that answer for held VIPs too, by the program's records.
fn doubled(facts: &Facts) -> Finding {
    const NAME: &str = "doubled";
    pinned(NAME, facts, |contents| {
        known(NAME, facts.offenders.as_ref(), |offenders| {
            let rivals = |entry| (entry, contents.doubled_by(entry, offenders));
            let found: Vec<_> = contents.entries.iter().map(rivals).collect();
            let found: Vec<_> = (found.iter().filter(|(_, macs)| !macs.is_empty()))
                .map(|(entry, macs)| format!("{} ({})", entry.address(), list(macs)))
                .collect();
            if found.is_empty() {
                return Finding::green(NAME, "no peer answers for a VIP that this node holds");
            }
            let remedy = if contents.is_in_cluster() {
                "the claim decides: see whether the agent with that MAC reaches the API server"
            } else {
                "the younger hold yields, if each host has the other's MAC in peers:, both run this version, and \
                 neither has force: true. Otherwise remove the VIP from one file"
            };
            Finding::red(NAME, format!("a peer answers too for {}", list(&found)), remedy)
        })
    })
}

/// Looks for other hosts that claim VIPs, by the program's records.
fn unknown_hosts(facts: &Facts) -> Finding {
    const NAME: &str = "unknown-hosts";
    pinned(NAME, facts, |contents| {
        known(NAME, facts.offenders.as_ref(), |offenders| claimed(NAME, contents, offenders))
    })
}

fn claimed(name: &'static str, contents: &Contents, offenders: &BTreeMap<OffenderKey, Offender>) -> Finding {
    let held: BTreeSet<VipKey> =
        contents.entries.iter().filter(|it| it.is_own() && !it.yielded).map(|it| it.key).collect();
    let mut claimed: BTreeMap<MacAddr, BTreeSet<IpAddr>> = BTreeMap::new();
    let mut disputed = BTreeSet::new();
    for (key, offender) in offenders {
        let age = contents.passed(offender.last_ns);
        if offender.kind == EventKind::Conflict && age < LONG_AGO {
            claimed.entry(key.mac).or_default().insert(key.vip.addr);
            if age < PRESENT && held.contains(&key.vip) {
                disputed.insert(key.vip.addr);
            }
        }
    }
    let Some((mac, vips)) = claimed.iter().max_by_key(|(_, vips)| vips.len()) else {
        return Finding::green(name, "no other host has claimed a VIP in the last 5 minutes");
    };
    let words = |(mac, vips): (&MacAddr, &BTreeSet<IpAddr>)| {
        format!("{mac} ({}) claims {}", vipward_vendors::of(*mac), list(vips))
    };
    let found: Vec<_> = claimed.iter().map(words).collect();
    let first = vips.first().map(ToString::to_string).unwrap_or_default();
    let mut remedy =
        format!("find that host (vipward who-has {first}), and give it or the VIP another address");
    if vips.len() > 1 {
        remedy = format!(
            "{mac} answers for several VIPs: perhaps it is a node without an agent, with kube-proxy in IPVS mode. Set \
             ipvs.strictARP: true in kube-proxy's configuration, or run the agent there; else {remedy}"
        );
    }
    if disputed.is_empty() {
        return Finding::yellow(name, list(&found), remedy);
    }
    let found = format!("{}; {} is held here, and the claims go on", list(&found), list(&disputed));
    Finding::red(name, found, remedy)
}
