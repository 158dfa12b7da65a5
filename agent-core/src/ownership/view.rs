//! Knowledge of the engine, for metrics and for people who look
//! for a fault. No decision rests on it.

use std::{net::Ipv4Addr, time::Duration};

use serde::Serialize;
use vipward_common::MacAddr;

use super::{Engine, Entry, Vip, handing::Handing, vip::Busy};
use crate::{
    cluster::{ClaimState, Epoch, NodeName, Session},
    conflict::Right,
    time::Monotonic,
};

/// Summary of a VIP that Services want.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VipSummary {
    /// The VIP.
    pub vip: Ipv4Addr,
    /// Number of changes of its holder so far.
    pub epoch: Epoch,
    /// True if its claim names a node that lives.
    pub has_holder: bool,
}

/// Value of a claim that names a holder, as far as this node knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// The claim names this node in its present session.
    Here {
        /// True if the session has taken the VIP.
        taken: bool,
    },
    /// The claim names a session that is over, and this node is the one to report that.
    Ended(NodeName),
}

/// Knowledge of the engine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct View {
    /// This node's session.
    pub session: Option<String>,
    /// Sessions of this node that are over.
    pub ended: Vec<String>,
    /// Time until the fence's deadline, by the last renewal; 0 if it has passed.
    pub fence_left_seconds: f64,
    /// Time since the last successful renewal was sent.
    pub renewed_seconds_ago: Option<f64>,
    /// True if a write or read of this node's Lease is under way.
    pub renewing: bool,
    /// Reason why the agent is to end, if it is.
    pub stopping: Option<String>,
    /// VIPs whose claims are read before the program learns that the fence is valid again.
    pub doubted: Vec<Ipv4Addr>,
    /// Number of VIPs without a claim that are being taken.
    pub creating: usize,
    /// Number of VIPs that wait for room to be taken.
    pub crowded_out: usize,
    /// The other nodes' MACs.
    pub peers: Vec<String>,
    /// All nodes.
    pub nodes: Vec<NodeView>,
    /// All VIPs.
    pub vips: Vec<VipView>,
}

/// A node.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NodeView {
    /// Its name.
    pub node: String,
    /// The session that its Lease carries.
    pub session: Option<String>,
    /// True if it lives, as far as this node can see.
    pub alive: bool,
    /// Time since a change of its Lease was last seen.
    pub seen_seconds_ago: f64,
    /// Validity of a renewal of its Lease.
    pub lease_seconds: Option<f64>,
    /// True if it leaves.
    pub leaving: bool,
    /// Its interfaces: name, MAC, carrier.
    pub links: Vec<String>,
    /// True if there is a Node object of this name.
    pub has_node: bool,
}

/// A VIP.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VipView {
    /// The VIP.
    pub vip: Ipv4Addr,
    /// `held`, `offered`, `released` or `blank`. None without a claim.
    pub claim: Option<&'static str>,
    /// The node that the claim names.
    pub holder: Option<String>,
    /// The session that the claim names.
    pub session: Option<String>,
    /// Number of changes of holder so far.
    pub epoch: u64,
    /// The version of the claim's object.
    pub version: Option<String>,
    /// The epoch in which this node holds it.
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
    /// Time until the next evaluation.
    pub due_in_seconds: Option<f64>,
    /// True if a Service wants it.
    pub wanted: bool,
}

impl Engine {
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
    pub fn said_of(&self, vip: Ipv4Addr, now: Monotonic) -> Option<(Session, Said)> {
        let known = self.vips.get(&vip).filter(|known| known.demand.is_some())?;
        let ClaimState::Held(holder) = &known.claim.as_ref()?.state else { return None };
        let session = holder.session;
        if holder.node == self.settings.node && self.own.session() == Some(session) {
            return Some((session, Said::Here { taken: known.is_held() }));
        }
        let is_ours_to_tell = self.has_ended(&holder.node, session, now) && self.is_reporter(vip, now);
        is_ours_to_tell.then(|| (session, Said::Ended(holder.node.clone())))
    }

    /// Returns the VIPs whose claims name this node in its present session.
    pub fn claimed_here(&self) -> impl Iterator<Item = Ipv4Addr> {
        let own = self.own.session().map(|session| (self.settings.node.clone(), session));
        let claimed = own.and_then(|own| self.claimed.get(&own));
        claimed.into_iter().flat_map(|claimed| claimed.vips.iter().copied())
    }

    /// Returns the VIPs whose claims name sessions that are over.
    pub fn left_behind(&self, now: Monotonic) -> impl Iterator<Item = Ipv4Addr> {
        let ended =
            self.claimed.iter().filter(move |((node, session), _)| self.has_ended(node, *session, now));
        ended.flat_map(|(_, claimed)| claimed.vips.iter().copied())
    }

    fn has_holder(&self, vip: &Vip, now: Monotonic) -> bool {
        let holder = vip.claim.as_ref().and_then(|claim| claim.state.holder());
        // Under `hold` a node goes on answering while it cannot renew. This
        // node must not report that no node answers.
        holder.is_some_and(|holder| {
            !self.has_ended(&holder.node, holder.session, now)
                && (!self.own.is_valid(now) || self.is_alive(&holder.node, now))
        })
    }

    /// Returns the right of a peer's MAC to announce a VIP, as far as this node has read.
    pub fn right(&self, vip: Ipv4Addr, mac: MacAddr, now: Monotonic) -> Right {
        let known = self.vips.get(&vip);
        let named = known.and_then(|vip| vip.claim.as_ref()?.state.holder());
        let epoch = known.map(|vip| vip.epoch()).unwrap_or_default();
        if named.is_some_and(|holder| holder.mac == mac) {
            Right::Given
        } else if !self.synced || !self.own.is_valid(now) {
            Right::Unknown(epoch)
        } else if known.is_none_or(|vip| vip.demand.is_none()) {
            Right::Given
        } else {
            Right::NotGiven(epoch)
        }
    }

    /// Returns everything that the engine knows.
    pub fn view(&self, now: Monotonic) -> View {
        let (creating, crowded_out) = self.pacing.creating();
        View {
            session: self.own.session().map(|session| session.to_string()),
            ended: self.own.ended().iter().map(ToString::to_string).collect(),
            fence_left_seconds: self.own.deadline().saturating_since(now).as_secs_f64(),
            renewed_seconds_ago: self.own.renewed_at().map(|at| seconds(now.saturating_since(at))),
            renewing: self.own.is_renewing(),
            stopping: self.stop_reason().map(|reason| format!("{reason:?}").to_lowercase()),
            doubted: self.doubt.vips().collect(),
            creating,
            crowded_out,
            peers: self.peers.iter().flatten().map(ToString::to_string).collect(),
            nodes: self.members.keys().filter_map(|name| self.node_view(name, now)).collect(),
            vips: self.vips.iter().map(|(address, vip)| vip_view(*address, vip, now)).collect(),
        }
    }

    fn node_view(&self, name: &NodeName, now: Monotonic) -> Option<NodeView> {
        let member = self.members.get(name)?;
        let links = member.lease.iter().flat_map(|lease| &lease.links).map(|link| {
            let carrier = if link.carrier { "carrier" } else { "no carrier" };
            format!("{} {} {carrier}", link.name, link.mac)
        });
        Some(NodeView {
            node: name.to_string(),
            session: member.session().map(|session| session.to_string()),
            alive: self.is_alive(name, now),
            seen_seconds_ago: seconds(now.saturating_since(member.last_seen())),
            lease_seconds: member.lease.as_ref().map(|lease| seconds(lease.duration)),
            leaving: member.is_leaving(),
            links: links.collect(),
            has_node: member.node.is_some(),
        })
    }
}

fn vip_view(address: Ipv4Addr, vip: &Vip, now: Monotonic) -> VipView {
    let claim = vip.claim.as_ref();
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
        held_in_epoch: vip.held.map(|epoch| epoch.0),
        entry: vip.entry.flatten().map(|entry| match entry {
            Entry::Held => "held".to_owned(),
            Entry::Foreign { mac } if mac.is_zero() => "foreign".to_owned(),
            Entry::Foreign { mac } => format!("foreign at {mac}"),
            Entry::Handover { mac, .. } => format!("handover to {mac}"),
        }),
        pending: vip.busy.as_ref().map(|busy| match busy {
            Busy::Hold(..) => "hold",
            Busy::Offer => "offer",
            Busy::Update => "update",
            Busy::Free => "free",
            Busy::Delete => "delete",
            Busy::Read => "read",
        }),
        unread: vip.unread,
        disputed: vip.disputed,
        handover_to: vip.handing.as_ref().map(|handing| Handing::successor(handing).to_string()),
        due_in_seconds: vip.due.map(|due| seconds(due.saturating_since(now))),
        wanted: vip.demand.is_some(),
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
