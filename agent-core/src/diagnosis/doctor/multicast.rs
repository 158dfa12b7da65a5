//! Checks of what IPv6 VIPs need: the groups to which solicitations go, and the kernel's settings.

use std::{collections::BTreeSet, net::IpAddr};

use super::{
    check::{known, list, pinned},
    facts::Facts,
    links,
};
use crate::{
    diagnosis::{
        fact::Fact,
        finding::Finding,
        pinned::{Contents, Entry},
    },
    host::net::Interface,
    segment::groups::Membership,
};

const NAME: &str = "multicast";
const DISCOVERY: &str = "neighbour-discovery";

pub(super) fn checks(facts: &Facts) -> Vec<Finding> {
    let Fact::Read(view) = &facts.network else { return Vec::new() };
    let examined = links::examined(facts, view);
    let on_one = |interface: &Interface| {
        let membership = pinned(NAME, facts, |contents| membership(facts, interface, contents));
        let discovery = pinned(DISCOVERY, facts, |contents| discovery(facts, interface, contents));
        [membership, discovery].map(|check| check.on(&interface.name))
    };
    examined.into_iter().flat_map(on_one).collect()
}

fn membership(facts: &Facts, interface: &Interface, contents: &Contents) -> Finding {
    let here = contents.entries.iter().filter(|it| it.is_own() && it.key.ifindex == interface.index);
    let vips: Vec<_> = here
        .map(Entry::address)
        .filter_map(|address| match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(vip) => Some((vip, Membership::of(interface.index, vip))),
        })
        .collect();
    if vips.is_empty() {
        return Finding::not_applicable(NAME, "this node holds no IPv6 VIP here");
    }
    known(NAME, facts.memberships.as_ref(), |joined| {
        let missing: Vec<_> =
            vips.iter().filter(|(_, membership)| !joined.contains(membership)).map(|(vip, _)| vip).collect();
        if !missing.is_empty() {
            return Finding::red(
                NAME,
                format!(
                    "the card and switches may not pass on solicitations for {}: their groups are not joined",
                    list(missing)
                ),
                "start the agent, or see in its log why the kernel refuses (an MTU below 1280 bytes, or no IPv6)",
            );
        }
        let groups: BTreeSet<_> = vips.iter().map(|(_, membership)| membership).collect();
        let found = format!("{} joined, for {} VIPs", groups.len(), vips.len());
        let nic = facts.nic(interface.index);
        known(NAME, nic.clone().and_then(|nic| nic.conf_v6.as_ref()), |conf| {
            if conf.disable_ipv6 != 0 {
                return Finding::yellow(
                    NAME,
                    format!(
                        "{found}, but not reported by MLD: IPv6 is off, and a switch that snoops passes nothing on"
                    ),
                    sysctl(interface, "disable_ipv6", 0),
                );
            }
            known(NAME, nic.and_then(|nic| nic.mld_queries.as_ref()), |queries| match queries {
                0 => Finding::green(
                    NAME,
                    format!("{found}; no MLD query has come: a switch that snoops needs a querier"),
                ),
                queries => Finding::green(NAME, format!("{found}; {queries} MLD queries have come")),
            })
        })
    })
}

/// Examines how the kernel takes neighbour discovery where IPv6 VIPs are.
fn discovery(facts: &Facts, interface: &Interface, contents: &Contents) -> Finding {
    const NAME: &str = DISCOVERY;
    let is_here = |it: &&Entry| it.key.ifindex == interface.index && it.address().is_ipv6();
    if !contents.entries.iter().any(|it| is_here(&it)) {
        return Finding::not_applicable(NAME, "no IPv6 VIP is here");
    }
    known(NAME, facts.nic(interface.index).and_then(|nic| nic.conf_v6.as_ref()), |conf| {
        if conf.drop_unsolicited_na != 0 {
            return Finding::yellow(
                NAME,
                "drop_unsolicited_na is set: this host ignores announcements, and goes on sending to the former \
                 holder of a VIP until that does not answer",
                sysctl(interface, "drop_unsolicited_na", 0),
            );
        }
        if conf.accept_dad > 1 {
            return Finding::yellow(
                NAME,
                format!(
                    "accept_dad is {}: the kernel switches IPv6 off when another host has the interface's link-local \
                     address, and then reports no group",
                    conf.accept_dad
                ),
                sysctl(interface, "accept_dad", 1),
            );
        }
        Finding::green(
            NAME,
            "announcements are taken; a switch that guards neighbour discovery (RA guard, ND inspection, SAVI) must \
             allow advertisements of the VIPs on this port",
        )
    })
}

/// Returns the command that changes a setting of an interface. sysctl(8) writes a dot in a name as a
/// slash.
fn sysctl(interface: &Interface, key: &str, value: u8) -> String {
    format!("sysctl -w net.ipv6.conf.{}.{key}={value}", interface.name.replace('.', "/"))
}
