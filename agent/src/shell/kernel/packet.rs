//! The packet socket: sends announcements and probes.
//!
//! All frames are [`Frame`]s from the interface's MAC, and but for the last to a group (RFC 5227, 1.1 and
//! 2.3; RFC 4861, 7.2.6; RFC 9131):
//!
//! ```text
//! IPv4                        oper          sha  spa      tha  tpa
//! announcement, request form  1 (request)   mac  VIP      0    VIP
//! announcement, reply form    2 (reply)     mac  VIP      mac  VIP
//! probe                       1 (request)   mac  0.0.0.0  0    VIP
//! question to a host          1 (request)   mac  VIP      0    host
//!
//! IPv6                        type                 source  destination       target  option
//! announcement to all nodes   136 (advertisement)  VIP     ff02::1           VIP     mac
//! announcement to routers     136 (advertisement)  VIP     ff02::2           VIP     mac
//! probe                       135 (solicitation)   ::      solicited-node    VIP     nonce
//! question                    135 (solicitation)   own     solicited-node    VIP     mac
//! question to a host          135 (solicitation)   VIP     that host         host    mac
//! ```
//!
//! A question to one host goes to its MAC. In IPv6 it goes to the VIP (RFC 4861, 7.3.1), in IPv4 it has an own
//! address as spa, or zero without one.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrLike, sendto, socket};
use vipward_common::{MacAddr, ND_FRAME_LEN};
use vipward_core::segment::{
    frame::{Frame, Nonce},
    rivals::{
        Hold,
        statement::{self, ETHERTYPE},
    },
};

#[cfg(test)]
mod tests;

/// The shortest Ethernet frame, without its checksum.
const MIN_FRAME_LEN: usize = 60;

#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    #[error("failed to open a packet socket (it needs CAP_NET_RAW)")]
    Open(#[source] Errno),
    #[error("failed to {what} {vip} on the interface with index {ifindex}")]
    Send {
        /// `announce`, `probe for` or `ask as`.
        what: &'static str,
        vip: IpAddr,
        ifindex: u32,
        /// `ENETDOWN`: the interface is down; `ENXIO`, `ENODEV`: it is gone; `ENOBUFS`, `EAGAIN`:
        /// its queue is full.
        #[source]
        source: Errno,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Sent {
    Both,
    /// The check failed before a frame.
    Stopped {
        /// Frames sent before: 0 or 1.
        frames: u8,
    },
}

/// A packet socket that sends through every interface of its
/// network namespace. It receives nothing.
pub struct Announcer {
    socket: OwnedFd,
}

/// Opens a packet socket, in the calling thread's network namespace. It receives nothing before it is
/// bound, so the kernel copies no frame for it.
pub(crate) fn open(kind: SockType) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Packet, kind, flags, None)
}

impl Announcer {
    pub fn open() -> Result<Self, PacketError> {
        Ok(Self { socket: open(SockType::Raw).map_err(PacketError::Open)? })
    }

    /// Sends one round: the two frames that announce "`vip` is at `mac`".
    ///
    /// Calls `check` directly before each frame, and sends only while it returns true. Never
    /// blocks.
    pub fn send(
        &self,
        ifindex: u32,
        mac: MacAddr,
        vip: IpAddr,
        mut check: impl FnMut() -> bool,
    ) -> Result<Sent, PacketError> {
        for (frames, frame) in (0..).zip(Frame::announcements(mac, vip)) {
            if !check() {
                return Ok(Sent::Stopped { frames });
            }
            let sent = send(&self.socket, ifindex, &frame);
            sent.map_err(|source| PacketError::Send { what: "announce", vip, ifindex, source })?;
        }
        Ok(Sent::Both)
    }

    /// Sends one announcement of "`vip` is at `mac`" to the host with the MAC `to` alone. Never blocks.
    pub fn repeat_to(&self, ifindex: u32, to: MacAddr, mac: MacAddr, vip: IpAddr) -> Result<(), PacketError> {
        let sent = send(&self.socket, ifindex, &Frame::announcement_to(to, mac, vip));
        sent.map_err(|source| PacketError::Send { what: "announce", vip, ifindex, source })
    }

    /// Sends a statement about VIPs that this node holds to the peer with the MAC `to`. Never blocks.
    pub fn state(&self, ifindex: u32, to: MacAddr, mac: MacAddr, holds: &[Hold]) -> Result<(), Errno> {
        let frame = statement::write(to, mac, holds);
        sendto(self.socket.as_raw_fd(), &frame, &address(ifindex, ETHERTYPE), MsgFlags::empty()).map(drop)
    }

    /// Sends one request for `vip` from `mac`. Without a `source` it is a probe (RFC 5227, 2.1.1; RFC
    /// 4862, 5.4.2). Never blocks.
    pub fn probe(
        &self,
        ifindex: u32,
        mac: MacAddr,
        vip: IpAddr,
        source: Option<IpAddr>,
    ) -> Result<(), PacketError> {
        self.ask(ifindex, vip, &Frame::question(mac, source, vip, nonce()))
    }

    /// Sends a request for `vip`. Never blocks.
    pub fn ask(&self, ifindex: u32, vip: IpAddr, question: &Frame) -> Result<(), PacketError> {
        let sent = send(&self.socket, ifindex, question);
        sent.map_err(|source| PacketError::Send { what: "probe for", vip, ifindex, source })
    }

    /// Sends one request for `host` from `vip` at `mac`, to the host's MAC alone. Never blocks.
    pub fn question_to(
        &self,
        ifindex: u32,
        (to, host): (MacAddr, IpAddr),
        mac: MacAddr,
        vip: IpAddr,
    ) -> Result<(), PacketError> {
        let Some(frame) = Frame::question_to(to, mac, vip, host) else { return Ok(()) };
        let sent = send(&self.socket, ifindex, &frame);
        sent.map_err(|source| PacketError::Send { what: "ask as", vip, ifindex, source })
    }
}

pub(crate) fn nonce() -> Nonce {
    std::array::from_fn(|_| fastrand::u8(..))
}

/// Sends a frame, padded to the least length, through a packet socket.
pub(crate) fn send(socket: &OwnedFd, ifindex: u32, frame: &Frame) -> Result<(), Errno> {
    let mut padded = [0; ND_FRAME_LEN];
    let bytes = frame.bytes();
    padded[..bytes.len()].copy_from_slice(bytes);
    let padded = &padded[..bytes.len().max(MIN_FRAME_LEN)];
    let destination = address(ifindex, frame.ethertype());
    sendto(socket.as_raw_fd(), padded, &destination, MsgFlags::empty()).map(drop)
}

/// Returns the address of an interface's segment, to send frames of this protocol to, or to receive
/// them from.
pub(crate) fn address(ifindex: u32, ethertype: u16) -> LinkAddr {
    // The Ethernet destination is in the frame.
    link_address(ifindex, ethertype, &[])
}

/// Returns the address of a host on an interface's segment, for a socket that leaves the Ethernet
/// header to the kernel.
pub(crate) fn address_of(ifindex: u32, ethertype: u16, MacAddr(octets): MacAddr) -> LinkAddr {
    link_address(ifindex, ethertype, &octets)
}

fn link_address(ifindex: u32, ethertype: u16, host: &[u8]) -> LinkAddr {
    let mut sll_addr = [0; 8];
    sll_addr[..host.len()].copy_from_slice(host);
    let address = libc::sockaddr_ll {
        sll_family: u16::try_from(libc::AF_PACKET).expect("invariant: AF_PACKET is 17"),
        sll_protocol: ethertype.to_be(),
        sll_ifindex: ifindex.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: u8::try_from(host.len()).expect("invariant: no MAC, or one of six bytes"),
        sll_addr,
    };
    let length = libc::socklen_t::try_from(size_of_val(&address)).expect("invariant: 20 bytes");
    // SAFETY: the pointer is to a whole, initialised sockaddr_ll of that length, and is only read
    // here.
    unsafe { LinkAddr::from_raw((&raw const address).cast(), Some(length)) }
        .expect("invariant: the family is AF_PACKET and the length that of sockaddr_ll")
}
