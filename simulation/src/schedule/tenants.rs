//! A controller with its pools, and the tenants' Services that ask it for addresses.

use serde::{Deserialize, Serialize};

use super::names::CONTROLLERS;

/// A controller, its pools, and the Services of two tenants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantsPlan {
    pub(crate) pools: [PoolPlan; 2],
    /// Their namespaces take turns.
    pub(crate) services: Vec<ServicePlan>,
    /// True if each namespace lists the other one in `vipward.io/share-with`.
    pub(crate) consent: bool,
    /// The largest number of addresses of a namespace.
    pub(crate) most: Option<u8>,
    /// The rate error of each controller's clock in parts per million; positive is fast.
    pub(crate) clocks_ppm: [i32; CONTROLLERS],
}

/// A pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoolPlan {
    /// Its addresses, a bit for each VIP.
    pub(crate) vips: u8,
    pub(crate) auto_assign: bool,
    /// True if it is only for namespaces with the label.
    pub(crate) labelled: bool,
    pub(crate) spread: bool,
    pub(crate) sharing: SharingPlan,
    pub(crate) keep: KeepPlan,
    pub(crate) keep_at_most: Option<u32>,
}

/// `sharing` of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum SharingPlan {
    Never,
    Namespace,
    Key,
}

/// `keep` of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum KeepPlan {
    Not,
    Seconds(u32),
    Forever,
}

/// A tenant's Service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServicePlan {
    /// The time of its creation.
    pub(crate) wanted_ms: u32,
    pub(crate) asks: Asks,
    /// The nodes with endpoints, a bit each, under the policy Local.
    pub(crate) local: Option<u8>,
}

/// What a Service asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Asks {
    /// An address of any pool.
    Any,
    /// An address of the pool of this number.
    Pool(u8),
    /// The address of this VIP.
    Vip(u8),
}
