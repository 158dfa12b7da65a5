//! Resets a network card, as `ethtool -r` does.

use std::os::fd::AsRawFd;
use std::{io, mem, ptr};

use anyhow::{Context, Result};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::netns::NetNs;

// From <linux/sockios.h> and <linux/ethtool.h>; libc lacks them.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_NWAY_RST: u32 = 0x09;

/// `struct ethtool_value`
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

impl NetNs {
    /// Makes a card negotiate its link anew. e1000e resets the card for it.
    pub fn renegotiate(&self, name: &str) -> Result<()> {
        self.run(|| command(name, ETHTOOL_NWAY_RST))
            .with_context(|| format!("failed to make {name} negotiate again"))
    }
}

fn command(name: &str, command: u32) -> io::Result<()> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut value = Value { command, data: 0 };
    // SAFETY: all fields are numbers and pointers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
        *to = from.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_data = ptr::from_mut(&mut value).cast();
    // SAFETY: the request and the value that it points to live through the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
