//! The input of a run: a cluster with its disturbances, the names of all, and what is broken.

pub(crate) mod names;

mod generate;
mod options;
mod plan;
mod sabotage;
mod tenants;
mod times;
mod timing;
mod what;

pub use self::{
    options::Options,
    plan::Schedule,
    sabotage::{Omitted, Sabotage},
};
pub(crate) use self::{
    plan::{NodePlan, Step, When},
    sabotage::OMITTED_MS,
    tenants::{Asks, KeepPlan, PoolPlan, SharingPlan, TenantsPlan},
    times::Times,
    timing::REFRESH,
    what::{
        Denied, Drops, Edit, Ending, KINDS, Kind, MOST_KINDS, Mark, OnApi, OnSegment, OnTenants, Refused,
        What, Who,
    },
};
