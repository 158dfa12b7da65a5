//! The messages that the program reads, the question that each makes, and the answer to it.

use core::hint::black_box;

use bytemuck::{Pod, Zeroable};

use super::frame::{
    HOP_LIMIT, ND_OVERRIDE, ND_SOLICITED, NEXT_HEADER_ICMPV6, OPTION_SOURCE, OPTION_TARGET,
    TYPE_ADVERTISEMENT, TYPE_SOLICITATION, VERSION, pseudo_header, solicited_node,
};
use crate::{
    decide::Answer,
    mac::MacAddr,
    question::{Question, Reach},
};

pub const TYPE_ROUTER_SOLICITATION: u8 = 133;
pub const TYPE_REDIRECT: u8 = 137;
/// The most options of a message that are read. In a message with more, the sender is not known.
pub const MAX_OPTIONS: usize = 16;
/// The longest message whose checksum is verified.
pub const MAX_SUMMED: usize = 512;

/// The message begins here in the IPv6 packet.
pub(super) const MESSAGE: usize = 40;
/// The target begins here.
pub(super) const TARGET: usize = 48;
/// The destination of a Redirect begins here.
pub(super) const REDIRECTED: usize = 64;
/// The IPv6 addresses begin here with the source. The checksum covers the words from here on.
pub(super) const ADDRESSES: usize = 8;

/// Eight bytes of a packet, in wire order. Every option is a number of them, so every part of a
/// message is.
pub type Unit = u64;
/// An IPv6 address, in wire order. Bytes would be moved one by one.
type Addr = [Unit; 2];

/// The IPv6 header, and the first eight bytes of an `ICMPv6` message, in wire order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct NdHeader {
    version: [u16; 2],
    payload_len: u16,
    next_header: u8,
    hop_limit: u8,
    source: Addr,
    destination: Addr,
    kind: u8,
    code: u8,
    checksum: u16,
    /// The flags, and reserved bytes.
    flags: [u8; 4],
}

const _: () = assert!(size_of::<NdHeader>() == TARGET && align_of::<NdHeader>() == align_of::<Unit>());

impl NdHeader {
    /// The offset of the type of the next header. The hop limit follows it.
    pub const NEXT_HEADER: usize = core::mem::offset_of!(Self, next_header);
    /// The offset of the `ICMPv6` type.
    pub const KIND: usize = core::mem::offset_of!(Self, kind);

    /// Returns true if the header that follows IPv6's, of this type, is `ICMPv6`'s.
    #[inline(always)]
    pub fn is_icmpv6(next_header: u8) -> bool {
        next_header == NEXT_HEADER_ICMPV6
    }

    /// Returns true if an `ICMPv6` message of this type is neighbour discovery that the program reads.
    #[inline(always)]
    pub fn is_nd(kind: u8) -> bool {
        matches!(kind, TYPE_ROUTER_SOLICITATION | TYPE_SOLICITATION | TYPE_ADVERTISEMENT | TYPE_REDIRECT)
    }

    /// Returns true if the packet's version is IPv6's. `version` is its first byte.
    #[inline(always)]
    pub fn is_ipv6(version: u8) -> bool {
        version >> 4 == 6
    }

    /// Returns the size of the packet, from the IPv6 header to the end of the message.
    #[inline(always)]
    pub fn end(&self) -> usize {
        MESSAGE + usize::from(u16::from_be(self.payload_len))
    }

    /// Turns the header of a solicitation for `target` into the header of an advertisement from
    /// there to its source. The unit `new` of its options replaces `old`, which is zeros where
    /// there was none.
    ///
    /// The checksum must be right. It is changed by the difference (RFC 1624).
    #[inline(always)]
    fn advertise(&mut self, target: &Addr, flags: u8, grown: u16, old: Unit, new: Unit) {
        /// A zero of ones' complement, larger than the sums.
        const ZERO: u64 = 0xffff_ffff << 8;
        const WITHOUT_CHECKSUM: Unit = Unit::from_ne_bytes([255, 255, 0, 0, 255, 255, 255, 255]);
        const HEAD: u16 = u16::from_ne_bytes([TYPE_ADVERTISEMENT, 0]);
        const NEXT: u16 = u16::from_ne_bytes([NEXT_HEADER_ICMPV6, HOP_LIMIT]);

        let [.., last]: [Unit; TARGET / size_of::<Unit>()] = bytemuck::cast(*self);
        let len = (u16::from_be(self.payload_len) + grown).to_be();
        // The source becomes the destination, and counts as before.
        let removed =
            u64::from(self.payload_len) + sum(&self.destination) + sum(&[last & WITHOUT_CHECKSUM, old]);
        let flags = u16::from_ne_bytes([flags, 0]);
        let added = u64::from(len) + sum(target) + u64::from(HEAD) + u64::from(flags) + sum(&[new]);
        let checksum = !fold(u64::from(!self.checksum) + ZERO - removed + added);
        // In whole units: one that is written in parts is read late.
        let [a, b]: [u16; 2] = bytemuck::cast(VERSION.to_be_bytes());
        let [first, last]: [Unit; 2] =
            [bytemuck::cast([a, b, len, NEXT]), bytemuck::cast([HEAD, checksum, flags, 0])];
        let [source, destination]: [Addr; 2] = [*target, self.source];
        *self = bytemuck::cast([first, source[0], source[1], destination[0], destination[1], last]);
    }
}

/// Returns a sum that equals, in ones' complement, the sum of the 16-bit words in memory order (RFC
/// 1071, 2 (B)).
#[inline(always)]
fn sum(units: &[Unit]) -> u64 {
    units.iter().fold(0, |sum, unit| sum + (unit & 0xffff_ffff) + (unit >> 32))
}

/// Folds a sum of less than 2^48 to one word.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the halves are cut out on purpose")]
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// A message, as far as the program reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(8))]
pub struct Message {
    claimed: Addr,
    asked: Addr,
    dst: MacAddr,
    src: MacAddr,
    sender: MacAddr,
    len: u16,
    /// The offset of the option that the answer's takes the place of; 0 for none.
    option: u16,
    kind: u8,
    is_probe: bool,
    /// True if the IPv6 destination fits a solicitation: a group, or the target.
    is_to_target: bool,
    /// True if the IPv6 destination is a group.
    to_group: bool,
    /// True if a link-layer address option of the message's own kind is there, valid or not.
    is_named: bool,
    /// True if the options do not name exactly one MAC.
    is_foul: bool,
    /// True if there are more options than are read.
    is_cut: bool,
}

impl Message {
    /// A message that requests and claims nothing.
    pub const NONE: Self = Self {
        claimed: [0; 2],
        asked: [0; 2],
        dst: MacAddr::ZERO,
        src: MacAddr::ZERO,
        sender: MacAddr::ZERO,
        len: 0,
        option: 0,
        kind: 0,
        is_probe: false,
        is_to_target: false,
        to_group: false,
        is_named: false,
        is_foul: false,
        is_cut: false,
    };

    /// Reads a message whose type is one of neighbour discovery. Returns `None` if it is not valid
    /// (RFC 4861, 6.1.1, 7.1.1, 7.1.2 and 8.1). Then `self` has changed in part.
    ///
    /// The packet has as many bytes as its header states. `unit` returns eight of them. `is_vip`
    /// returns true if an address may be a VIP.
    #[inline(always)]
    pub fn read(
        &mut self,
        [dst, src]: [MacAddr; 2],
        header: &NdHeader,
        unit: impl Fn(usize) -> Option<Unit>,
        is_vip: impl Fn([u8; 16]) -> bool,
    ) -> Option<()> {
        let kind = header.kind;
        // They follow the reserved bytes; the target and the destination; the target.
        let options: u16 = match kind {
            TYPE_ROUTER_SOLICITATION => 48,
            TYPE_REDIRECT => 80,
            _ => 64,
        };
        let end = header.end();
        let is_sent_here = header.hop_limit == HOP_LIMIT && header.code == 0 && !is_group(header.source);
        if !is_sent_here || end < usize::from(options) || !end.is_multiple_of(8) {
            return None;
        }
        let address = |at: usize| -> Option<Addr> { Some([unit(at)?, unit(at + 8)?]) };
        (self.kind, self.dst, self.src, self.sender) = (kind, dst, src, src);
        self.asked = if kind == TYPE_ROUTER_SOLICITATION { [0; 2] } else { address(TARGET)? };
        self.is_probe = kind == TYPE_SOLICITATION && header.source == [0; 2];
        self.len = u16::from_be(header.payload_len);
        self.to_group = is_group(header.destination);
        self.option = options;
        // Otherwise the compiler keeps every word so far, and the stack is too small. The verifier
        // would follow each type to the end.
        let (message, header) = black_box((self, header));
        message.read_options(&unit)?;
        let (message, header) = black_box((message, header));
        let redirected = if message.kind == TYPE_REDIRECT { address(REDIRECTED)? } else { [0; 2] };
        message.conclude(header, redirected, is_vip)
    }

    /// Sets what the message claims and solicits, once `asked` has its target and its options have
    /// been read. Returns `None` if it is not valid.
    #[inline(always)]
    fn conclude(
        &mut self,
        header: &NdHeader,
        redirected: Addr,
        is_vip: impl Fn([u8; 16]) -> bool,
    ) -> Option<()> {
        let is_unspecified = header.source == [0; 2];
        let to_target = header.destination == self.asked;
        // One store at the end: the compiler would call a loop to clear the address first.
        let [a, b] = match header.kind {
            TYPE_SOLICITATION | TYPE_ADVERTISEMENT if is_group(self.asked) => return None,
            TYPE_SOLICITATION | TYPE_ROUTER_SOLICITATION if is_unspecified => {
                let group: Addr = bytemuck::cast(solicited_node(bytemuck::cast(self.asked)));
                let is_fit = header.kind == TYPE_ROUTER_SOLICITATION || header.destination == group;
                if self.is_named || !is_fit {
                    return None;
                }
                [0; 2]
            }
            TYPE_SOLICITATION | TYPE_ROUTER_SOLICITATION => {
                // Without an option, no host learns a MAC for the source. It may be among the rest.
                if self.is_named || self.is_cut { header.source } else { [0; 2] }
            }
            TYPE_ADVERTISEMENT => {
                if self.to_group && header.flags[0] & ND_SOLICITED != 0 {
                    return None;
                }
                self.asked
            }
            // A Redirect states that its destination is reached through its target.
            _ if is_vip(bytemuck::cast(redirected)) => redirected,
            _ => self.asked,
        };
        [self.claimed[0], self.claimed[1]] = [a, b];
        self.is_to_target = self.to_group || to_target;
        if self.is_foul || self.is_cut {
            self.sender = MacAddr::ZERO;
        }
        Some(())
    }

    /// Reads the options (RFC 4861, 4.6), of which the first is at `option`. Returns `None` if an
    /// option has no length, or is longer than the message.
    ///
    /// A link-layer address may have a wrong size, differ from another, or be a target's in a
    /// solicitation. Then it is open which address a host believes.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "options that are read begin below 32 KiB")]
    fn read_options(&mut self, unit: &impl Fn(usize) -> Option<Unit>) -> Option<()> {
        let (kind, end, mut at) = (self.kind, self.end(), usize::from(self.option));
        (self.option, self.is_named, self.is_foul, self.is_cut) = (0, false, false, false);
        let is_asking = kind == TYPE_SOLICITATION || kind == TYPE_ROUTER_SOLICITATION;
        let own = if is_asking { OPTION_SOURCE } else { OPTION_TARGET };
        let mut count = 0;
        while at < end {
            if count == MAX_OPTIONS {
                self.is_cut = true;
                break;
            }
            count += 1;
            let [head, value @ ..]: [u16; 4] = bytemuck::cast(unit(at)?);
            let [option, units] = head.to_ne_bytes();
            let size = usize::from(units) * size_of::<Unit>();
            if size == 0 || size > end - at {
                return None;
            }
            let mac = MacAddr(bytemuck::cast(value));
            if option == own {
                if units != 1 || self.is_named && mac != self.sender {
                    self.is_foul = true;
                } else if !self.is_named {
                    self.option = at as u16;
                    self.sender = mac;
                }
                self.is_named = true;
            } else if (option == OPTION_SOURCE || option == OPTION_TARGET)
                && (units != 1 || kind == TYPE_SOLICITATION)
            {
                self.is_foul = true;
            }
            at += size;
        }
        Some(())
    }

    /// Returns true if the checksum is right, or the message is longer than [`MAX_SUMMED`]. `unit` is
    /// as for [`Self::read`].
    #[inline(always)]
    pub fn is_intact(&self, unit: impl Fn(usize) -> Option<Unit>) -> bool {
        let end = self.end();
        if end > MESSAGE + MAX_SUMMED {
            return true;
        }
        let mut total = u64::from(pseudo_header(self.len));
        let mut at = ADDRESSES;
        while at < end && at < MESSAGE + MAX_SUMMED {
            let Some(unit) = unit(at) else { return false };
            total += sum(&[unit]);
            at += size_of::<Unit>();
        }
        fold(total) == u16::MAX
    }

    /// Returns the end of the message in the packet.
    #[inline(always)]
    fn end(&self) -> usize {
        MESSAGE + usize::from(self.len)
    }

    /// Returns true if this is a probe, whose answer is an advertisement to all nodes in a new frame.
    /// The methods below are about the answers to other solicitations.
    #[inline(always)]
    pub fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// Returns the offset of the answer's link-layer address option; 0 if it has none.
    ///
    /// An answer to a host at a known MAC needs none (RFC 4861, 7.2.4), unless the VIP is moving to
    /// another node.
    #[inline(always)]
    pub fn option(&self, answer: &Answer) -> usize {
        let is_needed = self.to_group || answer.mac != answer.source;
        if self.option != 0 {
            usize::from(self.option)
        } else if is_needed {
            self.end()
        } else {
            0
        }
    }

    /// Returns the size of the packet if the answer's option makes it longer.
    #[inline(always)]
    pub fn grown(&self, answer: &Answer) -> Option<usize> {
        let end = self.end();
        (self.option(answer) == end).then_some(end + size_of::<Unit>())
    }

    /// Turns the header of a solicitation into the header of its answer. The answer's option
    /// replaces `replaced`; zeros for none. Returns the Ethernet destination and the option.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a unit has 8 bytes")]
    pub fn turn_into_answer(
        &self,
        header: &mut NdHeader,
        replaced: Unit,
        answer: &Answer,
    ) -> (MacAddr, Unit) {
        let (overrides, option) = match self.option(answer) {
            0 => (0, 0),
            _ => (ND_OVERRIDE, option(OPTION_TARGET, answer.mac)),
        };
        let grown = if self.grown(answer).is_some() { size_of::<Unit>() as u16 } else { 0 };
        header.advertise(&self.asked, ND_SOLICITED | overrides, grown, replaced, option);
        (self.sender, option)
    }
}

impl Question for Message {
    type Addr = [u8; 16];

    #[inline(always)]
    fn dst(&self) -> MacAddr {
        self.dst
    }

    #[inline(always)]
    fn src(&self) -> MacAddr {
        self.src
    }

    #[inline(always)]
    fn sender(&self) -> MacAddr {
        self.sender
    }

    #[inline(always)]
    fn oper(&self) -> u16 {
        u16::from(self.kind)
    }

    #[inline(always)]
    fn claimed(&self) -> [u8; 16] {
        bytemuck::cast(self.claimed)
    }

    #[inline(always)]
    fn asked(&self) -> Option<[u8; 16]> {
        (self.kind == TYPE_SOLICITATION).then_some(bytemuck::cast(self.asked))
    }

    #[inline(always)]
    fn announces(&self) -> bool {
        self.kind == TYPE_ADVERTISEMENT
    }

    #[inline(always)]
    fn is_gratuitous(&self) -> bool {
        self.claimed == self.asked
    }

    #[inline(always)]
    fn probed(&self) -> Option<[u8; 16]> {
        self.is_probe.then_some(bytemuck::cast(self.asked))
    }

    #[inline(always)]
    fn reach(&self) -> Reach {
        match (self.is_to_target, self.dst.is_multicast()) {
            (false, _) => Reach::None,
            (true, false) => Reach::One,
            (true, true) => Reach::All,
        }
    }
}

/// Returns a link-layer address option (RFC 4861, 4.6.1).
#[inline(always)]
fn option(kind: u8, mac: MacAddr) -> Unit {
    let [a, b, c]: [u16; 3] = bytemuck::cast(mac.0);
    bytemuck::cast([u16::from_ne_bytes([kind, 1]), a, b, c])
}

#[inline(always)]
fn is_group(address: Addr) -> bool {
    address[0].to_ne_bytes()[0] == 0xff
}

#[cfg(test)]
mod tests;
