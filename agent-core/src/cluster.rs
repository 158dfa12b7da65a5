//! Records of the cluster's objects: Leases, claim objects and Nodes.
//!
//! A record is what this node last *read*, so it may be behind. Its times are never compared with
//! this node's clock.

mod selector;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, net::Ipv4Addr, sync::Arc, time::Duration};

use ipnet::Ipv4Net;
use vipward_common::MacAddr;

pub use self::selector::{Selector, SelectorError};

macro_rules! shared_text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

shared_text! {
    /// The name of a Node object.
    NodeName
}

shared_text! {
    /// A `resourceVersion`. Only [`Version::is_older_than`] orders it.
    Version
}

impl Version {
    /// Returns true if it is certainly older: resource versions of one kind are
    /// growing numbers (Kubernetes 1.35, KEP-5504).
    ///
    /// An older version means that the API server's store went back, or that a list
    /// came from a cache. The record is valid all the same.
    pub fn is_older_than(&self, other: &Self) -> bool {
        let number = |version: &Self| version.as_str().parse::<u64>().ok();
        number(self).zip(number(other)).is_some_and(|(this, other)| this < other)
    }
}

/// The name of a Service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServiceName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name there.
    pub name: Arc<str>,
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One life of a node's agent: random, never zero, and unchanged by a seamless restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Session(u64);

impl Session {
    /// Returns the session with this number; none for zero.
    pub const fn from_number(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// Returns the number, as the pinned fence has it.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Parses the format of [`fmt::Display`].
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok()).flatten().and_then(Self::from_number)
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Number of changes of a VIP's holder; only grows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Returns the epoch after one more change.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A node's interface that VIPs can be on, as its Lease lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeInterface {
    /// Its name.
    pub name: Arc<str>,
    /// Its MAC.
    pub mac: MacAddr,
    /// The subnets of its segment. Where it has an address in one, that address with its prefix
    /// length.
    pub subnets: Vec<Ipv4Net>,
    /// True if it is up and has carrier.
    pub carrier: bool,
}

/// Most ended sessions that a Lease lists.
pub const MOST_ENDED: usize = 8;

/// A node's Lease: its heartbeat and its session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRecord {
    /// The node.
    pub node: NodeName,
    /// Changes with every write.
    pub version: Version,
    /// Its session; none if it is blank, or names no session of the node.
    pub session: Option<Session>,
    /// Ended sessions of the node, ended by itself or by a candidate that deposed it; the latest
    /// last.
    pub ended: Vec<Session>,
    /// Validity of one renewal.
    pub duration: Duration,
    /// Its interfaces.
    pub links: Vec<NodeInterface>,
    /// Set while the node leaves: it takes no VIP any more.
    pub leaving: bool,
}

impl LeaseRecord {
    /// Returns the node's live session: the Lease's, unless it has been ended.
    pub fn live_session(&self) -> Option<Session> {
        self.session.filter(|session| !self.ended.contains(session))
    }
}

/// The holder of a VIP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The node.
    pub node: NodeName,
    /// The session in which it holds the VIP. The claim is valid while the node's Lease carries it.
    pub session: Session,
    /// The MAC that the VIP is at.
    pub mac: MacAddr,
    /// The name of the node's interface with that MAC.
    pub interface: Arc<str>,
}

/// State of a claim object: who has the VIP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimState {
    /// The named node, by its own write.
    Held(Holder),
    /// The named node is to have it, and has not confirmed yet.
    Offered {
        /// The successor.
        to: Holder,
        /// The node that offers it, and its session. It answers on, and may take the VIP back.
        from: (NodeName, Session),
    },
    /// No node: the last holder released it, or there was none yet.
    Released,
    /// No node, and no agent wrote that.
    Blank,
}

impl ClaimState {
    /// Returns the holder that the claim names, or its successor.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Held(holder) | Self::Offered { to: holder, .. } => Some(holder),
            Self::Released | Self::Blank => None,
        }
    }

    /// Returns the node and session that the claim names.
    pub fn named(&self) -> Option<(NodeName, Session)> {
        self.holder().map(|holder| (holder.node.clone(), holder.session))
    }

    /// Returns the sessions that the claim names. While one of them
    /// lives, its node may answer for the VIP.
    pub fn sessions(&self) -> Vec<(NodeName, Session)> {
        let from = match self {
            Self::Offered { to: _, from } => Some(from.clone()),
            Self::Held(_) | Self::Released | Self::Blank => None,
        };
        self.named().into_iter().chain(from).collect()
    }

    /// Returns the node that has answered for the VIP until now, as the claim says.
    pub fn answering(&self) -> Option<&NodeName> {
        match self {
            Self::Held(holder) => Some(&holder.node),
            Self::Offered { to: _, from: (node, _) } => Some(node),
            Self::Released | Self::Blank => None,
        }
    }
}

/// A claim object (`VirtualIP`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRecord {
    /// The VIP.
    pub vip: Ipv4Addr,
    /// Changes with every write.
    pub version: Version,
    /// Changes of holder so far.
    pub epoch: Epoch,
    /// Who has it.
    pub state: ClaimState,
    /// Set when its deletion was requested. The agents' finalizer keeps the object.
    pub deleting: bool,
    /// The node that an operator wants the VIP moved to.
    pub move_to: Option<NodeName>,
    /// Its remarks for people.
    pub note: ClaimNote,
}

impl ClaimRecord {
    /// Returns true if another record differs in nothing but the
    /// version: in fields that only others use.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let Self { vip, version: _, epoch, state, deleting, move_to, note } = self;
        (*vip, *epoch, *deleting) == (other.vip, other.epoch, other.deleting)
            && (state, move_to, note) == (&other.state, &other.move_to, &other.note)
    }
}

/// Remarks of a claim object for people. No decision rests on them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClaimNote {
    /// The Services that have this VIP, sorted.
    pub services: Vec<ServiceName>,
    /// Why the VIP is where it is, in one sentence.
    pub cause: String,
    /// Why the VIP is not where it is wanted, or nowhere, node by node.
    pub trouble: Option<String>,
}

/// A Node object.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the API's conditions, which are independent of each other"
)]
pub struct NodeRecord {
    /// Its name.
    pub name: NodeName,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// True if it is cordoned.
    pub cordoned: bool,
    /// True if its condition Ready is True.
    pub ready: bool,
    /// True if its condition `NetworkUnavailable` is True.
    pub network_unavailable: bool,
    /// True if it has the taint `node.kubernetes.io/out-of-service`.
    pub out_of_service: bool,
}
