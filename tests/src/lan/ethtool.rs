//! Requests of a card's driver, as `ethtool` makes them: to negotiate again, and offloads.

use std::{io, mem, os::fd::AsRawFd, ptr};

use anyhow::{Context, Result};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::{host::Host, netns::NetNs};

// From <linux/sockios.h> and <linux/ethtool.h>; libc lacks them.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_NWAY_RST: u32 = 0x09;
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_SGRO: u32 = 0x2c;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;

/// `struct ethtool_value`
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

impl NetNs {
    /// Makes a card negotiate its link anew, as `ethtool -r` does. e1000e resets the card for it.
    pub fn renegotiate(&self, name: &str) -> Result<()> {
        self.run(|| ask(name, ETHTOOL_NWAY_RST, 0))
            .map(drop)
            .with_context(|| format!("failed to make {name} negotiate again"))
    }

    /// Makes the kernel finish checksums and cut segments before they reach the card, as
    /// `ethtool -K eth0 tx off` does.
    pub(super) fn finish_checksums(&self, name: &str) -> Result<()> {
        self.run(|| ask(name, ETHTOOL_STXCSUM, 0))
            .map(drop)
            .with_context(|| format!("failed to switch off the checksums of {name}"))
    }
}

impl Host {
    /// Makes a card take VLAN tags off received frames, or leave them, as `ethtool -K` does. Returns
    /// false if its driver cannot do so.
    pub fn set_rx_vlan_offload(&self, interface: &str, on: bool) -> Result<bool> {
        self.run(|| {
            let flags = ask(interface, ETHTOOL_GFLAGS, 0)
                .with_context(|| format!("failed to read the offloads of {interface}"))?;
            let wanted = if on { flags | ETH_FLAG_RXVLAN } else { flags & !ETH_FLAG_RXVLAN };
            Ok(ask(interface, ETHTOOL_SFLAGS, wanted).is_ok())
        })
    }

    /// Switches generic receive offload on, as `ethtool -K eth0 gro on` does.
    pub fn set_gro(&self, interface: &str) -> Result<()> {
        self.run(|| ask(interface, ETHTOOL_SGRO, 1)).map(drop).context("failed to switch GRO on")
    }
}

fn ask(interface: &str, command: u32, data: u32) -> io::Result<u32> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut value = Value { command, data };
    // SAFETY: all fields are numbers and pointers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(room)) {
        *to = from.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_data = ptr::from_mut(&mut value).cast();
    // SAFETY: the request and the value live through the call, and have the kernel's layout.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value.data) }
}
