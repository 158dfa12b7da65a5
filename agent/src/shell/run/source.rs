//! Where the VIPs come from: a file, or a cluster.

use std::{collections::BTreeSet, net::Ipv4Addr, time::Duration};

use serde_json::Value;

use super::{RunError, segment::Probed};
use crate::{
    core::{config::Config, conflict::Line, placement::Wanted, time::Monotonic},
    shell::{
        bpf::Maps,
        metrics::{ClaimSnapshot, Mode},
    },
};

/// What tells a driver which VIPs there are.
pub(super) trait Source {
    /// The VIPs, and what this node is to each.
    fn wanted<'a>(&'a self, config: &'a Config) -> impl ExactSizeIterator<Item = Wanted<'a>>;

    /// Those of `vips` among them.
    fn wanted_of<'a>(&'a self, config: &'a Config, vips: &BTreeSet<Ipv4Addr>) -> Vec<Wanted<'a>> {
        self.wanted(config).filter(|wanted| vips.contains(&wanted.address)).collect()
    }

    /// Whether it is known which VIPs there are; before, the entries that were found stay as they are.
    fn is_known(&self) -> bool;

    /// Whether it must be known that the VIP's address is free before this node holds it, unless it does already.
    fn must_be_free(&self, vip: Ipv4Addr) -> bool;

    /// Takes note of what a probe has found out.
    fn note_probed(&mut self, probed: Probed, now: Monotonic);

    /// Takes note of a conflict, which has been logged.
    fn note_conflict(&mut self, line: &Line, now: Monotonic);

    /// A VIP has been announced for the first time since it was taken.
    fn note_announced(&mut self, _vip: Ipv4Addr, _now: Monotonic) {}

    /// When the fence was last moved, and how long it may stand still; none while nothing moves it yet.
    fn heartbeat(&self) -> Option<(Monotonic, Duration)>;

    /// What a cluster's claims say.
    fn claims(&self, _now: Monotonic) -> Option<ClaimSnapshot> {
        None
    }

    /// All that it knows, for people who look for a fault.
    fn state(&self, now: Monotonic) -> Value;

    /// Where the VIPs come from.
    fn mode(&self) -> Mode;

    /// Moves the fence if that is due, in the middle of something that takes long.
    fn beat_if_due(&mut self, maps: &mut Maps, yields_settled: u64, now: Monotonic) -> Result<(), RunError>;
}
