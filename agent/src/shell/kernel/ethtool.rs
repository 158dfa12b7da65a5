//! ethtool's ioctls: the name of an interface's driver, and its offloads.

use std::{io, mem, os::fd::AsRawFd, ptr};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use vipward_core::diagnosis::fact::Unread;

use crate::shell::logging::errors::unread_io;

// From <linux/ethtool.h> and <linux/sockios.h>; libc lacks them.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;

/// A command of ethtool's, with the kernel's answer behind it.
#[repr(C)]
struct Query<T> {
    command: u32,
    answer: T,
}

/// An answer to a command.
///
/// # Safety
///
/// `Query<Self>` must be the structure that the kernel fills in for `COMMAND`, and any bytes must be valid
/// in it.
unsafe trait Answer: Default {
    const COMMAND: u32;
}

/// `ETHTOOL_GFLAGS`
#[repr(transparent)]
#[derive(Default)]
struct Flags(u32);

// SAFETY: the kernel fills in a `struct ethtool_value`: the command and a number.
unsafe impl Answer for Flags {
    const COMMAND: u32 = 0x25;
}

/// `ETHTOOL_GGRO`
#[repr(transparent)]
#[derive(Default)]
struct Gro(u32);

// SAFETY: as for `Flags`.
unsafe impl Answer for Gro {
    const COMMAND: u32 = 0x2b;
}

/// `ETHTOOL_GDRVINFO`
#[repr(C)]
#[derive(Default)]
struct DriverInfo {
    driver: [u8; 32],
    version: [u8; 32],
    firmware_version: [u8; 32],
    bus_info: [u8; 32],
    expansion_rom_version: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

const _: () = assert!(size_of::<Query<DriverInfo>>() == 196);

// SAFETY: the kernel fills in a `struct ethtool_drvinfo`: the command and these fields.
unsafe impl Answer for DriverInfo {
    const COMMAND: u32 = 0x03;
}

pub(crate) fn driver(interface: &str) -> Result<String, Unread> {
    let info: DriverInfo = query(interface)?;
    let end = info.driver.iter().position(|byte| *byte == 0).unwrap_or(info.driver.len());
    Ok(String::from_utf8_lossy(&info.driver[..end]).into_owned())
}

/// Returns true if VLAN tags are taken off received frames (`rx-vlan-offload`).
pub(crate) fn takes_tags_off(interface: &str) -> Result<bool, Unread> {
    let Flags(flags) = query(interface)?;
    Ok(flags & ETH_FLAG_RXVLAN != 0)
}

pub(crate) fn gro(interface: &str) -> Result<bool, Unread> {
    let Gro(gro) = query(interface)?;
    Ok(gro != 0)
}

fn query<T: Answer>(interface: &str) -> Result<T, Unread> {
    let failed =
        |error: io::Error| unread_io(format_args!("ethtool has no answer about {interface}"), &error);
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    let socket = socket.map_err(|errno| failed(errno.into()))?;
    // SAFETY: all fields are numbers and pointers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(room)) {
        *to = from.cast_signed() as libc::c_char;
    }
    let mut query = Query { command: T::COMMAND, answer: T::default() };
    request.ifr_ifru.ifru_data = ptr::from_mut(&mut query).cast();
    // SAFETY: the request and what it points to live through the call, and `Query<T>` is the kernel's
    // structure for the command.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if result < 0 { Err(failed(io::Error::last_os_error())) } else { Ok(query.answer) }
}
