//! Checks of each interface: its carrier, the program on it, and other programs that handle its
//! frames.

use std::collections::BTreeSet;

use super::{
    check::known,
    facts::{Facts, Nic, TcProgram, Wireless},
    program::{Link, Program},
};
use crate::{
    diagnosis::{
        fact::Fact,
        finding::{Finding, State},
        pinned::PinnedLink,
    },
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
    nic: Fact<&'a Nic>,
    program: Program<'a>,
}

pub(super) fn checks(facts: &Facts) -> Vec<Finding> {
    let view = match &facts.network {
        Fact::Read(view) => view,
        Fact::Unread(why) => return vec![Finding::unknown("link", why)],
    };
    let mut checks = Vec::new();
    for pattern in facts.wanted.iter().filter_map(|pattern| pattern.literal()) {
        if view.named(pattern).is_none() {
            let remedy = "ip link lists those that there are in this network namespace";
            checks.push(Finding::red("link", "there is no such interface", remedy).on(pattern));
        }
    }
    let examined = examined(facts, view);
    if examined.is_empty() && checks.is_empty() {
        checks.push(Finding::red(
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
            nic: facts.nic(interface.index),
            program: program_of(facts, view, interface),
        };
        let program = |seen: &Seen<'_>| seen.program.runs();
        let proof = |seen: &Seen<'_>| seen.program.proof();
        let egress = |seen: &Seen<'_>| seen.program.egress();
        let own_frames = |seen: &Seen<'_>| seen.program.own_frames();
        let of_one = [
            link,
            wireless,
            program,
            proof,
            egress,
            own_frames,
            other_xdp,
            tc,
            vlan_offload,
            veth_peer,
            member,
            mtu,
        ];
        checks.extend(of_one.map(|check| check(&seen).on(&interface.name)));
    }
    checks
}

/// Returns the interfaces to examine: the named ones, or those that an agent would attach to and
/// those that have a link.
pub(super) fn examined<'a>(facts: &Facts, view: &'a NetView) -> Vec<&'a Interface> {
    if !facts.wanted.is_empty() {
        let wanted = |it: &&Interface| facts.wanted.iter().any(|pattern| view.matches(pattern, it));
        return view.interfaces.values().filter(wanted).collect();
    }
    let (chosen, _) = interfaces::choose(&Selection::default(), view, &BTreeSet::new());
    let chosen: BTreeSet<u32> = chosen.into_iter().map(|interface| interface.index).collect();
    let has_link = |it: &Interface| matches!(pinned_link(facts, it.index), Fact::Read(Some(_)));
    let is_examined = |it: &&Interface| chosen.contains(&it.index) || has_link(it);
    view.interfaces.values().filter(is_examined).collect()
}

/// Returns the pinned link whose program sees an interface's frames: its own, or the link of the
/// interface below a VLAN device.
fn pinned_link(facts: &Facts, ifindex: u32) -> Fact<Option<&PinnedLink>> {
    facts.plane.as_ref().and_then(|plane| {
        let Some(plane) = plane else { return Fact::Read(None) };
        let own = |ifindex: u32| plane.links.iter().find(|link| link.ifindex == ifindex);
        match own(ifindex) {
            Some(link) => Fact::Read(Some(link)),
            None => plane.contents.as_ref().map(|contents| contents.points_of(ifindex).find_map(own)),
        }
    })
}

/// Returns the program that sees an interface's frames.
fn program_of<'a>(facts: &'a Facts, view: &'a NetView, interface: &'a Interface) -> Program<'a> {
    let link = pinned_link(facts, interface.index).and_then(|link| match link {
        Some(PinnedLink { ifindex, mode, ids }) => {
            ids.as_ref().map(|ids| Some(Link { ifindex: *ifindex, mode: *mode, program: ids.program }))
        }
        None => Fact::Read(None),
    });
    let native = facts.nic(interface.index).and_then(|nic| nic.native.clone());
    Program { view, interface, link, native, contents: facts.contents() }
}

/// Returns true if the program that sees an interface's frames runs.
pub(super) fn is_attached(facts: &Facts, view: &NetView, interface: &Interface) -> Fact<bool> {
    program_of(facts, view, interface).is_attached()
}

impl Seen<'_> {
    fn is_veth(&self) -> bool {
        self.interface.kind == "veth"
    }

    /// Returns the id of the program's variant for traffic control, or for XDP, if it is attached.
    fn own(&self, is_tc: bool) -> Fact<Option<u32>> {
        let is_here = |link: &Link| is_tc || link.ifindex == self.interface.index;
        let is_one = |link: &Link| (link.mode == Mode::Tc) == is_tc && is_here(link);
        self.program.link.clone().map(|link| link.filter(is_one).map(|link| link.program))
    }

    fn mode(&self) -> Fact<Option<Mode>> {
        self.program.link.clone().map(|link| link.map(|link| link.mode))
    }

    fn has_vlan_device(&self) -> Option<&Interface> {
        self.view.vlans_on(self.interface.index).next()
    }
}

/// Judges an interface whose firmware may answer ARP itself.
fn wireless(seen: &Seen<'_>) -> Finding {
    const NAME: &str = "wireless";
    known(NAME, seen.nic.clone().and_then(|nic| nic.wireless.as_ref()), |wireless| match wireless {
        None => Finding::not_applicable(NAME, "it is not wireless"),
        Some(Wireless { is_promiscuous: true }) => Finding::green(
            NAME,
            "wireless and promiscuous: the firmware passes requests for all addresses on",
        ),
        Some(Wireless { is_promiscuous: false }) => Finding::yellow(
            NAME,
            "wireless: much firmware drops requests for addresses that are not the kernel's own, so that the \
            program does not see those for VIPs",
            format!(
                "ip link set {} promisc on (at each start), and check from another host: vipward who-has VIP",
                seen.interface.name
            ),
        ),
    })
}

fn link(seen: &Seen<'_>) -> Finding {
    let driver = match seen.nic.clone().and_then(|nic| nic.driver.as_ref()) {
        Fact::Read(driver) => format!(", driver {driver}"),
        Fact::Unread(_) => String::new(),
    };
    seen.program.carrier(&driver)
}

fn other_xdp(seen: &Seen<'_>) -> Finding {
    const NAME: &str = "other-xdp";
    if seen.interface.xdp_programs.is_empty() {
        return Finding::green(NAME, "none");
    }
    // Without the pins, the owners of the programs are unknown.
    let own = match seen.own(false) {
        Fact::Read(own) => own,
        Fact::Unread(why) => return Finding::unknown(NAME, &why),
    };
    let others: Vec<_> = seen.interface.xdp_programs.iter().filter(|id| Some(**id) != own).collect();
    if others.is_empty() {
        return Finding::green(NAME, "none");
    }
    let described: Vec<_> = others
        .iter()
        .map(|id| match seen.nic.clone().map(|nic| nic.xdp_names.get(id)) {
            Fact::Read(Some(name)) => format!("program {id} ({name})"),
            Fact::Read(None) | Fact::Unread(_) => format!("program {id}"),
        })
        .collect();
    Finding::yellow(
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

fn tc(seen: &Seen<'_>) -> Finding {
    const NAME: &str = "tc";
    let programs = seen.nic.clone().and_then(|nic| nic.tc.as_ref());
    known(NAME, programs.zip(seen.own(true)), |(programs, own)| {
        let others: Vec<_> = programs.iter().filter(|program| Some(program.id) != own).collect();
        if others.is_empty() {
            return Finding::green(NAME, "no other BPF program of traffic control");
        }
        let list: Vec<_> = others.iter().map(|program| describe(program)).collect();
        let found = list.join(", ");
        let ingress = || programs.iter().filter(|program| program.ingress);
        if own.is_some() && ingress().next().map(|program| program.id) != own {
            return Finding::yellow(
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
            return Finding::yellow(NAME, found, remedy);
        }
        Finding::green(NAME, format!("{found}: behind Vipward's, no concern"))
    })
}

fn describe(program: &TcProgram) -> String {
    let way = if program.ingress { "ingress" } else { "egress" };
    match &program.name {
        Some(name) => format!("{way} program {} ({name})", program.id),
        None => format!("{way} program {}", program.id),
    }
}

fn vlan_offload(seen: &Seen<'_>) -> Finding {
    const NAME: &str = "vlan-offload";
    let offload = seen.nic.clone().and_then(|nic| nic.vlan_offload.as_ref());
    known(NAME, offload.zip(seen.mode()), |(on, mode)| match (on, seen.has_vlan_device()) {
        (_, _) if mode == Some(Mode::Tc) => {
            Finding::green(NAME, "tc sees VLAN tags, also those that the NIC takes off")
        }
        (false, _) => Finding::green(NAME, "off: XDP sees VLAN tags"),
        (true, None) => Finding::green(NAME, "on, and no VLAN device here"),
        (true, Some(vlan)) => Finding::yellow(
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
fn veth_peer(seen: &Seen<'_>) -> Finding {
    const NAME: &str = "veth-peer";
    if !seen.is_veth() {
        return Finding::not_applicable(NAME, "no veth");
    }
    let remedy = "set `attach: auto` or `tc` (--attach): tc needs nothing of the other end";
    match seen.mode() {
        Fact::Read(Some(Mode::Native)) => {}
        Fact::Read(Some(mode)) => {
            return Finding::green(NAME, format!("{mode} needs nothing of the other end"));
        }
        Fact::Read(None) => {
            return Finding::not_applicable(NAME, "not attached; an agent would attach in mode tc");
        }
        Fact::Unread(why) => return Finding::unknown(NAME, &why),
    }
    let peer = seen.nic.clone().and_then(|nic| nic.peer.as_ref());
    known(NAME, peer, |peer| match peer.and_then(|peer| seen.view.interfaces.get(&peer)) {
        Some(peer) if peer.xdp_programs.is_empty() => {
            let gro = match seen.facts.nic(peer.index).and_then(|nic| nic.gro.as_ref()) {
                Fact::Read(true) => " (its GRO is on, which is not enough)",
                Fact::Read(false) | Fact::Unread(_) => "",
            };
            let found = format!(
                "native, and the other end, {}, runs no XDP program{gro}: nothing is answered",
                peer.name
            );
            Finding::red(NAME, found, remedy)
        }
        Some(peer) => Finding::green(NAME, format!("the other end, {}, runs an XDP program too", peer.name)),
        None => Finding::new(
            NAME,
            State::Unknown,
            "native, and the other end is in another network namespace: whether it runs an XDP program, \
            which it must, cannot be seen from here",
            Some(remedy.to_owned()),
        ),
    })
}

fn member(seen: &Seen<'_>) -> Finding {
    const NAME: &str = "member";
    let Some(master) = seen.interface.master else {
        return Finding::green(NAME, "of no bond or bridge");
    };
    let Some(master) = seen.view.interfaces.get(&master) else {
        return Finding::yellow(
            NAME,
            "of a bond or bridge in another namespace",
            "use an interface with an address",
        );
    };
    let (kind, name) = (&master.kind, &master.name);
    if kind == "vrf" {
        return Finding::green(NAME, format!("of the VRF {name}, and speaks for itself"));
    }
    Finding::yellow(
        NAME,
        format!("of {kind} {name}, through which the host speaks"),
        format!(
            "attach to {name} instead: interfaces: [{name}] (--interface {name}), which is also the default"
        ),
    )
}

fn mtu(seen: &Seen<'_>) -> Finding {
    const NAME: &str = "mtu";
    known(NAME, seen.nic.clone().and_then(|nic| nic.mtu_bytes.as_ref()), |bytes| {
        if *bytes <= NATIVE_MTU_BYTES {
            return Finding::green(NAME, format!("{bytes} bytes"));
        }
        known(NAME, seen.mode().zip(seen.own(false)), |(mode, own)| {
            let is_other = mode.is_some_and(|mode| mode != Mode::Native);
            if is_other && seen.program.why_not_native(own) == WhyNotNative::Refused {
                let remedy =
                    format!("for native XDP: ip link set {} mtu {NATIVE_MTU_BYTES}", seen.interface.name);
                let found = format!("{bytes} bytes, with which many drivers refuse native XDP");
                return Finding::yellow(NAME, found, remedy);
            }
            Finding::green(NAME, format!("{bytes} bytes"))
        })
    })
}
