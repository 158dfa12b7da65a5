//! What can be broken on the simulator's side, to show that it is missed.

/// One part of the protocol that does not do what it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// The program answers although the fence is over.
    NoFence,
    /// Nobody lapses earlier or waits longer than the lease.
    NoMargin,
    /// Who ends another's session is told that it is done, and nothing is written.
    NoDeposing,
    /// Who finds its own Lease written by another writes over it.
    NoSessionCheck,
    /// The program does not give way.
    NoYield,
    /// Who hands over stops answering at once.
    BreakBeforeMake,
}

/// All of them.
pub const SABOTAGES: [Sabotage; 6] = [
    Sabotage::NoFence,
    Sabotage::NoMargin,
    Sabotage::NoDeposing,
    Sabotage::NoSessionCheck,
    Sabotage::NoYield,
    Sabotage::BreakBeforeMake,
];
