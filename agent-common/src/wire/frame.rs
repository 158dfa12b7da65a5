//! The frame of wire failover.

use bytemuck::{Pod, Zeroable};

use crate::siphash::SipKey;

/// The `EtherType`, in host order: the first of those for local experiments (IEEE 802).
pub const ETHERTYPE_WIRE: u16 = 0x88b5;
/// The bytes behind the `EtherType`.
pub const WIRE_LEN: usize = size_of::<WireFrame>();
/// The bytes of an untagged frame.
pub const WIRE_FRAME_LEN: usize = 14 + WIRE_LEN;

const UNITS: usize = 7;
const HEAD: usize = 0;
const HOLDER: usize = 1;
const WID: usize = 2;
const ROUND: usize = 3;
const SENT: usize = 4;
const ANSWERED: usize = 5;
const TAG: usize = 6;

/// The type of a frame. 3, 6 and 7 are reserved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum WireType {
    /// A monitor pings a holder.
    Ping = 1,
    /// The holder's program answers a ping.
    Echo = 2,
    /// A monitor's vote request: does another monitor find the holder unresponsive too?
    VoteRequest = 4,
    /// A vote: its sender finds the holder unresponsive.
    Vote = 5,
    /// An expiry notice: a session has ended, the receiver's or another's.
    Ended = 8,
}

impl WireType {
    pub const ALL: [Self; 5] = [Self::Ping, Self::Echo, Self::VoteRequest, Self::Vote, Self::Ended];

    #[inline(always)]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Ping),
            2 => Some(Self::Echo),
            4 => Some(Self::VoteRequest),
            5 => Some(Self::Vote),
            8 => Some(Self::Ended),
            _ => None,
        }
    }
}

/// The fields of a frame. Those that its type does not use are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WireFields {
    /// The session that the frame is about.
    pub holder: u64,
    /// The monitor that sends the frame, or that it answers.
    pub wid: u64,
    /// Reserved.
    pub round: u64,
    /// The time at which the monitor sent a ping (`CLOCK_BOOTTIME` of the monitor), or the number
    /// of a vote request and of the vote.
    pub sent_ns: u64,
    /// The time at which the holder answered (`CLOCK_BOOTTIME` of the holder).
    pub answered_ns: u64,
}

/// A frame of the failure detector behind its `EtherType`: seven units of eight bytes, in wire
/// order.
///
/// Offsets from the start of an untagged frame stand on the right.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                         magic: "VPW1"                         |  14
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |      type     |      key      |           reserved: 0         |  18
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                       holder: a session                       |  22
/// +                                                               +
/// |                                                               |  26
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                   wid: the number of a monitor                |  30
/// +                                                               +
/// |                                                               |  34
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                       round: reserved, 0                      |  38
/// +                                                               +
/// |                                                               |  42
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |           sent_ns: by the monitor, on the monitor's clock     |  46
/// +                                                               +
/// |                                                               |  50
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          answered_ns: by the holder, on the holder's clock    |  54
/// +                                                               +
/// |                                                               |  58
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |        tag: SipHash-2-4 of bytes 14 to 61, big-endian         |  62
/// +                                                               +
/// |                                                               |  66
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct WireFrame {
    units: [u64; UNITS],
}

const _: () = assert!(WIRE_FRAME_LEN == 70);

impl WireFrame {
    /// The bytes that every frame begins with.
    pub const MAGIC: [u8; 4] = *b"VPW1";

    /// Returns a frame that is signed with the key `with`, whose number is `key`.
    pub fn new(kind: WireType, key: u8, fields: &WireFields, with: SipKey) -> Self {
        let WireFields { holder, wid, round, sent_ns, answered_ns } = *fields;
        let head = Self::head(kind, key);
        let units = [head, holder, wid, round, sent_ns, answered_ns, 0].map(u64::to_be);
        let mut frame = Self { units };
        frame.sign(with);
        frame
    }

    /// Returns the frame in the bytes behind an `EtherType`, if it is one of wire failover and whole. More
    /// bytes may follow.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<WIRE_LEN>()?;
        Self::is_magic(*bytes.first_chunk()?).then(|| bytemuck::pod_read_unaligned(bytes))
    }

    /// Returns the bytes behind the `EtherType`.
    pub fn to_bytes(self) -> [u8; WIRE_LEN] {
        let mut bytes = [0; WIRE_LEN];
        bytes.copy_from_slice(bytemuck::bytes_of(&self));
        bytes
    }

    /// Returns the frame of these units, in wire order.
    #[inline(always)]
    pub const fn from_units(units: [u64; UNITS]) -> Self {
        Self { units }
    }

    /// Returns the units, in wire order.
    #[inline(always)]
    pub const fn units(&self) -> &[u64; UNITS] {
        &self.units
    }

    /// Returns true if a frame that begins with these bytes behind its `EtherType` is one of wire failover.
    #[inline(always)]
    pub fn is_magic(start: [u8; 4]) -> bool {
        u32::from_ne_bytes(start) == u32::from_ne_bytes(Self::MAGIC)
    }

    #[inline(always)]
    const fn head(kind: WireType, key: u8) -> u64 {
        (u32::from_be_bytes(Self::MAGIC) as u64) << 32 | (kind as u64) << 24 | (key as u64) << 16
    }

    #[inline(always)]
    const fn field(&self, unit: usize) -> u64 {
        u64::from_be(self.units[unit])
    }

    /// Returns the type, if it is known.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the byte is cut out on purpose")]
    pub const fn kind(&self) -> Option<WireType> {
        WireType::from_number((self.field(HEAD) >> 24) as u8)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the byte is cut out on purpose")]
    pub const fn key(&self) -> u8 {
        (self.field(HEAD) >> 16) as u8
    }

    /// Returns the session that the frame is about.
    #[inline(always)]
    pub const fn holder(&self) -> u64 {
        self.field(HOLDER)
    }

    /// Returns the monitor that sends the frame, or that it answers.
    #[inline(always)]
    pub const fn wid(&self) -> u64 {
        self.field(WID)
    }

    /// Returns the time at which the monitor sent a ping, or the number of a vote request and of
    /// the vote.
    #[inline(always)]
    pub const fn sent_ns(&self) -> u64 {
        self.field(SENT)
    }

    pub const fn fields(&self) -> WireFields {
        WireFields {
            holder: self.holder(),
            wid: self.wid(),
            round: self.field(ROUND),
            sent_ns: self.sent_ns(),
            answered_ns: self.field(ANSWERED),
        }
    }

    /// Returns true if the tag is right.
    #[inline(always)]
    pub fn is_signed(&self, with: SipKey) -> bool {
        self.field(TAG) == self.tag(with)
    }

    #[inline(always)]
    fn tag(&self, with: SipKey) -> u64 {
        let signed = self.units.first_chunk::<TAG>().expect("invariant: the tag is the last unit");
        with.hash(signed)
    }

    /// Writes the tag.
    #[inline(always)]
    pub fn sign(&mut self, with: SipKey) {
        self.units[TAG] = self.tag(with).to_be();
    }

    /// Turns a ping into its answer at this time.
    #[inline(always)]
    pub fn turn_into_echo(&mut self, answered_ns: u64, with: SipKey) {
        self.units[HEAD] = Self::head(WireType::Echo, self.key()).to_be();
        self.units[ROUND] = 0;
        self.units[ANSWERED] = answered_ns.to_be();
        self.sign(with);
    }
}

#[cfg(test)]
mod tests;
