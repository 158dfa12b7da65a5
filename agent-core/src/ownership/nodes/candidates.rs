//! Nodes that can hold a VIP, and their order.

use std::{cmp::Reverse, collections::BTreeMap, net::IpAddr, sync::Arc};

use super::{
    Nodes,
    eligibility::{Disqualified, NodeFacts, eligibility, weight},
    member::Member,
};
use crate::{
    base::{address, legible::named_within, time::Monotonic},
    host::interfaces::interface_for,
    records::{Demand, Holder, NodeInterface, NodeName},
};

/// Largest number of nodes that a message names if none can hold a VIP.
const MOST_NAMED: usize = 12;
/// Largest length of their reasons in bytes: an Event takes 1,024, and the remedy follows.
const MOST_BYTES: usize = 640;

/// A node that can hold a VIP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    pub(crate) holder: Holder,
    /// A soft reason against it, if there is one.
    pub(crate) soft: Option<Disqualified>,
    /// Time at which all other nodes know its MAC.
    pub(crate) known_at: Monotonic,
    /// The weight of its node and interface among those that are preferred.
    preference: i64,
}

impl Candidate {
    /// Returns true if there is so much less against it than against another node that a VIP moves at once.
    /// To a cordoned node, which is about to be drained, no VIP is rushed from one that is not ready: that may
    /// pass in seconds, and each move ends connections.
    pub(crate) fn is_sounder_than(&self, other: &Self) -> bool {
        let is_rash =
            matches!((&self.soft, &other.soft), (Some(Disqualified::Cordoned), Some(Disqualified::NotReady)));
        !is_rash && Disqualified::severity(self.soft.as_ref()) < Disqualified::severity(other.soft.as_ref())
    }
}

/// Place of a candidate in the order. The least place is the best.
type Rank<'a> = (u8, Vec<bool>, Reverse<i64>, bool, Reverse<u64>, &'a NodeName);

impl Nodes {
    /// Returns this node's interface on a VIP's segment.
    pub(crate) fn home(&self, vip: IpAddr, demand: Option<&Demand>) -> Option<&NodeInterface> {
        let interfaces = &self.own.interfaces;
        match demand {
            Some(demand) => demand.interface(interfaces, vip, self.labels(&self.settings.node)),
            None => interface_for(interfaces, vip, &[], |_| true),
        }
    }

    fn labels(&self, name: &NodeName) -> Option<&BTreeMap<String, String>> {
        self.member(name).and_then(|member| member.node.as_ref()).map(|node| &node.labels)
    }

    /// Returns a node as a candidate for a VIP. Fails with the
    /// first reason why it cannot hold the VIP.
    pub(crate) fn candidate(
        &self,
        name: &NodeName,
        vip: IpAddr,
        demand: &Demand,
        now: Monotonic,
    ) -> Result<Candidate, Disqualified> {
        self.assess(name, (vip, demand), false, now)
    }

    /// Returns a node as a candidate. If it `keeps` the VIP, its proxy is only a soft reason.
    fn assess(
        &self,
        name: &NodeName,
        (vip, demand): (IpAddr, &Demand),
        keeps: bool,
        now: Monotonic,
    ) -> Result<Candidate, Disqualified> {
        let is_own = *name == self.settings.node;
        let member = self.member(name);
        let (session, leaving, interfaces, proxy) = if is_own {
            let own = &self.own;
            (own.session(), own.is_leaving(), own.interfaces.as_slice(), own.proxy.as_ref())
        } else {
            let lease = member.and_then(|member| member.lease.as_ref());
            let interfaces = lease.map(|lease| lease.interfaces.as_slice()).unwrap_or_default();
            let proxy = lease.and_then(|lease| lease.proxy.as_ref());
            (member.and_then(Member::session), member.is_some_and(Member::is_leaving), interfaces, proxy)
        };
        let node = member.and_then(|member| member.node.as_ref());
        let facts = NodeFacts {
            exists: is_own || node.is_some(),
            session,
            alive: self.is_alive(name, now),
            leaving,
            interfaces,
            node,
            proxy,
            keeps,
        };
        let able = eligibility(&facts, vip, demand, self.settings.honour_exclude_label)?;
        let since = if is_own {
            self.own.mac_since(able.interface.mac)
        } else {
            member.and_then(|member| member.mac_since(able.interface.mac))
        };
        let known_at = since.map_or(Monotonic::from_nanos(u64::MAX), |since| since + self.rest());
        let holder = Holder {
            node: name.clone(),
            session: able.session,
            mac: able.interface.mac,
            interface: Arc::clone(&able.interface.name),
        };
        let preference = self.labels(name).map_or(0, |labels| match (&demand.preferred, &demand.policy) {
            (Some(selector), _) => i64::from(selector.matches(labels)),
            (None, Some(policy)) => policy.preference(able.interface.names(), labels),
            (None, None) => 0,
        });
        Ok(Candidate { holder, soft: able.soft, known_at, preference })
    }

    /// Returns this node, which has the VIP or is to have it, as a candidate.
    pub(crate) fn own_candidate(
        &self,
        vip: IpAddr,
        demand: &Demand,
        now: Monotonic,
    ) -> Result<Candidate, Disqualified> {
        self.assess(&self.settings.node, (vip, demand), true, now)
    }

    /// Returns true if a node could hold a VIP, and waits for its proxy.
    pub(crate) fn awaits_proxy(&self, vip: IpAddr, demand: &Demand, now: Monotonic) -> bool {
        let waits = |name| {
            let found = self.candidate(name, vip, demand, now);
            matches!(found, Err(Disqualified::ProxyBehind { .. } | Disqualified::ProxyStarting))
        };
        self.iter().any(|(name, _)| waits(name))
    }

    /// Returns the nodes that can hold a VIP, the best first.
    pub(crate) fn candidates(&self, vip: IpAddr, demand: &Demand, now: Monotonic) -> Vec<Candidate> {
        let candidate = |(name, _)| self.candidate(name, vip, demand, now).ok();
        let mut candidates: Vec<Candidate> = self.iter().filter_map(candidate).collect();
        candidates.sort_by(|one, other| self.rank(one, vip, demand).cmp(&self.rank(other, vip, demand)));
        candidates
    }

    fn rank<'a>(&self, candidate: &'a Candidate, vip: IpAddr, demand: &Demand) -> Rank<'a> {
        let name = &candidate.holder.node;
        // Where no node serves all Services, the one that comes first has its traffic.
        let unserved = demand.besides.iter().map(|(_, reach)| !reach.has(name)).collect();
        let mut before = demand.together.iter().take_while(|other| **other != vip);
        let is_beside = before.find_map(|leader| self.leading(*leader)) == Some(name);
        let weight = weight(name.as_str(), address::octets(*demand.together.first().unwrap_or(&vip)));
        (
            Disqualified::severity(candidate.soft.as_ref()),
            unserved,
            Reverse(candidate.preference),
            !is_beside,
            Reverse(weight),
            name,
        )
    }

    /// Returns each node and the reason against it, with a remedy for the first, for messages.
    pub(crate) fn explain(&self, vip: IpAddr, demand: &Demand, now: Monotonic) -> String {
        let nodes = self.iter().filter(|(_, member)| member.node.is_some());
        let mut remedy = None;
        let lines = nodes.map(|(name, _)| match self.candidate(name, vip, demand, now) {
            Ok(candidate) => match candidate.soft {
                Some(soft) => format!("{name}: can hold it, but {soft}"),
                None if candidate.known_at > now => format!("{name}: {}", Disqualified::NewMac),
                None => format!("{name}: can hold it"),
            },
            Err(disqualified) => {
                remedy.get_or_insert_with(|| format!(". For {name}: {}", disqualified.remedy()));
                format!("{name}: {disqualified}")
            }
        });
        let mut lines: Vec<String> = lines.collect();
        let named = named_within(&lines, MOST_BYTES).min(MOST_NAMED);
        let more = lines.len() - named;
        lines.truncate(named);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        if lines.is_empty() {
            return "there is no Node".to_owned();
        }
        lines.join("; ") + &remedy.unwrap_or_default()
    }
}
