//! The failure detector, read at each scrape.

use std::fmt;

use prometheus_client::{
    encoding::EncodeMetric,
    metrics::{MetricType, gauge::ConstGauge},
    registry::Unit,
};
use vipward_core::{
    diagnosis::doctor::WireReport,
    liveness::Thread,
    ownership::{LeaseOnly, WireView},
};

use super::page::{Page, is, size};

#[cfg(test)]
mod tests;

/// Returns the name of the state, as a value of the label `state`.
fn state(view: Option<&WireView>) -> &'static str {
    match view {
        None => "off",
        Some(WireView { quiet: Some(quiet), .. }) => quiet.name(),
        Some(WireView { quiet: None, .. }) => "on",
    }
}

impl Page<'_> {
    pub(super) fn liveness(&mut self, wire: &WireReport) -> fmt::Result {
        let WireReport { counts: ended, view, thread } = wire;
        let found = state(view.as_ref());
        let names = ["on", "off"].into_iter().chain(LeaseOnly::ALL.map(LeaseOnly::name));
        self.values(
            "wire_state",
            "1 for the state of the failure detector: on if the voters may expire this node's session, else why not",
            names.map(|name| ([("state", name)], is(name == found))),
        )?;
        let count = |of: fn(&WireView) -> usize| size(view.as_ref().map_or(0, of));
        self.value("wire_voters", "Voters about this node", count(|view| view.set.len()))?;
        self.value("wire_watched", "Nodes about which this node votes", count(WireView::watched))?;
        self.value(
            "wire_one_way_interfaces",
            "Interfaces with a one-way link to peers that live; they count as without carrier",
            count(|view| view.one_way.len()),
        )?;
        self.counts(
            "sessions_expired",
            "Sessions of other nodes that this node has expired, by wire (unresponsive) or lease (not renewed)",
            [("wire", ended.expired_by_wire), ("lease", ended.expired_by_lease)]
                .map(|(by, count)| ([("by", by)], count)),
        )?;
        self.total(
            "wire_false_moves",
            "Times that this node's session was expired as unresponsive although it lived",
            ended.false_moves,
        )?;
        self.total(
            "wire_false_ends",
            "Expiry notices to this node that its Lease showed to be false",
            ended.false_ends,
        )?;
        self.thread(thread.as_ref())
    }

    fn thread(&mut self, thread: Option<&Thread>) -> fmt::Result {
        let counts = thread.map(|thread| thread.counts).unwrap_or_default();
        self.total("wire_pings", "Pings sent", counts.pings)?;
        self.total(
            "wire_pings_lost",
            "Pings without an answer within a second (times --wire), to them or to a later one",
            counts.lost,
        )?;
        self.total("wire_pings_late", "Pings that left late because this host was busy", counts.late)?;
        self.total("wire_suspicions", "Times that this node began to suspect a holder", counts.suspicions)?;
        self.total(
            "wire_vote_requests",
            "Vote requests sent to the other voters about a suspect",
            counts.vote_requests,
        )?;
        self.total(
            "wire_votes_agreed",
            "Vote requests with enough votes that the suspect is unresponsive",
            counts.agreed,
        )?;
        let peers = thread.iter().flat_map(|thread| &thread.peers);
        let round_trips = peers.filter_map(|peer| peer.round_trip_seconds);
        let help = "The longest of the last round trips of all peers";
        let unit = Some(&Unit::Seconds);
        let metric = self.0.encode_descriptor("wire_round_trip", help, unit, MetricType::Gauge)?;
        match round_trips.reduce(f64::max) {
            Some(longest) => ConstGauge::new(longest).encode(metric),
            None => Ok(()),
        }
    }
}
