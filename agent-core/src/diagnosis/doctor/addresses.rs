//! Checks of the host's addresses: which of them are VIPs, and
//! how the kernel uses these on the wire.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{
    check::{absent, known},
    facts::{Bound, Conf, Facts},
    links,
};
use crate::{
    base::address::is_host,
    diagnosis::{fact::Fact, finding::Finding, pinned::Entry},
    host::{
        net::{Interface, NetView},
        owner::Owner,
    },
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

pub(super) fn checks(facts: &Facts) -> Vec<Finding> {
    let mut checks = vec![kube_proxy(facts), bound_elsewhere(facts), labelled(facts), arp_ignore(facts)];
    if let Fact::Read(view) = &facts.network {
        for interface in links::examined(facts, view) {
            checks.push(arp_announce(facts, view, interface).on(&interface.name));
            checks.push(rp_filter(facts, view, interface).on(&interface.name));
        }
    }
    checks
}

fn kube_proxy(facts: &Facts) -> Finding {
    const NAME: &str = "kube-proxy";
    known(NAME, facts.network.as_ref(), |view| {
        if view.by_name(IPVS).is_some() {
            return Finding::green(
                NAME,
                format!(
                    "IPVS: every VIP is on {IPVS} of every node; the program drops the requests that the \
                    kernel would answer"
                ),
            );
        }
        known(NAME, facts.processes.as_ref(), |processes| {
            if processes.iter().any(|process| process.name == "kube-proxy") {
                return Finding::green(NAME, "iptables or nftables: VIPs are on no interface");
            }
            absent(NAME, facts, || Finding::not_applicable(NAME, "does not run here"))
        })
    })
}

/// Returns the IPv4 addresses of this host that are known to be VIPs: an entry or the agent's label
/// shows that. The kernel uses an address of IPv6 only on the interface that has it.
fn bound_v4(facts: &Facts) -> Fact<Vec<&Bound>> {
    facts.bound.as_ref().zip(facts.contents()).map(|(bound, contents)| {
        let entries = contents.iter().flat_map(|contents| &contents.entries);
        let vips: BTreeSet<IpAddr> = entries.map(Entry::address).collect();
        let is_vip = |it: &&Bound| it.label == OUR_LABEL || vips.contains(&it.net.addr());
        bound.iter().filter(|it| it.net.addr().is_ipv4()).filter(is_vip).collect()
    })
}

/// Looks for addresses that are bound here, although another node holds the VIP, or
/// although Vipward answers for it here: other programs put addresses on segments' interfaces.
fn bound_elsewhere(facts: &Facts) -> Finding {
    const NAME: &str = "bound-elsewhere";
    let bound = facts.network.as_ref().zip(facts.bound.as_ref());
    known(NAME, bound.zip(facts.contents()), |((view, bound), contents)| {
        let Some(contents) = contents else { return left_over(view, bound) };
        let here: BTreeSet<IpAddr> =
            contents.entries.iter().filter(|entry| entry.is_own()).map(Entry::address).collect();
        let all: BTreeSet<IpAddr> = contents.entries.iter().map(Entry::address).collect();
        let elsewhere = &all - &here;
        let judged = bound.iter().map(|it| {
            let is_theirs = elsewhere.contains(&it.net.addr()) && view.name_of(it.ifindex) != IPVS;
            let is_ours = here.contains(&it.net.addr()) && it.label != OUR_LABEL;
            let attached = match view.interfaces.get(&it.ifindex) {
                Some(on) if is_ours && is_host(&it.net) => links::is_attached(facts, view, on),
                Some(_) | None => Fact::Read(!is_host(&it.net)),
            };
            (it, attached.map(|attached| is_theirs || is_ours && attached))
        });
        let wrong = match faulty(judged) {
            Fact::Read(wrong) => wrong,
            Fact::Unread(why) => return Finding::unknown(NAME, &why),
        };
        let Some(first) = wrong.first() else {
            return Finding::green(NAME, "no VIP is an address here by another program, or of another node");
        };
        let list: Vec<_> = wrong.iter().map(|bound| on(view, bound)).collect();
        let owner = match &*first.label {
            OUR_LABEL => Owner::Agent,
            _ => view.owner_of(first.ifindex, &first.net),
        };
        let remedy = owner.remedy("this host", &first.net, &view.name_of(first.ifindex));
        let effect = if elsewhere.contains(&first.net.addr()) {
            "local programs reach themselves and not the holder, and the kernel may send requests with it as sender"
        } else {
            "Vipward answers for it and has not put it there: the kernel may send requests with it as sender"
        };
        Finding::yellow(NAME, format!("{}: {effect}", list.join(", ")), remedy)
    })
}

/// Looks for addresses that an agent has left: addresses with its label, and without entries.
fn left_over(view: &NetView, bound: &[Bound]) -> Finding {
    const NAME: &str = "bound-elsewhere";
    let left = bound.iter().filter(|bound| bound.label == OUR_LABEL).map(|bound| on(view, bound));
    let left: Vec<_> = left.collect();
    if left.is_empty() {
        return Finding::not_applicable(NAME, "nothing is pinned, so that no VIP is known");
    }
    let found = format!(
        "{} was bound by an agent, and no program guards it: the kernel answers for it",
        left.join(", ")
    );
    Finding::red(NAME, found, "start the agent, or take it away: vipward unload")
}

/// Returns those that are known to have a fault. If none is, and one could not be judged, the result
/// is the reason for that.
fn faulty<T>(judged: impl Iterator<Item = (T, Fact<bool>)>) -> Fact<Vec<T>> {
    let (mut faulty, mut unread) = (Vec::new(), None);
    for (it, has_fault) in judged {
        match has_fault {
            Fact::Read(true) => faulty.push(it),
            Fact::Read(false) => {}
            Fact::Unread(why) => unread = unread.or(Some(why)),
        }
    }
    match unread.filter(|_| faulty.is_empty()) {
        Some(why) => Fact::Unread(why),
        None => Fact::Read(faulty),
    }
}

fn on(view: &NetView, bound: &Bound) -> String {
    format!("{} on {}", bound.net, view.name_of(bound.ifindex))
}

/// Looks for addresses with another label: keepalived and scripts label what they add.
fn labelled(facts: &Facts) -> Finding {
    const NAME: &str = "labelled-addresses";
    known(NAME, facts.network.as_ref().zip(facts.bound.as_ref()), |(view, bound)| {
        let others: Vec<_> = bound
            .iter()
            .filter(|bound| bound.label != OUR_LABEL && bound.label != view.name_of(bound.ifindex))
            .filter(|bound| !bound.label.is_empty())
            .map(|bound| format!("{} ({})", on(view, bound), bound.label))
            .collect();
        if others.is_empty() {
            return Finding::green(NAME, "only Vipward's");
        }
        let remedy = "find out who added it (keepalived and scripts label what they add): no such address \
        may be a VIP of Vipward's";
        Finding::yellow(NAME, others.join(", "), remedy)
    })
}

/// Looks for interfaces on which the kernel answers for a VIP, since the program is not there or has
/// no entry of it. By default the kernel answers on every interface for every address of the host.
fn arp_ignore(facts: &Facts) -> Finding {
    const NAME: &str = "arp-ignore";
    let (view, (contents, vips)) = match facts.network.as_ref().zip(facts.contents().zip(bound_v4(facts))) {
        Fact::Read(all) => all,
        Fact::Unread(why) => return Finding::unknown(NAME, &why),
    };
    let Some(first) = vips.first() else {
        return Finding::not_applicable(NAME, "no VIP is an address of this host");
    };
    let entries = contents.iter().flat_map(|contents| &contents.entries);
    let entries: BTreeSet<(u32, IpAddr)> =
        entries.map(|entry| (entry.key.ifindex, entry.address())).collect();
    let has_all = |it: &Interface| vips.iter().all(|vip| entries.contains(&(it.index, vip.net.addr())));
    let judged = view.interfaces.values().filter(|it| speaks(it)).map(|interface| {
        let silenced = links::is_attached(facts, view, interface).map(|is| is && has_all(interface));
        let conf = conf_of(facts, interface);
        (interface, silenced.zip(conf).map(|(silenced, conf)| !silenced && conf.arp_ignore == 0))
    });
    let answering = match faulty(judged) {
        Fact::Read(answering) => answering,
        Fact::Unread(why) => return Finding::unknown(NAME, &why),
    };
    let Some(interface) = answering.first() else {
        return Finding::green(
            NAME,
            "the kernel answers for no VIP: the program has them on every interface that could",
        );
    };
    let names: Vec<_> = answering.iter().map(|interface| interface.name.as_str()).collect();
    Finding::yellow(
        NAME,
        format!(
            "{} is a VIP, and on {}, where the program does not have it, the kernel answers for it (arp_ignore is 0)",
            on(view, first),
            names.join(", ")
        ),
        format!(
            "attach there too, if the program is not, or, unless the address is on that interface itself: sysctl -w \
             net.ipv4.conf.{}.arp_ignore=1",
            key(&interface.name)
        ),
    )
}

/// Returns true if the kernel receives ARP requests on an interface.
fn speaks(interface: &Interface) -> bool {
    interface.ethernet
        && !interface.loopback
        && interface.up
        && interface.carrier
        && interface.master.is_none()
        && interface.name != IPVS
}

/// Returns the settings in force: the larger of the interface's value and the value of `all`.
fn conf_of(facts: &Facts, interface: &Interface) -> Fact<Conf> {
    let own = facts.nic(interface.index).and_then(|nic| nic.conf.as_ref());
    own.zip(facts.conf_all.as_ref()).map(|(own, all)| Conf {
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
fn arp_announce(facts: &Facts, view: &NetView, interface: &Interface) -> Finding {
    const NAME: &str = "arp-announce";
    known(NAME, bound_v4(facts).zip(conf_of(facts, interface)), |(vips, conf)| {
        let value = conf.arp_announce;
        if value >= ANNOUNCE_BEST {
            return Finding::green(
                NAME,
                format!("{value}: the kernel sends no request with a VIP as sender"),
            );
        }
        let Some(first) = vips.first() else {
            return Finding::not_applicable(NAME, format!("{value}, and no VIP is an address of this host"));
        };
        Finding::yellow(
            NAME,
            format!(
                "{value}, and {} is a VIP: the kernel may send requests with it as sender, which are claims",
                on(view, first)
            ),
            format!("sysctl -w net.ipv4.conf.{}.arp_announce={ANNOUNCE_BEST}", key(&interface.name)),
        )
    })
}

/// Checks the reverse path filter. A strict filter drops frames whose route back leads elsewhere.
fn rp_filter(facts: &Facts, view: &NetView, interface: &Interface) -> Finding {
    const NAME: &str = "rp-filter";
    known(NAME, conf_of(facts, interface), |conf| {
        let value = conf.rp_filter;
        let others: Vec<_> = view
            .interfaces
            .values()
            .filter(|it| speaks(it) && it.index != interface.index && !it.addresses.is_empty())
            .map(|it| it.name.as_str())
            .collect();
        if value != STRICT {
            return Finding::green(NAME, format!("{value}: not strict"));
        }
        if others.is_empty() {
            return Finding::green(NAME, "1 (strict), with one interface to answer by");
        }
        Finding::yellow(
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
