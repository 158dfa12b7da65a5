//! The bounds of the checks of wire failover. What follows from the product's times grows with the
//! scale; what a network or an API server takes does not.

use std::time::Duration;

use vipward_core::liveness::Scale;

use crate::{machine::At, schedule::REFRESH};

/// The rounds of announcements after the first, and the time between two.
const ROUNDS: u32 = 5;
const ROUND_INTERVAL: Duration = Duration::from_millis(1_100);
/// The repeats of the first announcement for a former holder, after it.
const REPEATS: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(150), Duration::from_millis(350)];

/// The time after which the node that has ended a session knows of its success.
pub(super) const KNOWN: Duration = Duration::from_millis(300);
/// The time after which an agent has read its Lease: another request to it may be under way before.
pub(super) const HEEDED: Duration = Duration::from_millis(300);
/// The time after which a renewal that is due is done: one may be under way, or has to read the Lease.
pub(super) const SETTLED: Duration = Duration::from_millis(600);
/// The delays of a frame and of the turn of its sender.
pub(super) const SLACK: Duration = Duration::from_millis(5);

/// The time for which expiry notices are certainly sent often: 10 s, less the time until their sender
/// knows of the end. And the time between two notices later.
const NOTIFIED_OFTEN: Duration = Duration::from_secs(9);
const NOTIFIED_LATER: Duration = Duration::from_secs(1);

/// The longest time until all nodes are up to date, but for what they wait for.
const UP_TO_DATE: Duration = Duration::from_secs(4);
/// The summands of the bound of L3: the writes, their latencies, and another VIP of the same node.
const WRITES: Duration = Duration::from_millis(200);
const LATENCIES: Duration = Duration::from_millis(600);
const EACH_VIP: Duration = Duration::from_millis(100);
/// The longest wait for a better candidate that has crashed too.
const LONGEST_RANK: Duration = Duration::from_millis(500);
/// A renewal of the peers of a dead interface, a reading of the interfaces, and the release.
const RELEASED: Duration = Duration::from_millis(1_300);
/// The delays of a vote request, the votes, and the turns of both nodes.
const VOTE_DELAYS: Duration = Duration::from_millis(175);
/// The time in which a holder that misses the pings of its only monitor writes that.
const WRITTEN: Duration = Duration::from_millis(500);

/// Returns the latest time of a VIP's first announcement at `notified` or later. The announcements are:
/// those at once after `taken`, with `repeats` those to a former holder, and then a refresh. The clock of
/// the announcing node is off by up to 1 %.
pub(super) fn announced(taken: At, repeats: bool, notified: At) -> At {
    let repeats = REPEATS.into_iter().filter(|_| repeats);
    let rounds = (0..=ROUNDS).map(|round| ROUND_INTERVAL * round).chain(repeats);
    let in_time = rounds.filter(|after| taken + *after * 98 / 100 >= notified).min();
    // A refresh comes up to 10 % late or early.
    in_time.map_or(notified + REFRESH * 112 / 100, |after| taken + after * 102 / 100)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds(pub(super) Scale);

impl Bounds {
    /// Returns the time without a disturbance after which a crash is judged, and a mild disturbance
    /// guarded. A monitor counts when it has pinged for two such times.
    pub(super) fn calm(self) -> Duration {
        UP_TO_DATE + self.0.one_way() * 2
    }

    /// Returns the longest time between two expiry notices, some time after the end of the session.
    pub(super) fn notified(self, after: Duration) -> Duration {
        if after < NOTIFIED_OFTEN { self.0.ping() } else { NOTIFIED_LATER }
    }

    /// Returns the time in which a VIP is held again. Its holder has crashed with so many VIPs, or has
    /// left a dead interface by itself.
    pub(super) fn held_again(self, leaves_by_itself: bool, vips: u32) -> Duration {
        let left = if leaves_by_itself { self.0.one_way() + RELEASED } else { Duration::ZERO };
        // A ping, the time until it is suspect, the votes, and the turns.
        let found = self.0.suspect() + self.0.ping();
        left + found + WRITES + LATENCIES + EACH_VIP * vips
    }

    /// Returns the wait for a candidate that has crashed too.
    pub(super) fn rank(self) -> Duration {
        LONGEST_RANK.min(self.0.ping() * 2)
    }

    /// Returns the time after which a crash is judged again. A node with a dead interface whose session was
    /// ended may try to take the VIP back when its peers' answers count again.
    pub(super) fn taken_again(self) -> Duration {
        self.0.one_way()
    }

    /// Returns the longest time between two evaluations by the node that ends a session: it pings as
    /// often.
    pub(super) fn seen_late(self) -> Duration {
        self.0.urgent_ping() * 3
    }

    /// Returns the longest wait of the node that ends a session for the votes, and the voters' own wait.
    pub(super) fn votes(self) -> Duration {
        self.0.votes() + self.0.last_look() + VOTE_DELAYS
    }

    /// Returns the time in which a holder that its only monitor no longer pings must have left.
    pub(super) fn leaves(self) -> Duration {
        self.0.endangered() + WRITTEN
    }

    /// Returns the time for which a holder may count on an only monitor that has just gone. The holder has
    /// few pings of it, since it has just named the monitor or has begun to listen.
    pub(super) fn counted_on(self) -> Duration {
        self.0.one_way()
    }

    /// Returns the time after which a holder has read the cluster and listened for long enough.
    pub(super) fn informed(self) -> Duration {
        self.counted_on() + WRITTEN * 2
    }
}
