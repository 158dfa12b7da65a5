//! A packet socket that sends requests on one segment, and receives ARP or Neighbour Discovery of that
//! segment alone.
//!
//! A packet socket for one protocol receives what XDP and traffic control pass
//! (`__netif_receive_skb_core` calls `sch_handle_ingress` before the handlers of a protocol).

use std::{
    io,
    net::{IpAddr, Ipv6Addr},
    os::fd::{AsRawFd, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::socket::{LinkAddr, SockType, bind, recvfrom},
};
use tokio::io::{Interest, unix::AsyncFd};
use vipward_common::{
    ETHERTYPE_ARP, ETHERTYPE_IPV6, MacAddr, TYPE_ADVERTISEMENT, TYPE_SOLICITATION, group_mac, solicited_node,
};
use vipward_core::segment::frame::Frame;

use super::packet::{address, open, send};

#[cfg(test)]
mod tests;

/// The protocol of all frames, those that go out too (`ETH_P_ALL`).
const ETHERTYPE_ALL: u16 = 3;
/// The longest frame that is read in whole, which a valid message must be.
const LONGEST: usize = 2_048;
/// Events that wake the receiver. An interface that goes down is an error, without data to read.
const WOKEN_BY: Interest = Interest::READABLE.add(Interest::ERROR);

#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    #[error("failed to open a packet socket: it needs CAP_NET_RAW (run as root, or with sudo)")]
    Open(#[source] Errno),
    #[error("failed to {operation} on {interface}")]
    Prepare {
        operation: &'static str,
        interface: String,
        #[source]
        source: io::Error,
    },
    #[error("failed to send a probe on {interface}")]
    Send {
        interface: String,
        /// `ENETDOWN`: the interface is down; `ENXIO`, `ENODEV`: it is gone.
        #[source]
        source: Errno,
    },
    #[error("failed to listen on {interface}")]
    Receive {
        interface: String,
        #[source]
        source: io::Error,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receiving {
    /// Frames that name this address as sender or target, as source or target.
    About(IpAddr),
    /// ARP for this host or for all hosts.
    Arp,
    /// Neighbour Discovery for this host or for groups.
    Nd,
    /// ARP and Neighbour Discovery to groups from this MAC, in both directions.
    From(MacAddr),
}

impl Receiving {
    const fn ethertype(self) -> u16 {
        match self {
            Self::About(IpAddr::V4(_)) | Self::Arp => ETHERTYPE_ARP,
            Self::About(IpAddr::V6(_)) | Self::Nd => ETHERTYPE_IPV6,
            Self::From(_) => ETHERTYPE_ALL,
        }
    }
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
    pub fn open(ifindex: u32, interface: &str, receiving: Receiving) -> Result<Self, SegmentError> {
        let prepare =
            |operation, source| SegmentError::Prepare { operation, interface: interface.to_owned(), source };
        // It is bound after the filter is set, so every frame in it has passed the filter.
        let socket = open(SockType::Raw).map_err(SegmentError::Open)?;
        receive_only(&socket, ifindex, receiving).map_err(|source| prepare("filter frames", source))?;
        if let Receiving::About(IpAddr::V6(address)) = receiving {
            let group = group_mac(solicited_node(address.octets()));
            receive_group(&socket, ifindex, group).map_err(|source| prepare("listen", source))?;
        }
        let segment = address(ifindex, receiving.ethertype());
        bind(socket.as_raw_fd(), &segment).map_err(|source| prepare("listen", source.into()))?;
        // SAFETY: an OwnedFd returns the same descriptor always, and closes it when it is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(socket, WOKEN_BY) };
        let socket = registered.map_err(|error| prepare("wait", error.into()))?;
        Ok(Self { socket, ifindex, interface: interface.to_owned() })
    }

    /// Sends a frame. Never blocks.
    pub fn send(&self, frame: &Frame) -> Result<(), SegmentError> {
        send(self.socket.get_ref(), self.ifindex, frame)
            .map_err(|source| SegmentError::Send { interface: self.interface.clone(), source })
    }

    /// Returns true if the socket had no room for a frame, since it was opened or asked last.
    pub fn has_lost(&self) -> Result<bool, SegmentError> {
        let mut lost = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = libc::socklen_t::try_from(size_of_val(&lost)).expect("invariant: 8 bytes");
        // SAFETY: the pointers are to a whole value that the kernel overwrites, and to its length.
        let read = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut lost).cast(),
                &raw mut length,
            )
        };
        Errno::result(read).map(|_| lost.tp_drops > 0).map_err(|error| SegmentError::Receive {
            interface: self.interface.clone(),
            source: error.into(),
        })
    }

    pub async fn receive(&self) -> Result<Frame, SegmentError> {
        self.receive_both_ways().await.map(|(frame, _)| frame)
    }

    /// Receives a frame, with true if this host has sent it.
    pub async fn receive_both_ways(&self) -> Result<(Frame, bool), SegmentError> {
        let read = || async {
            loop {
                let mut ready = self.socket.ready(WOKEN_BY).await?;
                let mut buffer = [0; LONGEST];
                let received =
                    ready.try_io(|socket| Ok(recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut buffer)?));
                match received {
                    Ok(Ok((length, from))) => {
                        // The frame may be too short, or no valid message.
                        if let Some(frame) = Frame::read(&buffer[..length]) {
                            let is_outgoing =
                                from.is_some_and(|from| from.as_ref().sll_pkttype == libc::PACKET_OUTGOING);
                            return Ok((frame, is_outgoing));
                        }
                    }
                    Err(_) => {}
                    Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(Err(error)) => return Err(error),
                }
            }
        };
        read().await.map_err(|source| SegmentError::Receive { interface: self.interface.clone(), source })
    }
}

/// Lets only untagged frames of the segment pass, and of these only `receiving`. A storm of others must
/// not fill the socket.
///
/// Frames of a VLAN device or of a bond reach the sockets of the device below too, with the index of
/// the upper device. In a frame of a VLAN without a device the tag is gone, and the frame is marked
/// as another host's.
fn receive_only(socket: &OwnedFd, ifindex: u32, receiving: Receiving) -> io::Result<()> {
    /// Offsets in the frame.
    const ETHERTYPE: u32 = 12;
    const SPA: u32 = 28;
    const TPA: u32 = 38;

    let mut program = vec![
        load_word(beside(libc::SKF_AD_IFINDEX)),
        go_on_if_equal(ifindex),
        drop_frame(),
        // The kernel keeps the tag of a frame beside it.
        load_word(beside(libc::SKF_AD_VLAN_TAG_PRESENT)),
        go_on_if_equal(0),
        drop_frame(),
    ];
    if receiving.ethertype() != ETHERTYPE_ALL {
        program.extend([
            step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, ETHERTYPE, 0, 0),
            go_on_if_equal(receiving.ethertype().into()),
            drop_frame(),
        ]);
    }
    match receiving {
        Receiving::From(MacAddr(mac)) => {
            let [high, low] = [[0, 1, 2, 3], [4, 5, 4, 5]].map(|at| u32::from_be_bytes(at.map(|at| mac[at])));
            let (first, last) = (high, low & 0xffff);
            let group = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
            program.extend([
                load_word(6),
                go_on_if_equal(first),
                drop_frame(),
                step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 10, 0, 0),
                go_on_if_equal(last),
                drop_frame(),
                load_byte(0),
                step(group, 1, 1, 0),
                drop_frame(),
                step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, ETHERTYPE, 0, 0),
                // Past the steps for Neighbour Discovery.
                step(JUMP_IF_EQUAL, ETHERTYPE_ARP.into(), 9, 0),
                go_on_if_equal(ETHERTYPE_IPV6.into()),
                drop_frame(),
            ]);
            program.extend(is_nd());
        }
        Receiving::About(IpAddr::V4(address)) => program.extend([
            load_word(SPA),
            step(JUMP_IF_EQUAL, address.into(), 3, 0),
            load_word(TPA),
            go_on_if_equal(address.into()),
            drop_frame(),
        ]),
        Receiving::Arp => program.extend([
            load_word(beside(libc::SKF_AD_PKTTYPE)),
            step(JUMP_IF_EQUAL, libc::PACKET_HOST.into(), 2, 0),
            go_on_if_equal(libc::PACKET_BROADCAST.into()),
            drop_frame(),
        ]),
        Receiving::About(IpAddr::V6(address)) => {
            program.extend(is_nd());
            program.extend(names(address));
        }
        Receiving::Nd => {
            program.extend(is_nd());
            program.extend([
                load_word(beside(libc::SKF_AD_PKTTYPE)),
                step(JUMP_IF_EQUAL, libc::PACKET_HOST.into(), 2, 0),
                go_on_if_equal(libc::PACKET_MULTICAST.into()),
                drop_frame(),
            ]);
        }
    }
    program.push(step(RETURN, u32::try_from(LONGEST).expect("invariant: it is small"), 0, 0));
    Ok(attach_filter(socket, &mut program)?)
}

/// Drops what is no solicitation or advertisement.
fn is_nd() -> [libc::sock_filter; 7] {
    /// Offsets in the frame.
    const NEXT_HEADER: u32 = 20;
    const TYPE: u32 = 54;

    [
        load_byte(NEXT_HEADER),
        go_on_if_equal(libc::IPPROTO_ICMPV6.cast_unsigned()),
        drop_frame(),
        load_byte(TYPE),
        step(JUMP_IF_EQUAL, TYPE_SOLICITATION.into(), 2, 0),
        go_on_if_equal(TYPE_ADVERTISEMENT.into()),
        drop_frame(),
    ]
}

/// Drops a message of Neighbour Discovery unless its target or source is the address.
fn names(address: Ipv6Addr) -> Vec<libc::sock_filter> {
    /// Offsets in the frame.
    const SOURCE: u32 = 22;
    const TARGET: u32 = 62;

    let octets = address.octets();
    let words = || octets.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word));
    let is_source = (SOURCE..).step_by(4).zip(words());
    let is_source: Vec<_> =
        is_source.flat_map(|(at, word)| [load_word(at), go_on_if_equal(word), drop_frame()]).collect();
    // Another word than the target's leads past the jump, to the source.
    let is_target = (TARGET..).step_by(4).zip(words()).zip([7, 5, 3, 1]);
    let is_target =
        is_target.flat_map(|((at, word), past)| [load_word(at), step(JUMP_IF_EQUAL, word, 0, past)]);
    let accept = u32::try_from(is_source.len()).expect("invariant: 12 steps");
    let jump = step(libc::BPF_JMP | libc::BPF_JA, accept, 0, 0);
    is_target.chain([jump]).chain(is_source).collect()
}

/// Makes the card pass on the frames of a group, until the socket is closed.
fn receive_group(socket: &OwnedFd, ifindex: u32, group: MacAddr) -> io::Result<()> {
    let mut mr_address = [0; 8];
    mr_address[..6].copy_from_slice(&group.0);
    let membership = libc::packet_mreq {
        mr_ifindex: ifindex.cast_signed(),
        mr_type: u16::try_from(libc::PACKET_MR_MULTICAST).expect("invariant: it is 0"),
        mr_alen: 6,
        mr_address,
    };
    Ok(set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?)
}

/// The codes of a filter.
pub(crate) const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
pub(crate) const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

pub(crate) fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    let code = u16::try_from(code).expect("invariant: a classic BPF code is below 256");
    libc::sock_filter { code, jt, jf, k }
}

pub(crate) fn load_byte(at: u32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, at, 0, 0)
}

pub(crate) fn load_word(at: u32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, 0, 0)
}

/// Returns the offset by which a filter reads what the kernel knows of a frame.
pub(crate) const fn beside(what: libc::c_int) -> u32 {
    (libc::SKF_AD_OFF + what).cast_unsigned()
}

/// Skips one step, which drops the frame.
pub(crate) fn go_on_if_equal(value: u32) -> libc::sock_filter {
    step(JUMP_IF_EQUAL, value, 1, 0)
}

pub(crate) fn drop_frame() -> libc::sock_filter {
    step(RETURN, 0, 0, 0)
}

pub(crate) fn attach_filter(socket: &OwnedFd, program: &mut [libc::sock_filter]) -> nix::Result<()> {
    let filter = libc::sock_fprog {
        len: program.len().try_into().expect("invariant: some twenty steps"),
        filter: program.as_mut_ptr(),
    };
    // The kernel copies the program.
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// Sets an option of the socket. `value` has the option's type.
fn set_option<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> nix::Result<()> {
    let length = libc::socklen_t::try_from(size_of_val(value)).expect("invariant: some bytes");
    // SAFETY: the pointer and the length describe the value, which is only read.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), length) };
    Errno::result(set).map(drop)
}
