//! State of each VIP and node, by claims and Leases (`vipward status --cluster`).
//!
//! The age of a Lease is the time since a change of it was seen. No node's wall clock is compared.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::{
    base::{schema, time::Monotonic},
    liveness::found::{self, FoundBy},
    records::{ClaimRecord, ClaimState, Holder, LeaseRecord, NodeName, Version},
};

#[cfg(test)]
mod tests;

/// Largest number of moves that are shown.
const MOVES: usize = 10;

/// A claim, and the parts of its object that are for users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShownClaim {
    pub record: ClaimRecord,
    /// The time of its last change of holder, by the clock of the node that wrote it.
    pub since: Option<String>,
    /// The unknown hosts that claim the VIP on the segment.
    pub conflict: Option<String>,
    /// Reason why no node answers for the VIP, as an agent has reported it.
    pub unanswered: Option<String>,
}

/// Leases, with the times at which changes of them were seen.
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
    /// Records a list of Leases that was read at `now`.
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

impl Observed {
    /// Returns true if every Lease that carries a session was seen to be renewed.
    pub fn is_decided(&self) -> bool {
        let mut with_session = self.leases.values().filter(|seen| seen.record.session.is_some());
        self.began.is_some() && with_session.all(|seen| seen.changed.is_some())
    }
}

/// The objects of the API server, and what was seen of the Leases until all were renewed, for the
/// time of `--look` at most. `kubectl vip status` prints the same.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Overview {
    /// The `VirtualIP` objects, by address.
    pub vips: Vec<VipRow>,
    /// The nodes that have a Lease, by name.
    pub nodes: Vec<NodeRow>,
    /// The VIPs whose holders changed last, the latest first, at most ten.
    pub last_moves: Vec<MoveRow>,
}

/// The state of a VIP by its claim and the Lease of its holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VipState {
    /// The Lease of its holder carries the session of the claim, and is renewed.
    Held,
    /// The claim is good as in `Held`, but states that no node answers.
    NotAnswered,
    /// The Lease of its holder carries the session of the claim. It
    /// was not renewed while it was watched.
    NotRenewed,
    /// Its claim names a successor. The node that hands it over answers until the successor does.
    HandingOver,
    /// Its last holder released it.
    Released,
    /// Its claim names no holder, and was not released.
    Unheld,
    /// The Lease of its holder carries another session, or none.
    SessionEnded,
    NoLease,
}

impl VipState {
    pub const ALL: [Self; 8] = [
        Self::Held,
        Self::NotAnswered,
        Self::NotRenewed,
        Self::HandingOver,
        Self::Released,
        Self::Unheld,
        Self::SessionEnded,
        Self::NoLease,
    ];

    /// Returns the name that every output uses, the status of the `VirtualIP` object too.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::NotAnswered => "not answered",
            Self::NotRenewed => "not renewed",
            Self::HandingOver => "handing over",
            Self::Released => "released",
            Self::Unheld => "unheld",
            Self::SessionEnded => "session ended",
            Self::NoLease => "no lease",
        }
    }
}

impl Serialize for VipState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

pub(crate) fn vip_states(_: &mut SchemaGenerator) -> Schema {
    schema::names(VipState::ALL.map(VipState::name))
}

/// A VIP.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct VipRow {
    /// The VIP.
    pub address: IpAddr,
    /// The node that its claim names, which is the successor while it is `handing over`; or `null` when
    /// it names none.
    pub holder: Option<String>,
    /// Its state by claim and Lease (docs/commands.md#from-a-desk).
    #[schemars(schema_with = "vip_states")]
    pub state: VipState,
    /// The node that hands it over, or `null` unless it is `handing over`.
    pub offered_by: Option<String>,
    /// The MAC that it is at, or `null` without a holder.
    pub mac: Option<String>,
    /// The holder's interface, or `null` without a holder.
    pub interface: Option<String>,
    /// The number of its changes of holder.
    pub epoch: u64,
    /// The Services that have it, as `namespace/name`.
    pub services: Vec<String>,
    /// The unknown hosts that claim it on the segment, or `null`.
    pub conflict: Option<String>,
    /// Why it is not where it is wanted, or nowhere; `null` when it is where it should be.
    pub trouble: Option<String>,
    /// Why no node answers for it, or `null` when its claim does not state that.
    pub unanswered: Option<String>,
}

/// A node.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct NodeRow {
    /// Its name.
    pub node: String,
    /// The VIPs that are `held` by it.
    pub vips: usize,
    /// The session that its Lease carries, 16 hexadecimal digits; `null` when it carries none.
    pub session: Option<String>,
    /// Time since its Lease was seen to change, or for which it was watched when it did not.
    pub lease_age_seconds: f64,
    /// True if its Lease was seen to change.
    pub renewed: bool,
    /// The duration of one renewal.
    pub lease_duration_seconds: f64,
    /// True while the node is about to leave.
    pub leaving: bool,
    /// Its voters: the nodes that expire its session if a quorum of them finds it unresponsive. Empty if only
    /// its Lease shows that it is dead.
    pub voters: Vec<String>,
    /// The number of them that must agree; 0 without them.
    pub quorum: usize,
    /// Why only its Lease shows that it is dead, or `null` when its monitors find that sooner.
    pub found_by_lease: Option<String>,
}

/// A change of holder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct MoveRow {
    /// Its time, by the clock of the node that wrote it (RFC 3339).
    pub since: String,
    /// The VIP.
    pub address: IpAddr,
    /// The node that has had the VIP since.
    pub holder: String,
    /// Its cause.
    pub cause: String,
}

pub fn overview(claims: &[ShownClaim], observed: &Observed, now: Monotonic) -> Overview {
    let mut vips: Vec<_> = claims.iter().map(|claim| vip(claim, observed)).collect();
    vips.sort_by_key(|vip| vip.address);
    let leases: Vec<_> = (observed.leases.values())
        .map(|seen| found::Seen { lease: &seen.record, lives: seen.changed.is_some() })
        .collect();
    let nodes = observed.leases.values().map(|seen| node(seen, &vips, observed, &leases, now)).collect();
    let mut last_moves: Vec<_> = claims.iter().filter_map(moved).collect();
    // RFC 3339 times sort as text.
    last_moves.sort_by(|a, b| (&b.since, a.address).cmp(&(&a.since, b.address)));
    last_moves.truncate(MOVES);
    Overview { vips, nodes, last_moves }
}

fn vip(claim: &ShownClaim, observed: &Observed) -> VipRow {
    let record = &claim.record;
    let holder = record.state.holder();
    let (state, offered_by) = match &record.state {
        ClaimState::Held(holder) => (standing(claim, holder, observed), None),
        ClaimState::Offered { to: _, from: (node, _) } => (VipState::HandingOver, Some(node.to_string())),
        ClaimState::Released => (VipState::Released, None),
        ClaimState::Blank => (VipState::Unheld, None),
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
        unanswered: claim.unanswered.clone(),
    }
}

/// Returns the state of a held VIP. Its claim is good while the
/// holder's Lease carries its session and is renewed.
fn standing(claim: &ShownClaim, holder: &Holder, observed: &Observed) -> VipState {
    match observed.leases.get(&holder.node) {
        None => VipState::NoLease,
        Some(Seen { record, .. }) if record.live_session() != Some(holder.session) => VipState::SessionEnded,
        Some(seen) if seen.changed.is_none() => VipState::NotRenewed,
        Some(_) if claim.unanswered.is_some() => VipState::NotAnswered,
        Some(_) => VipState::Held,
    }
}

fn node(
    seen: &Seen,
    vips: &[VipRow],
    observed: &Observed,
    leases: &[found::Seen<'_>],
    now: Monotonic,
) -> NodeRow {
    let name = seen.record.node.as_str();
    let since = seen.changed.or(observed.began).unwrap_or(now);
    let is_held = |vip: &&VipRow| vip.state == VipState::Held && vip.holder.as_deref() == Some(name);
    let vips = vips.iter().filter(is_held).count();
    let (voters, quorum, found_by_lease) = match FoundBy::of(&seen.record, vips > 0, leases) {
        FoundBy::Voters { names, quorum } => (names, quorum, None),
        FoundBy::Lease(why) => (Vec::new(), 0, Some(why.to_string())),
    };
    NodeRow {
        node: name.to_owned(),
        vips,
        session: seen.record.session.map(|session| session.to_string()),
        lease_age_seconds: tenths(now.saturating_since(since)),
        renewed: seen.changed.is_some(),
        lease_duration_seconds: seen.record.duration.as_secs_f64(),
        leaving: seen.record.leaving,
        voters,
        quorum,
        found_by_lease,
    }
}

fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

fn moved(claim: &ShownClaim) -> Option<MoveRow> {
    Some(MoveRow {
        since: claim.since.clone()?,
        address: claim.record.vip,
        holder: claim.record.state.holder()?.node.to_string(),
        cause: claim.record.note.cause.clone(),
    })
}
