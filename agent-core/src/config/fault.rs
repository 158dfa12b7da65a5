//! Faults of a configuration, each with the value, the place and the remedy.

use std::{fmt, net::IpAddr, time::Duration};

use serde_saphyr::Location;
use thiserror::Error;

use crate::base::{
    address::NeverAVip,
    legible::{Excerpt, Legible},
    pattern::PatternError,
};

/// Reason why a file is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file is empty.
    #[error("{file} is empty; the least is `vips: []`")]
    Empty {
        /// The file.
        file: String,
    },
    /// The file is not YAML, or its YAML has another shape.
    #[error("{file}:{place}: {reason}")]
    Yaml {
        /// The file.
        file: String,
        /// The place.
        place: Place,
        /// The fault, with the key's name.
        reason: String,
    },
    /// Values are wrong.
    #[error("{}", list(.file, .faults))]
    Values {
        /// The file.
        file: String,
        /// The faults, in the file's order.
        faults: Vec<Fault>,
    },
}

fn list(file: &str, faults: &[Fault]) -> String {
    faults
        .iter()
        .map(|fault| format!("{file}:{}: {}", fault.place, Legible(&fault.kind)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// A line and column, both from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl Place {
    /// The beginning of a file.
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

impl From<&Location> for Place {
    fn from(location: &Location) -> Self {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self { line: number(location.line()), column: number(location.column()) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Wrong value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Its place.
    pub place: Place,
    /// The fault.
    pub kind: FaultKind,
}

/// A fault of a value.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FaultKind {
    /// Text that is no address.
    #[error("`{0}` is no IP address; write it as 192.0.2.10 or 2001:db8::10")]
    Address(Excerpt),
    /// Prefix length where there should be none.
    #[error("`{0}` has a prefix length; a VIP is one address: leave `/…` out")]
    Prefix(Excerpt),
    /// An address that no host on a segment can have.
    #[error("{address} is {what}, which cannot be a VIP")]
    NeverAVip {
        /// The address.
        address: IpAddr,
        /// The kind of address.
        what: NeverAVip,
    },
    /// Address that is listed twice.
    #[error("VIP {address} is listed twice; it stands in line {first} already: remove one of the two")]
    Duplicate {
        /// The VIP.
        address: IpAddr,
        /// The line of the first.
        first: u32,
    },
    /// Text that is no MAC.
    #[error("`{0}` is no MAC; write it as 02:00:00:00:00:01")]
    Mac(Excerpt),
    /// A MAC that no interface has.
    #[error("`{mac}` is {what}; give the MAC of one interface")]
    NotAnInterfacesMac {
        /// The MAC.
        mac: Excerpt,
        /// The kind of address.
        what: &'static str,
    },
    /// Text that is no name of an interface, or no pattern over such names.
    #[error(transparent)]
    Interface(#[from] PatternError),
    /// Key `vips:` with nothing after it.
    #[error("`vips` has no value; write `vips: []` for none")]
    NoVips,
    /// An empty list of interfaces.
    #[error("`interfaces` is empty, so nothing would be attached; leave it out to have the default")]
    NoInterfaces,
    /// A guarded VIP that is to be bound.
    #[error(
        "VIP {address} has both `mac` and `bind`; a guarded VIP lives elsewhere and is not bound here: leave one out"
    )]
    GuardedAndBound {
        /// The VIP.
        address: IpAddr,
    },
    /// A guarded VIP that is to be forced.
    #[error("VIP {address} has both `mac` and `force`; a guarded VIP is not taken: leave one out")]
    GuardedAndForced {
        /// The VIP.
        address: IpAddr,
    },
    /// Text that is no time between two probes.
    #[error(
        "`{0}` is no `probe.interval`; write a duration between 10ms and 10s, as 200ms, or rfc5227 for the \
         times of the RFC"
    )]
    ProbeInterval(Excerpt),
    /// Time between two probes for a held VIP, out of range.
    #[error(
        "`probe.repeat: {}` is out of range; it must be between {} and {}, or 0s for no probes while a VIP is held",
        show(.value), show(.least), show(.most)
    )]
    ProbeRepeat {
        /// The value.
        value: Duration,
        /// The least.
        least: Duration,
        /// The most.
        most: Duration,
    },
    /// Text that is no duration.
    #[error("`{value}` is no duration for `{key}`: {reason}; write it as 3s, 500ms or 1h")]
    Duration {
        /// The key.
        key: &'static str,
        /// The value.
        value: Excerpt,
        /// The fault.
        reason: Excerpt,
    },
    /// A duration out of range.
    #[error("`{key}: {}` is out of range; it must be between {} and {}", show(.value), show(.least), show(.most))]
    DurationRange {
        /// The key.
        key: &'static str,
        /// The value.
        value: Duration,
        /// The least.
        least: Duration,
        /// The most.
        most: Duration,
    },
    /// Fence that would lapse between two heartbeats.
    #[error(
        "`fence.duration: {}` is too short for a heartbeat every {}: a fence shorter than the heartbeat lapses between \
         two of them; it must be longer than two heartbeats, {}",
        show(.duration), show(.heartbeat), show(&(*.heartbeat * 2))
    )]
    FenceShorterThanHeartbeat {
        /// The fence.
        duration: Duration,
        /// The heartbeat.
        heartbeat: Duration,
    },
    /// A time to hold over of zero.
    #[error(
        "`fence.hold_for` is zero, so nothing would be held over; make it longer, or set `fence.policy` to stop"
    )]
    HoldForNothing,
    /// Text that is none of the known words.
    #[error("`{value}` is not known for `{key}`; it is one of {known}")]
    Word {
        /// The key.
        key: &'static str,
        /// The value.
        value: Excerpt,
        /// The words.
        known: &'static str,
    },
    /// Text that is no count.
    #[error("`{value}` is no number for `{key}`; it must be between {least} and {most}")]
    Number {
        /// The key.
        key: &'static str,
        /// The value.
        value: Excerpt,
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// An empty node name.
    #[error("`node` is empty; leave it out to have the host name")]
    EmptyNode,
    /// A node name with a control character.
    #[error("`{0}` is no name for `node`: it has a control character; leave it out")]
    NodeName(Excerpt),
}

fn show(duration: &Duration) -> String {
    humantime::format_duration(*duration).to_string()
}
