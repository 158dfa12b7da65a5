//! What the nodes of a cluster tell each other through the API server, and what they read there about themselves.
//!
//! All of it is what some node last *read*: it may be behind. Nothing here is compared with a clock of this node.

mod selector;

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
            /// The text itself.
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
    /// A `resourceVersion`: opaque, and compared for equality only.
    Version
}

impl Version {
    /// Whether it is certainly older: resource versions of one kind are growing numbers (Kubernetes 1.35, KEP-5504).
    /// Where they are none, nothing is known.
    pub fn is_older_than(&self, other: &Self) -> bool {
        let number = |version: &Self| version.as_str().parse::<u64>().ok();
        number(self).zip(number(other)).is_some_and(|(this, other)| this < other)
    }
}

/// A Service.
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

/// One life of a node's agent that others know of: random, never zero, and the same after a restart that was seamless.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Session(u64);

impl Session {
    /// The session of this number; none for zero.
    pub const fn from_number(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// The number, as the pinned fence has it.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok()).flatten().and_then(Self::from_number)
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// How many times a VIP's holder has changed; only grows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The one after a change of holder.
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

/// One of a node's interfaces that VIPs can be on, as its Lease tells the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeLink {
    /// Its name.
    pub name: Arc<str>,
    /// Its MAC.
    pub mac: MacAddr,
    /// The subnets of its segment; where it has an address in one, that address with its prefix length.
    pub subnets: Vec<Ipv4Net>,
    /// Whether it is up and has carrier.
    pub carrier: bool,
}

/// How many ended sessions a Lease remembers.
pub const MOST_ENDED: usize = 8;

/// A node's Lease: its heartbeat and its session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRecord {
    /// Whose it is.
    pub node: NodeName,
    /// Changes with every write.
    pub version: Version,
    /// The session that it carries; none when it is blank, or names something else than a session of this node.
    pub session: Option<Session>,
    /// Sessions of this node that have been ended, by itself or by a candidate that deposed it; the latest last.
    pub ended: Vec<Session>,
    /// How long one renewal is good for.
    pub duration: Duration,
    /// Its interfaces.
    pub links: Vec<NodeLink>,
    /// Whether it goes away, and takes nothing any more.
    pub leaving: bool,
}

/// Where a VIP is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The node.
    pub node: NodeName,
    /// The session in which it holds the VIP: the claim is good while the node's Lease carries it.
    pub session: Session,
    /// The MAC that the VIP is at.
    pub mac: MacAddr,
    /// The name of the node's interface with that MAC.
    pub interface: Arc<str>,
}

/// Who has a VIP, as its claim says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimState {
    /// This node, by its own write.
    Held(Holder),
    /// This node is to have it, and has not yet said that it knows.
    Offered {
        /// The successor.
        to: Holder,
        /// Who offers it, in which session: it answers on, and may take it back.
        from: (NodeName, Session),
    },
    /// Nobody, since its last holder let go of it, or since nobody had it yet.
    Released,
    /// Nobody, and nobody of ours has written that.
    Blank,
}

impl ClaimState {
    /// Whom the claim names.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Held(holder) | Self::Offered { to: holder, .. } => Some(holder),
            Self::Released | Self::Blank => None,
        }
    }
}

/// What a `VirtualIP` object says.
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
    /// Whether somebody has asked to delete the object, which our finalizer keeps.
    pub deleting: bool,
    /// The node that an operator wants it moved to.
    pub move_to: Option<NodeName>,
    /// What the object tells people.
    pub note: ClaimNote,
}

/// What a claim tells people; nothing is decided by it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClaimNote {
    /// The Services that have this VIP, sorted.
    pub services: Vec<ServiceName>,
    /// Why the VIP is where it is, in one sentence.
    pub cause: String,
    /// Set while the VIP is not where somebody wants it, or nowhere: why, node by node.
    pub trouble: Option<String>,
}

/// What a Node object says.
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
    /// Whether it is cordoned.
    pub cordoned: bool,
    /// Whether its condition Ready is True.
    pub ready: bool,
    /// Whether its condition `NetworkUnavailable` is True.
    pub network_unavailable: bool,
    /// Whether it has the taint `node.kubernetes.io/out-of-service`.
    pub out_of_service: bool,
}
