//! Which nodes can hold a VIP, and which of them comes first.

use std::{cmp::Reverse, collections::BTreeSet, net::Ipv4Addr, sync::Arc};

use super::{Demand, Disqualified, Engine, members::Member};
use crate::core::{
    cluster::{Holder, NodeLink, NodeName, NodeRecord, ServiceName},
    config::InterfacePattern,
    pace::mix,
    time::Monotonic,
};

/// The label that keeps a node from holding VIPs.
const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Nodes that are named when people are told why none can hold a VIP.
const MOST_NAMED: usize = 32;

/// A node that can hold a VIP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) holder: Holder,
    /// Set when others should rather have it.
    pub(super) soft: Option<Disqualified>,
    /// When all others know its MAC.
    pub(super) known_at: Monotonic,
}

/// The order in which candidates come; the least is the best.
type Rank<'a> = (bool, bool, Reverse<u64>, &'a NodeName);

/// The weight of a node for a key (rendezvous hashing): the same on every node and in every version. FNV-1a, mixed.
pub(super) fn weight(node: &str, key: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let hashed = node
        .as_bytes()
        .iter()
        .chain(&[0])
        .chain(key)
        .fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    mix(hashed)
}

/// The interface on a VIP's segment: of the longest subnet that contains it; an interface that is named need not have one.
fn link_for<'a>(links: &'a [NodeLink], vip: Ipv4Addr, named: &[InterfacePattern]) -> Option<&'a NodeLink> {
    let allowed =
        |link: &&NodeLink| named.is_empty() || named.iter().any(|pattern| pattern.matches(&link.name));
    let longest = |link: &NodeLink| {
        link.subnets.iter().filter(|net| net.contains(&vip)).map(ipnet::Ipv4Net::prefix_len).max()
    };
    // The first of the best, which is the one that the kernel's routes prefer.
    let by_subnet = links
        .iter()
        .filter(allowed)
        .filter_map(|link| Some((longest(link)?, link)))
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .map(|(_, link)| link);
    by_subnet.or_else(|| links.iter().filter(allowed).find(|_| !named.is_empty()))
}

impl Engine {
    /// Our interface on a VIP's segment.
    pub(super) fn home(&self, vip: Ipv4Addr, demand: Option<&Demand>) -> Option<&NodeLink> {
        link_for(&self.links, vip, demand.map(|demand| demand.interfaces.as_slice()).unwrap_or_default())
    }

    /// Whether a node can hold a VIP, or the first reason why not.
    pub(super) fn standing(
        &self,
        name: &NodeName,
        vip: Ipv4Addr,
        demand: &Demand,
        now: Monotonic,
    ) -> Result<Candidate, Disqualified> {
        let is_ours = *name == self.settings.node;
        let member = self.members.get(name);
        let lease = member.and_then(|member| member.lease.as_ref());
        let session = if is_ours { self.own.session() } else { member.and_then(Member::session) };
        let session = session.ok_or(Disqualified::NoAgent)?;
        if !self.is_alive(name, now) {
            return Err(Disqualified::Silent);
        }
        if is_ours && self.is_leaving() || !is_ours && member.is_some_and(Member::is_leaving) {
            return Err(Disqualified::Leaving);
        }
        let node = member.and_then(|member| member.node.as_ref()).ok_or(Disqualified::NoNode)?;
        let links = if is_ours {
            &self.links
        } else {
            lease.map(|lease| &lease.links).ok_or(Disqualified::NoAgent)?
        };
        let Some(link) = link_for(links, vip, &demand.interfaces) else {
            return Err(match link_for(links, vip, &[]) {
                Some(link) => Disqualified::InterfaceNotNamed { interface: Arc::clone(&link.name) },
                None => Disqualified::NoInterface,
            });
        };
        if !link.carrier {
            return Err(Disqualified::NoCarrier { interface: Arc::clone(&link.name) });
        }
        self.check_node(node, demand)?;
        let since = if is_ours {
            self.own.mac_since(link.mac)
        } else {
            member.and_then(|member| member.mac_since(link.mac))
        };
        let known_at = since.map_or(Monotonic::from_nanos(u64::MAX), |since| since + self.rest());
        let holder = Holder { node: name.clone(), session, mac: link.mac, interface: Arc::clone(&link.name) };
        let soft = if node.cordoned {
            Some(Disqualified::Cordoned)
        } else if node.ready {
            None
        } else {
            Some(Disqualified::NotReady)
        };
        Ok(Candidate { holder, soft, known_at })
    }

    /// What is known of the node itself.
    fn check_node(&self, node: &NodeRecord, demand: &Demand) -> Result<(), Disqualified> {
        if self.settings.honour_exclude_label && node.labels.contains_key(EXCLUDE_LABEL) {
            return Err(Disqualified::Excluded);
        }
        if node.out_of_service {
            return Err(Disqualified::OutOfService);
        }
        if node.network_unavailable {
            return Err(Disqualified::NetworkUnavailable);
        }
        if demand.local.as_ref().is_some_and(|local| !local.contains(&node.name)) {
            return Err(Disqualified::NoLocalEndpoint);
        }
        if demand.nodes.as_ref().is_some_and(|selector| !selector.matches(&node.labels)) {
            return Err(Disqualified::NotSelected);
        }
        Ok(())
    }

    /// The nodes that can hold a VIP, the best first.
    pub(super) fn candidates(&self, vip: Ipv4Addr, demand: &Demand, now: Monotonic) -> Vec<Candidate> {
        let standing = |name| self.standing(name, vip, demand, now).ok();
        let mut candidates: Vec<Candidate> = self.members.keys().filter_map(standing).collect();
        candidates.sort_by(|one, other| self.rank(one, vip, demand).cmp(&self.rank(other, vip, demand)));
        candidates
    }

    fn rank<'a>(&self, candidate: &'a Candidate, vip: Ipv4Addr, demand: &Demand) -> Rank<'a> {
        let name = &candidate.holder.node;
        let labels = self.members.get(name).and_then(|member| member.node.as_ref()).map(|node| &node.labels);
        let is_preferred = demand
            .preferred
            .as_ref()
            .is_none_or(|selector| labels.is_some_and(|labels| selector.matches(labels)));
        let weight = weight(name.as_str(), &vip.octets());
        (candidate.soft.is_some(), !is_preferred, Reverse(weight), name)
    }

    /// Each node and what it is to the VIP, for people.
    pub(super) fn explain(&self, vip: Ipv4Addr, demand: &Demand, now: Monotonic) -> String {
        let lines =
            self.members.iter().filter(|(_, member)| member.node.is_some()).map(|(name, _)| {
                match self.standing(name, vip, demand, now) {
                    Ok(candidate) => match candidate.soft {
                        Some(soft) => format!("{name}: can hold it, but {soft}"),
                        None if candidate.known_at > now => format!("{name}: {}", Disqualified::NewMac),
                        None => format!("{name}: can hold it"),
                    },
                    Err(disqualified) => format!("{name}: {disqualified}"),
                }
            });
        let mut lines: Vec<String> = lines.collect();
        let more = lines.len().saturating_sub(MOST_NAMED);
        lines.truncate(MOST_NAMED);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        if lines.is_empty() { "there is no Node".to_owned() } else { lines.join("; ") }
    }

    /// Each Node and whether it can hold a VIP, with what speaks against it. A node that has just begun to look takes every one
    /// with a session for alive.
    pub fn survey(
        &self,
        vip: Ipv4Addr,
        demand: &Demand,
        now: Monotonic,
    ) -> Vec<(NodeName, Result<Option<Disqualified>, Disqualified>)> {
        let nodes = self.members.iter().filter(|(_, member)| member.node.is_some());
        let standing = |name| self.standing(name, vip, demand, now).map(|candidate| candidate.soft);
        nodes.map(|(name, _)| (name.clone(), standing(name))).collect()
    }

    /// Whether this node is the one that tells people about a VIP that nobody holds.
    pub(super) fn is_reporter(&self, vip: Ipv4Addr, now: Monotonic) -> bool {
        let weight = |name: &NodeName| (weight(name.as_str(), &vip.octets()), name.clone());
        let ours = weight(&self.settings.node);
        self.own.is_valid(now)
            && self.members.keys().filter(|name| self.is_alive(name, now)).all(|name| weight(name) <= ours)
    }

    /// The nodes whose Leases are alive, this one included; none while this node cannot know.
    pub fn alive(&self, now: Monotonic) -> BTreeSet<NodeName> {
        if !self.own.is_valid(now) {
            return BTreeSet::new();
        }
        let others = self.members.keys().filter(|name| self.is_alive(name, now));
        others.chain([&self.settings.node]).cloned().collect()
    }

    /// The Services that want a VIP.
    pub fn services_of(&self, vip: Ipv4Addr) -> &[ServiceName] {
        let demand = self.vips.get(&vip).and_then(|vip| vip.demand.as_ref());
        demand.map(|demand| demand.services.as_slice()).unwrap_or_default()
    }

    /// The node that a VIP's claim names, whatever has become of it.
    pub fn claimed_by(&self, vip: Ipv4Addr) -> Option<&NodeName> {
        self.vips.get(&vip)?.claim.as_ref()?.state.holder().map(|holder| &holder.node)
    }
}
