//! Choice of the interface that sends the query.

use std::net::IpAddr;

use thiserror::Error;

use crate::host::{
    interfaces::{Segments, master_of, speaks_arp},
    net::{Interface, NetView},
    placement::obstacle::{SearchedInterface, join},
};

/// Reason why an address cannot be queried.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SegmentError {
    #[error("interface {name} does not exist; there are: {}", join(.there))]
    Missing { name: String, there: Vec<String> },
    #[error("interface {name} is no Ethernet interface: it has no segment to probe")]
    NotEthernet { name: String },
    #[error("interface {name} is down: set it up first (ip link set {name} up)")]
    Down { name: String },
    /// The interface is a member of a bond or bridge.
    #[error("interface {name} is a member of {master}, which receives its frames: probe with -i {master}")]
    Member {
        name: String,
        /// The bond or bridge.
        master: String,
    },
    #[error(
        "{address} is in the subnet of no up Ethernet interface; inspected: {}. Name the one to probe through with -i",
        join(.searched)
    )]
    NoSubnet { address: IpAddr, searched: Vec<SearchedInterface> },
}

/// Returns the interface on which to query an address: the named one, else the first usable of
/// `known`, else the one whose subnet contains the address.
///
/// Fails if the named interface is missing or cannot be used, or if no interface is found.
pub fn choose<'a>(
    view: &'a NetView,
    address: IpAddr,
    named: Option<&str>,
    known: &[u32],
) -> Result<&'a Interface, SegmentError> {
    if let Some(name) = named {
        let found = view.named(name).ok_or_else(|| SegmentError::Missing {
            name: name.to_owned(),
            there: view.interfaces.values().map(Interface::listed).collect(),
        })?;
        return check(view, found);
    }
    let usable: Vec<_> =
        view.interfaces.values().filter(|interface| check(view, interface).is_ok()).collect();
    let known = known.iter().copied().find(|index| usable.iter().any(|interface| interface.index == *index));
    known
        .or_else(|| Segments::new(view, &usable).of(|_| true, address).map(|interface| interface.index))
        .and_then(|index| view.interfaces.get(&index))
        .ok_or_else(|| SegmentError::NoSubnet {
            address,
            searched: usable.into_iter().map(SearchedInterface::from).collect(),
        })
}

fn check<'a>(view: &NetView, interface: &'a Interface) -> Result<&'a Interface, SegmentError> {
    let name = interface.name.clone();
    if !speaks_arp(interface) {
        return Err(SegmentError::NotEthernet { name });
    }
    if let Some(master) = master_of(view, interface) {
        return Err(SegmentError::Member { name, master: view.name_of(master) });
    }
    if interface.up { Ok(interface) } else { Err(SegmentError::Down { name }) }
}
