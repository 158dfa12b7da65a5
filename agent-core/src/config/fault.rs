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
    #[error("{file} is empty; the least is `vips: []`")]
    Empty { file: String },
    #[error("{file}:{place}: {reason}")]
    Yaml {
        file: String,
        place: Place,
        /// The fault, with the key's name.
        reason: String,
    },
    #[error("{}", list(.file, .faults))]
    Values {
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
    pub line: u32,
    pub column: u32,
}

impl Place {
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub place: Place,
    pub kind: FaultKind,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FaultKind {
    #[error("`{0}` is no IP address; write it as 192.0.2.10 or 2001:db8::10")]
    Address(Excerpt),
    #[error("`{0}` has a prefix length; a VIP is one address: leave `/…` out")]
    Prefix(Excerpt),
    #[error("{address} is {what}, which cannot be a VIP")]
    NeverAVip { address: IpAddr, what: NeverAVip },
    #[error("VIP {address} is listed twice; it stands in line {first} already: remove one of the two")]
    Duplicate { address: IpAddr, first: u32 },
    #[error("`{0}` is no MAC; write it as 02:00:00:00:00:01")]
    Mac(Excerpt),
    #[error("`{mac}` is {what}; give the MAC of one interface")]
    NotAnInterfacesMac { mac: Excerpt, what: &'static str },
    #[error(transparent)]
    Interface(#[from] PatternError),
    #[error("`vips` has no value; write `vips: []` for none")]
    NoVips,
    #[error("`interfaces` is empty, so nothing would be attached; leave it out to have the default")]
    NoInterfaces,
    #[error(
        "VIP {address} has both `mac` and `bind`; a guarded VIP lives elsewhere and is not bound here: leave one out"
    )]
    GuardedAndBound { address: IpAddr },
    #[error("VIP {address} has both `mac` and `force`; a guarded VIP is not taken: leave one out")]
    GuardedAndForced { address: IpAddr },
    #[error(
        "`{0}` is no `probe.interval`; write a duration between 10ms and 10s, as 200ms, or rfc5227 for the \
         times of the RFC"
    )]
    ProbeInterval(Excerpt),
    #[error(
        "`probe.repeat: {}` is out of range; it must be between {} and {}, or 0s for no probes while a VIP is held",
        show(.value), show(.least), show(.most)
    )]
    ProbeRepeat { value: Duration, least: Duration, most: Duration },
    #[error("`{value}` is no duration for `{key}`: {reason}; write it as 3s, 500ms or 1h")]
    Duration { key: &'static str, value: Excerpt, reason: Excerpt },
    #[error("`{key}: {}` is out of range; it must be between {} and {}", show(.value), show(.least), show(.most))]
    DurationRange { key: &'static str, value: Duration, least: Duration, most: Duration },
    #[error(
        "`fence.duration: {}` is too short for a heartbeat every {}: a fence shorter than the heartbeat lapses between \
         two of them; it must be longer than two heartbeats, {}",
        show(.duration), show(.heartbeat), show(&(*.heartbeat * 2))
    )]
    FenceShorterThanHeartbeat { duration: Duration, heartbeat: Duration },
    #[error(
        "`fence.hold_for` is zero, so there would be no grace period; make it longer, or set `fence.policy` to stop"
    )]
    HoldForNothing,
    #[error("`{value}` is not known for `{key}`; it is one of {known}")]
    Word { key: &'static str, value: Excerpt, known: &'static str },
    #[error("`{value}` is no number for `{key}`; it must be between {least} and {most}")]
    Number { key: &'static str, value: Excerpt, least: u32, most: u32 },
    #[error("`node` is empty; leave it out to have the host name")]
    EmptyNode,
    #[error("`{0}` is no name for `node`: it has a control character; leave it out")]
    NodeName(Excerpt),
}

fn show(duration: &Duration) -> String {
    humantime::format_duration(*duration).to_string()
}
