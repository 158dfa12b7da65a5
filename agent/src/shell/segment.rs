//! A packet socket that sends ARP requests on one segment, and receives ARP of that segment alone.
//!
//! A packet socket for ARP stands behind XDP and traffic control (`__netif_receive_skb_core` calls
//! `sch_handle_ingress` before the handlers of a protocol): it receives what they pass.

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

/// The ARP that a socket receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hearing {
    /// Frames that name this address as sender or target.
    About(Ipv4Addr),
    /// Frames for this host or for all hosts.
    Received,
}

/// A segment. Sending and receiving are cancel-safe.
#[derive(Debug)]
pub struct Segment {
    socket: AsyncFd<OwnedFd>,
    ifindex: u32,
    interface: String,
}

impl Segment {
    /// Opens the interface, in the calling thread's network namespace. Needs a tokio runtime.
    pub fn open(ifindex: u32, interface: &str, hearing: Hearing) -> Result<Self, SegmentError> {
        let prepare =
            |operation, source| SegmentError::Prepare { operation, interface: interface.to_owned(), source };
        // Without a protocol the socket receives nothing, so every frame in it has passed the
        // filter.
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None).map_err(SegmentError::Open)?;
        hear_only(&socket, ifindex, hearing).map_err(|source| prepare("filter what is heard", source))?;
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

    /// Returns the next frame.
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

/// Lets only untagged ARP of the segment pass that is to be heard. A storm of other ARP must not fill
/// the socket.
///
/// Frames of a VLAN device or of a bond reach the sockets of the device below too, with the index of
/// the upper device. In a frame of a VLAN without a device the tag is gone, and the frame is marked
/// as another host's.
fn hear_only(socket: &OwnedFd, ifindex: u32, hearing: Hearing) -> io::Result<()> {
    /// Offsets in the frame.
    const ETHERTYPE: u32 = 12;
    const SPA: u32 = 28;
    const TPA: u32 = 38;

    let length = u32::try_from(FRAME_LEN).expect("invariant: 42");
    let mut program = vec![
        load_word(beside(libc::SKF_AD_IFINDEX)),
        go_on_if_equal(ifindex),
        drop_frame(),
        // The kernel keeps the tag of a frame beside it.
        load_word(beside(libc::SKF_AD_VLAN_TAG_PRESENT)),
        go_on_if_equal(0),
        drop_frame(),
        step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, ETHERTYPE, 0, 0),
        go_on_if_equal(u32::from(ETHERTYPE_ARP)),
        drop_frame(),
    ];
    match hearing {
        Hearing::About(address) => program.extend([
            load_word(SPA),
            step(JUMP_IF_EQUAL, address.into(), 3, 0),
            load_word(TPA),
            go_on_if_equal(address.into()),
            drop_frame(),
        ]),
        Hearing::Received => program.extend([
            load_word(beside(libc::SKF_AD_PKTTYPE)),
            step(JUMP_IF_EQUAL, libc::PACKET_HOST.into(), 2, 0),
            go_on_if_equal(libc::PACKET_BROADCAST.into()),
            drop_frame(),
        ]),
    }
    program.push(step(RETURN, length, 0, 0));
    attach_filter(socket, &mut program)
}

const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    let code = u16::try_from(code).expect("invariant: a classic BPF code is below 256");
    libc::sock_filter { code, jt, jf, k }
}

fn load_word(at: u32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, 0, 0)
}

/// Returns the offset by which a filter reads what the kernel knows of a frame.
const fn beside(what: libc::c_int) -> u32 {
    (libc::SKF_AD_OFF + what).cast_unsigned()
}

/// Skips one step, which drops the frame.
fn go_on_if_equal(value: u32) -> libc::sock_filter {
    step(JUMP_IF_EQUAL, value, 1, 0)
}

fn drop_frame() -> libc::sock_filter {
    step(RETURN, 0, 0, 0)
}

fn attach_filter(socket: &OwnedFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog {
        len: program.len().try_into().expect("invariant: some twenty steps"),
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
