//! `/metrics` of agents and controllers: counts that they keep, and readings of kernel and event loop
//! at each scrape.
//!
//! docs/reference/metrics.md lists every metric. The number of series is bounded: with more VIPs than
//! [`Metrics::max_vips`], there are no series of single VIPs.

mod announcements;
mod api;
mod conflicts;
mod controller;
mod leases;
mod liveness;
mod metallb;
mod moves;
mod page;
mod scrape;
mod text;

use std::fmt;

use prometheus_client::registry::Registry;
use vipward_core::diagnosis::pinned::Contents;

use self::page::PREFIX;

#[cfg(test)]
pub(in crate::shell) use self::scrape::tests::snapshot;
pub use self::{
    announcements::AnnouncementMetrics,
    api::{ApiError, ApiMetrics, Lane, Pending},
    conflicts::ConflictMetrics,
    controller::{ControllerMetrics, ControllerSnapshot, Reserved},
    leases::LeaseMetrics,
    metallb::MetalLbSnapshot,
    moves::MoveMetrics,
    scrape::{Mode, Snapshot},
    text::Format,
};

pub struct Metrics {
    pub announcements: AnnouncementMetrics,
    pub conflicts: ConflictMetrics,
    /// Renewals of this node's Lease.
    pub leases: LeaseMetrics,
    /// VIPs that came to this node.
    pub moves: MoveMetrics,
    pub api: ApiMetrics,
    registry: Registry,
    max_vips: usize,
}

impl Metrics {
    /// Starts with nothing counted. Without a cluster there are no metrics about one.
    pub fn new(mode: Mode, max_vips: usize) -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let metrics = Self {
            announcements: AnnouncementMetrics::default(),
            conflicts: ConflictMetrics::default(),
            leases: LeaseMetrics::default(),
            moves: MoveMetrics::default(),
            api: ApiMetrics::default(),
            registry: Registry::default(),
            max_vips,
        };
        metrics.announcements.register(&mut registry);
        metrics.conflicts.register(&mut registry);
        match mode {
            Mode::Standalone => {}
            Mode::Kubernetes => {
                metrics.leases.register(&mut registry);
                metrics.moves.register(&mut registry);
                metrics.api.register(&mut registry);
            }
        }
        Self { registry, ..metrics }
    }

    /// Returns the page. The readings of kernel and event loop may be missing; a metric shows that.
    pub fn page(
        &self,
        format: Format,
        kernel: Option<Contents>,
        snapshot: Option<Snapshot>,
    ) -> Result<String, fmt::Error> {
        let theirs = snapshot.as_ref().and_then(|snapshot| {
            let (theirs, node) = (snapshot.metallb.as_ref()?, &snapshot.agent.node);
            let sent = self.announcements.of_each(theirs.announced.keys());
            Some(metallb::page(format, theirs, node, kernel.as_ref(), &sent, self.max_vips))
        });
        let mut now = Registry::with_prefix(PREFIX);
        now.register_collector(Box::new(scrape::Scrape::new(kernel, snapshot, self.max_vips)));
        text::page(format, &[&self.registry, &now], &theirs.unwrap_or_default())
    }

    /// Returns the most VIPs that have series of their own.
    pub fn max_vips(&self) -> usize {
        self.max_vips
    }
}
