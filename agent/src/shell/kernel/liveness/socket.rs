//! Packet sockets of the failure detector. The kernel writes the Ethernet header: the source is the
//! interface's MAC, and a VLAN device adds its tag.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::{
    errno::Errno,
    sys::socket::{LinkAddr, MsgFlags, SockType, bind, recvfrom, sendto},
};
use vipward_common::{ETHERTYPE_WIRE, MacAddr, WIRE_LEN, WireFields, WireFrame, WireType};
use vipward_core::{
    liveness::{Frame, Kind},
    records::{KeyId, Session, Wid},
};

use super::{Key, Keys};
use crate::shell::kernel::{
    packet::{address, address_of, open},
    segment::{JUMP_IF_EQUAL, RETURN, attach_filter, beside, drop_frame, load_byte, load_word, step},
};

#[cfg(test)]
mod tests;

/// A socket for wire frames on all interfaces of its network namespace.
#[derive(Debug)]
pub(crate) struct WireSocket(OwnedFd);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Incoming {
    pub(super) ifindex: u32,
    pub(super) from: MacAddr,
    pub(super) frame: Frame,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    Frame(Incoming),
    /// Another frame, or one whose tag is wrong.
    Refused,
    Nothing,
}

impl WireSocket {
    pub(crate) fn to_send() -> Result<Self, Errno> {
        Ok(Self(open(SockType::Datagram)?))
    }

    /// Opens a socket that also receives what the program passes to the agent.
    pub(super) fn to_receive() -> Result<Self, Errno> {
        let this = Self::to_send()?;
        attach_filter(&this.0, &mut for_the_agent())?;
        // Interface 0 stands for all.
        bind(this.0.as_raw_fd(), &address(0, ETHERTYPE_WIRE))?;
        Ok(this)
    }

    /// Sends a frame. Never blocks.
    pub(crate) fn send(
        &self,
        ifindex: u32,
        to: MacAddr,
        (KeyId(id), key): (KeyId, &Key),
        frame: Frame,
    ) -> Result<(), Errno> {
        let Frame { kind, holder, wid, stamp } = frame;
        let kind = match kind {
            Kind::Ping => WireType::Ping,
            Kind::VoteRequest => WireType::VoteRequest,
            Kind::Vote => WireType::Vote,
            Kind::Ended => WireType::Ended,
        };
        let fields = WireFields {
            holder: holder.number(),
            wid: wid.map_or(0, Wid::number),
            sent_ns: stamp,
            ..WireFields::default()
        };
        let bytes = WireFrame::new(kind, id, &fields, key.sip()).to_bytes();
        let destination = address_of(ifindex, ETHERTYPE_WIRE, to);
        sendto(self.0.as_raw_fd(), &bytes, &destination, MsgFlags::empty()).map(drop)
    }

    /// Reads a frame. Never blocks.
    pub(super) fn receive(&self, keys: &Keys) -> Result<Next, Errno> {
        let mut bytes = [0; WIRE_LEN];
        let (length, from) = match recvfrom::<LinkAddr>(self.0.as_raw_fd(), &mut bytes) {
            Ok((length, Some(from))) => (length, from),
            // An interface that went down is reported once, and the other interfaces go on.
            Ok((_, None)) | Err(Errno::ENETDOWN | Errno::EINTR) => return Ok(Next::Refused),
            Err(Errno::EAGAIN) => return Ok(Next::Nothing),
            Err(error) => return Err(error),
        };
        let is_to_us = from.pkttype() == libc::PACKET_HOST;
        let frame = WireFrame::from_bytes(&bytes[..length]).filter(|_| is_to_us);
        let frame = frame.and_then(|frame| read(&frame, keys));
        let ifindex = u32::try_from(from.ifindex()).ok();
        let mac = from.addr().map(MacAddr);
        Ok(match (frame, ifindex, mac) {
            (Some(frame), Some(ifindex), Some(from)) => Next::Frame(Incoming { ifindex, from, frame }),
            _ => Next::Refused,
        })
    }
}

impl AsFd for WireSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Passes vote requests, votes and expiry notices that were sent to this host. The thread has priority
/// over others of the host, so frames that are not for it must not wake it. Offsets count from behind
/// the `EtherType`.
fn for_the_agent() -> [libc::sock_filter; 10] {
    const MAGIC: u32 = 0;
    const TYPE: u32 = 4;

    [
        load_word(beside(libc::SKF_AD_PKTTYPE)),
        step(JUMP_IF_EQUAL, libc::PACKET_HOST.into(), 0, 6),
        load_word(MAGIC),
        step(JUMP_IF_EQUAL, u32::from_be_bytes(WireFrame::MAGIC), 0, 4),
        load_byte(TYPE),
        step(JUMP_IF_EQUAL, WireType::VoteRequest as u32, 3, 0),
        step(JUMP_IF_EQUAL, WireType::Vote as u32, 2, 0),
        step(JUMP_IF_EQUAL, WireType::Ended as u32, 1, 0),
        drop_frame(),
        step(RETURN, u32::MAX, 0, 0),
    ]
}

/// Reads a frame that is for the agent, and checks its tag. The program does so too, but it may be on
/// another hook or gone.
fn read(frame: &WireFrame, keys: &Keys) -> Option<Frame> {
    let kind = match frame.kind()? {
        WireType::VoteRequest => Kind::VoteRequest,
        WireType::Vote => Kind::Vote,
        WireType::Ended => Kind::Ended,
        WireType::Ping | WireType::Echo => return None,
    };
    let key = keys.get(KeyId(frame.key()))?;
    if !frame.is_signed(key.sip()) {
        return None;
    }
    let holder = Session::from_number(frame.holder())?;
    Some(Frame { kind, holder, wid: Wid::from_number(frame.wid()), stamp: frame.sent_ns() })
}
