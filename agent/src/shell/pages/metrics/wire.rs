//! Wire failover, read at each scrape.

use std::fmt;

use prometheus_client::{
    encoding::EncodeMetric,
    metrics::{MetricType, gauge::ConstGauge},
    registry::Unit,
};
use vipward_core::ownership::{Quiet, WireCounts, WireView};

use super::page::{Page, is, size};
use crate::shell::kernel::wire::View;

#[cfg(test)]
mod tests;

/// Wire failover, as this node takes part in it.
#[derive(Clone, PartialEq, Debug)]
pub struct WireSnapshot {
    /// The sessions that were ended. Those for a silent Lease count without wire failover, too.
    pub deposed: WireCounts,
    /// The engine's view. None if the node takes no part, by its options.
    pub view: Option<WireView>,
    /// The state of the thread that pings. None if it does not run.
    pub thread: Option<View>,
}

/// Returns the name of the state, as a value of the label `state`.
fn state(view: Option<&WireView>) -> &'static str {
    match view {
        None => "off",
        Some(WireView { quiet: Some(quiet), .. }) => quiet.name(),
        Some(WireView { quiet: None, .. }) => "on",
    }
}

impl Page<'_> {
    pub(super) fn wire(&mut self, wire: &WireSnapshot) -> fmt::Result {
        let WireSnapshot { deposed, view, thread } = wire;
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
            [("wire", deposed.deposed_by_wire), ("lease", deposed.deposed_by_lease)]
                .map(|(by, count)| ([("by", by)], count)),
        )?;
        self.total(
            "wire_false_moves",
            "Times that this node's session was ended for silence on the wire although it lived",
            deposed.false_moves,
        )?;
        self.total(
            "wire_false_ends",
            "Times that a peer said that this node's session had ended, and it had not",
            deposed.false_ends,
        )?;
        self.thread(thread.as_ref())
    }

    fn thread(&mut self, thread: Option<&View>) -> fmt::Result {
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
        let round_trips = thread.iter().flat_map(|thread| &thread.traffic).filter_map(|peer| peer.round_trip);
        let help = "The longest of the last round trips of all peers";
        let unit = Some(&Unit::Seconds);
        let metric = self.0.encode_descriptor("wire_round_trip", help, unit, MetricType::Gauge)?;
        match round_trips.max() {
            Some(longest) => ConstGauge::new(longest.as_secs_f64()).encode(metric),
            None => Ok(()),
        }
    }
}
