//! Checks of each interface: its carrier, the program on it, and other programs that handle its
//! frames.

use std::collections::BTreeSet;

use vipward_common::Proof;

use super::{
    check::{Check, known},
    facts::{Facts, Nic, TcProgram},
};
use crate::{
    diagnosis::pinned::PinnedLink,
    host::{
        attaching::{Mode, WhyNotNative},
        interfaces::{self, Selection},
        net::{Interface, NetView},
    },
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
        let of_one = [link, attached, proof, other_xdp, tc, vlan_offload, veth_peer, member, mtu];
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
    let (chosen, _) = interfaces::choose(&Selection::default(), view, &BTreeSet::new());
    let chosen: BTreeSet<u32> = chosen.into_iter().map(|interface| interface.index).collect();
    let is_examined = |it: &&Interface| chosen.contains(&it.index) || pinned_link(facts, it.index).is_some();
    view.interfaces.values().filter(is_examined).collect()
}

/// Returns the pinned link whose program sees an interface's frames: its own, or that of an interface
/// below a VLAN device.
pub(super) fn pinned_link(facts: &Facts, ifindex: u32) -> Option<&PinnedLink> {
    let plane = facts.plane.as_ref().ok()?.as_ref()?;
    let own = |ifindex: u32| plane.links.iter().find(|link| link.ifindex == ifindex);
    own(ifindex).or_else(|| plane.contents.as_ref().ok()?.points_of(ifindex).find_map(own))
}

/// Returns true if the program that sees an interface's frames runs.
pub(super) fn is_attached(facts: &Facts, interface: &Interface) -> bool {
    let runs = |link: &PinnedLink| {
        let point = facts.network.as_ref().ok()?.interfaces.get(&link.ifindex)?;
        Some(link.ids.as_ref().is_ok_and(|ids| link.mode.runs(point, ids.program)))
    };
    pinned_link(facts, interface.index).and_then(runs).unwrap_or(false)
}

impl Seen<'_> {
    fn is_veth(&self) -> bool {
        self.interface.kind == "veth"
    }

    /// Returns the id of the program's XDP variant, if it is attached.
    fn own_xdp(&self) -> Option<u32> {
        let link = self.link.filter(|link| link.mode != Mode::Tc && link.ifindex == self.interface.index)?;
        link.ids.as_ref().ok().map(|ids| ids.program)
    }

    /// Returns the reason why the program does not run, or would not run, in native mode.
    fn why_not_native(&self) -> WhyNotNative {
        let offers_native = self.nic.and_then(|nic| nic.native.as_ref().ok()).copied();
        WhyNotNative::of(self.interface, self.view, self.own_xdp(), offers_native)
    }

    fn has_vlan_device(&self) -> Option<&Interface> {
        self.view.vlans_on(self.interface.index).next()
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
    const NAME: &str = "program";
    if let Err(unread) = &seen.facts.plane {
        return Check::unknown(NAME, unread);
    }
    let Some(link) = seen.link else { return would_attach(seen) };
    let (mode, id) = match &link.ids {
        Ok(ids) => (link.mode, ids.program),
        Err(unread) => return Check::unknown(NAME, unread),
    };
    if !is_attached(seen.facts, seen.interface) {
        let found =
            format!("{mode} is pinned, but its program {id} is not on {}", seen.view.name_of(link.ifindex));
        return Check::red(NAME, found, "it was detached: start the agent again");
    }
    if link.ifindex != seen.interface.index {
        let through = seen.view.name_of(link.ifindex);
        return Check::green(NAME, format!("{mode}, program {id} on {through}, which sees the VLAN's tag"));
    }
    let runs = format!("{mode}, program {id}");
    if mode == Mode::Native && seen.interface.has_ports() {
        let limits = "it runs on the ports, of which each needs native XDP; and while the agent is dead, no program \
                      follows a failover";
        return Check::yellow(
            NAME,
            format!("{runs}: {limits}"),
            "set `attach: auto` or `tc` (--attach), which run on the bond",
        );
    }
    match (mode, seen.why_not_native()) {
        (Mode::Native, _) => Check::green(NAME, runs),
        (Mode::Tc | Mode::Generic, WhyNotNative::Software) => {
            Check::green(NAME, format!("{runs}, on a software device"))
        }
        (Mode::Tc | Mode::Generic, WhyNotNative::StripsTags) => Check::green(
            NAME,
            format!(
                "{runs}: the card takes VLAN tags off before XDP; for native, `ethtool -K {} rxvlan off`",
                seen.interface.name
            ),
        ),
        (Mode::Tc | Mode::Generic, WhyNotNative::Occupied) => {
            Check::green(NAME, format!("{runs}: the interface has another XDP program"))
        }
        (Mode::Tc | Mode::Generic, WhyNotNative::Refused) => Check::yellow(
            NAME,
            format!("{runs}, though the driver offers native XDP"),
            "see `refused` in the agent's line `attached`, unless the agent was started so (--attach); \
            often the MTU is too large, or there are too few queues (ethtool -L)",
        ),
        (Mode::Tc, WhyNotNative::NotOffered) => {
            Check::green(NAME, format!("{runs}: the driver has no native XDP"))
        }
        (Mode::Generic, WhyNotNative::NotOffered) => Check::yellow(
            NAME,
            format!("{runs}: the driver has no native XDP"),
            "set `attach: auto` or `tc` (--attach): generic XDP copies most frames of the interface",
        ),
        (Mode::Tc | Mode::Generic, WhyNotNative::Unknown) => {
            Check::green(NAME, format!("{runs}; whether the driver has native XDP, this kernel does not say"))
        }
    }
}

/// Returns the check whether the program sees the frames that the kernel receives.
fn proof(seen: &Seen<'_>) -> Check {
    const NAME: &str = "proof";
    let plane = match &seen.facts.plane {
        Ok(Some(plane)) => plane,
        Ok(None) => return Check::not_applicable(NAME, "not attached"),
        Err(unread) => return Check::unknown(NAME, unread),
    };
    if !is_attached(seen.facts, seen.interface) {
        return Check::not_applicable(NAME, "not attached");
    }
    known(NAME, &plane.contents, |contents| match contents.proof(seen.interface.index) {
        Proof::Proven => Check::green(NAME, "the program counts the frames of this segment"),
        Proof::Unproven => Check::not_applicable(
            NAME,
            "unproven: neither the program nor the agent has heard a frame of ARP or neighbour discovery \
            here, and no gateway, peer or neighbour has answered",
        ),
        Proof::Blind => Check::red(
            NAME,
            "blind: the kernel receives frames that the program does not count, so no VIP is answered",
            format!(
                "another program before it may take them (bpftool net show dev {}), or it runs on the links \
                below: set another `attach` (--attach), such as `tc`",
                seen.interface.name
            ),
        ),
        Proof::Bypassed => Check::red(
            NAME,
            "blind: the program counts frames, but requests for VIPs get past it to the kernel",
            format!(
                "another program takes some of its frames (bpftool net show dev {}): stop it, or set \
                another `attach` (--attach)",
                seen.interface.name
            ),
        ),
    })
}

/// Returns the check of an interface without the program: how an agent would attach it.
fn would_attach(seen: &Seen<'_>) -> Check {
    let mode = match seen.why_not_native() {
        WhyNotNative::Refused => "native",
        WhyNotNative::Software
        | WhyNotNative::StripsTags
        | WhyNotNative::Occupied
        | WhyNotNative::NotOffered => "tc",
        WhyNotNative::Unknown => "native, or tc if the driver refuses",
    };
    Check::not_applicable("program", format!("not attached; an agent would attach in mode {mode}"))
}

fn other_xdp(seen: &Seen<'_>) -> Check {
    const NAME: &str = "other-xdp";
    if seen.interface.xdp_programs.is_empty() {
        return Check::green(NAME, "none");
    }
    // Without the pins, the owners of the programs are unknown.
    if let (Err(unread), _) | (Ok(_), Some(Err(unread))) =
        (&seen.facts.plane, seen.link.map(|link| &link.ids))
    {
        return Check::unknown(NAME, unread);
    }
    let own = seen.own_xdp();
    let others: Vec<_> = seen.interface.xdp_programs.iter().filter(|id| Some(**id) != own).collect();
    if others.is_empty() {
        return Check::green(NAME, "none");
    }
    let described: Vec<_> = others
        .iter()
        .map(|id| match seen.nic.and_then(|nic| nic.xdp_names.get(id)) {
            Some(name) => format!("program {id} ({name})"),
            None => format!("program {id}"),
        })
        .collect();
    Check::yellow(
        NAME,
        format!(
            "{}: it sees the frames before tc, which never sees what it drops or answers",
            described.join(", ")
        ),
        format!(
            "nothing to do if it passes ARP on; otherwise stop what attached it, or detach it: ip link set {} xdp off",
            seen.interface.name
        ),
    )
}

fn tc(seen: &Seen<'_>) -> Check {
    const NAME: &str = "tc";
    let Some(nic) = seen.nic else { return Check::not_applicable(NAME, "the interface has gone") };
    known(NAME, &nic.tc, |programs| {
        let own = seen.link.filter(|link| link.mode == Mode::Tc).and_then(|link| link.ids.as_ref().ok());
        let own = own.map(|ids| ids.program);
        let others: Vec<_> = programs.iter().filter(|program| Some(program.id) != own).collect();
        if others.is_empty() {
            return Check::green(NAME, "no other BPF program of traffic control");
        }
        let list: Vec<_> = others.iter().map(|program| describe(program)).collect();
        let found = list.join(", ");
        let ingress = || programs.iter().filter(|program| program.ingress);
        if own.is_some() && ingress().next().map(|program| program.id) != own {
            return Check::yellow(
                NAME,
                format!("{found}: an ingress program runs before Vipward's, and may take its frames"),
                format!(
                    "see whether it passes ARP on (bpftool net show dev {}); to go to the front, stop the \
                    agent, `vipward unload` and start it, which takes a moment without answers",
                    seen.interface.name
                ),
            );
        }
        let may_answer =
            |program: &TcProgram| program.name.as_deref().is_none_or(|name| name.starts_with("cil_"));
        if others.iter().any(|program| program.ingress && may_answer(program)) {
            let remedy = "Cilium with l2announcements.enabled=true answers ARP for the same VIPs: turn one \
            of the two off. Any other program here sees what Vipward passes, and is no concern";
            return Check::yellow(NAME, found, remedy);
        }
        Check::green(NAME, format!("{found}: behind Vipward's, no concern"))
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
        (_, _) if seen.link.is_some_and(|link| link.mode == Mode::Tc) => {
            Check::green(NAME, "tc sees VLAN tags, also those that the NIC takes off")
        }
        (false, _) => Check::green(NAME, "off: XDP sees VLAN tags"),
        (true, None) => Check::green(NAME, "on, and no VLAN device here"),
        (true, Some(vlan)) => Check::yellow(
            NAME,
            format!(
                "on, with the VLAN device {} here: XDP sees its frames without their tags, as if untagged",
                vlan.name
            ),
            format!("ethtool -K {} rxvlan off, or `attach: tc` (--attach tc)", seen.interface.name),
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
    let remedy = "set `attach: auto` or `tc` (--attach): tc needs nothing of the other end";
    if let Err(unread) = &seen.facts.plane {
        return Check::unknown(NAME, unread);
    }
    match seen.link {
        Some(link) if link.mode == Mode::Native => {}
        Some(link) => return Check::green(NAME, format!("{} needs nothing of the other end", link.mode)),
        None => return Check::not_applicable(NAME, "not attached; an agent would attach in mode tc"),
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
                "native, and the other end is in another network namespace: whether it runs an XDP program, \
                which it must, cannot be seen from here",
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
        let is_refused = seen.link.is_some_and(|link| link.mode != Mode::Native)
            && seen.why_not_native() == WhyNotNative::Refused;
        if *bytes > NATIVE_MTU_BYTES && is_refused {
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
