//! ethtool's ioctls: the name of an interface's driver, and its offloads.

use std::{io, mem, os::fd::AsRawFd, ptr};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use vipward_core::diagnosis::pinned::{Fact, Unread};

// From <linux/ethtool.h> and <linux/sockios.h>; libc lacks them.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;

/// `struct ethtool_value`
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ethtool_drvinfo`
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware_version: [u8; 32],
    bus_info: [u8; 32],
    expansion_rom_version: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

const _: () = assert!(size_of::<DriverInfo>() == 196);

/// Returns the driver's name.
pub(crate) fn driver(interface: &str) -> Fact<String> {
    // SAFETY: all fields are numbers, for which zero is valid.
    let mut info: DriverInfo = unsafe { mem::zeroed() };
    info.command = ETHTOOL_GDRVINFO;
    ask(interface, &mut info)?;
    let end = info.driver.iter().position(|byte| *byte == 0).unwrap_or(info.driver.len());
    Ok(String::from_utf8_lossy(&info.driver[..end]).into_owned())
}

/// Returns true if VLAN tags are taken off received frames (`rx-vlan-offload`).
pub(crate) fn takes_tags_off(interface: &str) -> Fact<bool> {
    Ok(value(interface, ETHTOOL_GFLAGS)? & ETH_FLAG_RXVLAN != 0)
}

/// Returns true if received packets are merged (`generic-receive-offload`).
pub(crate) fn gro(interface: &str) -> Fact<bool> {
    Ok(value(interface, ETHTOOL_GGRO)? != 0)
}

fn value(interface: &str, command: u32) -> Fact<u32> {
    let mut value = Value { command, data: 0 };
    ask(interface, &mut value)?;
    Ok(value.data)
}

/// Sends a command to the driver. `T` begins with the command, and
/// has the layout that the kernel fills in.
fn ask<T>(interface: &str, what: &mut T) -> Fact<()> {
    let failed = |error: io::Error| Unread {
        reason: format!("ethtool has no answer about {interface}: {error}"),
        denied: error.kind() == io::ErrorKind::PermissionDenied,
    };
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    let socket = socket.map_err(|errno| failed(errno.into()))?;
    // SAFETY: all fields are numbers and pointers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(room)) {
        *to = from.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_data = ptr::from_mut(what).cast();
    // SAFETY: the request and what it points to live through the
    // call, and `T` is as long as the kernel's.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if result < 0 { Err(failed(io::Error::last_os_error())) } else { Ok(()) }
}
