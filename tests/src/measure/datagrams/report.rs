//! Reports which datagrams arrived, where and when.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

pub const INTERVAL: Duration = Duration::from_millis(1);

/// Report of the datagrams of one flow. `Display` is a summary for failure messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DatagramReport {
    /// Destination.
    pub target: SocketAddr,
    /// Send times, by number.
    pub sent: Vec<SystemTime>,
    /// Received datagrams, in the order in which the nodes recorded them.
    pub received: Vec<Received>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    pub number: usize,
    pub node: String,
    /// Time at which the node's kernel received it.
    pub at: SystemTime,
}

/// Run of lost datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interruption {
    /// The number of the first of them.
    pub first: usize,
    /// Send time of the first of them.
    pub from: SystemTime,
    /// Send time of the next datagram that arrived, if any did.
    pub until: Option<SystemTime>,
    pub lost: u32,
}

impl Interruption {
    /// Returns the time that the lost datagrams prove: one interval for each.
    pub fn proven(&self) -> Duration {
        INTERVAL * self.lost
    }

    /// Returns the time from the first lost datagram to the next one that arrived.
    pub fn elapsed(&self) -> Option<Duration> {
        self.until.map(|until| until.duration_since(self.from).unwrap_or_default())
    }
}

impl DatagramReport {
    pub(super) fn new(target: SocketAddr) -> Self {
        Self { target, sent: Vec::new(), received: Vec::new() }
    }

    pub(super) fn last_has_arrived(&self) -> bool {
        let last = self.sent.len().checked_sub(1);
        last.is_none_or(|last| self.received.iter().rev().any(|received| received.number == last))
    }

    /// Returns the numbers of the datagrams that no node has received.
    pub fn lost(&self) -> Vec<usize> {
        let received = self.numbers_received();
        (0..self.sent.len()).filter(|number| !received.contains(number)).collect()
    }

    /// Returns the number of datagrams that arrived at each node.
    pub fn received_by(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for received in &self.received {
            *counts.entry(received.node.as_str()).or_default() += 1;
        }
        counts
    }

    /// Returns the nodes in the order in which they took over,
    /// each with the first datagram that it received then.
    pub fn turns(&self) -> Vec<&Received> {
        let mut in_order: Vec<_> = self.received.iter().collect();
        in_order.sort_by_key(|received| received.number);
        in_order.dedup_by(|later, earlier| later.node == earlier.node);
        in_order
    }

    /// Returns the runs of lost datagrams, longest first.
    pub fn interruptions(&self) -> Vec<Interruption> {
        let received = self.numbers_received();
        let mut interruptions = Vec::new();
        let mut open: Option<Interruption> = None;
        for (number, at) in self.sent.iter().copied().enumerate() {
            if received.contains(&number) {
                interruptions.extend(open.take().map(|lost| Interruption { until: Some(at), ..lost }));
            } else {
                let new = Interruption { first: number, from: at, until: None, lost: 0 };
                open.get_or_insert(new).lost += 1;
            }
        }
        interruptions.extend(open);
        interruptions.sort_by_key(|interruption| Reverse(interruption.lost));
        interruptions
    }

    /// Returns the longest time in which every datagram was lost, as far as the lost ones prove it.
    pub fn longest_interruption(&self) -> Duration {
        self.interruptions().first().map(Interruption::proven).unwrap_or_default()
    }

    /// Returns the time from an instant until a datagram arrives that was sent after it.
    pub fn first_received_after(&self, instant: SystemTime) -> Option<Duration> {
        let sent_after =
            |received: &&Received| self.sent.get(received.number).is_some_and(|sent| *sent >= instant);
        let first = self.received.iter().filter(sent_after).map(|received| received.at).min()?;
        Some(first.duration_since(instant).unwrap_or_default())
    }

    /// Returns the time from an instant until the send time of the first datagram
    /// after which none is lost. Returns `None` if the last one is lost.
    pub fn flows_for_good_after(&self, instant: SystemTime) -> Option<Duration> {
        let last_lost = self.lost().pop();
        let first = last_lost.map_or(0, |last| last + 1);
        let from = self.sent.get(first)?;
        Some(from.duration_since(instant).unwrap_or_default())
    }

    /// Returns the numbers of the datagrams sent between
    /// `from` and `to`, and how many of them were lost.
    pub fn lost_between(&self, from: SystemTime, to: SystemTime) -> Vec<usize> {
        let within = |number: &usize| (from..to).contains(&self.sent[*number]);
        self.lost().into_iter().filter(within).collect()
    }

    fn numbers_received(&self) -> BTreeSet<usize> {
        self.received.iter().map(|received| received.number).collect()
    }
}

impl fmt::Display for DatagramReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interruptions = self.interruptions();
        write!(
            f,
            "{} datagrams to {}, {} lost; {} interruptions, the longest {:?}",
            self.sent.len(),
            self.target,
            self.lost().len(),
            interruptions.len(),
            self.longest_interruption()
        )?;
        for (node, count) in self.received_by() {
            write!(f, "; {count} received by {node}")?;
        }
        let start = self.sent.first().copied().unwrap_or(SystemTime::UNIX_EPOCH);
        let offset = |at: SystemTime| at.duration_since(start).unwrap_or_default();
        for turn in self.turns() {
            write!(f, "\n  from number {} on, at {:?}: {}", turn.number, offset(turn.at), turn.node)?;
        }
        for Interruption { first, from, lost, .. } in interruptions.iter().take(5) {
            write!(f, "\n  {lost} lost from number {first} on, at {:?}", offset(*from))?;
        }
        Ok(())
    }
}
