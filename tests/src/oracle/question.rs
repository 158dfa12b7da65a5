//! The claims and the request of a frame, alike in both protocols.

use std::net::IpAddr;

use super::world::{Addr, Mac};

/// The claims and the request of a frame.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about the frame, read by itself")]
pub(super) struct Question {
    pub(super) dst: Mac,
    pub(super) source: Mac,
    /// oper, or the type of the message.
    pub(super) oper: u16,
    pub(super) sender: Mac,
    /// Addresses of which the first that is a VIP is claimed.
    pub(super) claims: Vec<Addr>,
    pub(super) asks: Option<Addr>,
    /// True if it updates what neighbours know.
    pub(super) announces: bool,
    /// True if the sender does not have the requested address yet.
    pub(super) is_probe: bool,
    /// True if the Ethernet destination fits a request to every host.
    pub(super) is_for_all: bool,
    /// True if the destinations above Ethernet fit the request.
    pub(super) is_fit: bool,
    /// True if the checksum is right, or there is none.
    pub(super) is_intact: bool,
}

impl Question {
    /// Returns true if the frame claims the address that it requests.
    pub(super) fn is_gratuitous(&self) -> bool {
        self.asks.is_some_and(|asked| self.claims.contains(&asked))
    }
}

pub(super) fn address<const N: usize>(frame: &[u8], at: usize) -> Addr
where
    IpAddr: From<[u8; N]>,
{
    IpAddr::from(std::array::from_fn(|i| frame[at + i]))
}
