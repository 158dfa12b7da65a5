//! The disturbances and handovers that are under way.

use crate::schedule::{Schedule, What};

/// The disturbances and handovers that are under way.
#[derive(Debug)]
pub(crate) struct UnderWay {
    /// Per disturbance: what it has become, once it has begun.
    pub(crate) begun: Vec<Option<What>>,
    /// The disturbances that wait for a step.
    pub(crate) armed: Vec<usize>,
    /// The number of disturbances that have not ended. A stranger's Services are none.
    pub(crate) open: usize,
    /// Per VIP: the giver and taker of its handover.
    pub(crate) handing: Vec<Option<(usize, usize)>>,
}

impl UnderWay {
    pub(crate) fn new(plan: &Schedule) -> Self {
        Self {
            begun: vec![None; plan.disturbances.len()],
            armed: Vec::new(),
            open: plan.disturbances.iter().filter(|of| !of.what.is_strangers()).count(),
            handing: vec![None; plan.vips.len()],
        }
    }
}
