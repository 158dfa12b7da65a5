//! What the program has seen of the peers.

use super::ExpiryNotice;
use crate::{
    base::time::Boottime,
    records::{Session, Wid},
};

/// The times that the program has recorded of a peer over one interface. Zero stands for never.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sight {
    /// The time at which the newest ping was sent that the peer has answered.
    pub answered: Boottime,
    /// The time at which its last frame came.
    pub received: Boottime,
}

/// The program's records. The shell reads them from the maps.
pub trait Seen {
    /// Returns the times of a holder's answers to this node's pings.
    fn holder(&self, session: Session, interface: &str) -> Sight;
    /// Returns the times of a monitor's pings.
    fn monitor(&self, wid: Wid, interface: &str) -> Sight;
    /// Returns the last expiry notice for a session of this node.
    fn notified(&self) -> Option<ExpiryNotice>;
}
