//! A claim object (`VirtualIP`).

use std::{net::IpAddr, sync::Arc};

use vipward_common::MacAddr;

use super::{Epoch, NodeName, Reservation, ServiceName, Session, Version};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    pub node: NodeName,
    /// The session in which it holds the VIP. The claim is valid while the node's Lease carries it.
    pub session: Session,
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

    pub fn named(&self) -> Option<(NodeName, Session)> {
        self.holder().map(|holder| (holder.node.clone(), holder.session))
    }

    /// Returns the sessions that the claim names: the holder's, and in an offer the offering
    /// node's. While one of them lives, its node may answer for the VIP.
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

/// A claim object (`VirtualIP`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRecord {
    pub vip: IpAddr,
    /// The uid of the object. Events about the VIP and objects that it owns name it.
    pub uid: Option<Arc<str>>,
    /// Its version. Every write changes it.
    pub version: Version,
    /// Its place in the order of the VIP's claims.
    pub epoch: Epoch,
    pub state: ClaimState,
    /// True if its deletion was requested. A finalizer of others keeps the object.
    pub deleting: bool,
    /// The node to which an operator wants to move the VIP.
    pub move_to: Option<NodeName>,
    /// True if an admin has the VIP taken even if its address is in use.
    pub force: bool,
    /// True if an admin wants the reservation of its address given up.
    pub release: bool,
    pub note: ClaimNote,
    /// The Service that a controller has reserved its address for. The agents let such an object be.
    pub reservation: Option<Box<Reservation>>,
    /// The nodes' findings that the object shows, if it shows any.
    pub shows: Option<Box<Shows>>,
}

impl ClaimRecord {
    /// Returns a claim that no agent has written.
    pub fn blank(vip: IpAddr, version: Version) -> Self {
        Self {
            vip,
            uid: None,
            version,
            epoch: Epoch::default(),
            state: ClaimState::Blank,
            deleting: false,
            move_to: None,
            force: false,
            release: false,
            note: ClaimNote::default(),
            reservation: None,
            shows: None,
        }
    }

    /// Returns true if another record makes the same claim: only what the object shows of it has changed.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let Self {
            vip,
            uid: _,
            version: _,
            epoch,
            state,
            deleting,
            move_to,
            force,
            release,
            note,
            reservation,
            shows: _,
        } = self;
        (*vip, *epoch, *deleting) == (other.vip, other.epoch, other.deleting)
            && (*force, *release) == (other.force, other.release)
            && (state, move_to, note, reservation)
                == (&other.state, &other.move_to, &other.note, &other.reservation)
    }
}

/// Remarks of a claim object, for users. One decision rests on them: the Services that have a VIP
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

/// The reason why no node answers for a VIP, as a claim object gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoAnswer {
    /// The condition's reason, for programs.
    pub word: String,
    /// The condition's message, for users.
    pub message: String,
}

/// The findings of nodes that a claim object shows to users.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shows {
    /// The conflict, as the text of a condition.
    pub conflict: Option<String>,
    /// The reason why no node answers.
    pub unanswered: Option<NoAnswer>,
    /// True if the object's parts do not fit each other, so that it must be written again.
    pub is_torn: bool,
}
