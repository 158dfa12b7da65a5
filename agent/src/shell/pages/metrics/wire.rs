//! Wire failover, read at each scrape.

use std::fmt;

use prometheus_client::{
    encoding::EncodeMetric,
    metrics::{MetricType, gauge::ConstGauge},
    registry::Unit,
};
use vipward_core::{
    diagnosis::doctor::WireReport,
    liveness::Thread,
    ownership::{Quiet, WireView},
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
    pub(super) fn wire(&mut self, wire: &WireReport) -> fmt::Result {
        let WireReport { counts: ended, view, thread } = wire;
        let found = state(view.as_ref());
        let names = ["on", "off"].into_iter().chain(Quiet::ALL.map(Quiet::name));
        self.values(
            "wire_state",
            "1 for the state of wire failover: on if the witnesses may end this node's session, else why not",
            names.map(|name| ([("state", name)], is(name == found))),
        )?;
        let count = |of: fn(&WireView) -> usize| size(view.as_ref().map_or(0, of));
        self.value(
            "wire_witnesses",
            "Nodes whose word about this node counts",
            count(|view| view.set.len()),
        )?;
        self.value("wire_watched", "Nodes about which this node's word counts", count(WireView::watched))?;
        self.value(
            "wire_deaf_interfaces",
            "Interfaces without contact with peers that live, which count as without carrier",
            count(|view| view.deaf.len()),
        )?;
        self.counts(
            "sessions_deposed",
            "Sessions of other nodes that this node has ended, by what was silent",
            [("wire", ended.deposed_by_wire), ("lease", ended.deposed_by_lease)]
                .map(|(by, count)| ([("by", by)], count)),
        )?;
        self.total(
            "wire_false_moves",
            "Times that this node's session was ended for silence on the wire although it lived",
            ended.false_moves,
        )?;
        self.total(
            "wire_false_ends",
            "Times that a peer said that this node's session had ended, and it had not",
            ended.false_ends,
        )?;
        self.thread(thread.as_ref())
    }

    fn thread(&mut self, thread: Option<&Thread>) -> fmt::Result {
        let counts = thread.map(|thread| thread.counts).unwrap_or_default();
        self.total("wire_pings", "Pings sent", counts.pings)?;
        self.total("wire_pings_lost", "Pings that were not answered within a second", counts.lost)?;
        self.total(
            "wire_pings_late",
            "Pings that were sent late, so that the silence of the peer counts anew",
            counts.late,
        )?;
        self.total(
            "wire_suspicions",
            "Times that this node began to find a holder silent",
            counts.suspicions,
        )?;
        self.total(
            "wire_polls",
            "Times that it asked the other witnesses about a silent holder",
            counts.polls,
        )?;
        self.total(
            "wire_polls_agreed",
            "Times that enough witnesses agreed that a holder is silent",
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
