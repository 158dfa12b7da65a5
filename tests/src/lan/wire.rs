//! Sends and receives frames on an interface of a host, with the kernel's timestamps.

use std::fmt;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrLike, bind, recvmsg,
    send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;

use super::{host::Host, netns::NetNs};
use crate::frames::{Arp, ETHERTYPE_ARP, Family, Message, nd::ETHERTYPE_IPV6};

/// Size of the buffer: seconds of a thousand frames a second, in case this thread does not run.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
const MAX_FRAME_LEN: usize = 9216;

/// Frames that a [`Wire`] receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Receives {
    /// Incoming frames of ARP, or of IPv6.
    Incoming(Family),
    /// All frames in both directions.
    All,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Bytes from the Ethernet destination on, without a VLAN tag, which the kernel removes.
    pub bytes: Vec<u8>,
    /// Time at which the kernel received it.
    pub at: SystemTime,
    pub outgoing: bool,
}

impl Frame {
    /// Parses it as an ARP frame.
    pub fn arp(&self) -> Option<Arp> {
        Arp::parse(&self.bytes).ok()
    }

    /// Parses it as a frame of ARP or neighbour discovery.
    pub fn message(&self) -> Option<Message> {
        Message::parse(&self.bytes)
    }
}

/// Raw socket in promiscuous mode, which also receives frames to other hosts.
/// It does not receive frames that an XDP program on the interface
/// drops or answers: listen at the other end of the cable.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
}

impl Wire {
    /// Opens an interface to send anything and to receive incoming ARP frames.
    pub fn open(host: &Host, interface: &str) -> Result<Self> {
        Self::open_in(host, interface, Family::V4)
    }

    /// Opens an interface to send anything and to receive incoming frames of ARP, or of IPv6.
    pub fn open_in(host: &Host, interface: &str, family: Family) -> Result<Self> {
        Self::open_receiving(host, interface, Receives::Incoming(family))
    }

    /// Opens an interface to send anything and to receive all
    /// frames in both directions, except those of this wire.
    pub fn open_all(host: &Host, interface: &str) -> Result<Self> {
        Self::open_receiving(host, interface, Receives::All)
    }

    /// Opens an interface of a namespace as [`Wire::open_all`] does.
    pub(super) fn open_all_in(namespace: &NetNs, interface: &str) -> Result<Self> {
        Self::open_receiving_in(namespace, interface, Receives::All)
    }

    fn open_receiving(host: &Host, interface: &str, receives: Receives) -> Result<Self> {
        Self::open_receiving_in(host.namespace(), interface, receives)
            .with_context(|| format!("on host {}", host.name()))
    }

    fn open_receiving_in(namespace: &NetNs, interface: &str, receives: Receives) -> Result<Self> {
        let index = namespace.link(interface)?.index;
        let socket = namespace.run(|| packet_socket(index, receives));
        let socket = socket.with_context(|| format!("failed to open a packet socket on {interface}"))?;
        Ok(Self { socket })
    }

    /// Sends a frame. One that the interface drops, as a bond without a port does, is lost like one on
    /// the wire.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        let sent = match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
            Err(Errno::ENOBUFS) => return Ok(()),
            sent => sent.with_context(|| format!("failed to send a frame of {} bytes", frame.len()))?,
        };
        ensure!(sent == frame.len(), "only {sent} of {} bytes were sent", frame.len());
        Ok(())
    }

    /// Sends frames in order, as many with one system call as the kernel takes.
    pub fn send_all(&self, frames: &[Vec<u8>]) -> Result<()> {
        let slice = |frame: &Vec<u8>| libc::iovec {
            iov_base: frame.as_ptr().cast_mut().cast(),
            iov_len: frame.len(),
        };
        let mut slices: Vec<libc::iovec> = frames.iter().map(slice).collect();
        let message = |slice: &mut libc::iovec| {
            // SAFETY: all zeroes are a valid mmsghdr.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = slice;
            message.msg_hdr.msg_iovlen = 1;
            message
        };
        let mut messages: Vec<libc::mmsghdr> = slices.iter_mut().map(message).collect();
        let mut left = &mut messages[..];
        while !left.is_empty() {
            let count = libc::c_uint::try_from(left.len())?;
            // SAFETY: the messages point to the slices and these to the frames. Both live until the
            // call returns, and are only read.
            let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), left.as_mut_ptr(), count, 0) };
            match Errno::result(sent) {
                Ok(sent) => left = &mut left[usize::try_from(sent)?..],
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("failed to send frames"),
            }
        }
        Ok(())
    }

    /// Receives only frames with `bytes` at `offset` from now on. The
    /// kernel filters, so that a flood does not fill the socket's buffer.
    pub fn receive_only(&self, offset: u16, bytes: &[u8]) -> Result<()> {
        /// Accepts the whole frame.
        const ALL: u32 = u32::MAX;
        let instruction = |code: u32, k: u32| -> Result<libc::sock_filter> {
            Ok(libc::sock_filter { code: u16::try_from(code)?, jt: 0, jf: 0, k })
        };
        let mut program = Vec::new();
        for (at, byte) in (u32::from(offset)..).zip(bytes) {
            program.push(instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, at)?);
            let equal = instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, u32::from(*byte))?;
            // Jumps to the instruction that rejects the frame.
            let left = 2 * (bytes.len() - program.len().div_ceil(2)) + 1;
            program.push(libc::sock_filter { jf: u8::try_from(left)?, ..equal });
        }
        program.push(instruction(libc::BPF_RET | libc::BPF_K, ALL)?);
        program.push(instruction(libc::BPF_RET | libc::BPF_K, 0)?);
        let filter = libc::sock_fprog { len: u16::try_from(program.len())?, filter: program.as_mut_ptr() };
        set_option(&self.socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
            .context("failed to attach a filter")
    }

    /// Returns the next frame, or `None` if none arrives before
    /// `deadline`. A frame in the buffer counts even after the deadline.
    pub fn receive(&self, deadline: Instant) -> Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.take_waiting()? {
                return Ok(Some(frame));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            Self::wait_for_any([self], deadline)?;
        }
    }

    /// Waits until one of the wires may have a frame, at the longest until `deadline`.
    pub(super) fn wait_for_any<'a>(
        wires: impl IntoIterator<Item = &'a Self>,
        deadline: Instant,
    ) -> Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        let polled = wires.into_iter().map(|wire| PollFd::new(wire.socket.as_fd(), PollFlags::POLLIN));
        match ppoll(&mut polled.collect::<Vec<_>>(), Some(TimeSpec::from_duration(left)), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error).context("failed to wait for a frame"),
        }
    }

    /// Waits for an ARP frame that `matches`. The failure lists the other frames.
    pub fn expect_arp(&self, limit: Duration, what: &str, matches: impl FnMut(&Arp) -> bool) -> Result<Arp> {
        self.expect_frame(limit, what, Frame::arp, matches)
    }

    /// Waits for a frame of ARP or neighbour discovery that `matches`. The failure lists the others.
    pub fn expect(
        &self,
        limit: Duration,
        what: &str,
        matches: impl FnMut(&Message) -> bool,
    ) -> Result<Message> {
        self.expect_frame(limit, what, Frame::message, matches)
    }

    fn expect_frame<T: fmt::Display>(
        &self,
        limit: Duration,
        what: &str,
        read: impl Fn(&Frame) -> Option<T>,
        mut matches: impl FnMut(&T) -> bool,
    ) -> Result<T> {
        let deadline = Instant::now() + limit;
        let mut others = Vec::new();
        while let Some(frame) = self.receive(deadline)? {
            match read(&frame) {
                Some(message) if matches(&message) => return Ok(message),
                Some(message) => others.push(message.to_string()),
                None => {}
            }
        }
        bail!("waited {limit:?} in vain for {what}; received meanwhile: {others:#?}");
    }

    /// Returns all frames within `duration`.
    pub fn capture(&self, duration: Duration) -> Result<Vec<Frame>> {
        let deadline = Instant::now() + duration;
        let end = SystemTime::now() + duration;
        let mut frames = Vec::new();
        while let Some(frame) = self.receive(deadline)?
            && frame.at <= end
        {
            frames.push(frame);
        }
        Ok(frames)
    }

    /// Returns all frames in the buffer.
    pub fn drain(&self) -> Result<Vec<Frame>> {
        std::iter::from_fn(|| self.take_waiting().transpose()).collect()
    }

    /// Returns the next frame in the buffer.
    pub(super) fn take_waiting(&self) -> Result<Option<Frame>> {
        let mut bytes = vec![0; MAX_FRAME_LEN];
        let mut control = nix::cmsg_space!(TimeSpec);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg::<LinkAddr>(
            self.socket.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            MsgFlags::MSG_DONTWAIT,
        );
        let message = match received {
            Ok(message) => message,
            // The kernel reports ENETDOWN once when the interface
            // goes down. Frames arrive again when it is up.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => return Ok(None),
            Err(error) => return Err(error).context("failed to receive a frame"),
        };
        let stamped = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(stamp) => {
                Some(SystemTime::UNIX_EPOCH + Duration::from(stamp))
            }
            _ => None,
        });
        let at = stamped.context("a frame came without a timestamp")?;
        let outgoing = message.address.is_some_and(|from| from.pkttype() == libc::PACKET_OUTGOING);
        let len = message.bytes;
        bytes.truncate(len);
        Ok(Some(Frame { bytes, at, outgoing }))
    }
}

/// Socket that sends frames as the virtual card of a guest does (`linux/virtio_net.h`): with checksums that
/// the sender has left to the card.
#[derive(Debug)]
pub struct GuestWire {
    socket: OwnedFd,
}

impl GuestWire {
    /// Opens an interface to send.
    pub fn open(host: &Host, interface: &str) -> Result<Self> {
        /// From `linux/if_packet.h`.
        const PACKET_VNET_HDR: i32 = 15;

        let Wire { socket } = Wire::open(host, interface)?;
        set_option(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, &1_i32)
            .context("failed to ask for virtio's header")?;
        Ok(Self { socket })
    }

    /// Sends a frame whose checksum is unfinished. It counts from `start`, and its place is `offset` bytes
    /// behind that.
    pub fn send_unfinished(&self, frame: &[u8], start: usize, offset: usize) -> Result<()> {
        const NEEDS_CSUM: u8 = 1;

        let [start, offset] = [u16::try_from(start)?.to_ne_bytes(), u16::try_from(offset)?.to_ne_bytes()];
        let header = [&[NEEDS_CSUM, 0, 0, 0, 0, 0], &start[..], &offset].concat();
        let frame = [&header, frame].concat();
        let sent = send(self.socket.as_raw_fd(), &frame, MsgFlags::empty());
        let sent = sent.with_context(|| format!("failed to send a frame of {} bytes", frame.len()))?;
        ensure!(sent == frame.len(), "only {sent} of {} bytes were sent", frame.len());
        Ok(())
    }
}

fn packet_socket(index: u32, receives: Receives) -> Result<OwnedFd> {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).context("failed to ask for timestamps")?;
    setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES)
        .context("failed to enlarge the receive buffer")?;
    listen_to_others(&socket, index).context("failed to listen promiscuously")?;
    // Binds last: without a protocol the socket receives
    // nothing, so that it has no frame of another interface.
    bind(socket.as_raw_fd(), &packet_address(index, receives)?).context("failed to bind")?;
    Ok(socket)
}

fn packet_address(index: u32, receives: Receives) -> Result<LinkAddr> {
    let protocol = match receives {
        Receives::Incoming(Family::V4) => ETHERTYPE_ARP,
        Receives::Incoming(Family::V6) => ETHERTYPE_IPV6,
        Receives::All => u16::try_from(libc::ETH_P_ALL)?,
    };
    let address = libc::sockaddr_ll {
        sll_family: u16::try_from(libc::AF_PACKET)?,
        sll_protocol: protocol.to_be(),
        sll_ifindex: i32::try_from(index)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the pointer is to a complete sockaddr_ll, and the length is its own.
    unsafe { LinkAddr::from_raw((&raw const address).cast(), Some(len_of(&address)?)) }
        .context("invariant: the address is a packet address")
}

fn listen_to_others(socket: &OwnedFd, index: u32) -> Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: i32::try_from(index)?,
        mr_type: u16::try_from(libc::PACKET_MR_PROMISC)?,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Sets an option that nix does not know. `value` must have the option's type.
pub(crate) fn set_option<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> Result<()> {
    let fd = socket.as_raw_fd();
    // SAFETY: the pointer and the length describe the value, which is what the option takes.
    let set = unsafe { libc::setsockopt(fd, level, option, (&raw const *value).cast(), len_of(value)?) };
    Errno::result(set)?;
    Ok(())
}

fn len_of<T>(value: &T) -> Result<libc::socklen_t> {
    Ok(libc::socklen_t::try_from(size_of_val(value))?)
}
