//! `vipward status --cluster`: what claims and Leases together say, VIP by VIP and node by node.
//!
//! A Lease's age is by own observation: how long ago it was seen to change. Nobody's wall clock is compared.

use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};

use serde::{Serialize, Serializer};

use super::{
    cluster::{ClaimRecord, ClaimState, LeaseRecord, NodeName, Session, Version},
    time::Monotonic,
};

#[cfg(test)]
mod tests;

/// Moves that are shown.
const MOVES: usize = 10;

/// A claim, and what of its object only people read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The claim.
    pub record: ClaimRecord,
    /// When its holder last changed, by the clock of the node that wrote it.
    pub since: Option<String>,
    /// Who else claims the VIP on the segment.
    pub conflict: Option<String>,
}

/// Leases, as they were seen to change.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    leases: BTreeMap<NodeName, Seen>,
    began: Option<Monotonic>,
}

#[derive(Clone, Debug)]
struct Seen {
    record: LeaseRecord,
    version: Version,
    changed: Option<Monotonic>,
}

impl Observed {
    /// Takes note of a list of Leases that was read at `now`.
    pub fn see(&mut self, leases: Vec<LeaseRecord>, now: Monotonic) {
        let first = self.began.is_none();
        self.began.get_or_insert(now);
        let mut before = std::mem::take(&mut self.leases);
        for record in leases {
            let known = before.remove(&record.node);
            let changed = match &known {
                Some(known) if known.version == record.version => known.changed,
                None if first => None,
                Some(_) | None => Some(now),
            };
            let version = record.version.clone();
            self.leases.insert(record.node.clone(), Seen { record, version, changed });
        }
    }
}

/// What the cluster's records say.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Overview {
    /// The VIPs, by address.
    pub vips: Vec<VipRow>,
    /// The nodes that have a Lease, by name.
    pub nodes: Vec<NodeRow>,
    /// The VIPs whose holders changed last, the latest first.
    pub last_moves: Vec<MoveRow>,
}

/// What claim and Lease say of a VIP together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub enum VipState {
    /// The Lease of its holder carries the session of the claim.
    Held,
    /// It is being handed over.
    Offered,
    /// Its last holder let go of it.
    Released,
    /// Its claim names nobody.
    Nobody,
    /// The Lease of its holder carries another session, or none.
    SessionEnded,
    /// Its holder has no Lease.
    NoLease,
}

impl VipState {
    /// The name by which people and programs know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Offered => "offered",
            Self::Released => "released",
            Self::Nobody => "nobody",
            Self::SessionEnded => "session ended",
            Self::NoLease => "no lease",
        }
    }
}

/// By its name.
impl Serialize for VipState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A VIP.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VipRow {
    /// The VIP.
    pub address: Ipv4Addr,
    /// The node that its claim names.
    pub holder: Option<String>,
    /// What becomes of it.
    pub state: VipState,
    /// Who hands it over, while it is offered.
    pub offered_by: Option<String>,
    /// The MAC that it is at.
    pub mac: Option<String>,
    /// The holder's interface.
    pub interface: Option<String>,
    /// Changes of holder so far.
    pub epoch: u64,
    /// The Services that have it.
    pub services: Vec<String>,
    /// Who else claims it on the segment.
    pub conflict: Option<String>,
    /// Why it is not where it is wanted, or nowhere.
    pub trouble: Option<String>,
}

/// A node.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NodeRow {
    /// Its name.
    pub node: String,
    /// VIPs that it holds.
    pub vips: usize,
    /// The session that its Lease carries.
    pub session: Option<String>,
    /// How long ago its Lease was seen to change; when it was not, how long it was looked at.
    pub lease_age_seconds: f64,
    /// Whether it was seen to change.
    pub renewed: bool,
    /// How long one renewal is good for.
    pub lease_duration_seconds: f64,
    /// Whether the node goes away.
    pub leaving: bool,
}

/// A change of holder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MoveRow {
    /// When, by the clock of the node that wrote it.
    pub since: String,
    /// The VIP.
    pub address: Ipv4Addr,
    /// The node that has it since.
    pub holder: String,
    /// Why.
    pub cause: String,
}

/// What claims and Leases say at `now`.
pub fn overview(claims: &[Claim], observed: &Observed, now: Monotonic) -> Overview {
    let mut vips: Vec<_> = claims.iter().map(|claim| vip(claim, observed)).collect();
    vips.sort_by_key(|vip| vip.address);
    let nodes = observed.leases.values().map(|seen| node(seen, &vips, observed, now)).collect();
    let mut last_moves: Vec<_> = claims.iter().filter_map(moved).collect();
    // Times of this form sort as text.
    last_moves.sort_by(|a, b| (&b.since, a.address).cmp(&(&a.since, b.address)));
    last_moves.truncate(MOVES);
    Overview { vips, nodes, last_moves }
}

fn vip(claim: &Claim, observed: &Observed) -> VipRow {
    let record = &claim.record;
    let holder = record.state.holder();
    let (state, offered_by) = match &record.state {
        ClaimState::Held(holder) => (standing(&holder.node, holder.session, observed), None),
        ClaimState::Offered { to: _, from: (node, _) } => (VipState::Offered, Some(node.to_string())),
        ClaimState::Released => (VipState::Released, None),
        ClaimState::Blank => (VipState::Nobody, None),
    };
    VipRow {
        address: record.vip,
        holder: holder.map(|holder| holder.node.to_string()),
        state,
        offered_by,
        mac: holder.map(|holder| holder.mac.to_string()),
        interface: holder.map(|holder| holder.interface.to_string()),
        epoch: record.epoch.0,
        services: record.note.services.iter().map(ToString::to_string).collect(),
        conflict: claim.conflict.clone(),
        trouble: record.note.trouble.clone(),
    }
}

/// A claim is good while the Lease of its holder carries its session.
fn standing(node: &NodeName, session: Session, observed: &Observed) -> VipState {
    match observed.leases.get(node) {
        None => VipState::NoLease,
        Some(seen) if seen.record.session == Some(session) => VipState::Held,
        Some(_) => VipState::SessionEnded,
    }
}

fn node(seen: &Seen, vips: &[VipRow], observed: &Observed, now: Monotonic) -> NodeRow {
    let name = seen.record.node.as_str();
    let since = seen.changed.or(observed.began).unwrap_or(now);
    NodeRow {
        node: name.to_owned(),
        vips: vips
            .iter()
            .filter(|vip| vip.state == VipState::Held && vip.holder.as_deref() == Some(name))
            .count(),
        session: seen.record.session.map(|session| session.to_string()),
        lease_age_seconds: tenths(now.saturating_since(since)),
        renewed: seen.changed.is_some(),
        lease_duration_seconds: seen.record.duration.as_secs_f64(),
        leaving: seen.record.leaving,
    }
}

fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

fn moved(claim: &Claim) -> Option<MoveRow> {
    Some(MoveRow {
        since: claim.since.clone()?,
        address: claim.record.vip,
        holder: claim.record.state.holder()?.node.to_string(),
        cause: claim.record.note.cause.clone(),
    })
}
