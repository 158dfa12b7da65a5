//! The means by which the death of a node is found, derived from all Leases.

use std::fmt;

use crate::records::{KeyId, LeaseRecord, Mode, Offer, Wid};

#[cfg(test)]
mod tests;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FoundBy {
    /// A quorum of its voters finds it unresponsive.
    Voters { names: Vec<String>, quorum: usize },
    /// Its Lease is not renewed.
    Lease(Slow),
}

/// Reason why only the Lease shows that a node is dead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Slow {
    /// Its Lease has no offer of the failure detector.
    NoPart,
    /// None of its keys is accepted by all living nodes on its segments.
    NoCommonKey,
    /// No other living node that takes part is on its segments.
    Alone,
    /// It answers for no VIP.
    NoVips,
    /// Its Lease states `off`, for a reason that only the node knows.
    Off,
    /// Too few of its monitors live.
    Dead { names: Vec<String>, living: usize, quorum: usize },
}

/// A node's Lease, and whether the node lives.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub lease: &'a LeaseRecord,
    /// True if it renews the Lease.
    pub lives: bool,
}

impl<'a> Seen<'a> {
    fn living_offer(&self) -> Option<&'a Offer> {
        self.lease.live_session().filter(|_| self.lives)?;
        self.lease.wire.as_ref()
    }
}

impl FoundBy {
    /// Returns the way in which the node of this Lease is found dead, by all Leases. `holds` is true if
    /// it answers for a VIP.
    pub fn of(lease: &LeaseRecord, holds: bool, all: &[Seen<'_>]) -> Self {
        let Some(offer) = &lease.wire else { return Self::Lease(Slow::NoPart) };
        if offer.mode == Mode::Notice {
            return Self::by_voters(offer, all);
        }
        let others = all.iter().filter(|seen| seen.lease.node != lease.node);
        let others: Vec<(&Seen<'_>, &Offer)> =
            others.filter_map(|seen| Some((seen, seen.living_offer()?))).collect();
        let is_near = |seen: &Seen<'_>| {
            let theirs = &seen.lease.interfaces;
            lease.interfaces.iter().any(|own| theirs.iter().any(|their| own.shares_a_segment(their)))
        };
        let is_common =
            |key: &KeyId| others.iter().all(|(seen, offer)| offer.keys.contains(key) || !is_near(seen));
        Self::Lease(if !offer.keys.iter().any(is_common) {
            Slow::NoCommonKey
        } else if !others.iter().any(|(seen, _)| is_near(seen)) {
            Slow::Alone
        } else if holds {
            Slow::Off
        } else {
            Slow::NoVips
        })
    }

    fn by_voters(offer: &Offer, all: &[Seen<'_>]) -> Self {
        let find = |wid: &Wid| {
            let is_one = |seen: &&Seen<'_>| seen.lease.wire.as_ref().is_some_and(|offer| offer.wid == *wid);
            all.iter().find(is_one)
        };
        let name = |wid| find(wid).map_or_else(|| wid.to_string(), |seen| seen.lease.node.to_string());
        let names: Vec<String> = offer.set.iter().map(name).collect();
        let quorum = offer.quorum();
        let living = offer.set.iter().filter(|wid| find(wid).and_then(Seen::living_offer).is_some()).count();
        if living < quorum {
            return Self::Lease(Slow::Dead { names, living, quorum });
        }
        Self::Voters { names, quorum }
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPart => "it takes no part in the failure detector (--wire off, --policy stop, or no key)",
            Self::NoCommonKey => "no key of it is accepted by all nodes on its segments",
            Self::Alone => "no other node with the failure detector is on its segments",
            Self::NoVips => "it answers for no VIP",
            Self::Off => "too few of the nodes that it invited ping it, or it has lost VIPs by false moves",
            Self::Dead { names, living, quorum } => {
                let names = names.join(", ");
                return write!(f, "{living} of its voters ({names}) live, and {quorum} must agree");
            }
        })
    }
}
