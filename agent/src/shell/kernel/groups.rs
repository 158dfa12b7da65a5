//! Joins and leaves the groups of neighbour solicitations, and finds its memberships after a crash.
//!
//! A membership is a neighbour proxy for the group's own address. The kernel joins the solicited-node
//! group of each address that it is a proxy for: it opens the card's filter, and reports the group by
//! MLD. The group's own address has that group too. No solicitation has a multicast address as its
//! target, so the kernel answers for nothing. The entry is the kernel's, and outlives the agent. Its
//! mark is the protocol (`ip -6 neigh show proxy`).

use std::collections::BTreeSet;

use rtnetlink::packet_core::NLM_F_CREATE;
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use vipward_core::segment::groups::{Command, Group, Membership};

use super::netlink::{self, Exchange, ExchangeError, NetlinkError, PROTOCOL};

#[cfg(test)]
mod tests;

/// Executes a command. Succeeds if the kernel is in that state already, or if there is nothing to
/// leave.
pub(crate) fn change(kernel: &mut Exchange, command: Command) -> Result<(), ExchangeError> {
    match command {
        Command::Join(membership) => {
            kernel.change(RouteNetlinkMessage::NewNeighbour(message(membership)), NLM_F_CREATE)
        }
        Command::Leave(membership) => {
            match kernel.change(RouteNetlinkMessage::DelNeighbour(message(membership)), 0) {
                Err(error) if matches!(error.refusal(), Some(libc::ENOENT | libc::ENODEV)) => Ok(()),
                result => result,
            }
        }
    }
}

/// Returns every membership with the agent's mark. Leftovers of a killed agent are included.
pub async fn observe() -> Result<BTreeSet<Membership>, NetlinkError> {
    let ours = netlink::proxies().await?.into_iter().filter(|proxy| proxy.protocol == PROTOCOL);
    let membership = |proxy: netlink::Proxy| {
        let group = Group::from_address(proxy.address)?;
        Some(Membership { ifindex: proxy.index, group })
    };
    Ok(ours.filter_map(membership).collect())
}

/// Leaves every group, and returns the memberships that there were.
pub async fn leave_all() -> Result<BTreeSet<Membership>, GroupsError> {
    let all = observe().await?;
    let mut kernel = Exchange::open().map_err(GroupsError::Open)?;
    for membership in &all {
        change(&mut kernel, Command::Leave(*membership))
            .map_err(|source| GroupsError::Leave { group: membership.group, source })?;
    }
    Ok(all)
}

#[derive(Debug, thiserror::Error)]
pub enum GroupsError {
    #[error(transparent)]
    Observe(#[from] NetlinkError),
    #[error("failed to change the groups of neighbour solicitations")]
    Open(#[source] ExchangeError),
    #[error("failed to leave the group {group}")]
    Leave {
        group: Group,
        #[source]
        source: ExchangeError,
    },
}

fn message(membership: Membership) -> NeighbourMessage {
    let Membership { ifindex, group } = membership;
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet6;
    message.header.ifindex = ifindex;
    // The kernel removes others when the carrier is lost.
    message.header.state = NeighbourState::Permanent;
    message.header.flags = NeighbourFlags::Proxy;
    message.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(group.address())),
        NeighbourAttribute::Protocol(PROTOCOL.into()),
    ];
    message
}
