//! What `/metrics` says: what the agent counts as it goes, and what a scrape reads from the kernel and from the driver.
//!
//! docs/METRICS.md lists every metric. The number of series is bounded: what has a VIP for a label is left out where there
//! are more VIPs than [`Metrics::max_vips`].

mod announcements;
mod api;
mod conflicts;
mod kernel;
mod leases;
mod moves;
mod scrape;
mod text;

use std::fmt;

use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    registry::Registry,
};

pub use self::{
    announcements::AnnouncementMetrics,
    api::{ApiError, ApiMetrics, Lane, Pending},
    conflicts::ConflictMetrics,
    kernel::{EntryReading, Kernel, Reading},
    leases::LeaseMetrics,
    moves::{MoveCause, MoveMetrics},
    scrape::{ClaimSnapshot, LinkSnapshot, Mode, Snapshot, VipSnapshot},
    text::Format,
};

/// What is in front of every name.
const PREFIX: &str = "vipward";

/// The most VIPs that have series of their own, unless the operator says otherwise.
pub const DEFAULT_MAX_VIPS: usize = 1_000;

/// Every metric of one agent.
pub struct Metrics {
    /// Announcements.
    pub announcements: AnnouncementMetrics,
    /// Conflicts.
    pub conflicts: ConflictMetrics,
    /// Renewals of this node's Lease.
    pub leases: LeaseMetrics,
    /// VIPs that came to this node.
    pub moves: MoveMetrics,
    /// Requests to the API server.
    pub api: ApiMetrics,
    registry: Registry,
    max_vips: usize,
}

impl Metrics {
    /// With nothing counted. Without a cluster there are no metrics about one.
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

    /// The page: what was counted, and what has just been read; either may be missing, which the page says.
    pub fn page(
        &self,
        format: Format,
        kernel: Option<Reading>,
        driver: Option<Snapshot>,
    ) -> Result<String, fmt::Error> {
        let mut now = Registry::with_prefix(PREFIX);
        now.register_collector(Box::new(scrape::Scrape::new(kernel, driver, self.max_vips)));
        let mut page = String::new();
        encode_registry(&mut page, &self.registry)?;
        encode_registry(&mut page, &now)?;
        encode_eof(&mut page)?;
        Ok(match format {
            Format::OpenMetrics => page,
            Format::Prometheus => text::to_prometheus(&page),
        })
    }

    /// The most VIPs that have series of their own.
    pub fn max_vips(&self) -> usize {
        self.max_vips
    }
}
