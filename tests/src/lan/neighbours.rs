//! Reads and writes the neighbour table of a namespace.

use std::net::IpAddr;

use anyhow::{Context, Result};
use futures::TryStreamExt;
pub use rtnetlink::packet_route::neighbour::NeighbourState;
use rtnetlink::packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};

use super::netns::NetNs;
use crate::frames::Mac;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbour {
    pub address: IpAddr,
    /// MAC of the neighbour; `None` while it is unresolved.
    pub mac: Option<Mac>,
    pub state: NeighbourState,
}

impl Neighbour {
    fn read(message: &NeighbourMessage) -> Option<Self> {
        let address = message.attributes.iter().find_map(|attribute| match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => Some(IpAddr::V4(*address)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
            _ => None,
        })?;
        let mac = message.attributes.iter().find_map(|attribute| match attribute {
            NeighbourAttribute::LinkLayerAddress(bytes) => bytes.as_slice().try_into().ok().map(Mac),
            _ => None,
        });
        Some(Self { address, mac, state: message.header.state })
    }
}

impl NetNs {
    /// Returns the neighbours seen through an interface. Groups are none.
    pub fn neighbours(&self, interface: &str) -> Result<Vec<Neighbour>> {
        let messages = self.neighbour_messages(interface)?;
        Ok(messages.iter().filter_map(Neighbour::read).collect())
    }

    pub fn neighbour(&self, interface: &str, address: impl Into<IpAddr>) -> Result<Option<Neighbour>> {
        let address = address.into();
        Ok(self.neighbours(interface)?.into_iter().find(|neighbour| neighbour.address == address))
    }

    /// Adds or replaces the entry for `address`.
    pub fn set_neighbour(
        &self,
        interface: &str,
        address: impl Into<IpAddr>,
        mac: Mac,
        state: NeighbourState,
    ) -> Result<()> {
        let address = address.into();
        let index = self.link(interface)?.index;
        self.netlink(async |handle| {
            handle
                .neighbours()
                .add(index, address)
                .link_layer_address(&mac.0)
                .state(state)
                .replace()
                .execute()
                .await
        })
        .with_context(|| format!("failed to set neighbour {address} on {interface} to {mac}, {state}"))
    }

    pub fn flush_neighbours(&self, interface: &str) -> Result<()> {
        let messages = self.neighbour_messages(interface)?;
        self.netlink(async |handle| {
            for message in messages {
                handle.neighbours().del(message).execute().await?;
            }
            Ok(())
        })
        .with_context(|| format!("failed to flush the neighbours of {interface}"))
    }

    fn neighbour_messages(&self, interface: &str) -> Result<Vec<NeighbourMessage>> {
        let index = self.link(interface)?.index;
        self.netlink(async |handle| {
            handle
                .neighbours()
                .get()
                .execute()
                .try_filter(|NeighbourMessage { header, .. }| {
                    let is_group = header.state == NeighbourState::Noarp;
                    futures::future::ready(header.ifindex == index && !is_group)
                })
                .try_collect()
                .await
        })
        .with_context(|| format!("failed to list the neighbours of {interface}"))
    }
}
