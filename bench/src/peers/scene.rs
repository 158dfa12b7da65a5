//! The events after which the systems are compared.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// Event, and what is measured of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scene {
    /// The holder's host loses power
    Crash,
    /// The VIP is moved as planned
    Move,
    /// The holder's daemon is stopped, killed and restarted at once, killed and restarted after 20 s
    Kill,
    /// As many requests as a core can send
    Flood,
    /// 4,096 hosts ask once each
    Askers,
    /// A rogue claims the VIP
    Forged,
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crash => "crash",
            Self::Move => "move",
            Self::Kill => "kill",
            Self::Flood => "flood",
            Self::Askers => "askers",
            Self::Forged => "forged claims",
        })
    }
}
