//! Which interfaces the program is attached to.

use super::{
    config::{Config, InterfacePattern},
    net::{Interface, NetView},
    placement::Problem,
};

/// Names of the host's side of containers, tunnels and virtual switches: what is behind them is no segment of ours.
const EXCLUDED: &[&str] = &[
    "veth",
    "cali",
    "lxc",
    "cilium",
    "cni",
    "flannel",
    "docker",
    "br-",
    "virbr",
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
pub(super) fn choose<'a>(config: &Config, view: &'a NetView) -> (Vec<&'a Interface>, Vec<Problem>) {
    if config.interfaces.is_empty() {
        let chosen = view.interfaces.values().filter(|interface| is_default(interface)).collect();
        return (chosen, Vec::new());
    }
    let chosen: Vec<_> =
        view.interfaces.values().filter(|interface| is_named(&config.interfaces, interface)).collect();
    let missing = |pattern: &InterfacePattern| {
        let name = pattern.literal()?;
        match view.by_name(name) {
            None => Some(Problem::InterfaceMissing { name: name.to_owned() }),
            Some(interface) if !interface.ethernet => Some(Problem::NotEthernet { name: name.to_owned() }),
            Some(interface) if !interface.up => Some(Problem::InterfaceDown { name: name.to_owned() }),
            Some(_) => None,
        }
    };
    let mut problems: Vec<_> = config.interfaces.iter().filter_map(missing).collect();
    if chosen.is_empty() && problems.is_empty() {
        let patterns = config.interfaces.iter().map(ToString::to_string).collect();
        problems.push(Problem::NothingMatches { patterns });
    }
    (chosen, problems)
}

fn is_usable(interface: &Interface) -> bool {
    interface.up && interface.ethernet && !interface.loopback && interface.mac.is_unicast()
}

fn is_default(interface: &Interface) -> bool {
    is_usable(interface)
        && interface.master.is_none()
        && !EXCLUDED.iter().any(|prefix| interface.name.starts_with(prefix))
}

/// A member of a bond or bridge speaks through its master: only its own name means it.
fn is_named(patterns: &[InterfacePattern], interface: &Interface) -> bool {
    is_usable(interface)
        && patterns.iter().any(|pattern| {
            pattern.matches(&interface.name) && (interface.master.is_none() || pattern.literal().is_some())
        })
}
