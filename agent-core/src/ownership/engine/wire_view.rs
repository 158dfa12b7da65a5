//! The engine's view of wire failover, for reports.

use serde::{Deserialize, Serialize};

use super::Engine;
use crate::{
    base::time::Monotonic,
    ownership::nodes::{Nodes, WireCounts},
    records::{Mode, Offer, Wid},
};

/// Reason why this node's session ends only when its Lease expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseOnly {
    NoKey,
    /// None of this node's keys is accepted by all living nodes on its segments.
    NoCommonKey,
    /// The monitor of this node does not run.
    NoThread,
    /// This node was expired twice although it lived.
    FalseMoves,
    /// Two false expiry notices for this node's session arrived.
    FalseEnds,
    /// This node answers for no VIP.
    NoVip,
    /// No other living node shares a segment with this one.
    Alone,
    TooFew,
}

impl LeaseOnly {
    pub const ALL: [Self; 8] = [
        Self::NoKey,
        Self::NoCommonKey,
        Self::NoThread,
        Self::FalseMoves,
        Self::FalseEnds,
        Self::NoVip,
        Self::Alone,
        Self::TooFew,
    ];

    /// Returns the name that every output uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoKey => "no_key",
            Self::NoCommonKey => "no_common_key",
            Self::NoThread => "no_thread",
            Self::FalseMoves => "false_moves",
            Self::FalseEnds => "false_ends",
            Self::NoVip => "no_vip",
            Self::Alone => "alone",
            Self::TooFew => "too_few",
        }
    }
}

/// Wire failover, as this node takes part in it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WireView {
    /// The factor of all times (`--wire`).
    pub scale: u32,
    /// Time without an answer after which a holder may count as unresponsive.
    pub unresponsive_after_seconds: f64,
    /// The number of this node as a monitor.
    pub wid: Option<String>,
    pub key: Option<u8>,
    /// The reason why no monitor may end this node's session. None if they may.
    pub quiet: Option<LeaseOnly>,
    /// The number of the configuration.
    pub round: u64,
    /// The monitors of this node.
    pub invited: Vec<String>,
    /// The voters among them.
    pub set: Vec<String>,
    /// The quorum: the number of voters that must find this node unresponsive.
    pub quorum: usize,
    /// Time until this node takes part again after false positives or false expiry notices.
    pub slow_for_seconds: Option<f64>,
    /// The interfaces without contact with peers that live. They count as without carrier.
    pub one_way: Vec<String>,
    /// The interfaces over which no peer answers although one lives there, one-way links included.
    /// This node takes no VIP there that is new or was another's.
    pub without_contact: Vec<String>,
    /// The nodes that this one pings.
    pub nodes: Vec<WireNodeView>,
}

/// A node that this one pings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WireNodeView {
    pub node: String,
    pub session: String,
    /// True if this node is its voter.
    pub watched: bool,
    /// True if it pings this node.
    pub pings: bool,
    /// True if it is unresponsive, and about to be expired.
    pub unresponsive: bool,
}

impl WireView {
    /// Returns the number of nodes whose voter this node is.
    pub fn watched(&self) -> usize {
        self.nodes.iter().filter(|node| node.watched).count()
    }
}

impl Nodes {
    fn node_of(&self, wid: Wid) -> String {
        let node = self.partners().find(|(.., offer)| offer.wid == wid);
        node.map_or_else(|| wid.to_string(), |(name, ..)| name.to_string())
    }
}

impl Engine {
    pub fn wire_counts(&self) -> WireCounts {
        self.nodes.wire.counts
    }

    /// Returns the view of wire failover, or none if this node takes no part.
    pub fn wire_view(&self, now: Monotonic) -> Option<WireView> {
        let wire = &self.nodes.wire;
        let scale = wire.scale?;
        let said = wire.said();
        let names = |wids: &[Wid]| wids.iter().map(|wid| self.nodes.node_of(*wid)).collect();
        let nodes = wire.plan.peers.iter().map(|peer| WireNodeView {
            node: peer.node.to_string(),
            session: peer.session.to_string(),
            watched: peer.watched.is_some(),
            pings: wire.pings(peer.wid) == Some(true),
            unresponsive: wire.suspects.has(&peer.node),
        });
        let slow = wire.slow_until().map(|until| until.saturating_since(now)).filter(|left| !left.is_zero());
        let interfaces = self.nodes.own.interfaces.iter();
        let without_contact = interfaces.filter(|interface| self.nodes.lacks_contact(interface, now));
        Some(WireView {
            scale: scale.factor(),
            unresponsive_after_seconds: scale.suspect().as_secs_f64(),
            wid: wire.wid.map(|wid| wid.to_string()),
            key: wire.key.map(|key| key.0),
            quiet: self.quiet(said, now),
            round: said.map_or(0, |offer| offer.round),
            invited: said.map(|offer| names(&offer.invited)).unwrap_or_default(),
            set: said.map(|offer| names(&offer.set)).unwrap_or_default(),
            quorum: said.filter(|offer| offer.mode == Mode::Notice).map_or(0, Offer::quorum),
            slow_for_seconds: slow.map(|left| left.as_secs_f64()),
            one_way: wire.contacts.one_way().map(ToString::to_string).collect(),
            without_contact: without_contact.map(|interface| interface.name.to_string()).collect(),
            nodes: nodes.collect(),
        })
    }

    fn quiet(&self, said: Option<&Offer>, now: Monotonic) -> Option<LeaseOnly> {
        let wire = &self.nodes.wire;
        if wire.wid.is_none() {
            Some(LeaseOnly::NoThread)
        } else if wire.keys.is_empty() {
            Some(LeaseOnly::NoKey)
        } else if wire.is_mute(now) {
            Some(LeaseOnly::FalseEnds)
        } else if wire.key.is_none() {
            Some(LeaseOnly::NoCommonKey)
        } else if wire.is_slow(now) {
            Some(LeaseOnly::FalseMoves)
        } else if said.is_some_and(|offer| offer.mode == Mode::Notice) {
            None
        } else if !self.answers_for_any() {
            Some(LeaseOnly::NoVip)
        } else if self.nodes.on_segments(now) == 0 {
            Some(LeaseOnly::Alone)
        } else {
            Some(LeaseOnly::TooFew)
        }
    }
}
