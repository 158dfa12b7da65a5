//! A packet socket that sends ARP requests for one address, and
//! receives only ARP about that address.

use std::{
    io,
    net::Ipv4Addr,
    os::fd::{AsRawFd, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, bind, recv, sendto, socket},
};
use tokio::io::{Interest, unix::AsyncFd};
use vipward_common::{ArpFrame, ETHERTYPE_ARP, FRAME_LEN};

use super::packet::{destination, padded};

#[cfg(test)]
mod tests;

/// Events that wake the receiver. An interface that goes down is an error, without data to read.
const WOKEN_BY: Interest = Interest::READABLE.add(Interest::ERROR);

/// A failed operation on a segment.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The socket cannot be opened.
    #[error("failed to open a packet socket: it needs CAP_NET_RAW (run as root, or with sudo)")]
    Open(#[source] Errno),
    /// The socket cannot be limited to the address, or to the interface.
    #[error("failed to {operation} on {interface}")]
    Prepare {
        /// The operation.
        operation: &'static str,
        /// The interface.
        interface: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A request cannot be sent.
    #[error("failed to ask on {interface}")]
    Send {
        /// The interface.
        interface: String,
        /// `ENETDOWN`: the interface is down; `ENXIO`, `ENODEV`: it is gone.
        #[source]
        source: Errno,
    },
    /// No frame can be received any more.
    #[error("failed to listen on {interface}")]
    Receive {
        /// The interface.
        interface: String,
        /// The cause, as for sending.
        #[source]
        source: io::Error,
    },
}

/// An address on a segment. Sending and receiving are cancel-safe.
#[derive(Debug)]
pub struct Segment {
    socket: AsyncFd<OwnedFd>,
    ifindex: u32,
    interface: String,
}

impl Segment {
    /// Opens the interface, in the calling thread's network namespace. Needs a tokio runtime.
    pub fn open(ifindex: u32, interface: &str, address: Ipv4Addr) -> Result<Self, SegmentError> {
        let prepare =
            |operation, source| SegmentError::Prepare { operation, interface: interface.to_owned(), source };
        // Without a protocol the socket receives nothing, so every frame in it has passed the
        // filter.
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None).map_err(SegmentError::Open)?;
        hear_only(&socket, address).map_err(|source| prepare("filter what is heard", source))?;
        bind(socket.as_raw_fd(), &destination(ifindex)).map_err(|source| prepare("listen", source.into()))?;
        // SAFETY: an OwnedFd returns the same descriptor always, and closes it when it is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(socket, WOKEN_BY) };
        let socket = registered.map_err(|error| prepare("wait", error.into()))?;
        Ok(Self { socket, ifindex, interface: interface.to_owned() })
    }

    /// Broadcasts a frame. Never blocks.
    pub fn send(&self, frame: &ArpFrame) -> Result<(), SegmentError> {
        sendto(self.socket.as_raw_fd(), &padded(frame), &destination(self.ifindex), MsgFlags::empty())
            .map(drop)
            .map_err(|source| SegmentError::Send { interface: self.interface.clone(), source })
    }

    /// Returns the next frame that has the address as spa or tpa.
    pub async fn receive(&self) -> Result<ArpFrame, SegmentError> {
        let read = || async {
            loop {
                let mut ready = self.socket.ready(WOKEN_BY).await?;
                let mut buffer = [0; FRAME_LEN];
                let received =
                    ready.try_io(|socket| Ok(recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?));
                match received {
                    Ok(Ok(FRAME_LEN)) => return Ok(bytemuck::pod_read_unaligned(&buffer)),
                    // The frame is too short for ARP, or there was none.
                    Ok(Ok(_)) | Err(_) => {}
                    Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(Err(error)) => return Err(error),
                }
            }
        };
        read().await.map_err(|source| SegmentError::Receive { interface: self.interface.clone(), source })
    }
}

/// Lets only untagged ARP pass that names the address as sender or target. A
/// storm of other ARP must not fill the socket.
fn hear_only(socket: &OwnedFd, address: Ipv4Addr) -> io::Result<()> {
    const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
    const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    /// Offsets in the frame.
    const ETHERTYPE: u32 = 12;
    const SPA: u32 = 28;
    const TPA: u32 = 38;
    /// The kernel keeps the tag of a frame beside it (`SKF_AD_VLAN_TAG_PRESENT`).
    const TAGGED: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT).cast_unsigned();

    let address = u32::from(address);
    let length = u32::try_from(FRAME_LEN).expect("invariant: 42");
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: u16::try_from(code).expect("invariant: a classic BPF code is below 256"),
        jt,
        jf,
        k,
    };
    let mut program = [
        step(LOAD_WORD, TAGGED, 0, 0),
        step(JUMP_IF_EQUAL, 0, 0, 6),
        step(LOAD_HALF, ETHERTYPE, 0, 0),
        step(JUMP_IF_EQUAL, u32::from(ETHERTYPE_ARP), 0, 4),
        step(LOAD_WORD, SPA, 0, 0),
        step(JUMP_IF_EQUAL, address, 3, 0),
        step(LOAD_WORD, TPA, 0, 0),
        step(JUMP_IF_EQUAL, address, 1, 0),
        step(RETURN, 0, 0, 0),
        step(RETURN, length, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len().try_into().expect("invariant: ten steps"),
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the option takes a sock_fprog, which the pointer and the length describe; the kernel
    // copies the program.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            libc::socklen_t::try_from(size_of_val(&filter)).expect("invariant: 16 bytes"),
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
