//! The parts that can be broken on the simulator's side, to show that they are missed.

/// A part of the protocol that does not work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// The program answers although the lease deadline has passed.
    NoDeadline,
    /// Fences lapse no earlier, and others wait no longer, than the lease.
    NoMargin,
    /// The write that ends another node's session is reported as done and not carried out.
    NoExpiring,
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
    /// A ping or an answer that was received before counts as received once more.
    OldPingsCount,
    /// Every node says that it finds silent whoever is asked about.
    AllSecond,
    /// A node that reads a Lease before it ends the session gets the last one in mode notice.
    NoReading,
    /// The write that ends another node's session takes the place of every version.
    NoVersion,
    /// A holder does not notice that its only monitor no longer pings it.
    NoLeaving,
    /// an only monitor believes that a third station has answered it.
    NoThirdStation,
    /// No node tells another that its session has ended.
    NoNotifying,
    /// The program takes no notice of the end of its session.
    NoEnd,
    /// The agent takes no notice that its program was notified the end of its session.
    NoHeeding,
    /// A false word that a session has ended counts for ever.
    NoSettling,
    /// The first announcement is not repeated for the former holder.
    NoRepeats,
    /// A node takes VIPs on a segment where no node answers it.
    TakesUnheard,
    /// A node keeps VIPs on a segment where it receives no node.
    HoldsUnheard,
    /// No host but a node answers a probe.
    OneWayProbes,
    /// No agent knows the addresses of its host.
    NoOwnAddresses,
    /// The API server carries out a write of a reservation whatever the object is now.
    Overwrites,
    /// A candidate does not notice that the leader renews its Lease.
    NoRenewals,
    /// A controller goes on when its term is over.
    NoTerm,
    /// A refused write of an agent is reported as done, and not carried out.
    DenialsCountAsDone,
    /// The write that renews an Event is reported as done, and not carried out.
    NoRenewal,
    /// No Lease lists the VIPs that its node found unheard.
    NoRests,
    /// The actions of a write are carried out in the reverse order.
    WritesReversed,
    /// The first one of these after `OMITTED_MS` is left out on each node.
    Once(Omitted),
    /// All of these are left out from then on.
    Always(Omitted),
}

/// The time from which something is left out: most clusters have settled by then.
pub(crate) const OMITTED_MS: u64 = 10_000;

/// An effect of an agent that counts as carried out and is not, or an input that never comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Omitted {
    /// The write of an entry that is held.
    PutHeld,
    /// The write of an entry that is foreign.
    PutForeign,
    /// The write of an entry that is handed over.
    PutHandover,
    /// The removal of an entry.
    RemoveEntry,
    /// The write of a peer.
    PutPeer,
    /// The removal of a peer.
    RemovePeer,
    /// The write of a MAC of the node itself.
    PutOwnMac,
    /// A move of the lease deadline.
    SetDeadline,
    /// The first announcement of a VIP that is taken.
    FirstRound,
    /// A later one.
    LaterRound,
    /// A probe.
    Probe,
    /// A request by unicast to a host that answers.
    AskHost,
    /// A probe for a held VIP.
    ProbeHeld,
    /// An observation of the network: it shows what it has shown before.
    Observe,
    /// A request that writes a Lease.
    WriteLease,
    /// A request that reads a Lease.
    ReadLease,
    /// A request that writes a claim.
    WriteClaim,
    /// A request that deletes a claim.
    DeleteClaim,
    /// A request that reads a claim.
    ReadClaim,
    /// Another plan for the monitor.
    Watch,
    /// The keys for the program.
    SetHeeding,
    /// A request for a status of a Service, or to show a finding.
    Show,
    /// An event of the program that a peer has announced a VIP.
    Moved,
    /// An event of the program that a peer claims a held VIP.
    Contested,
    /// An event of the program that it has yielded.
    Yielded,
    /// An event of the program that a host that is no peer claims a VIP.
    Sighted,
    /// The notice of a changed network.
    Changed,
    /// A Lease that was read.
    SeenLease,
    /// A claim that was read.
    SeenClaim,
    /// A Node that was read.
    SeenNode,
    /// A Service or its endpoints that were read.
    SeenService,
    /// The outcome of a request.
    Reply,
    /// A deadline.
    Deadline,
    /// The controller's write that reserves an address.
    Reserve,
    /// Its write that keeps an address for a Service that is gone.
    Keep,
    /// Its write that frees an address.
    Free,
    /// Its write of a status.
    WriteStatus,
    /// Its write that clears a status.
    ClearStatus,
    /// Its reading of the endpoints.
    ListSlices,
    /// A problem of a Service that begins.
    Problem,
    /// The end of a problem.
    ProblemOver,
    /// A request of the controller that writes an Event.
    WriteEvent,
    /// The outcome of a reservation.
    ReservedReply,
    /// The outcome of a status.
    StatusReply,
    /// A deadline of the controller.
    LeaderDeadline,
    /// A Service that the controller read.
    LeaderSeesService,
    /// A Service that is gone.
    LeaderSeesServiceGone,
    /// A claim that the controller read.
    LeaderSeesClaim,
    /// A claim that is gone.
    LeaderSeesClaimGone,
    /// A pool that the controller read, or that is gone.
    LeaderSeesPool,
    /// A namespace that the controller read.
    LeaderSeesNamespace,
}
