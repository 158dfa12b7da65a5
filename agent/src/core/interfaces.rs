//! Which interfaces the program is attached to.

use std::collections::BTreeSet;

use super::{
    config::{Config, InterfacePattern},
    net::{Interface, NetView},
    placement::Problem,
};

#[cfg(test)]
mod tests;

/// Names of the host's side of containers, tunnels and virtual switches: what is behind them is no segment of ours.
const EXCLUDED: &[&str] = &[
    "veth",
    "cali",
    "azv",
    "antrea-",
    "lxc",
    "cilium",
    "cni",
    "cbr",
    "flannel",
    "docker",
    "br-",
    "virbr",
    "lxdbr",
    "vnet",
    "tap",
    "tun",
    "kube-",
    "nodelocaldns",
    "podman",
    "weave",
    "vxlan",
    "geneve",
    "gre",
    "wg",
    "ovs-",
    "ovn-",
    "dummy",
    "ifb",
];

/// The interfaces to attach to, by index, and what stands in the way of others that were asked for.
///
/// An interface that is down is none of them, unless it has VIPs already (`in_use`): setting it down and up again,
/// as for a new MAC, is no reason to give them up.
pub(super) fn choose<'a>(
    config: &Config,
    view: &'a NetView,
    in_use: &BTreeSet<u32>,
) -> (Vec<&'a Interface>, Vec<Problem>) {
    let is_usable =
        |interface: &Interface| speaks_arp(interface) && (interface.up || in_use.contains(&interface.index));
    let usable: Vec<&Interface> = view.interfaces.values().filter(|interface| is_usable(interface)).collect();
    if config.interfaces.is_empty() {
        return (choose_default(config, view, &usable), Vec::new());
    }
    let usable = || usable.iter().copied();
    let chosen: Vec<_> = usable().filter(|interface| is_named(&config.interfaces, view, interface)).collect();
    let mut problems: Vec<_> =
        config.interfaces.iter().filter_map(|pattern| why_not(pattern.literal()?, view)).collect();
    if chosen.is_empty() && problems.is_empty() {
        let patterns = config.interfaces.iter().map(ToString::to_string).collect();
        let matching = usable()
            .filter(|interface| config.interfaces.iter().any(|pattern| pattern.matches(&interface.name)));
        let masters: BTreeSet<String> = matching
            .filter_map(|interface| Some(view.interfaces.get(&master_of(view, interface)?)?.name.clone()))
            .collect();
        problems.push(if masters.is_empty() {
            Problem::NothingMatches { patterns }
        } else {
            Problem::OnlyMembers { patterns, masters: masters.into_iter().collect() }
        });
    }
    (chosen, problems)
}

/// What leads to a segment, and what a VIP names.
fn choose_default<'a>(config: &Config, view: &NetView, usable: &[&'a Interface]) -> Vec<&'a Interface> {
    let usable = || usable.iter().copied();
    let named: BTreeSet<&str> =
        config.vips.iter().filter_map(|vip| vip.interface.as_ref()?.literal()).collect();
    // A bridge may have any name: one that an interface of the host is a member of stands for it.
    let stand_ins: BTreeSet<u32> = usable()
        .filter(|interface| !is_excluded(&interface.name))
        .filter_map(|interface| master_of(view, interface))
        .collect();
    let is_default = |interface: &&Interface| {
        let leads_to_a_segment = !is_excluded(&interface.name) || stand_ins.contains(&interface.index);
        named.contains(interface.name.as_str())
            || (leads_to_a_segment && master_of(view, interface).is_none())
    };
    usable().filter(is_default).collect()
}

/// What stands in the way of an interface that is named.
fn why_not(name: &str, view: &NetView) -> Option<Problem> {
    match view.by_name(name) {
        None => Some(Problem::InterfaceMissing { name: name.to_owned() }),
        Some(interface) if !speaks_arp(interface) => Some(Problem::NotEthernet { name: name.to_owned() }),
        Some(interface) if !interface.up => Some(Problem::InterfaceDown { name: name.to_owned() }),
        Some(_) => None,
    }
}

/// A VRF looks like Ethernet, and only routes.
pub(super) fn speaks_arp(interface: &Interface) -> bool {
    interface.ethernet && !interface.loopback && interface.kind != "vrf" && interface.mac.is_unicast()
}

fn is_excluded(name: &str) -> bool {
    EXCLUDED.iter().any(|prefix| name.starts_with(prefix))
}

/// The bond or bridge that an interface speaks through; an interface in a VRF speaks for itself.
pub(super) fn master_of(view: &NetView, interface: &Interface) -> Option<u32> {
    let is_vrf = |index: &u32| view.interfaces.get(index).is_some_and(|master| master.kind == "vrf");
    interface.master.filter(|master| !is_vrf(master))
}

/// A member of a bond or bridge speaks through its master: only its own name means it.
fn is_named(patterns: &[InterfacePattern], view: &NetView, interface: &Interface) -> bool {
    patterns.iter().any(|pattern| {
        pattern.matches(&interface.name)
            && (pattern.literal().is_some() || master_of(view, interface).is_none())
    })
}
