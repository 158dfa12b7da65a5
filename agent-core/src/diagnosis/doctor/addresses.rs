//! Checks of the host's addresses: which of them are VIPs, and
//! how the kernel uses these on the wire.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{
    check::{Check, absent, known},
    facts::{Bound, Conf, Facts},
    links,
};
use crate::{
    base::address::is_host,
    diagnosis::pinned::{Contents, Entry, Fact, Unread},
    host::net::{Interface, NetView},
};

/// The interface of kube-proxy in IPVS mode: it has the addresses of all Services, on every node.
const IPVS: &str = "kube-ipvs0";
/// The label of addresses that an agent has bound (`shell::bind`).
const OUR_LABEL: &str = "vipward";
/// The value for "always use the best local address for this target"
/// (ip-sysctl). With it the kernel never uses the VIP.
const ANNOUNCE_BEST: u8 = 2;
/// Strict reverse path filtering.
const STRICT: u8 = 1;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![kube_proxy(facts), bound_elsewhere(facts), labelled(facts), arp_ignore(facts)];
    if let Ok(view) = &facts.network {
        for interface in links::examined(facts, view) {
            checks.push(arp_announce(facts, interface).on(&interface.name));
            checks.push(rp_filter(facts, view, interface).on(&interface.name));
        }
    }
    checks
}

fn kube_proxy(facts: &Facts) -> Check {
    const NAME: &str = "kube-proxy";
    known(NAME, &facts.network, |view| {
        if view.by_name(IPVS).is_some() {
            return Check::green(
                NAME,
                format!(
                    "IPVS: every VIP is on {IPVS} of every node; the program drops the requests that the \
                    kernel would answer"
                ),
            );
        }
        match &facts.processes {
            Ok(processes) if processes.iter().any(|process| process.name == "kube-proxy") => {
                Check::green(NAME, "iptables or nftables: VIPs are on no interface")
            }
            Ok(_) => absent(NAME, facts, || Check::not_applicable(NAME, "does not run here")),
            Err(unread) => Check::unknown(NAME, unread),
        }
    })
}

pub(super) fn contents(facts: &Facts) -> Option<Fact<&Contents>> {
    match &facts.plane {
        Ok(None) => None,
        Ok(Some(plane)) => Some(plane.contents.as_ref().map_err(Clone::clone)),
        Err(unread) => Some(Err(unread.clone())),
    }
}

/// Returns the addresses of this host that are known to be VIPs.
/// An entry or the agent's label shows that.
fn bound_vips(facts: &Facts) -> Fact<Vec<&Bound>> {
    let bound = facts.bound.as_ref().map_err(Clone::clone)?;
    let vips: BTreeSet<IpAddr> = match contents(facts) {
        None => BTreeSet::new(),
        Some(contents) => contents?.entries.iter().map(Entry::address).collect(),
    };
    Ok(bound.iter().filter(|bound| bound.label == OUR_LABEL || vips.contains(&bound.net.addr())).collect())
}

/// Returns those of IPv4. The kernel uses an address of IPv6 only on the interface that has it.
fn bound_v4(facts: &Facts) -> Fact<Vec<&Bound>> {
    Ok(bound_vips(facts)?.into_iter().filter(|bound| bound.net.addr().is_ipv4()).collect())
}

fn name_of(facts: &Facts, ifindex: u32) -> String {
    facts.network.as_ref().map_or_else(|_| format!("#{ifindex}"), |view| view.name_of(ifindex))
}

/// Looks for addresses that are bound here, although another node holds the VIP, or
/// although Vipward answers for it here: other programs put addresses on segments' interfaces.
fn bound_elsewhere(facts: &Facts) -> Check {
    const NAME: &str = "bound-elsewhere";
    let contents = match contents(facts) {
        None => return left_over(facts),
        Some(Err(unread)) => return Check::unknown(NAME, &unread),
        Some(Ok(contents)) => contents,
    };
    known(NAME, &facts.bound, |bound| {
        let here: BTreeSet<IpAddr> =
            contents.entries.iter().filter(|entry| entry.is_own()).map(Entry::address).collect();
        let all: BTreeSet<IpAddr> = contents.entries.iter().map(Entry::address).collect();
        let elsewhere = &all - &here;
        let is_attached = |bound: &Bound| {
            let view = facts.network.as_ref().ok();
            let interface = view.and_then(|view| view.interfaces.get(&bound.ifindex));
            interface.is_some_and(|interface| links::is_attached(facts, interface))
        };
        let is_wrong = |bound: &&Bound| {
            elsewhere.contains(&bound.net.addr()) && name_of(facts, bound.ifindex) != IPVS
                || here.contains(&bound.net.addr())
                    && bound.label != OUR_LABEL
                    && (!is_host(&bound.net) || is_attached(bound))
        };
        let wrong: Vec<&Bound> = bound.iter().filter(is_wrong).collect();
        let Some(first) = wrong.first() else {
            return Check::green(NAME, "no VIP is an address here by another program, or of another node");
        };
        let list: Vec<_> = wrong.iter().map(|bound| on(facts, bound)).collect();
        let mut remedy = format!("ip address del {} dev {}", first.net, name_of(facts, first.ifindex));
        if first.label == OUR_LABEL {
            remedy.push_str(" (an agent that runs takes it away by itself)");
        }
        let effect = if elsewhere.contains(&first.net.addr()) {
            "local programs reach themselves and not the holder, and the kernel may ask with it as sender"
        } else {
            "Vipward answers for it and has not put it there: the kernel may ask with it as sender"
        };
        Check::yellow(NAME, format!("{}: {effect}", list.join(", ")), remedy)
    })
}

/// Looks for addresses that an agent has left: addresses with its label, and without entries.
fn left_over(facts: &Facts) -> Check {
    const NAME: &str = "bound-elsewhere";
    known(NAME, &facts.bound, |bound| {
        let left: Vec<_> =
            bound.iter().filter(|bound| bound.label == OUR_LABEL).map(|bound| on(facts, bound)).collect();
        if left.is_empty() {
            return Check::not_applicable(NAME, "nothing is pinned, so that no VIP is known");
        }
        let found = format!(
            "{} was bound by an agent, and no program guards it: the kernel answers for it",
            left.join(", ")
        );
        Check::red(NAME, found, "start the agent, or take it away: vipward unload")
    })
}

fn on(facts: &Facts, bound: &Bound) -> String {
    format!("{} on {}", bound.net, name_of(facts, bound.ifindex))
}

/// Looks for addresses with another label: keepalived and scripts label what they add.
fn labelled(facts: &Facts) -> Check {
    const NAME: &str = "labelled-addresses";
    known(NAME, &facts.bound, |bound| {
        let others: Vec<_> = bound
            .iter()
            .filter(|bound| bound.label != OUR_LABEL && bound.label != name_of(facts, bound.ifindex))
            .filter(|bound| !bound.label.is_empty())
            .map(|bound| format!("{} ({})", on(facts, bound), bound.label))
            .collect();
        if others.is_empty() {
            return Check::green(NAME, "only Vipward's");
        }
        let remedy = "find out who added it (keepalived and scripts label what they add): no such address \
        may be a VIP of Vipward's";
        Check::yellow(NAME, others.join(", "), remedy)
    })
}

/// Looks for interfaces on which the kernel answers for a VIP, since the program is not there or has
/// no entry of it. By default the kernel answers on every interface for every address of the host.
fn arp_ignore(facts: &Facts) -> Check {
    const NAME: &str = "arp-ignore";
    let view = match &facts.network {
        Ok(view) => view,
        Err(unread) => return Check::unknown(NAME, unread),
    };
    let vips = match bound_v4(facts) {
        Ok(vips) => vips,
        Err(unread) => return Check::unknown(NAME, &unread),
    };
    let Some(first) = vips.first() else {
        return Check::not_applicable(NAME, "no VIP is an address of this host");
    };
    let mut answering = Vec::new();
    let entries: BTreeSet<(u32, IpAddr)> = match contents(facts) {
        Some(Ok(contents)) => {
            contents.entries.iter().map(|entry| (entry.key.ifindex, entry.address())).collect()
        }
        None | Some(Err(_)) => BTreeSet::new(),
    };
    let silences = |it: &Interface| {
        links::is_attached(facts, it) && vips.iter().all(|vip| entries.contains(&(it.index, vip.net.addr())))
    };
    for interface in view.interfaces.values().filter(|it| speaks(it) && !silences(it)) {
        match conf_of(facts, interface) {
            Ok(conf) if conf.arp_ignore == 0 => answering.push(interface),
            Ok(_) => {}
            Err(unread) => return Check::unknown(NAME, &unread),
        }
    }
    let Some(interface) = answering.first() else {
        return Check::green(
            NAME,
            "the kernel answers for no VIP: the program has them on every interface that could",
        );
    };
    let names: Vec<_> = answering.iter().map(|interface| interface.name.as_str()).collect();
    Check::yellow(
        NAME,
        format!(
            "{} is a VIP, and on {}, where the program does not have it, the kernel answers for it (arp_ignore is 0)",
            on(facts, first),
            names.join(", ")
        ),
        format!(
            "attach there too, if the program is not, or, unless the address is on that interface itself: sysctl -w \
             net.ipv4.conf.{}.arp_ignore=1",
            key(&interface.name)
        ),
    )
}

/// Returns true if the kernel hears ARP requests on an interface.
fn speaks(interface: &Interface) -> bool {
    interface.ethernet
        && !interface.loopback
        && interface.up
        && interface.carrier
        && interface.master.is_none()
        && interface.name != IPVS
}

/// Returns the settings in force: the larger of an interface's value and that of `all`.
fn conf_of(facts: &Facts, interface: &Interface) -> Fact<Conf> {
    let read = |name: &str| match facts.conf.get(name) {
        Some(conf) => conf.clone(),
        None => Err(Unread { reason: format!("net.ipv4.conf.{name} was not read"), denied: false }),
    };
    let (own, all) = (read(&interface.name)?, read("all")?);
    Ok(Conf {
        arp_ignore: own.arp_ignore.max(all.arp_ignore),
        arp_announce: own.arp_announce.max(all.arp_announce),
        rp_filter: own.rp_filter.max(all.rp_filter),
    })
}

/// Returns an interface's name as sysctl(8) writes it, with a slash for a dot.
fn key(interface: &str) -> String {
    interface.replace('.', "/")
}

/// Checks the sender address of the kernel's own ARP requests. The program does not see these requests.
fn arp_announce(facts: &Facts, interface: &Interface) -> Check {
    const NAME: &str = "arp-announce";
    let vips = match bound_v4(facts) {
        Ok(vips) => vips,
        Err(unread) => return Check::unknown(NAME, &unread),
    };
    known(NAME, &conf_of(facts, interface), |conf| {
        let value = conf.arp_announce;
        if value >= ANNOUNCE_BEST {
            return Check::green(NAME, format!("{value}: the kernel never asks with a VIP as sender"));
        }
        let Some(first) = vips.first() else {
            return Check::not_applicable(NAME, format!("{value}, and no VIP is an address of this host"));
        };
        Check::yellow(
            NAME,
            format!(
                "{value}, and {} is a VIP: the kernel may ask with it as sender, which is a claim",
                on(facts, first)
            ),
            format!("sysctl -w net.ipv4.conf.{}.arp_announce={ANNOUNCE_BEST}", key(&interface.name)),
        )
    })
}

/// Checks the reverse path filter. A strict filter drops frames whose route back leads elsewhere.
fn rp_filter(facts: &Facts, view: &NetView, interface: &Interface) -> Check {
    const NAME: &str = "rp-filter";
    known(NAME, &conf_of(facts, interface), |conf| {
        let value = conf.rp_filter;
        let others: Vec<_> = view
            .interfaces
            .values()
            .filter(|it| speaks(it) && it.index != interface.index && !it.addresses.is_empty())
            .map(|it| it.name.as_str())
            .collect();
        if value != STRICT {
            return Check::green(NAME, format!("{value}: not strict"));
        }
        if others.is_empty() {
            return Check::green(NAME, "1 (strict), with one interface to answer by");
        }
        Check::yellow(
            NAME,
            format!(
                "1 (strict): clients of a VIP that the host reaches by {} are dropped without a word",
                others.join(" or ")
            ),
            format!(
                "sysctl -w net.ipv4.conf.{}.rp_filter=2 (the larger of it and `all` counts)",
                key(&interface.name)
            ),
        )
    })
}
