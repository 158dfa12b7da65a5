//! A probe of neighbours: their answers show that a segment works.

use std::{
    net::IpAddr,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::socket::{LinkAddr, SockType, bind, recvfrom},
};
use vipward_common::{ETHERTYPE_ARP, MacAddr};
use vipward_core::{base::time::Boottime, records::Session, segment::frame::Frame};

use super::neighbours::{neighbours, own};
use crate::shell::kernel::packet::{address, nonce, open, send};

const MOST_PROBED: usize = 3;
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct NeighbourProbe {
    pub(super) session: Session,
    pub(super) ifindex: u32,
    pub(super) until: Boottime,
    own: MacAddr,
    holder: MacAddr,
    socket: OwnedFd,
}

impl NeighbourProbe {
    /// Sends ARP requests from the interface's own address to neighbours with another MAC than the
    /// holder's.
    pub(super) fn begin(
        session: Session,
        ifindex: u32,
        interface: &str,
        holder: MacAddr,
        now: Boottime,
    ) -> Result<Self, Errno> {
        let socket = open(SockType::Raw)?;
        bind(socket.as_raw_fd(), &address(ifindex, ETHERTYPE_ARP))?;
        let (mac, source) = own(interface).ok_or(Errno::ENODEV)?;
        for neighbour in neighbours(interface, holder, MOST_PROBED) {
            let question = Frame::question(mac, source.map(IpAddr::V4), neighbour.into(), nonce());
            send(&socket, ifindex, &question)?;
        }
        Ok(Self { session, ifindex, until: now + PATIENCE, own: mac, holder, socket })
    }

    /// Returns true if ARP of a third host has arrived: neither the holder's, nor this host's own,
    /// which a loop may bring back. Reads at most `most` frames.
    pub(super) fn has_received(&self, most: usize) -> bool {
        let mut start = [0; 64];
        for _ in 0..most {
            let Ok((_, Some(from))) = recvfrom::<LinkAddr>(self.socket.as_raw_fd(), &mut start) else {
                return false;
            };
            let is_anothers = from.addr().is_some_and(|mac| mac != self.holder.0 && mac != self.own.0);
            if is_anothers && from.pkttype() != libc::PACKET_OUTGOING {
                return true;
            }
        }
        false
    }
}

impl AsFd for NeighbourProbe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
