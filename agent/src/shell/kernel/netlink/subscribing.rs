//! Sockets that receive the notifications of groups.

use std::io;

use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use tokio::io::{Interest, unix::AsyncFd};

/// Returns a socket that receives the notifications of these groups.
pub(super) fn subscribe(groups: u32) -> io::Result<AsyncFd<Socket>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.set_non_blocking(true)?;
    socket.bind(&SocketAddr::new(0, groups))?;
    // SAFETY: a Socket owns its descriptor, returns the same one always, and closes it when it is
    // dropped.
    let registered = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
    registered.map_err(io::Error::from)
}
