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
    /// An answer counts from when it comes, not from when its ping was sent.
    EchoesCountAsTheyCome,
    /// An old answer takes the place of a newer one.
    OldEchoesCount,
    /// A ping or an answer that was heard before counts as heard once more.
    OldPingsCount,
    /// Every node says that it finds silent whoever is asked about.
    AllSecond,
    /// A node that reads a Lease before it ends the session gets the last one in mode notice.
    NoReading,
    /// The write that ends another node's session takes the place of every version.
    NoVersion,
    /// A holder does not notice that its only witness no longer pings it.
    NoLeaving,
    /// An only witness believes that a third station has answered it.
    NoThirdStation,
    /// No node tells another that its session has ended.
    NoTelling,
    /// The program takes no notice of the end of its session.
    NoEnd,
    /// The agent takes no notice that its program was told the end of its session.
    NoHeeding,
    /// A false word that a session has ended counts for ever.
    NoSettling,
    /// The first announcement is not repeated for the former holder.
    NoRepeats,
    /// A node takes VIPs on a segment where no node answers it.
    TakesUnheard,
    /// A node keeps VIPs on a segment where it hears no node.
    HoldsUnheard,
    /// No host but a node answers a probe.
    DeafProbes,
    /// No agent knows the addresses of its host.
    NoOwnAddresses,
}

/// All sabotages.
pub const SABOTAGES: [Sabotage; 29] = [
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
    Sabotage::EchoesCountAsTheyCome,
    Sabotage::OldEchoesCount,
    Sabotage::OldPingsCount,
    Sabotage::AllSecond,
    Sabotage::NoReading,
    Sabotage::NoVersion,
    Sabotage::NoLeaving,
    Sabotage::NoThirdStation,
    Sabotage::NoTelling,
    Sabotage::NoEnd,
    Sabotage::NoHeeding,
    Sabotage::NoSettling,
    Sabotage::NoRepeats,
    Sabotage::TakesUnheard,
    Sabotage::HoldsUnheard,
    Sabotage::DeafProbes,
    Sabotage::NoOwnAddresses,
];
