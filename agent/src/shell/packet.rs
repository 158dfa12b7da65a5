//! The packet socket: sends announcements and probes.
//!
//! All frames are [`ArpFrame`]s, broadcast from the interface's MAC (RFC 5227, 1.1 and 2.3):
//!
//! ```text
//!                             oper          sha  spa      tha  tpa
//! announcement, request form  1 (request)   mac  VIP      0    VIP
//! announcement, reply form    2 (reply)     mac  VIP      mac  VIP
//! probe                       1 (request)   mac  0.0.0.0  0    VIP
//! ```

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use bytemuck::bytes_of;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrLike, sendto, socket};
use vipward_common::{ArpFrame, ETHERTYPE_ARP, FRAME_LEN, MacAddr, OPER_REPLY, OPER_REQUEST};

#[cfg(test)]
mod tests;

/// The shortest Ethernet frame, without its checksum.
const MIN_FRAME_LEN: usize = 60;

/// A failed operation on the socket.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// The socket cannot be opened.
    #[error("failed to open a packet socket (it needs CAP_NET_RAW)")]
    Open(#[source] Errno),
    /// A frame cannot be sent.
    #[error("failed to {what} {vip} on the interface with index {ifindex}")]
    Send {
        /// `announce` or `probe for`.
        what: &'static str,
        /// The VIP.
        vip: Ipv4Addr,
        /// The interface.
        ifindex: u32,
        /// `ENETDOWN`: the interface is down; `ENXIO`, `ENODEV`: it is gone; `ENOBUFS`, `EAGAIN`:
        /// its queue is full.
        #[source]
        source: Errno,
    },
}

/// Result of an announcement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Sent {
    /// Both frames were sent.
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

impl Announcer {
    /// Opens the socket, in the calling thread's network namespace.
    pub fn open() -> Result<Self, PacketError> {
        // Protocol 0 receives nothing, so the kernel copies no frame for it.
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None).map_err(PacketError::Open)?;
        Ok(Self { socket })
    }

    /// Broadcasts one round: the request form and the reply form of "`vip` is at `mac`".
    ///
    /// Calls `check` directly before each frame, and sends only while it returns true. Never
    /// blocks.
    pub fn send(
        &self,
        ifindex: u32,
        mac: MacAddr,
        vip: Ipv4Addr,
        mut check: impl FnMut() -> bool,
    ) -> Result<Sent, PacketError> {
        for (frames, frame) in (0..).zip(forms(mac, vip)) {
            if !check() {
                return Ok(Sent::Stopped { frames });
            }
            sendto(self.socket.as_raw_fd(), &frame, &destination(ifindex), MsgFlags::empty())
                .map_err(|source| PacketError::Send { what: "announce", vip, ifindex, source })?;
        }
        Ok(Sent::Both)
    }

    /// Sends one ARP Probe for `vip` (RFC 5227, 2.1.1), without a sender address. Never blocks.
    pub fn probe(&self, ifindex: u32, mac: MacAddr, vip: Ipv4Addr) -> Result<(), PacketError> {
        let (no_sender, zero) = ([0; 4], MacAddr::ZERO);
        let probe = ArpFrame::new(MacAddr::BROADCAST, mac, OPER_REQUEST, mac, no_sender, zero, vip.octets());
        sendto(self.socket.as_raw_fd(), &padded(&probe), &destination(ifindex), MsgFlags::empty())
            .map_err(|source| PacketError::Send { what: "probe for", vip, ifindex, source })?;
        Ok(())
    }
}

/// Returns the two frames of a round. In the reply, tha is sha: Linux ignores a gratuitous reply
/// with another tha within its lock time.
fn forms(mac: MacAddr, vip: Ipv4Addr) -> [[u8; MIN_FRAME_LEN]; 2] {
    let vip = vip.octets();
    [(OPER_REQUEST, MacAddr::ZERO), (OPER_REPLY, mac)]
        .map(|(oper, tha)| padded(&ArpFrame::new(MacAddr::BROADCAST, mac, oper, mac, vip, tha, vip)))
}

/// Returns a frame, padded to the least length.
pub(super) fn padded(frame: &ArpFrame) -> [u8; MIN_FRAME_LEN] {
    let mut padded = [0; MIN_FRAME_LEN];
    padded[..FRAME_LEN].copy_from_slice(bytes_of(frame));
    padded
}

/// Returns the address of ARP broadcasts on an interface. A socket bound to it receives ARP from
/// there.
pub(super) fn destination(ifindex: u32) -> LinkAddr {
    let mut sll_addr = [0; 8];
    sll_addr[..6].copy_from_slice(&MacAddr::BROADCAST.0);
    let address = libc::sockaddr_ll {
        sll_family: u16::try_from(libc::AF_PACKET).expect("invariant: AF_PACKET is 17"),
        sll_protocol: ETHERTYPE_ARP.to_be(),
        sll_ifindex: ifindex.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr,
    };
    let length = libc::socklen_t::try_from(size_of_val(&address)).expect("invariant: 20 bytes");
    // SAFETY: the pointer is to a whole, initialised sockaddr_ll of that length, and is only read
    // here.
    unsafe { LinkAddr::from_raw((&raw const address).cast(), Some(length)) }
        .expect("invariant: the family is AF_PACKET and the length that of sockaddr_ll")
}
