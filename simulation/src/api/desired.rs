//! The desired state of Services, pools and namespaces.

use crate::schedule::{Asks, PoolPlan, Schedule, Times};

#[derive(Clone, Debug, Default)]
pub(crate) struct DesiredState {
    /// Per VIP: what its Services want.
    pub(crate) vips: Vec<DesiredVip>,
    /// A stranger's Services that are in force.
    pub(crate) strangers: Vec<Stranger>,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) pools: [DesiredPool; 2],
    /// The namespaces without their label.
    pub(crate) unlabelled: [Times; 2],
}

impl DesiredState {
    pub(crate) fn new(plan: &Schedule) -> Self {
        let services = plan.tenants.iter().flat_map(|plan| &plan.services);
        Self {
            vips: vec![DesiredVip::default(); plan.vips.len()],
            tenants: services.map(|_| Tenant::default()).collect(),
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tenant {
    pub(crate) begun: bool,
    pub(crate) gone: Times,
    pub(crate) retyped: Times,
    /// What it requests instead; the latest counts.
    pub(crate) asks: Vec<(usize, Asks)>,
    /// Counts the Services of this name.
    pub(crate) born: u32,
}

impl Tenant {
    pub(crate) fn exists(&self) -> bool {
        self.begun && !self.gone.any()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DesiredPool {
    pub(crate) gone: Times,
    /// What it is instead; the latest counts.
    pub(crate) edits: Vec<(usize, PoolPlan)>,
    /// Counts the pools of this name.
    pub(crate) born: u32,
}

/// What the Services of a VIP want.
#[derive(Clone, Debug, Default)]
pub(crate) struct DesiredVip {
    pub(crate) begun: bool,
    pub(crate) unwanted: Times,
    /// The limits to nodes with endpoints; the latest counts.
    pub(crate) local: Vec<(usize, u8)>,
}

/// A stranger's Service that is in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stranger {
    /// The number of its disturbance.
    pub(crate) disturbance: usize,
    pub(crate) number: u8,
    /// The VIPs that it requests, a bit each.
    pub(crate) vips: u8,
    /// The nodes with endpoints, a bit each.
    pub(crate) on: u8,
    /// True if it is older than the owners of these VIPs.
    pub(crate) older: bool,
}
