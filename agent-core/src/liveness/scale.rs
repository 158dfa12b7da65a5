//! The times of wire failover. One factor scales all of them.

use std::time::Duration;

/// The factor of all times: larger where hosts stall their virtual machines for longer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scale {
    One,
    Two,
    Four,
}

impl Scale {
    pub const fn factor(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    const fn ms(self, millis: u32) -> Duration {
        Duration::from_millis((millis * self.factor()) as u64)
    }

    /// Returns the time between two pings of a holder.
    pub const fn ping(self) -> Duration {
        self.ms(100)
    }

    /// Returns the time without an answer after which pings are urgent.
    pub const fn urgent_after(self) -> Duration {
        self.ms(200)
    }

    /// Returns the time between two urgent pings.
    pub const fn urgent_ping(self) -> Duration {
        self.ms(20)
    }

    /// Returns the time between two pings that only show whether the segment works.
    pub const fn contact_ping(self) -> Duration {
        self.ms(300)
    }

    /// Returns the time without an answer after which a holder may count as unresponsive.
    pub const fn suspect(self) -> Duration {
        self.ms(300)
    }

    /// Returns the time without a ping of its only monitor after which a holder leaves the failure
    /// detector.
    pub const fn endangered(self) -> Duration {
        self.ms(220)
    }

    /// Returns the longest gap between two pings after which missing answers still count: a monitor
    /// that was itself late begins anew.
    pub const fn own_gap(self) -> Duration {
        self.ms(200)
    }

    /// Returns the time to wait for the other monitors' votes.
    pub const fn votes(self) -> Duration {
        self.ms(15)
    }

    /// Returns the time after which a vote request that got too few votes is repeated.
    pub const fn request_again(self) -> Duration {
        self.ms(30)
    }

    /// Returns the time to wait for the answer to a last ping, once there is a quorum.
    pub const fn last_look(self) -> Duration {
        self.ms(10)
    }

    /// Returns the time by which a monitor waits longer than the one before it.
    pub const fn turn(self) -> Duration {
        self.ms(20)
    }

    /// Returns the time without any frame of a peer after which a segment counts as dead.
    pub const fn one_way(self) -> Duration {
        self.ms(1_000)
    }
}
