//! Neighbour Discovery (RFC 4861): the frames in which hosts solicit and claim IPv6 addresses.

mod frame;
mod hidden;
mod message;

pub use frame::{
    ALL_NODES, ALL_ROUTERS, ETHERTYPE_IPV6, ND_FRAME_LEN, ND_OVERRIDE, ND_SOLICITED, NdFrame,
    TYPE_ADVERTISEMENT, TYPE_SOLICITATION, group_mac, solicited_node,
};
pub use hidden::{MAX_EXTENSIONS, hides_claim, may_hide_claim};
pub use message::{
    MAX_OPTIONS, MAX_SUMMED, Message, NdHeader, TYPE_REDIRECT, TYPE_ROUTER_SOLICITATION, Unit,
};
