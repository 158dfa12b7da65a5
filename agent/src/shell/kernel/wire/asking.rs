//! A question to neighbours, whose answers show that a segment works.

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

const MOST_ASKED: usize = 3;
/// The time for which answers are waited for.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Asking {
    pub(super) session: Session,
    pub(super) ifindex: u32,
    pub(super) until: Boottime,
    own: MacAddr,
    holder: MacAddr,
    socket: OwnedFd,
}

impl Asking {
    /// Asks by ARP, from the interface's own address, those neighbours that have another MAC than
    /// the holder.
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
        for neighbour in neighbours(interface, holder, MOST_ASKED) {
            let question = Frame::question(mac, source.map(IpAddr::V4), neighbour.into(), nonce());
            send(&socket, ifindex, &question)?;
        }
        Ok(Self { session, ifindex, until: now + PATIENCE, own: mac, holder, socket })
    }

    /// Returns true if ARP of a host other than the holder has come. A loop may bring back this host's
    /// own. Reads `most` frames.
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

impl AsFd for Asking {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
