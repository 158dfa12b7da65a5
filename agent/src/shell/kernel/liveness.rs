//! The failure detector on this host: the keys, and the thread that pings.

mod keys;
mod neighbour_probe;
mod neighbours;
mod pinger;
mod slots;
mod socket;
mod urgency;

pub(crate) use self::socket::WireSocket;
pub use self::{
    keys::{Fault, Key, Keys},
    pinger::{Panic, Pinger, PingerError, THREAD},
};
