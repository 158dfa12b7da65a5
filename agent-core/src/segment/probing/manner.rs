//! The manner in which an address is probed.

/// The manner in which an address is probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// False if other nodes probe the address often while it is in use.
    pub often: bool,
    /// True if a host that uses the address answers late: a result waits for `ANNOUNCE_WAIT`.
    pub patient: bool,
}

impl Manner {
    pub const OFTEN: Self = Self { often: true, patient: false };
}
