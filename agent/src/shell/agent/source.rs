//! The source of the VIPs: a file, or a cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use serde_json::Value;
use vipward_common::{MacAddr, VipKey};
use vipward_core::{
    agent::segment::Authority,
    base::time::Monotonic,
    config::Config,
    diagnosis::doctor::WireReport,
    host::{net::NetView, placement::Wanted},
    ownership::Said,
    segment::{conflict::Line, probing::Probed},
};

use super::error::RunError;
use crate::shell::{
    kernel::bpf::Maps,
    pages::metrics::{ClaimSnapshot, MetalLbSnapshot, Mode, WireSnapshot},
};

/// A source of VIPs.
pub(super) trait Source: Authority {
    /// Returns the VIPs, each with its desired entry.
    fn wanted<'a>(&'a self, config: &'a Config) -> impl ExactSizeIterator<Item = Wanted<'a>> + Clone;

    /// Returns the wanted VIPs among `vips`.
    fn wanted_of<'a>(&'a self, config: &'a Config, vips: &BTreeSet<IpAddr>) -> Vec<Wanted<'a>> {
        self.wanted(config).filter(|wanted| vips.contains(&wanted.address)).collect()
    }

    /// Handles that this node has taken a yielded VIP back. It had been announced with `mac`.
    fn note_taken_back(&mut self, _vip: IpAddr, _mac: MacAddr, _now: Monotonic) {}

    /// Handles the result of a probe.
    fn note_probed(&mut self, vip: IpAddr, probed: Probed, now: Monotonic);

    /// Handles a conflict that has been logged.
    fn note_conflict(&mut self, line: &Line, view: &NetView, now: Monotonic);

    /// Handles that an entry is written by which this node answers for a VIP. It is not announced yet.
    /// Returns the MAC of the former holder, if that may not know that its session has ended.
    fn note_taken(&mut self, _key: VipKey, _now: Monotonic) -> Option<MacAddr> {
        None
    }

    /// Handles the first announcement of a VIP since this node took it.
    fn note_announced(&mut self, _vip: IpAddr, _now: Monotonic) {}

    /// Returns the VIPs that are said to be held, among `of` or all.
    fn said(&self, config: &Config, of: Option<&BTreeSet<IpAddr>>, now: Monotonic) -> BTreeMap<IpAddr, Said>;

    /// Returns the VIPs of ended sessions.
    fn left_behind(&self, _now: Monotonic) -> Vec<IpAddr> {
        Vec::new()
    }

    /// Returns the time for which a VIP may be silent before that is reported.
    fn grace(&self, config: &Config) -> Duration {
        config.fence.duration
    }

    /// Returns the time of the fence's last move, and the longest time without
    /// another. Returns `None` before the first move.
    fn heartbeat(&self) -> Option<(Monotonic, Duration)>;

    /// Returns a cluster's claims, for the metrics.
    fn claims(&self, _now: Monotonic) -> Option<ClaimSnapshot> {
        None
    }

    /// Returns wire failover, for the metrics.
    fn wire(&self, _now: Monotonic) -> Option<WireSnapshot> {
        None
    }

    /// Returns wire failover, for the doctor.
    fn wire_report(&self, _now: Monotonic) -> WireReport {
        WireReport::default()
    }

    /// Returns what the metrics say instead of `MetalLB`.
    fn metallb(&self) -> Option<MetalLbSnapshot> {
        None
    }

    /// Returns the addresses of other nodes, as far as they are known.
    fn peer_addresses(&self) -> Vec<IpAddr> {
        Vec::new()
    }

    /// Returns the source's state, for troubleshooting.
    fn state(&self, now: Monotonic) -> Value;

    /// Returns the kind of source.
    fn mode(&self) -> Mode;

    /// Moves the fence if that is due. Long operations call it.
    fn beat_if_due(&mut self, maps: &mut Maps, yields_settled: u64, now: Monotonic) -> Result<(), RunError>;
}
