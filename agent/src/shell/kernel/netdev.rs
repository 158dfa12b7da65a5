//! The netdev family of generic netlink (Linux 6.3 and later): the XDP features of a driver.

use std::io;

use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};

use vipward_core::diagnosis::fact::Unread;

use crate::shell::logging::errors::unread_io;

// From <linux/genetlink.h> and <linux/netdev.h>; libc lacks them.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
/// The basic actions: pass, drop, abort and transmit.
const NETDEV_XDP_ACT_BASIC: u64 = 1;

const HEADER_LEN: usize = 16;
/// The length of the generic netlink header: command, version, and two zero bytes.
const GENERIC_HEADER_LEN: usize = 4;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const ANSWER_BYTES: usize = 16 * 1024;

pub(crate) fn has_native_xdp(ifindex: u32) -> Result<bool, Unread> {
    const WHAT: &str = "the kernel does not report which XDP its drivers offer (Linux 6.3 and newer do)";
    let features = features(ifindex).map_err(|error| unread_io(WHAT, &error))?;
    Ok(features & NETDEV_XDP_ACT_BASIC != 0)
}

fn features(ifindex: u32) -> io::Result<u64> {
    let family = query(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, b"netdev\0")?;
    let family: [u8; 2] = attribute(&family, CTRL_ATTR_FAMILY_ID).ok_or_else(nonsense)?;
    let family = u16::from_ne_bytes(family);
    let answer = query(family, NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX, &ifindex.to_ne_bytes())?;
    attribute(&answer, NETDEV_A_DEV_XDP_FEATURES).map(u64::from_ne_bytes).ok_or_else(nonsense)
}

fn nonsense() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}

/// Sends a request with one attribute, and returns the attributes of the answer. The kernel answers
/// within the system call.
fn query(family: u16, command: u8, attribute: u16, value: &[u8]) -> io::Result<Vec<u8>> {
    let socket = Socket::new(NETLINK_GENERIC)?;
    socket.set_non_blocking(true)?;
    socket.send_to(&message(family, command, attribute, value), &SocketAddr::new(0, 0), 0)?;
    let mut answer = Vec::with_capacity(ANSWER_BYTES);
    socket.recv_from(&mut answer, 0)?;
    let kind: [u8; 2] = answer.get(4..).and_then(|rest| rest.first_chunk().copied()).ok_or_else(nonsense)?;
    let payload = answer.get(HEADER_LEN..).ok_or_else(nonsense)?;
    if u16::from_ne_bytes(kind) == NLMSG_ERROR {
        let errno = payload.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        return Err(io::Error::from_raw_os_error(errno.saturating_neg()));
    }
    payload.get(GENERIC_HEADER_LEN..).map(<[u8]>::to_vec).ok_or_else(nonsense)
}

fn message(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let attribute_len = 4 + value.len();
    let length = HEADER_LEN + GENERIC_HEADER_LEN + attribute_len.next_multiple_of(4);
    let small = |length: usize| u16::try_from(length).expect("invariant: requests are short");
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&u32::from(small(length)).to_ne_bytes());
    bytes.extend_from_slice(&family.to_ne_bytes());
    bytes.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    // Sequence and port are zero: each socket has one request, and the kernel chooses the port.
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&[command, 1, 0, 0]);
    bytes.extend_from_slice(&small(attribute_len).to_ne_bytes());
    bytes.extend_from_slice(&attribute.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(length, 0);
    bytes
}

/// Returns the value of an attribute, if it is there and has that size.
fn attribute<const N: usize>(mut bytes: &[u8], wanted: u16) -> Option<[u8; N]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return value.try_into().ok();
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_found_behind_others_and_never_beyond_the_end() {
        // A string of three bytes (padded), a number of four, and the one that is wanted.
        let mut bytes = vec![];
        for (kind, value) in [(1_u16, &b"ab\0"[..]), (2, &[1, 2, 3, 4]), (3, &[9, 0, 0, 0, 0, 0, 0, 0])] {
            let length = u16::try_from(4 + value.len()).expect("short");
            bytes.extend_from_slice(&length.to_ne_bytes());
            bytes.extend_from_slice(&kind.to_ne_bytes());
            bytes.extend_from_slice(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        assert_eq!(attribute(&bytes, 2), Some([1, 2, 3, 4]));
        assert_eq!(attribute(&bytes, 3), Some([9, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(attribute::<2>(&bytes, 2), None, "another size");
        assert_eq!(attribute::<8>(&bytes, 4), None, "not there");
        for end in 0..bytes.len() {
            assert_eq!(attribute::<8>(&bytes[..end], 3), None, "cut at {end}");
        }
        // A length of zero must not be an endless loop.
        assert_eq!(attribute::<8>(&[0; 16], 3), None);
    }
}
