//! What people ask of Services.

use crate::schedule::{Asks, PoolPlan, Schedule, Times};

/// What people ask of Services.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// The wishes for each VIP.
    pub(crate) vips: Vec<Wish>,
    /// A stranger's Services that are in force.
    pub(crate) strangers: Vec<Stranger>,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) pools: [PoolWish; 2],
    /// The namespaces without their label.
    pub(crate) unlabelled: [Times; 2],
}

impl Wishes {
    pub(crate) fn new(plan: &Schedule) -> Self {
        let services = plan.tenants.iter().flat_map(|plan| &plan.services);
        Self {
            vips: vec![Wish::default(); plan.vips.len()],
            tenants: services.map(|_| Tenant::default()).collect(),
            ..Self::default()
        }
    }
}

/// A tenant's Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tenant {
    pub(crate) begun: bool,
    pub(crate) gone: Times,
    pub(crate) retyped: Times,
    /// What it asks for instead; the latest counts.
    pub(crate) asks: Vec<(usize, Asks)>,
    /// Counts the Services of this name.
    pub(crate) born: u32,
}

impl Tenant {
    pub(crate) fn exists(&self) -> bool {
        self.begun && !self.gone.any()
    }
}

/// A pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolWish {
    pub(crate) gone: Times,
    /// What it is instead; the latest counts.
    pub(crate) edits: Vec<(usize, PoolPlan)>,
    /// Counts the pools of this name.
    pub(crate) born: u32,
}

/// The wishes of Services for a VIP.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
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
    /// The VIPs that it asks for, a bit each.
    pub(crate) vips: u8,
    /// The nodes with endpoints, a bit each.
    pub(crate) on: u8,
    /// True if it is older than the owners of these VIPs.
    pub(crate) older: bool,
}
