//! State of a new VIP's address, as probes have found it.

use vipward_common::MacAddr;

use crate::{base::time::Monotonic, segment::probing::Manner};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Address {
    /// The address has not been probed.
    #[default]
    Unknown,
    /// Probes are under way.
    Probing,
    /// No host has answered, and none was heard on the segment since its link came up.
    Unheard,
    /// The address was free at this time.
    Free(Monotonic),
    /// An unknown host uses the address.
    InUse(MacAddr),
    /// A peer has answered for the address since this time. Its claim may have
    /// been lost, and the peer may write it again.
    AtPeer(Monotonic, MacAddr),
}

/// The state of an address. `matters` is true if the engine waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ProbeState {
    pub(crate) known: Address,
    pub(crate) matters: bool,
    /// True if this node is the first to take the VIP. It then reports a conflict.
    pub(crate) first: bool,
    /// The manner in which this node probes the address.
    pub(crate) manner: Option<Manner>,
    /// A host that answered after the address was found free.
    pub(crate) late: Option<MacAddr>,
}

impl Address {
    pub(crate) fn is_being_probed(self) -> bool {
        match self {
            Self::Unknown | Self::Free(_) => false,
            Self::Probing | Self::Unheard | Self::InUse(_) | Self::AtPeer(..) => true,
        }
    }
}
