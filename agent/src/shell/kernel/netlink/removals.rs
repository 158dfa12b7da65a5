//! Notifications of what others remove: filters of traffic control, and memberships in groups.
//!
//! Other programs change both on other interfaces, a container's for each of its own. So they have a socket
//! of their own, whose overrun costs no other notification, and only some interfaces count.

use std::{collections::BTreeSet, io};

use rtnetlink::sys::Socket;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use super::{Direction, messages, subscribing::subscribe, tcx_programs};

/// `RTMGRP_TC` of <linux/rtnetlink.h>.
const RTMGRP_TC: u32 = 8;
/// `RTNLGRP_IPV6_MCADDR`, since Linux 6.14.
const RTNLGRP_IPV6_MCADDR: u32 = 38;
/// The loopback interface of each network namespace.
const LOOPBACK: u32 = 1;

pub(super) struct Removals {
    socket: AsyncFd<Socket>,
    include_groups: bool,
    watched: BTreeSet<u32>,
}

impl Removals {
    /// Subscribes to removed filters, where the kernel has no tcx, and to groups that it leaves.
    pub(super) fn subscribe() -> io::Result<Self> {
        // Where the program has a link of tcx, filters are the business of others.
        let has_tcx = matches!(tcx_programs(LOOPBACK, Direction::Ingress), Ok(Some(_)));
        let mut socket = subscribe(if has_tcx { 0 } else { RTMGRP_TC })?;
        let include_groups = match socket.get_mut().add_membership(RTNLGRP_IPV6_MCADDR) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => false,
            Err(error) => return Err(error),
        };
        Ok(Self { socket, include_groups, watched: BTreeSet::new() })
    }

    pub(super) fn include_groups(&self) -> bool {
        self.include_groups
    }

    pub(super) fn watch(&mut self, interfaces: impl Iterator<Item = u32>) {
        self.watched = interfaces.collect();
    }

    pub(super) async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, Socket>> {
        self.socket.readable().await
    }

    /// Empties the queue. Returns the watched interfaces from which something was removed, if any. After an
    /// overrun these are all.
    pub(super) fn drain(&mut self, datagram: &mut Vec<u8>) -> io::Result<Option<BTreeSet<u32>>> {
        let mut from = BTreeSet::new();
        loop {
            datagram.clear();
            match self.socket.get_ref().recv(datagram, 0) {
                Ok(_) => from.extend(messages::removals(datagram).filter(|it| self.watched.contains(it))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => from.extend(&self.watched),
                Err(error) => return Err(error),
            }
        }
        Ok((!from.is_empty()).then_some(from))
    }
}
