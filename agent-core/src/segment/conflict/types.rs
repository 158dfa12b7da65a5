//! Values of conflicts: settings, events, commands, and the lines of a report.

use std::time::Duration;

use vipward_common::{Defence, EventKind, MacAddr, VipKey};

use crate::{base::time::Monotonic, records::Epoch, segment::confirming::Answerer};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    pub defend: Defend,
    /// Quiet time that ends a conflict.
    pub quiet: Duration,
}

impl Settings {
    pub const DEFAULT: Self = Self { defend: Defend::Match, quiet: Duration::from_mins(5) };
}

/// The response to a claim on a held VIP, besides dropping it. The VIP is never given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Defend {
    /// The program's announcement for each broadcast claim, within its limits, besides the
    /// announcements of `Always`.
    #[default]
    Match,
    /// An announcement at once, and one per `DEFEND_INTERVAL` while claims come (RFC 5227, 2.4 c).
    Always,
    /// One announcement, when a conflict begins.
    Once,
    Never,
}

impl Defend {
    pub const fn in_program(self) -> Defence {
        match self {
            Self::Match => Defence::Match,
            Self::Always | Self::Once | Self::Never => Defence::Off,
        }
    }
}

/// State of a conflict: this node's part in the VIP, and the kind of host that claims it.
///
/// At any time at most one conflict about a VIP is in one of the shown states.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum What {
    /// An unknown host claims a VIP that this node holds.
    Held,
    /// An unknown host claims a VIP that this node guards for its holder.
    Guarded,
    /// An unknown host uses the address of a VIP that this node would hold.
    InUse,
    /// An unknown host claims a VIP whose holder this node does not know.
    Sighted,
    /// A peer claims a VIP that this node holds.
    Contested,
    /// A peer announced a VIP of another node.
    Moved,
    /// The program gave the VIP to a peer after the lease deadline.
    Yielded,
}

impl What {
    pub(super) const FIRST_SHOWN: Self = Self::Held;
    pub(super) const LAST_SHOWN: Self = Self::InUse;

    /// Returns the name of the state in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Guarded => "guarded",
            Self::InUse => "in_use",
            Self::Sighted | Self::Contested | Self::Moved | Self::Yielded => self.kind(),
        }
    }

    /// Returns the name of the event's kind in logs.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Held | Self::Guarded | Self::InUse => EventKind::Conflict.name(),
            Self::Sighted => EventKind::Sighted.name(),
            Self::Contested => EventKind::Contested.name(),
            Self::Moved => EventKind::Moved.name(),
            Self::Yielded => EventKind::Yielded.name(),
        }
    }

    /// Returns true if each conflict in this state is shown.
    pub(super) fn is_shown(self) -> bool {
        (Self::FIRST_SHOWN..=Self::LAST_SHOWN).contains(&self)
    }

    pub const fn is_with_peer(self) -> bool {
        match self {
            Self::Held | Self::Guarded | Self::InUse | Self::Sighted => false,
            Self::Contested | Self::Moved | Self::Yielded => true,
        }
    }
}

/// The right of a peer to announce a VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// The VIP's claim object names the peer, or no Service wants the VIP any more.
    Given,
    /// The claim object, in this epoch, names another node or none.
    /// The news of a move may be under way.
    NotGiven(Epoch),
    /// This node cannot know the right: it has not listed the objects yet, or its
    /// lease deadline has passed. The last known epoch of the claim object is this one.
    Unknown(Epoch),
    /// No claim objects exist: the host is in no cluster.
    NoClaims,
}

/// A claim, as an event of the program describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sight {
    pub key: VipKey,
    pub what: What,
    /// The claimed MAC (sha).
    pub mac: MacAddr,
    /// The Ethernet source. A careful impostor uses another MAC than sha.
    pub source: MacAddr,
    pub oper: u16,
    /// The MAC of the VIP; zero if unknown.
    pub holder: MacAddr,
    /// Number of claims that this one stands for: itself,
    /// and those that the program did not report.
    pub times: u64,
    /// Time of the claim, by the program's clock. The agent reads the claim later.
    pub at: Monotonic,
    /// The right of a peer to the VIP. It has no meaning for an unknown host.
    pub right: Right,
}

/// The program's count of one MAC's claims on one
/// VIP. The count may have begun before the conflict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    pub key: VipKey,
    pub offender: Offender,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A host claims a VIP, or answers for one that was probed.
    Sighted(Sight),
    /// The counts, the result of [`Command::Count`].
    Counted(Vec<Counted>),
    /// The sort of an offender is known.
    Named { key: VipKey, mac: MacAddr, answerer: Answerer },
    /// A MAC turned out to be a peer's.
    Recognised {
        /// The interface that it is seen through.
        ifindex: u32,
        mac: MacAddr,
    },
    /// Probes have shown that an address in use is free now.
    Free(VipKey),
    /// An address is free, for which only a proxy answers.
    Proxied(VipKey),
    /// This node has no part in the VIP any more, or the VIP's interface has gone.
    Forgotten(VipKey),
    /// This node does not hold the VIP any more.
    Released(VipKey),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Announce the VIP, as often as the RFC allows.
    Defend(VipKey),
    /// Request a held VIP: a peer that still has it answers.
    Ask(VipKey),
    /// Read the program's counts; [`Event::Counted`] follows.
    Count,
    Report(Line),
}

/// A host that claims a VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offender {
    /// sha of its claims.
    pub mac: MacAddr,
    /// Ethernet source of the last claim.
    pub source: MacAddr,
    /// oper of the last claim.
    pub oper: u16,
    /// Time of its first claim in this conflict.
    pub first: Monotonic,
    pub last: Monotonic,
    pub claims: u64,
    /// Its sort. None unless it answers for an address in use, and was asked.
    pub answerer: Option<Answerer>,
}

/// A conflict about one VIP on one segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    pub key: VipKey,
    pub what: What,
    /// The MAC of the VIP; zero if unknown.
    pub holder: MacAddr,
    pub begun: Monotonic,
    pub last: Monotonic,
    pub claims: u64,
    /// The hosts that take part, in the order of their first claims.
    pub offenders: Vec<Offender>,
    /// True if hosts take part that are not listed.
    pub more: bool,
    pub defences: u64,
    /// True while a peer's claims on a VIP that this node holds go on: two hosts answer.
    pub doubled: bool,
}

impl Conflict {
    /// Returns true if metrics, pages and Events show the conflict. Any other is only logged.
    pub fn is_shown(&self) -> bool {
        self.what.is_shown() || self.doubled
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Quiet,
    Recognised,
    Free,
    Proxied,
    Forgotten,
    Turned,
}

impl End {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quiet => "no claims any more",
            Self::Recognised => "the offender is a peer",
            Self::Free => "the address is free",
            Self::Proxied => "only a proxy answers, for a host that does not answer itself",
            Self::Forgotten => "this node does not watch for it any more",
            Self::Turned => "this node is something else to the VIP now",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// A conflict begins, or a VIP is yielded again.
    Began {
        conflict: Conflict,
        sight: Sight,
    },
    NewOffender {
        conflict: Conflict,
        mac: MacAddr,
    },
    /// The sort of an offender is known.
    Named {
        conflict: Conflict,
        mac: MacAddr,
    },
    GoesOn {
        conflict: Conflict,
        /// Number of claims since the last line about the conflict.
        times: u64,
    },
    Ended {
        conflict: Conflict,
        why: End,
    },
    /// A peer's claims on a held VIP go on, so two hosts answer; or that is over.
    Doubled {
        conflict: Conflict,
    },
    /// More conflicts are open than the agent keeps.
    TooMany {
        /// Number of claims that belong to no conflict.
        times: u64,
    },
}

impl Line {
    pub fn is_shown(&self) -> bool {
        match self {
            Self::Began { conflict, .. }
            | Self::NewOffender { conflict, .. }
            | Self::Named { conflict, .. }
            | Self::GoesOn { conflict, .. }
            | Self::Ended { conflict, .. } => conflict.is_shown(),
            // Its end too.
            Self::Doubled { .. } => true,
            Self::TooMany { .. } => false,
        }
    }
}
