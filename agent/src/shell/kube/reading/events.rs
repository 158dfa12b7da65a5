//! Turns readings into events of the core, for the agent and for `vipward explain`.

use vipward_core::{ownership::Event as Owned, pools::Change, records::Epoch, services::Event as Served};

use crate::shell::kube::Seen;

#[cfg(test)]
mod tests;

impl Seen {
    /// Returns the event for the ownership engine, and the event for the index of Services. There
    /// is neither for [`Seen::Synced`], [`Seen::Unreadable`] and [`Seen::Readable`]: the caller
    /// handles them.
    pub fn into_events(self) -> (Option<Owned>, Option<Served>) {
        match self {
            Self::Lease(record) => {
                let (node, interfaces) = (record.node.clone(), record.interfaces.clone());
                let session = record.live_session();
                (Some(Owned::Lease(record)), Some(Served::NodeInterfaces { node, interfaces, session }))
            }
            Self::LeaseGone(node) => (Some(Owned::LeaseGone(node)), None),
            Self::Claim(record) => {
                let was_held = record.epoch > Epoch(0) || record.state.holder().is_some();
                let sessions = record.state.sessions();
                let (vip, force, services) = (record.vip, record.force, record.note.services.clone());
                let (reservation, release) = (record.reservation.clone(), record.release);
                let claim = Served::Claim { vip, was_held, sessions, force, services, reservation, release };
                (Some(Owned::Claim(record)), Some(claim))
            }
            Self::ClaimGone(vip) => (Some(Owned::ClaimGone(vip)), Some(Served::ClaimGone(vip))),
            Self::Node { record, addresses, pod_cidrs } => {
                let node = record.name.clone();
                (Some(Owned::Node(record)), Some(Served::NodeAddresses { node, addresses, pod_cidrs }))
            }
            Self::NodeGone(node) => (Some(Owned::NodeGone(node.clone())), Some(Served::NodeGone(node))),
            Self::Namespace { name, labels, share_with } => {
                (None, Some(Served::Namespace { name, labels, share_with }))
            }
            Self::ServiceCidr { name, nets } => (None, Some(Served::ServiceCidr { name, nets })),
            Self::NamespaceGone(name) => (None, Some(Served::NamespaceGone(name))),
            Self::Service(record) => (None, Some(Served::Service(record))),
            Self::ServiceGone(name) => (None, Some(Served::ServiceGone(name))),
            Self::Slice(record) => (None, Some(Served::Slice(record))),
            Self::SliceGone { namespace, slice } => (None, Some(Served::SliceGone { namespace, slice })),
            Self::ApiServers { slice, addresses } => {
                (None, Some(Served::ApiServers { slice: Some(slice), addresses }))
            }
            Self::Pool(record) => (None, Some(Served::Pool(Change::Pool(record)))),
            Self::PoolGone(name) => (None, Some(Served::Pool(Change::PoolGone(name)))),
            Self::L2Advertisement(record, _) => (None, Some(Served::Pool(Change::Advertisement(record)))),
            Self::L2AdvertisementGone(name) => (None, Some(Served::Pool(Change::AdvertisementGone(name)))),
            Self::Advertised(is_known) => (None, Some(Served::Pool(Change::Advertised(is_known)))),
            Self::WireKeys { keys, .. } => (Some(Owned::WireKeys(keys.ids())), None),
            Self::Unserved(_)
            | Self::UnservedGone { .. }
            | Self::Synced(_)
            | Self::Unreadable { .. }
            | Self::Readable { .. } => (None, None),
        }
    }
}
