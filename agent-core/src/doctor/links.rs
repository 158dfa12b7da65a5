//! Checks of each interface: its carrier, the program on it, and other programs that handle its
//! frames.

use std::collections::BTreeSet;

use super::{Check, Facts, Nic, TcProgram, known};
use crate::{
    config::Config,
    interfaces,
    net::{Interface, NetView},
    pinned::{Mode, PinnedLink, WhyGeneric},
};

/// The largest MTU with which most drivers run native XDP. A
/// frame and its metadata must fit a page.
const NATIVE_MTU_BYTES: u32 = 3_498;

/// An interface with the facts about it.
struct Seen<'a> {
    facts: &'a Facts,
    view: &'a NetView,
    interface: &'a Interface,
    nic: Option<&'a Nic>,
    link: Option<&'a PinnedLink>,
}

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let view = match &facts.network {
        Ok(view) => view,
        Err(unread) => return vec![Check::unknown("link", unread)],
    };
    let mut checks = Vec::new();
    for pattern in facts.wanted.iter().filter_map(|pattern| pattern.literal()) {
        if view.by_name(pattern).is_none() {
            let remedy = "ip link lists those that there are in this network namespace";
            checks.push(Check::red("link", "there is no such interface", remedy).on(pattern));
        }
    }
    let examined = examined(facts, view);
    if examined.is_empty() && checks.is_empty() {
        checks.push(Check::red(
            "link",
            "no interface that VIPs could be on: none is Ethernet, up, and leads to a segment",
            "set one up (ip link set DEV up), or name it: --interface DEV",
        ));
    }
    for interface in examined {
        let seen = Seen {
            facts,
            view,
            interface,
            nic: facts.nics.get(&interface.index),
            link: pinned_link(facts, interface.index),
        };
        let of_one = [link, attached, other_xdp, tc, vlan_offload, veth_peer, member, mtu];
        checks.extend(of_one.map(|check| check(&seen).on(&interface.name)));
    }
    checks
}

/// Returns the interfaces to examine: the named ones, or those that an agent would attach to and
/// those that have a link.
pub(super) fn examined<'a>(facts: &Facts, view: &'a NetView) -> Vec<&'a Interface> {
    if !facts.wanted.is_empty() {
        let wanted = |it: &&Interface| facts.wanted.iter().any(|pattern| pattern.matches(&it.name));
        return view.interfaces.values().filter(wanted).collect();
    }
    let defaults = Config::parse("vips: []\n", "", "host").expect("invariant: nothing in it is wrong");
    let (chosen, _) = interfaces::choose(&defaults, view, &BTreeSet::new());
    let chosen: BTreeSet<u32> = chosen.into_iter().map(|interface| interface.index).collect();
    let is_examined = |it: &&Interface| chosen.contains(&it.index) || pinned_link(facts, it.index).is_some();
    view.interfaces.values().filter(is_examined).collect()
}

pub(super) fn pinned_link(facts: &Facts, ifindex: u32) -> Option<&PinnedLink> {
    facts.plane.as_ref().ok()?.as_ref()?.links.iter().find(|link| link.ifindex == ifindex)
}

/// Returns true if the program of the pinned link runs on the interface.
pub(super) fn is_attached(facts: &Facts, interface: &Interface) -> bool {
    let ids = pinned_link(facts, interface.index).and_then(|link| link.ids.as_ref().ok());
    ids.is_some_and(|ids| interface.xdp_programs.contains(&ids.program))
}

impl Seen<'_> {
    fn is_veth(&self) -> bool {
        self.interface.kind == "veth"
    }

    fn is_generic(&self) -> bool {
        self.link.is_some_and(|link| link.mode == Mode::Generic)
    }

    /// Returns the reason why the program runs, or would run, in generic mode.
    fn why_generic(&self) -> WhyGeneric {
        let offers_native = self.nic.and_then(|nic| nic.native.as_ref().ok()).copied();
        WhyGeneric::of(&self.interface.kind, offers_native)
    }

    fn has_vlan_device(&self) -> Option<&Interface> {
        let on_this = |it: &&Interface| {
            it.kind == "vlan"
                && self.facts.nics.get(&it.index).and_then(|nic| nic.lower) == Some(self.interface.index)
        };
        self.view.interfaces.values().find(on_this)
    }
}

fn link(seen: &Seen<'_>) -> Check {
    let name = &seen.interface.name;
    let driver = match seen.nic.map(|nic| &nic.driver) {
        Some(Ok(driver)) => format!(", driver {driver}"),
        Some(Err(_)) | None => String::new(),
    };
    if !seen.interface.up {
        return Check::red("link", format!("down{driver}"), format!("ip link set {name} up"));
    }
    if !seen.interface.carrier {
        let remedy = "look at the cable, the switch's port, or the other end of the veth; until then the VIPs of this \
                      segment are not answered here";
        return Check::red("link", format!("up, but without carrier{driver}"), remedy);
    }
    Check::green("link", format!("up, carrier, MAC {}{driver}", seen.interface.mac))
}

fn attached(seen: &Seen<'_>) -> Check {
    const NAME: &str = "xdp";
    if let Err(unread) = &seen.facts.plane {
        return Check::unknown(NAME, unread);
    }
    let Some(link) = seen.link else { return would_attach(seen) };
    let id = match &link.ids {
        Ok(ids) => ids.program,
        Err(unread) => return Check::unknown(NAME, unread),
    };
    if !seen.interface.xdp_programs.contains(&id) {
        let found = format!("the link is pinned, but its program {id} is not on the interface");
        return Check::red(NAME, found, "it was detached: start the agent again");
    }
    if link.mode == Mode::Native {
        return Check::green(NAME, format!("native, program {id}"));
    }
    let generic = format!("generic, program {id}");
    match seen.why_generic() {
        WhyGeneric::Refused => Check::yellow(
            NAME,
            format!("{generic}, though the driver offers native XDP"),
            "set `xdp: native` (--xdp native) to hear why the driver refuses; often the MTU is too large, or there are too \
             few queues (ethtool -L)",
        ),
        WhyGeneric::Veth => Check::green(NAME, format!("{generic}, as is right on a veth")),
        WhyGeneric::NotOffered => Check::yellow(
            NAME,
            format!("{generic}: the driver has no native XDP"),
            "it works, and costs more for each frame; a NIC whose driver has native XDP answers several times as many",
        ),
        WhyGeneric::Unknown => Check::yellow(
            NAME,
            format!("{generic}; whether the driver has native XDP, this kernel does not say"),
            "set `xdp: native` (--xdp native) to find out",
        ),
    }
}

/// Returns the check of an interface without the program: how an agent would attach it.
fn would_attach(seen: &Seen<'_>) -> Check {
    let mode = match seen.why_generic() {
        WhyGeneric::Refused => "native",
        WhyGeneric::Veth | WhyGeneric::NotOffered => "generic",
        WhyGeneric::Unknown => "native, or generic if the driver refuses",
    };
    Check::not_applicable("xdp", format!("not attached; an agent would attach in mode {mode}"))
}

fn other_xdp(seen: &Seen<'_>) -> Check {
    if seen.interface.xdp_programs.is_empty() {
        return Check::green("other-xdp", "none");
    }
    // Without the pins, the owners of the programs are unknown.
    let own = match (&seen.facts.plane, seen.link.map(|link| &link.ids)) {
        (Err(unread), _) | (Ok(_), Some(Err(unread))) => return Check::unknown("other-xdp", unread),
        (Ok(_), Some(Ok(ids))) => Some(ids.program),
        (Ok(_), None) => None,
    };
    let others: Vec<_> = seen.interface.xdp_programs.iter().filter(|id| Some(**id) != own).collect();
    if others.is_empty() {
        return Check::green("other-xdp", "none");
    }
    let described: Vec<_> = others
        .iter()
        .map(|id| match seen.nic.and_then(|nic| nic.xdp_names.get(id)) {
            Some(name) => format!("program {id} ({name})"),
            None => format!("program {id}"),
        })
        .collect();
    let name = &seen.interface.name;
    Check::red(
        "other-xdp",
        format!("{} is attached, and an interface takes one", described.join(", ")),
        format!(
            "stop what attached it, or detach it: ip link set {name} xdp off (and xdpgeneric off); or leave {name} out of \
             the interfaces"
        ),
    )
}

fn tc(seen: &Seen<'_>) -> Check {
    const NAME: &str = "tc";
    let Some(nic) = seen.nic else { return Check::not_applicable(NAME, "the interface has gone") };
    known(NAME, &nic.tc, |programs| {
        if programs.is_empty() {
            return Check::green(NAME, "no BPF program of traffic control");
        }
        let list: Vec<_> = programs.iter().map(describe).collect();
        let found = list.join(", ");
        let may_answer = |program: &&TcProgram| {
            program.ingress && program.name.as_deref().is_none_or(|name| name.starts_with("cil_"))
        };
        if programs.iter().any(|program| may_answer(&program)) {
            let remedy = "Cilium with l2announcements.enabled=true answers ARP for the same VIPs: turn one of the two off. \
                          Any other program here sees what XDP passes, and is no concern";
            return Check::yellow(NAME, found, remedy);
        }
        Check::green(NAME, format!("{found}: behind XDP, no concern"))
    })
}

fn describe(program: &TcProgram) -> String {
    let way = if program.ingress { "ingress" } else { "egress" };
    match &program.name {
        Some(name) => format!("{way} program {} ({name})", program.id),
        None => format!("{way} program {}", program.id),
    }
}

fn vlan_offload(seen: &Seen<'_>) -> Check {
    const NAME: &str = "vlan-offload";
    let Some(nic) = seen.nic else { return Check::not_applicable(NAME, "the interface has gone") };
    known(NAME, &nic.vlan_offload, |on| match (on, seen.has_vlan_device()) {
        (false, _) => Check::green(NAME, "off: XDP sees VLAN tags"),
        (true, None) => Check::green(NAME, "on, and no VLAN device here"),
        (true, Some(vlan)) => Check::yellow(
            NAME,
            format!(
                "on, with the VLAN device {} here: XDP sees its frames without their tags, as if untagged",
                vlan.name
            ),
            format!("ethtool -K {} rxvlan off", seen.interface.name),
        ),
    })
}

/// Checks the other end of a veth. The kernel delivers frames that a native program transmits only
/// if the other end runs a program too. Otherwise they wait in its ring, even with GRO.
fn veth_peer(seen: &Seen<'_>) -> Check {
    const NAME: &str = "veth-peer";
    if !seen.is_veth() {
        return Check::not_applicable(NAME, "no veth");
    }
    let remedy = "set `xdp: auto` or `generic` (--xdp): generic XDP needs nothing of the other end";
    if let Err(unread) = &seen.facts.plane {
        return Check::unknown(NAME, unread);
    }
    match seen.link {
        Some(link) if link.mode == Mode::Native => {}
        Some(_) => return Check::green(NAME, "generic XDP needs nothing of the other end"),
        None => return Check::not_applicable(NAME, "not attached; an agent would attach in generic mode"),
    }
    let Some(nic) = seen.nic else { return Check::not_applicable(NAME, "the interface has gone") };
    let peer = nic.lower.filter(|_| !nic.lower_elsewhere).and_then(|peer| seen.view.interfaces.get(&peer));
    match peer {
        Some(peer) if peer.xdp_programs.is_empty() => {
            let gro = match seen.facts.nics.get(&peer.index).map(|nic| &nic.gro) {
                Some(Ok(true)) => " (its GRO is on, which is not enough)",
                Some(Ok(false) | Err(_)) | None => "",
            };
            let found = format!(
                "native, and the other end, {}, runs no XDP program{gro}: nothing is answered",
                peer.name
            );
            Check::red(NAME, found, remedy)
        }
        Some(peer) => Check::green(NAME, format!("the other end, {}, runs an XDP program too", peer.name)),
        None => {
            let mut check = Check::new(
                NAME,
                super::State::Unknown,
                "native, and the other end is in another network namespace: whether it runs an XDP program, which it must, \
                 cannot be seen from here",
                None,
            );
            check.remedy = Some(remedy.to_owned());
            check
        }
    }
}

fn member(seen: &Seen<'_>) -> Check {
    const NAME: &str = "member";
    let Some(master) = seen.interface.master else {
        return Check::green(NAME, "of no bond or bridge");
    };
    let Some(master) = seen.view.interfaces.get(&master) else {
        return Check::yellow(
            NAME,
            "of a bond or bridge in another namespace",
            "use an interface with an address",
        );
    };
    let (kind, name) = (&master.kind, &master.name);
    if kind == "vrf" {
        return Check::green(NAME, format!("of the VRF {name}, and speaks for itself"));
    }
    Check::yellow(
        NAME,
        format!("of {kind} {name}, through which the host speaks"),
        format!(
            "attach to {name} instead: interfaces: [{name}] (--interface {name}), which is also the default"
        ),
    )
}

fn mtu(seen: &Seen<'_>) -> Check {
    const NAME: &str = "mtu";
    let Some(nic) = seen.nic else { return Check::not_applicable(NAME, "the interface has gone") };
    known(NAME, &nic.mtu_bytes, |bytes| {
        if *bytes > NATIVE_MTU_BYTES && seen.is_generic() && seen.why_generic() == WhyGeneric::Refused {
            let remedy =
                format!("for native XDP: ip link set {} mtu {NATIVE_MTU_BYTES}", seen.interface.name);
            return Check::yellow(
                NAME,
                format!("{bytes} bytes, with which many drivers refuse native XDP"),
                remedy,
            );
        }
        Check::green(NAME, format!("{bytes} bytes"))
    })
}
