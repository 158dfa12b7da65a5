//! Turns readings into inputs of the core, for the agent, the controller and `vipward explain`.

use tracing::{info, warn};
use vipward_core::{
    agent::cluster::Seen as Read, ownership::Event as Owned, pools::Change, services::Event as Served,
};

use crate::shell::{kube::Seen, logging::errors::chain};

#[cfg(test)]
mod tests;

impl Seen {
    /// Logs that objects of a type cannot be read, or can be again.
    pub fn log(&self) {
        if let Self::Unreadable { resource, error } = self {
            warn!(%resource, problem = chain(&**error), "objects are not read from the API server; trying again");
        } else if let Self::Readable { resource } = self {
            info!(%resource, "objects are read from the API server again");
        }
    }

    /// Returns the object as the core reads it. There is none for [`Seen::Synced`], [`Seen::Unreadable`]
    /// and [`Seen::Readable`]: the caller handles them.
    pub fn into_read(self) -> Option<Read> {
        Some(match self {
            Self::Lease(record) => Read::lease(record),
            Self::LeaseGone(node) => Read::lease_gone(node),
            Self::Leader(version) => Served::Leader(version).into(),
            Self::Claim(record) => Read::claim(record),
            Self::ClaimGone(vip) => Read::claim_gone(vip),
            Self::Node { record, addresses, pod_cidrs } => Read::node(record, addresses, pod_cidrs),
            Self::NodeGone(node) => Read::node_gone(node),
            Self::Namespace { name, labels, share_with } => {
                Served::Namespace { name, labels, share_with }.into()
            }
            Self::ServiceCidr { name, nets } => Served::ServiceCidr { name, nets }.into(),
            Self::NamespaceGone(name) => Served::NamespaceGone(name).into(),
            Self::Service(record) => Served::Service(record).into(),
            Self::ServiceGone(name) => Served::ServiceGone(name).into(),
            Self::Slice(record) => Served::Slice(record).into(),
            Self::SliceGone { namespace, slice } => Served::SliceGone { namespace, slice }.into(),
            Self::ApiServers { slice, addresses } => {
                Served::ApiServers { slice: Some(slice), addresses }.into()
            }
            Self::Pool(record) => Served::Pool(Change::Pool(record)).into(),
            Self::PoolGone(name) => Served::Pool(Change::PoolGone(name)).into(),
            Self::L2Advertisement(record, _) => Served::Pool(Change::Advertisement(record)).into(),
            Self::L2AdvertisementGone(name) => Served::Pool(Change::AdvertisementGone(name)).into(),
            Self::Advertised(is_known) => Served::Pool(Change::Advertised(is_known)).into(),
            Self::WireKeys { keys, .. } => Owned::WireKeys(keys.ids()).into(),
            Self::Unserved(_)
            | Self::Fault(..)
            | Self::UnservedGone { .. }
            | Self::Synced(_)
            | Self::Unreadable { .. }
            | Self::Readable { .. } => return None,
        })
    }
}
