//! Knowledge of the engine, for metrics, reports and the
//! search for faults. No decision of the engine rests on it.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use serde::Serialize;
use vipward_common::MacAddr;

use super::{Engine, wire_view::WireView};
use crate::{
    base::time::Monotonic,
    host::placement::Entry,
    ownership::{
        nodes::{Member, WireCounts},
        vip::{Busy, Commanded, Vip},
    },
    records::{ClaimRecord, ClaimState, Epoch, NodeInterface, NodeName, ServiceName, Session},
    segment::conflict::Right,
};

/// Summary of a VIP that Services want.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VipSummary {
    pub vip: IpAddr,
    /// Its place in the order of the VIP's claims.
    pub epoch: Epoch,
    /// True if its claim names a node that lives.
    pub has_holder: bool,
}

/// Value of a claim that names a holder, as far as this node knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HolderClaim {
    /// The claim names this node in its present session.
    Here {
        /// True if the session has taken the VIP.
        taken: bool,
    },
    /// The claim names a session that is over, and this node is the one to report that.
    Ended(NodeName),
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct View {
    pub session: Option<String>,
    /// Sessions of this node that are over.
    pub ended: Vec<String>,
    /// Time until the lease deadline, by the last renewal; 0 if it has passed.
    pub lease_deadline_left_seconds: f64,
    /// Time since the last successful renewal was sent.
    pub renewed_seconds_ago: Option<f64>,
    /// True if a write or read of this node's Lease is under way.
    pub renewing: bool,
    /// Reason why the agent is to end, if it is.
    pub stopping: Option<String>,
    /// VIPs whose claims are read before the program gets the new lease deadline.
    pub doubted: Vec<IpAddr>,
    /// Number of VIPs without a claim that are being taken.
    pub creating: usize,
    /// Number of new VIPs that are probed before, or that wait for room.
    pub crowded_out: usize,
    /// The other nodes' MACs.
    pub peers: Vec<String>,
    /// Wire failover. None if this node takes no part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireView>,
    pub wire_counts: WireCounts,
    pub nodes: Vec<NodeView>,
    pub vips: Vec<VipView>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NodeView {
    pub node: String,
    /// The session that its Lease carries, unless it has ended.
    pub session: Option<String>,
    /// True if it lives, as far as this node can see.
    pub alive: bool,
    /// Time since a change of its Lease was last seen.
    pub seen_seconds_ago: f64,
    /// Validity of a renewal of its Lease.
    pub lease_seconds: Option<f64>,
    pub leaving: bool,
    /// Its interfaces: name, MAC, carrier.
    pub interfaces: Vec<String>,
    /// True if there is a Node object of this name.
    pub has_node: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VipView {
    pub vip: IpAddr,
    /// `held`, `offered`, `released` or `blank`. None without a claim.
    pub claim: Option<&'static str>,
    /// The node that the claim names.
    pub holder: Option<String>,
    /// The session that the claim names.
    pub session: Option<String>,
    /// Its place in the order of the VIP's claims.
    pub epoch: u64,
    /// The version of the claim's object.
    pub version: Option<String>,
    pub held_in_epoch: Option<u64>,
    /// The entry of the last command.
    pub entry: Option<String>,
    /// The request about it that is under way.
    pub pending: Option<&'static str>,
    /// True if its claim must be read before a decision.
    pub unread: bool,
    /// True if the wire contradicts the claim.
    pub disputed: bool,
    /// The node to which it is being handed over.
    pub handover_to: Option<String>,
    pub due_in_seconds: Option<f64>,
    pub wanted: bool,
}

impl Engine {
    /// Returns the addresses of the other nodes' interfaces, as their Leases have them.
    pub fn peer_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let leases = self.nodes.others().filter_map(|(_, member)| member.lease.as_ref());
        leases.flat_map(|lease| &lease.interfaces).flat_map(NodeInterface::addresses)
    }

    /// Returns the VIPs that Services want.
    pub fn standings(&self, now: Monotonic) -> impl Iterator<Item = VipSummary> {
        self.vips.iter().filter(|(_, vip)| vip.demand.is_some()).map(move |(address, vip)| VipSummary {
            vip: *address,
            epoch: vip.epoch(),
            has_holder: self.has_holder(vip, now),
        })
    }

    /// Returns the session that a VIP's claim names, and its value. Returns none if another living
    /// node has the VIP, no node has it, or no Service wants it.
    pub fn holder_claim(&self, vip: IpAddr, now: Monotonic) -> Option<(Session, HolderClaim)> {
        let known = self.vips.get(&vip).filter(|known| known.demand.is_some())?;
        let ClaimState::Held(holder) = &known.claim.record.as_ref()?.state else { return None };
        let session = holder.session;
        if self.nodes.is_us(&holder.node, session) {
            return Some((session, HolderClaim::Here { taken: known.tenure.is_held() }));
        }
        let is_ours_to_notify =
            self.nodes.has_ended(&holder.node, session, now) && self.nodes.is_reporter(vip, now);
        is_ours_to_notify.then(|| (session, HolderClaim::Ended(holder.node.clone())))
    }

    /// Returns the VIPs whose claims name this node in its present session.
    pub fn claimed_here(&self) -> impl Iterator<Item = IpAddr> {
        let session = self.nodes.own.session();
        session.into_iter().flat_map(|session| self.nodes.claimed_in(&self.nodes.settings.node, session))
    }

    /// Returns the VIPs whose claims name sessions that are over.
    pub fn left_behind(&self, now: Monotonic) -> impl Iterator<Item = IpAddr> {
        let ended =
            self.nodes.claimed().filter(move |(node, session, _)| self.nodes.has_ended(node, *session, now));
        ended.flat_map(|(_, _, vips)| vips.iter().copied())
    }

    fn has_holder(&self, vip: &Vip, now: Monotonic) -> bool {
        let holder = vip.claim.record.as_ref().and_then(|claim| claim.state.holder());
        // Under `hold` a node goes on answering while it cannot renew. This
        // node must not report that no node answers.
        holder.is_some_and(|holder| {
            !self.nodes.has_ended(&holder.node, holder.session, now)
                && (!self.nodes.own.is_valid(now) || self.nodes.is_alive(&holder.node, now))
        })
    }

    /// Returns the right of a peer's MAC to announce a VIP, as far as this node has read.
    pub fn right(&self, vip: IpAddr, mac: MacAddr, now: Monotonic) -> Right {
        let known = self.vips.get(&vip);
        let named = known.and_then(|vip| vip.claim.record.as_ref()?.state.holder());
        let epoch = known.map(|vip| vip.epoch()).unwrap_or_default();
        if named.is_some_and(|holder| holder.mac == mac) {
            Right::Given
        } else if !self.synced || !self.nodes.own.is_valid(now) {
            Right::Unknown(epoch)
        } else if known.is_none_or(|vip| vip.demand.is_none()) {
            Right::Given
        } else {
            Right::NotGiven(epoch)
        }
    }

    /// Returns true if this node is the first to take a VIP, and probes its address.
    pub fn asks_first(&self, vip: IpAddr) -> bool {
        self.vips.get(&vip).is_some_and(|vip| vip.asking.first && vip.asking.known.is_being_probed())
    }

    /// Returns true if this node reports a VIP that no node can hold.
    pub fn reports_on(&self, vip: IpAddr, now: Monotonic) -> bool {
        self.vips.get(&vip).is_some_and(|vip| vip.waiting.unholdable.is_some())
            && self.nodes.is_reporter(vip, now)
    }

    /// Returns the nodes whose Leases are alive, this one included. Returns none once this node's
    /// own lease deadline has passed.
    pub fn alive(&self, now: Monotonic) -> BTreeSet<NodeName> {
        if !self.nodes.own.is_valid(now) {
            return BTreeSet::new();
        }
        let others = self.nodes.iter().map(|(name, _)| name).filter(|name| self.nodes.is_alive(name, now));
        others.chain([&self.nodes.settings.node]).cloned().collect()
    }

    /// Returns the nodes that have a Node object, and no session of an agent.
    pub fn without_agent(&self) -> Vec<&NodeName> {
        let is_one = |member: &Member| member.node.is_some() && member.session().is_none();
        self.nodes.iter().filter(|(_, member)| is_one(member)).map(|(name, _)| name).collect()
    }

    pub fn services_of(&self, vip: IpAddr) -> &[ServiceName] {
        self.vips.get(&vip).map(|vip| vip.services()).unwrap_or_default()
    }

    /// Returns a VIP's claim, as this process last read or wrote it.
    pub fn claim(&self, vip: IpAddr) -> Option<&ClaimRecord> {
        self.vips.get(&vip)?.claim.record.as_ref()
    }

    /// Returns the node that a VIP's claim names, dead or alive.
    pub fn claimed_by(&self, vip: IpAddr) -> Option<&NodeName> {
        self.claim(vip)?.state.holder().map(|holder| &holder.node)
    }

    /// Returns everything that the engine knows.
    pub fn view(&self, now: Monotonic) -> View {
        let (creating, crowded_out) = self.pacing.sizes();
        View {
            session: self.nodes.own.session().map(|session| session.to_string()),
            ended: self.nodes.own.ended().iter().map(ToString::to_string).collect(),
            lease_deadline_left_seconds: self
                .nodes
                .own
                .lease_deadline
                .deadline()
                .saturating_since(now)
                .as_secs_f64(),
            renewed_seconds_ago: self
                .nodes
                .own
                .lease_deadline
                .renewed_at()
                .map(|at| seconds(now.saturating_since(at))),
            renewing: self.nodes.own.is_renewing(),
            stopping: self.nodes.own.stop.map(|reason| format!("{reason:?}").to_lowercase()),
            doubted: self.doubt.vips().collect(),
            creating,
            crowded_out,
            peers: self.peers.iter().flatten().map(ToString::to_string).collect(),
            wire: self.wire_view(now),
            wire_counts: self.wire_counts(),
            nodes: self.nodes.iter().map(|(name, member)| self.node_view(name, member, now)).collect(),
            vips: self.vips.iter().map(|(address, vip)| vip_view(*address, vip, now)).collect(),
        }
    }

    fn node_view(&self, name: &NodeName, member: &Member, now: Monotonic) -> NodeView {
        let interfaces = member.lease.iter().flat_map(|lease| &lease.interfaces).map(|interface| {
            let carrier = if interface.carrier { "carrier" } else { "no carrier" };
            format!("{} {} {carrier}", interface.name, interface.mac)
        });
        NodeView {
            node: name.to_string(),
            session: member.session().map(|session| session.to_string()),
            alive: self.nodes.is_alive(name, now),
            seen_seconds_ago: seconds(now.saturating_since(member.seen)),
            lease_seconds: member.lease.as_ref().map(|lease| seconds(lease.duration)),
            leaving: member.is_leaving(),
            interfaces: interfaces.collect(),
            has_node: member.node.is_some(),
        }
    }
}

fn vip_view(address: IpAddr, vip: &Vip, now: Monotonic) -> VipView {
    let claim = vip.claim.record.as_ref();
    let holder = claim.and_then(|claim| claim.state.holder());
    VipView {
        vip: address,
        claim: claim.map(|claim| match claim.state {
            ClaimState::Held(_) => "held",
            ClaimState::Offered { .. } => "offered",
            ClaimState::Released => "released",
            ClaimState::Blank => "blank",
        }),
        holder: holder.map(|holder| holder.node.to_string()),
        session: holder.map(|holder| holder.session.to_string()),
        epoch: vip.epoch().0,
        version: claim.map(|claim| claim.version.to_string()),
        held_in_epoch: vip.tenure.held_in().map(|epoch| epoch.0),
        entry: match vip.commanded {
            Commanded::Nothing | Commanded::NoEntry => None,
            Commanded::Entry(Entry::Held) => Some("held".to_owned()),
            Commanded::Entry(Entry::Foreign { mac }) if mac.is_zero() => Some("foreign".to_owned()),
            Commanded::Entry(Entry::Foreign { mac }) => Some(format!("foreign at {mac}")),
            Commanded::Entry(Entry::Handover { mac, .. }) => Some(format!("handover to {mac}")),
        },
        pending: vip.requests.busy.as_ref().map(|busy| match busy {
            Busy::Hold(..) => "hold",
            Busy::Offer => "offer",
            Busy::Update => "update",
            Busy::Free => "free",
            Busy::Delete => "delete",
            Busy::Read => "read",
        }),
        unread: vip.requests.unread,
        disputed: vip.disputed,
        handover_to: vip.tenure.handover().map(|handover| handover.to.node.to_string()),
        due_in_seconds: vip.due.map(|due| seconds(due.saturating_since(now))),
        wanted: vip.demand.is_some(),
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
