//! What people ask of Services.

use crate::schedule::Times;

/// What people ask of Services.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// The wishes for each VIP.
    pub(crate) vips: Vec<Wish>,
    /// A stranger's Services that are in force.
    pub(crate) strangers: Vec<Stranger>,
}

/// The wishes of Services for a VIP.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) begun: bool,
    pub(crate) unwanted: Times,
    /// The limits to nodes with endpoints; the latest counts.
    pub(crate) local: Vec<(usize, u8)>,
}

/// A stranger's Service that is in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stranger {
    /// The number of its disturbance.
    pub(crate) disturbance: usize,
    pub(crate) number: u8,
    /// The VIPs that it asks for, a bit each.
    pub(crate) vips: u8,
    /// The nodes with endpoints, a bit each.
    pub(crate) on: u8,
    /// True if it is older than the owners of these VIPs.
    pub(crate) older: bool,
}
