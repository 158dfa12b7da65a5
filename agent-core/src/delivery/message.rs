//! The questions to a service proxy, its answers, and the commands that follow.

use std::{collections::BTreeSet, net::IpAddr};

use crate::records::HealthPort;

/// The endpoint of a question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// The proxy's health endpoint.
    Health,
    Port(HealthPort),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Answer {
    /// Status 200.
    Good,
    /// Status 200, of a proxy that has perhaps not written its first rules.
    Perhaps,
    /// Status 503, or one like it.
    Bad,
    /// A refused connection, no answer, or one of another program.
    Unreachable,
}

/// Something of the whole proxy that an operator must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// The health endpoint has not been good for long. The node takes no VIP.
    Waits,
    /// The health endpoint was not good in time, and no longer counts.
    Ungated,
    /// A Lease has no room for all ports, so the `EndpointSlice`s alone count.
    TooMany,
    /// It has again.
    Fits,
}

/// Something that the caller must do or report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Ask. [`Delivery::on_answer`](super::Delivery::on_answer) follows.
    Ask(Target),
    Report(News),
    /// The port of these VIPs was not reached in time, and no longer counts.
    Unreachable(HealthPort, BTreeSet<IpAddr>),
    /// The port of these VIPs is reached again, or no longer matters to them.
    Reached(BTreeSet<IpAddr>),
}
