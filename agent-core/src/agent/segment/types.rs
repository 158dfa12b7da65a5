//! Inputs and effects of the composed segment, and what an input is judged by.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::{Event, MacAddr, Offender, OffenderKey, VipEntry, VipKey};

use crate::{
    base::time::Monotonic,
    host::{
        net::{Interface, NetView, Vital},
        stale::Stale,
    },
    segment::{
        announce::{self, Round},
        confirming::Answerer,
        conflict::{self, Line, Right},
        failover::Notice,
        probing::{self, Manner, Probed},
        rivals::{Hold, Yield},
    },
};

/// The source of the VIPs, as the authority on who may announce one and who may take it back.
pub trait Authority {
    /// Returns a peer's right to announce a VIP.
    fn right(&self, vip: IpAddr, mac: MacAddr, now: Monotonic) -> Right;

    /// Returns true if this node may take back a VIP that the program has yielded, when no peer
    /// answers for it.
    fn may_take_back(&self, vip: IpAddr) -> bool;

    /// Returns true if the VIP's address must be found free before this node first holds it.
    fn must_be_free(&self, vip: IpAddr) -> bool;

    /// Returns true if the ages of their holds decide between this node and a peer. In a cluster, the claims do.
    fn settles_by_age(&self) -> bool;

    /// Returns true if this node holds the VIP whatever other hosts do.
    fn is_forced(&self, vip: IpAddr) -> bool;

    /// Returns true if no living host is known to hold the VIP. A kernel that has its address on a
    /// segment's interface is not silenced.
    fn is_vacant(&self, vip: IpAddr) -> bool;

    /// Returns true if the VIPs are known. Until then, the pinned entries stay as they were found.
    fn is_known(&self) -> bool;

    /// Returns true if an entry that is silent may begin to answer now.
    fn may_begin_answering(&self, now: Monotonic) -> bool;

    /// Returns the addresses whose owners' frames this agent must receive now.
    fn must_receive(&self) -> Option<Vital>;
}

/// The state that an input is judged by, as it is now.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub view: &'a NetView,
    /// MACs of hosts that may have VIPs.
    pub peers: &'a [MacAddr],
    /// VIPs whose entries could not be written.
    pub stale: &'a Stale,
    /// The source of the VIPs.
    pub authority: &'a dyn Authority,
    pub now: Monotonic,
}

impl Context<'_> {
    pub(super) fn mac_of(&self, ifindex: u32) -> Option<MacAddr> {
        self.view.interfaces.get(&ifindex).map(|interface| interface.mac)
    }

    /// Returns the keys of a VIP on all interfaces.
    pub(super) fn keys_of(&self, vip: IpAddr) -> impl Iterator<Item = VipKey> {
        self.view.interfaces.keys().map(move |ifindex| VipKey::new(*ifindex, vip))
    }

    /// Returns true if a host that is no peer has sent an event's frame in a peer's name. The VIP's
    /// holder is not known. A peer sends such a frame when it hands the VIP over.
    pub(in crate::agent) fn is_forged(&self, event: &Event) -> bool {
        let source = MacAddr(event.source);
        MacAddr(event.holder).is_zero() && source.0 != event.sha && !self.peers.contains(&source)
    }

    /// Returns true if this host sent the frame of an event. A switch may send a frame back, also to
    /// another of this host's interfaces.
    pub(in crate::agent) fn is_own(&self, event: &Event) -> bool {
        // The view has a zero MAC for an interface without one, such as `lo`. No host has that MAC.
        let is_own = |interface: &Interface| interface.mac.0 == event.sha && !interface.mac.is_zero();
        self.view.interfaces.values().any(is_own)
    }
}

/// An input of [`Segment`](super::Segment).
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// The agent has the lease deadline: from now on VIPs are announced. The entries that it found follow, as
    /// [`Input::Adopted`].
    Started,
    /// The agent withdraws its VIPs: nothing is announced any more.
    Withdrawn,
    /// A pinned entry holds a VIP.
    Adopted { key: VipKey, entry: VipEntry },
    /// The program has reported an event.
    Program(&'a Event),
    /// The program's counts, the result of [`Effect::Count`].
    Counted(BTreeMap<OffenderKey, Offender>),
    /// The network was observed. This is how it was before.
    Network(&'a NetView),
    /// Notifications of failovers, and the network before them if some were lost.
    Notices {
        notices: &'a BTreeSet<Notice>,
        /// The network before, if notifications were lost.
        lost_since: Option<&'a NetView>,
        /// The time at which they were received.
        at: Monotonic,
    },
    /// An entry was written.
    Entry { key: VipKey, from: Option<&'a VipEntry>, to: Option<&'a VipEntry> },
    /// A VIP that was taken belonged to a session that has ended, whose node may still answer. This is
    /// an answer to [`Effect::Taken`].
    Succeeded { key: VipKey, former: MacAddr },
    /// A MAC was written as a peer's.
    Peer { ifindex: u32, mac: MacAddr },
    /// All entries are written. The program reports the answers to probes now.
    Written,
    /// These addresses count as free: their VIPs wait no longer.
    Freed(&'a BTreeSet<IpAddr>),
    /// The source wants an address probed.
    Wanted { key: VipKey, manner: Manner },
    /// The interfaces on which no other host was heard since their links came up, with the times
    /// until which silence proves nothing there.
    Unheard(BTreeMap<u32, Monotonic>),
    /// Hosts are heard on this interface again. They may have missed the announcements.
    HeardAgain(u32),
    /// A host states which VIPs it holds.
    Stated {
        ifindex: u32,
        /// The Ethernet source.
        from: MacAddr,
        holds: &'a [Hold],
    },
    /// The source wants an address probed no longer.
    Unwanted(IpAddr),
    /// A peer claims, on a segment, a VIP that only this node may have.
    Challenged(VipKey),
    /// The source wants a VIP announced once more, if this node holds it.
    AnnounceAgain(IpAddr),
    /// The entry of a yielded VIP was decided: by its claim, the file or an operator.
    Decided(IpAddr),
    /// The announcement of [`Effect::Announce`] has left.
    Announced { key: VipKey, round: Round },
    /// The probe of [`Effect::Probe`], or the request of [`Effect::AskHost`], could not be sent.
    NotSent(VipKey),
    /// The result of [`Effect::TellApart`].
    Told { key: VipKey, mac: MacAddr, answerer: Answerer },
    /// Time has passed, and everything that was reported meanwhile has been passed on.
    Tick,
}

/// An action for the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Send an announcement, if the maps state by then that this node holds the VIP.
    /// [`Input::Announced`] follows when a round has left.
    Announce(announce::Command),
    /// Probe an address. [`Input::NotSent`] follows on failure.
    Probe(VipKey),
    /// Ask this host for an address by unicast. [`Input::NotSent`] follows on failure.
    AskHost { key: VipKey, mac: MacAddr },
    /// Tell whether this MAC, which answers for an address, is a host or a router. [`Input::Told`]
    /// follows.
    TellApart { key: VipKey, mac: MacAddr },
    /// Send one probe after an announcement, from which switches learn the port. No result is wanted.
    ShowPort(VipKey),
    /// Request a VIP that this node holds, if the maps state by then that it does.
    ProbeHeld(VipKey),
    /// State to a peer which of these VIPs this node holds, if the maps state by then that it does.
    State { ifindex: u32, to: MacAddr, holds: Vec<Hold> },
    /// Read the program's counts of claims. [`Input::Counted`] follows.
    Count,
    /// Log a line about a conflict, and show it where its kind is shown.
    Report(Box<Line>),
    /// Pass the result of a probe to the source.
    Probed { key: VipKey, probed: Probed },
    /// Make the entry of a VIP silent that this node holds, and that another host has.
    GiveBack(VipKey),
    /// An entry is written by which this node answers for a VIP, which is not announced yet. If its
    /// former holder may still answer, [`Input::Succeeded`] follows after the other effects.
    Taken(VipKey),
    /// A VIP was announced for the first time since this node took it.
    FirstAnnounced(IpAddr),
    /// Bring the memberships in the group of an IPv6 VIP's solicitations up to date.
    JoinGroups(VipKey),
    /// Take these VIPs back, which were announced with the MACs of peers of which none answers.
    TakeBack(BTreeMap<IpAddr, MacAddr>),
    /// Read and reconcile everything at the next deadline, which is now.
    Reconcile,
    /// Reconcile everything after the next observation of the network, even if that has not
    /// changed.
    Unsettle,
    /// Log what has happened.
    Note(Note),
}

/// A log line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// An interface has failed over, and its VIPs are announced.
    FailedOver { ifindex: u32, vips: usize },
    /// A VIP was yielded, and is probed on its segment.
    AsksAboutYield(IpAddr),
    /// No other host was heard on an interface since its link came up. New VIPs wait for one, until
    /// this time at most.
    Unheard { ifindex: u32, until: Monotonic },
    /// A peer holds a VIP too, and this node gives it up.
    Yields(Yield),
    /// A probed address is in use.
    InUse {
        vip: IpAddr,
        mac: MacAddr,
        /// The number of attempts that found it in use.
        conflicts: u32,
        /// The time of the next attempt.
        again: Monotonic,
        /// True if the address had been found free before: the VIP is given back.
        is_late: bool,
    },
    /// The sort of a host that answers for a probed address is known.
    Answerer {
        vip: IpAddr,
        mac: MacAddr,
        answerer: Answerer,
        /// True if the address counts as free.
        takes: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    pub announce: announce::Settings,
    pub probe: probing::Settings,
    pub conflicts: conflict::Settings,
}
