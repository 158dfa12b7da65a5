//! Makes and reads the frames by which hosts find each other, in both families of addresses.
//!
//! - [`Arp`], [`nd`]: frames from RFC 826 and RFC 4861.
//! - [`Family`], [`Message`]: what a test needs to run in both families.

mod arp;
mod family;
mod message;
pub mod nd;

pub use self::{
    arp::{Arp, ETHERTYPE_ARP, MIN_FRAME_LEN, Mac, OddArp},
    family::Family,
    message::Message,
};
