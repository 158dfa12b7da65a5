//! The addresses that a frame requests and claims, in either protocol.

use crate::mac::MacAddr;

/// The hosts from which a frame requests an answer, by its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Every host of the segment that has the address.
    All,
    /// The host at the Ethernet destination.
    One,
    /// None: the destinations do not fit the question.
    None,
}

/// A question about addresses: what ARP and neighbour discovery have in common.
///
/// It is a trait, since a frame of ARP answers most of it by what it has at an offset. A copy of all
/// of it would cost each frame that is about no VIP a twentieth of its time.
pub trait Question {
    /// An address in wire order. All zeros mean none.
    type Addr: Copy + PartialEq;

    fn dst(&self) -> MacAddr;
    fn src(&self) -> MacAddr;
    /// Returns the MAC that the frame gives for its sender: sha, or the link-layer address option.
    fn sender(&self) -> MacAddr;
    /// Returns the operation of ARP, or the type of the `ICMPv6` message, in host order.
    fn oper(&self) -> u16;
    /// Returns the address that the frame claims for the sender; zeros for none.
    fn claimed(&self) -> Self::Addr;
    fn asked(&self) -> Option<Self::Addr>;
    fn announces(&self) -> bool;
    /// Returns true if the frame claims the address that it requests.
    fn is_gratuitous(&self) -> bool;
    /// Returns the address that the sender probes before it uses it (RFC 5227, 2.1.1; RFC 4862,
    /// 5.4.2).
    fn probed(&self) -> Option<Self::Addr>;
    fn reach(&self) -> Reach;
}
