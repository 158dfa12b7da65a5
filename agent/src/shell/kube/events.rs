//! Turns readings into events of the core, for the agent and for `vipward explain`.

use vipward_core::{ownership::Event as Owned, services::Event as Served};

use super::Seen;

#[cfg(test)]
mod tests;

impl Seen {
    /// Returns the event for the ownership engine, and the event for the index of Services. There
    /// is neither for [`Seen::Synced`], [`Seen::Unreadable`] and [`Seen::Readable`]: the caller
    /// handles them.
    pub fn into_events(self) -> (Option<Owned>, Option<Served>) {
        match self {
            Self::Lease(record) => {
                let nets = record.interfaces.iter().flat_map(|interface| interface.subnets.clone()).collect();
                let node = record.node.clone();
                (Some(Owned::Lease(record)), Some(Served::NodeInterfaces { node, nets }))
            }
            Self::LeaseGone(node) => (Some(Owned::LeaseGone(node)), None),
            Self::Claim(record) => (Some(Owned::Claim(record)), None),
            Self::ClaimGone(vip) => (Some(Owned::ClaimGone(vip)), None),
            Self::Node { record, addresses } => {
                let node = record.name.clone();
                (Some(Owned::Node(record)), Some(Served::NodeAddresses { node, addresses }))
            }
            Self::NodeGone(node) => (Some(Owned::NodeGone(node.clone())), Some(Served::NodeGone(node))),
            Self::Namespace { name, labels } => (None, Some(Served::Namespace { name, labels })),
            Self::NamespaceGone(name) => (None, Some(Served::NamespaceGone(name))),
            Self::Service(record) => (None, Some(Served::Service(record))),
            Self::ServiceGone(name) => (None, Some(Served::ServiceGone(name))),
            Self::Slice(record) => (None, Some(Served::Slice(record))),
            Self::SliceGone { namespace, slice } => (None, Some(Served::SliceGone { namespace, slice })),
            Self::ApiEndpoints(addresses) => (None, Some(Served::ApiEndpoints(addresses))),
            Self::Synced(_) | Self::Unreadable { .. } | Self::Readable { .. } => (None, None),
        }
    }
}
