//! The parts that can be broken on the simulator's side, to show that they are missed.

/// A part of the protocol that does not work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// The program answers although the fence is over.
    NoFence,
    /// Fences lapse no earlier, and others wait no longer, than the lease.
    NoMargin,
    /// The write that ends another node's session is reported as done and not carried out.
    NoDeposing,
    /// A write over this node's Lease succeeds although another has written it.
    NoSessionCheck,
    /// The program does not yield.
    NoYield,
    /// A node that hands over stops answering at once.
    BreakBeforeMake,
    /// A process that starts empties the pinned peers before it has read the cluster.
    ForgetPeers,
    /// The engine's requests for new lists are ignored.
    NoListing,
    /// An entry that could not be written counts as written.
    NoStaleEntries,
    /// A node takes a yielded VIP back without asking the segment.
    NoQuestion,
    /// The index of Services takes a stranger's namespace for one that has consent.
    NoConsent,
    /// The index of Services does not read from claims whose a VIP is.
    NoRecord,
}

/// All sabotages.
pub const SABOTAGES: [Sabotage; 12] = [
    Sabotage::NoFence,
    Sabotage::NoMargin,
    Sabotage::NoDeposing,
    Sabotage::NoSessionCheck,
    Sabotage::NoYield,
    Sabotage::BreakBeforeMake,
    Sabotage::ForgetPeers,
    Sabotage::NoListing,
    Sabotage::NoStaleEntries,
    Sabotage::NoQuestion,
    Sabotage::NoConsent,
    Sabotage::NoRecord,
];
