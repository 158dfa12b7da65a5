//! Records of the cluster's objects: Leases, claim objects and Nodes.
//!
//! A record is the state that this node last *read*, so it may be behind. Its
//! times are never compared with this node's clock.

mod labels;
mod selector;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, net::IpAddr, sync::Arc, time::Duration};

use ipnet::IpNet;
use vipward_common::MacAddr;

use crate::{pools::Reservation, wire::Offer};

pub use self::{
    labels::{Labels, ServiceLabels},
    selector::{Selector, SelectorError},
};

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
    /// Returns true if this version is certainly older. Resource versions of one kind
    /// are growing numbers (Kubernetes 1.35, KEP-5504).
    ///
    /// An older version means that the API server's store went back, that a list came from a cache, or
    /// that a watch has overtaken the answer to a request. In the first two cases the record is valid.
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

/// Life of a node's agent: a random number, never zero. A seamless restart does not change it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Session(u64);

impl Session {
    /// Returns the session with this number. Returns none for zero.
    pub const fn from_number(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// Returns the number that the pinned fence has.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Parses 16 hexadecimal digits, the format of [`fmt::Display`].
    /// Returns none for zero and for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        // `from_str_radix` accepts a sign.
        let is_number = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| is_number).and_then(Self::from_number)
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Number that orders a VIP's claims. It grows with each change of
/// holder, each offer, and the repair of an older claim.
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
    /// The subnets of its segment. If the interface has an address in a subnet,
    /// the address stands here with its prefix length.
    pub subnets: Vec<IpNet>,
    /// Its addresses that are one address (/32, /128) and that Vipward did not put there.
    pub bound: Vec<IpAddr>,
    /// The node's gateways in these subnets.
    pub gateways: Vec<IpAddr>,
    /// True if it is up and has carrier.
    pub carrier: bool,
}

/// Largest number of subnets in a Lease, over all its interfaces.
pub const MOST_SUBNETS: usize = 256;
/// Largest number of bound addresses, and of gateways, in a Lease, over all its interfaces.
pub const MOST_ADDRESSES: usize = 64;

/// The room that is left in a Lease for the lists of its interfaces.
#[derive(Debug)]
pub struct Room {
    subnets: usize,
    bound: usize,
    gateways: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { subnets: MOST_SUBNETS, bound: MOST_ADDRESSES, gateways: MOST_ADDRESSES }
    }
}

impl Room {
    /// Returns the interface with the part of its lists for which there is room.
    pub fn limit(&mut self, interface: NodeInterface) -> NodeInterface {
        NodeInterface {
            subnets: first(interface.subnets, &mut self.subnets),
            bound: first(interface.bound, &mut self.bound),
            gateways: first(interface.gateways, &mut self.gateways),
            ..interface
        }
    }
}

/// Returns the first values of a list, as many as there is room for.
fn first<T>(mut values: Vec<T>, room: &mut usize) -> Vec<T> {
    values.truncate(*room);
    *room -= values.len();
    values
}

/// Largest number of ended sessions in a Lease.
pub const MOST_ENDED: usize = 8;

/// A node's Lease: its heartbeat and its session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRecord {
    /// The node.
    pub node: NodeName,
    /// Its version. Every write changes it.
    pub version: Version,
    /// The node's session. None if the Lease is blank: it
    /// names no session of the node, or has no duration.
    pub session: Option<Session>,
    /// Sessions of the node that have ended, the latest last. The node itself
    /// ended them, or a candidate that deposed it.
    pub ended: Vec<Session>,
    /// Validity of one renewal.
    pub duration: Duration,
    /// Its interfaces.
    pub interfaces: Vec<NodeInterface>,
    /// True while the node leaves. It takes no more VIPs then.
    pub leaving: bool,
    /// Its offer of wire failover. None if it takes no part.
    pub wire: Option<Offer>,
}

impl LeaseRecord {
    /// Returns the node's live session: the one in the Lease, unless it has ended.
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
    /// The MAC of the VIP.
    pub mac: MacAddr,
    /// The name of the node's interface with that MAC.
    pub interface: Arc<str>,
}

/// State of a claim object: the VIP's holder or successor, if it has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimState {
    /// The named node holds the VIP. No other agent writes this.
    Held(Holder),
    /// The named node is to hold the VIP, and has not confirmed yet.
    Offered {
        /// The successor.
        to: Holder,
        /// The node that offers it, and its session. It goes on
        /// answering, and may take the VIP back.
        from: (NodeName, Session),
    },
    /// No node holds the VIP: the last holder released it, or there was none yet.
    Released,
    /// No node holds the VIP, and no agent wrote that.
    Blank,
}

impl ClaimState {
    /// Returns the holder that the claim names. In an offer, that is the successor.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Held(holder) | Self::Offered { to: holder, .. } => Some(holder),
            Self::Released | Self::Blank => None,
        }
    }

    /// Returns the node and session of that holder.
    pub fn named(&self) -> Option<(NodeName, Session)> {
        self.holder().map(|holder| (holder.node.clone(), holder.session))
    }

    /// Returns the sessions that the claim names: the holder's, and in an offer that of
    /// the node that offers. While one of them lives, its node may answer for the VIP.
    pub fn sessions(&self) -> Vec<(NodeName, Session)> {
        let from = match self {
            Self::Offered { to: _, from } => Some(from.clone()),
            Self::Held(_) | Self::Released | Self::Blank => None,
        };
        self.named().into_iter().chain(from).collect()
    }

    /// Returns the node that answers for the VIP by this
    /// claim. In an offer, that is still the node that offers.
    pub fn answering(&self) -> Option<&NodeName> {
        match self {
            Self::Held(holder) => Some(&holder.node),
            Self::Offered { to: _, from: (node, _) } => Some(node),
            Self::Released | Self::Blank => None,
        }
    }
}

/// Returns the name of a VIP's object: the address, of IPv6 with all digits of all groups, and with
/// `-` for `:`, which no name can have.
pub fn object_name(vip: IpAddr) -> String {
    match vip {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => v6.segments().map(|group| format!("{group:04x}")).join("-"),
    }
}

/// Returns the VIP whose object has this name. A VIP has one name only.
pub fn vip_named(name: &str) -> Option<IpAddr> {
    let vip = name.parse().ok().or_else(|| name.replace('-', ":").parse().ok())?;
    (object_name(vip) == name).then_some(vip)
}

/// A claim object (`VirtualIP`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRecord {
    /// The VIP.
    pub vip: IpAddr,
    /// Its version. Every write changes it.
    pub version: Version,
    /// Its place in the order of the VIP's claims.
    pub epoch: Epoch,
    /// Its state.
    pub state: ClaimState,
    /// True if its deletion was requested. The agents' finalizer keeps the object.
    pub deleting: bool,
    /// The node to which an operator wants to move the VIP.
    pub move_to: Option<NodeName>,
    /// True if an admin has the VIP taken even if its address is in use.
    pub force: bool,
    /// True if an admin wants the reservation of its address given up.
    pub release: bool,
    /// Its remarks for people.
    pub note: ClaimNote,
    /// The Service that a controller has reserved its address for. The agents let such an object be.
    pub reservation: Option<Box<Reservation>>,
}

impl ClaimRecord {
    /// Returns true if another record differs at most in the
    /// version. Then only fields outside the records have changed.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let Self { vip, version: _, epoch, state, deleting, move_to, force, release, note, reservation } =
            self;
        (*vip, *epoch, *deleting) == (other.vip, other.epoch, other.deleting)
            && (*force, *release) == (other.force, other.release)
            && (state, move_to, note, reservation)
                == (&other.state, &other.move_to, &other.note, &other.reservation)
    }
}

/// Remarks of a claim object, for people. One decision rests on them: the Services that have a VIP
/// keep their order of rights to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClaimNote {
    /// The Services that have this VIP, its owner first.
    pub services: Vec<ServiceName>,
    /// The cause of the VIP's place, in one sentence.
    pub cause: String,
    /// The reasons why the VIP is not at its wanted place, or at none, node by node.
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
