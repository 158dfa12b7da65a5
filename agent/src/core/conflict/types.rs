//! What conflicts are made of, what is told about them, and what is asked for.

use std::time::Duration;

use vipward_common::{MacAddr, VipKey};

use crate::core::time::Monotonic;

/// How conflicts are dealt with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// What is done about a claim on a VIP that is held.
    pub defend: Defend,
    /// A conflict that has been quiet for so long is over.
    pub quiet: Duration,
}

/// What is done about a claim on a VIP that is held, besides dropping it. The VIP is given up in no case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Defend {
    /// Announced at once, and while claims come once per `DEFEND_INTERVAL` (RFC 5227, 2.4 c).
    #[default]
    Always,
    /// Announced when a conflict begins.
    Once,
    /// Nothing.
    Never,
}

/// What this node is to the VIP of a conflict.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum What {
    /// It holds the VIP.
    Held,
    /// It knows where the VIP is, and guards that.
    Guarded,
    /// It would hold the VIP, and found its address in use.
    InUse,
}

impl What {
    /// Its name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Guarded => "guarded",
            Self::InUse => "in_use",
        }
    }
}

/// One claim by a stranger, as it was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sight {
    /// The VIP and where it was claimed.
    pub key: VipKey,
    /// What this node is to it.
    pub what: What,
    /// sha: the MAC that the VIP is claimed for.
    pub mac: MacAddr,
    /// The Ethernet source, which a careful impostor makes another.
    pub source: MacAddr,
    /// oper of the frame.
    pub oper: u16,
    /// The MAC that the VIP is at; zero when nobody is known to have it.
    pub holder: MacAddr,
    /// How many claims this stands for: itself and those that the program did not tell.
    pub times: u64,
    /// When it came, by the program's clock; people are told later.
    pub at: Monotonic,
}

/// What the program has counted of one MAC's claims on one VIP, from the first that it remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The VIP and where it was claimed.
    pub key: VipKey,
    /// By whom, and how often.
    pub offender: Offender,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A stranger claims a VIP, or answers for one that was probed.
    Sighted(Sight),
    /// What [`Command::Count`] has asked for.
    Counted(Vec<Counted>),
    /// A MAC is a peer's, as has been learnt.
    Recognised {
        /// The interface that it is seen through.
        ifindex: u32,
        /// The MAC.
        mac: MacAddr,
    },
    /// An address that was in use is free.
    Free(VipKey),
    /// The VIP is nothing to this node any more, or has gone with its interface.
    Forgotten(VipKey),
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Announce the VIP, as often as the RFC allows.
    Defend(VipKey),
    /// Read what the program has counted; [`Event::Counted`] follows.
    Count,
    /// Tell people.
    Tell(Line),
}

/// A host that claims a VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offender {
    /// sha of its claims.
    pub mac: MacAddr,
    /// Ethernet source of the last one.
    pub source: MacAddr,
    /// oper of the last one.
    pub oper: u16,
    /// When its first claim in this conflict came.
    pub first: Monotonic,
    /// When its last one came.
    pub last: Monotonic,
    /// How many came.
    pub claims: u64,
}

/// A conflict about one VIP on one segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The VIP and where it is claimed.
    pub key: VipKey,
    /// What this node is to it.
    pub what: What,
    /// The MAC that the VIP is at; zero when nobody is known to have it.
    pub holder: MacAddr,
    /// When the first claim came.
    pub begun: Monotonic,
    /// When the last one came.
    pub last: Monotonic,
    /// How many came.
    pub claims: u64,
    /// Who takes part, in the order of their first claims.
    pub offenders: Vec<Offender>,
    /// Whether more take part than are told apart.
    pub more: bool,
    /// How often a defence was asked for.
    pub defences: u64,
}

/// Why a conflict is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// No claim came for long enough.
    Quiet,
    /// The offender is a peer.
    Recognised,
    /// The address is free.
    Free,
    /// The VIP is nothing to this node any more.
    Forgotten,
    /// It goes on, and this node is something else to the VIP.
    Turned,
}

impl End {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quiet => "no claims any more",
            Self::Recognised => "the offender is a peer",
            Self::Free => "the address is free",
            Self::Forgotten => "this node does not look for it any more",
            Self::Turned => "this node is something else to the VIP now",
        }
    }
}

/// What people are told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// A conflict begins.
    Began {
        /// It.
        conflict: Conflict,
        /// The claim that it begins with.
        sight: Sight,
    },
    /// Another MAC takes part.
    NewOffender {
        /// The conflict.
        conflict: Conflict,
        /// The MAC.
        mac: MacAddr,
    },
    /// It goes on.
    GoesOn {
        /// It.
        conflict: Conflict,
        /// Claims since the last line about it.
        times: u64,
    },
    /// It is over.
    Ended {
        /// It.
        conflict: Conflict,
        /// Why.
        why: End,
    },
    /// More conflicts at once than are told apart.
    TooMany {
        /// Claims that belong to none.
        times: u64,
    },
}
