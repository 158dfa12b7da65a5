//! Judgement of the program on an interface, for `doctor` and for `explain`.

use std::borrow::Cow;

use vipward_common::{Proof, VipFault};

use super::check::{known, list};
use crate::{
    diagnosis::{
        fact::Fact,
        finding::{Finding, State},
        pinned::{Contents, Entry},
    },
    host::{
        attaching::{Mode, WhyNotNative},
        net::{Interface, NetView},
    },
    segment::own_frames,
};

const NAME: &str = "program";
/// The remedies where the network drops what a host sends from its VIPs.
const LET_THROUGH: &str = "let this port send from the VIPs: OpenStack allowed_address_pairs, ESXi forged transmits, \
    Hyper-V MAC address spoofing, Proxmox ipfilter; on a switch port security, or DHCP snooping with ARP inspection \
    (docs/network.md)";
/// Remedy where the network passes no requests to this host.
const PASS_REQUESTS: &str =
    "let the switch and the card pass broadcasts, and frames to the groups of IPv6 VIPs (docs/network.md)";

/// A pinned link whose ids were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    /// The interface that it was made for.
    pub(crate) ifindex: u32,
    pub(crate) mode: Mode,
    pub(crate) program: u32,
}

/// An interface, and the program that sees its frames.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    pub(crate) view: &'a NetView,
    pub(crate) interface: &'a Interface,
    pub(crate) link: Fact<Option<Link>>,
    /// True if the driver has native XDP.
    pub(crate) native: Fact<bool>,
    pub(crate) contents: Fact<Option<&'a Contents>>,
}

impl Program<'_> {
    fn runs_by(&self, link: Link) -> bool {
        let point = self.view.interfaces.get(&link.ifindex);
        point.is_some_and(|point| link.mode.runs(point, link.program))
    }

    pub(crate) fn is_attached(&self) -> Fact<bool> {
        self.link.clone().map(|link| link.is_some_and(|link| self.runs_by(link)))
    }

    /// Returns the reason why the program does not run, or would not run, in native mode. `own` is its
    /// XDP variant.
    pub(crate) fn why_not_native(&self, own: Option<u32>) -> WhyNotNative {
        let native = match self.native {
            Fact::Read(native) => Some(native),
            Fact::Unread(_) => None,
        };
        WhyNotNative::of(self.interface, self.view, own, native)
    }

    /// Judges whether the interface carries frames.
    pub(crate) fn carrier(&self, driver: &str) -> Finding {
        const NAME: &str = "link";
        let Interface { name, mac, up, carrier, .. } = self.interface;
        if !up {
            return Finding::red(NAME, format!("down{driver}"), format!("ip link set {name} up"));
        }
        if !carrier {
            let remedy = "check the cable, the switch's port, or the other end of the veth; until then the VIPs of \
                          this segment are not answered here";
            return Finding::red(NAME, format!("up, but without carrier{driver}"), remedy);
        }
        Finding::green(NAME, format!("up, carrier, MAC {mac}{driver}"))
    }

    /// Judges whether the program runs, and how.
    pub(crate) fn runs(&self) -> Finding {
        known(NAME, self.link.clone(), |link| match link {
            Some(link) => self.pinned(link),
            None => self.would_attach(),
        })
    }

    fn pinned(&self, link: Link) -> Finding {
        let Link { ifindex, mode, program } = link;
        let on = self.view.name_of(ifindex);
        if !self.runs_by(link) {
            let found = format!("{mode} is pinned, but its program {program} is not on {on}");
            return Finding::red(NAME, found, "it was detached: start the agent again");
        }
        if ifindex != self.interface.index {
            return Finding::green(
                NAME,
                format!("{mode}, program {program} on {on}, which sees the VLAN's tag"),
            );
        }
        let runs = format!("{mode}, program {program}");
        if mode == Mode::Native && self.interface.has_ports() {
            let limits = "it runs on the ports, of which each needs native XDP; and while the agent is dead, no \
                          program follows a failover";
            return Finding::yellow(
                NAME,
                format!("{runs}: {limits}"),
                "set `attach: auto` or `tc` (--attach), which run on the bond",
            );
        }
        let Some((why, words)) = self.because(link) else { return Finding::green(NAME, runs) };
        let remedy = match (mode, why) {
            (_, WhyNotNative::Refused) => Some(
                "see `refused` in the agent's line `the program is attached`, unless the agent was started so \
                 (--attach); \
                often the MTU is too large, or there are too few queues (ethtool -L)",
            ),
            (Mode::Generic, WhyNotNative::NotOffered) => {
                Some("set `attach: auto` or `tc` (--attach): generic XDP copies most frames of the interface")
            }
            (Mode::Native | Mode::Tc | Mode::Generic, _) => None,
        };
        let state = if remedy.is_some() { State::Yellow } else { State::Green };
        Finding::new(NAME, state, format!("{runs}: {words}"), remedy.map(str::to_owned))
    }

    /// Returns the text of the reason why a link is not native, unless it is.
    pub(crate) fn because(&self, link: Link) -> Option<(WhyNotNative, Cow<'static, str>)> {
        let own = match link.mode {
            Mode::Native => return None,
            Mode::Tc => None,
            Mode::Generic => Some(link.program),
        };
        let why = self.why_not_native(own);
        let words = match why {
            WhyNotNative::Software if link.mode == Mode::Generic => {
                "a software device, and the agent was started so (--attach generic)"
            }
            WhyNotNative::Software => "a software device gets tc",
            WhyNotNative::StripsTags => {
                "the card takes VLAN tags off before XDP; for native, switch that off (ethtool -K DEV rxvlan off)"
            }
            WhyNotNative::Occupied => "another XDP program is on the interface, which takes one",
            WhyNotNative::Refused => "the driver offers native XDP, and has refused it",
            WhyNotNative::NotOffered => "the driver has no native XDP; each answer costs more",
            WhyNotNative::Unknown => {
                "the driver has no native XDP or has refused it, or the agent was started so (--attach)"
            }
        };
        let words = match &self.native {
            Fact::Unread(unread) if why == WhyNotNative::Unknown => {
                format!("{words}; which is unknown: {unread}").into()
            }
            Fact::Read(_) | Fact::Unread(_) => words.into(),
        };
        Some((why, words))
    }

    /// Returns how an agent would attach an interface that is without the program.
    fn would_attach(&self) -> Finding {
        let mode = match self.why_not_native(None) {
            WhyNotNative::Refused => "native",
            WhyNotNative::Software
            | WhyNotNative::StripsTags
            | WhyNotNative::Occupied
            | WhyNotNative::NotOffered => "tc",
            WhyNotNative::Unknown => "native, or tc if the driver refuses",
        };
        Finding::not_applicable(NAME, format!("not attached; an agent would attach in mode {mode}"))
    }

    /// Judges whether frames with this host's own MAC come from the segment.
    pub(crate) fn own_frames(&self) -> Finding {
        const NAME: &str = "own-frames";
        let index = self.interface.index;
        let both = self.is_attached().zip(self.contents.clone());
        known(NAME, both, |(is, contents)| {
            let found = contents.filter(|_| is).map(|it| it.twins.get(&index).copied().unwrap_or_default());
            match found.map(own_frames::in_words) {
                None => Finding::not_applicable(NAME, "not attached"),
                Some(None) => {
                    Finding::green(NAME, "none comes from the network, or a switch sends each back once")
                }
                Some(Some(words)) => match words.split_once(". ") {
                    Some((found, remedy)) => Finding::red(NAME, found, remedy),
                    None => Finding::red(NAME, words, "find that machine"),
                },
            }
        })
    }

    /// Judges whether the program sees the frames that the kernel receives.
    pub(crate) fn proof(&self) -> Finding {
        const NAME: &str = "proof";
        let index = self.interface.index;
        let both = self.is_attached().zip(self.contents.clone());
        known(NAME, both, |(is, contents)| match contents.filter(|_| is).map(|it| it.proof(index)) {
            None => Finding::not_applicable(NAME, "not attached"),
            Some(Proof::Proven) => Finding::green(NAME, "the program counts the frames of this segment")
                .with(contents.is_some_and(|it| self.has_no_request(it)).then(|| {
                    "no request for a VIP that this host holds here has come since it was taken".to_owned()
                })),
            Some(Proof::Unproven) => Finding::not_applicable(
                NAME,
                "unproven: neither the program nor the agent has received a frame of ARP or neighbour discovery \
                 here, and no gateway, peer or neighbour has answered",
            ),
            Some(Proof::Blind) => Finding::red(
                NAME,
                "bypassed: the kernel receives frames that the program does not count, so no VIP is answered",
                format!(
                    "another program before it may take them (bpftool net show dev {}), or it runs on the links \
                    below: set another `attach` (--attach), such as `tc`",
                    self.interface.name
                ),
            ),
            Some(Proof::Bypassed) => Finding::red(
                NAME,
                "bypassed: the program counts frames, but requests for VIPs get past it to the kernel",
                format!(
                    "another program takes some of its frames (bpftool net show dev {}): stop it, or set \
                    another `attach` (--attach)",
                    self.interface.name
                ),
            ),
        })
    }

    /// Returns true if this host holds VIPs here, and no request for one has come.
    fn has_no_request(&self, contents: &Contents) -> bool {
        let answered: Option<u64> =
            contents.held_on(self.interface.index).map(|entry| entry.count.map(|count| count.answered)).sum();
        answered == Some(0) && contents.held_on(self.interface.index).next().is_some()
    }

    /// Judges whether the network takes what this host sends from its VIPs.
    pub(crate) fn egress(&self) -> Finding {
        const NAME: &str = "egress";
        let index = self.interface.index;
        let both = self.is_attached().zip(self.contents.clone());
        known(NAME, both, |(is, contents)| {
            let Some(contents) = contents.filter(|_| is) else {
                return Finding::not_applicable(NAME, "not attached");
            };
            let with = |fault| {
                let faulty = contents.held_on(index).filter(move |it| it.fault == Some(fault));
                faulty.map(Entry::address).collect::<Vec<_>>()
            };
            let blind = with(VipFault::Blind);
            if !blind.is_empty() {
                let found = format!(
                    "blind: another node's requests for {} reach this host by unicast, and not those to all",
                    list(&blind)
                );
                return Finding::red(NAME, found, PASS_REQUESTS);
            }
            let unheard = with(VipFault::Unheard);
            if !unheard.is_empty() {
                let found = format!(
                    "unheard: a host answers this host's own address and not {}: the network drops what this host \
                    sends from there",
                    list(&unheard)
                );
                return Finding::red(NAME, found, LET_THROUGH);
            }
            match contents.held_on(index).count() {
                0 => Finding::not_applicable(NAME, "this host holds no VIP here"),
                1 => Finding::green(
                    NAME,
                    "nothing shows that the network drops what this host sends from its VIP",
                ),
                many => Finding::green(
                    NAME,
                    format!("nothing shows that the network drops what this host sends from its {many} VIPs"),
                ),
            }
        })
    }
}
