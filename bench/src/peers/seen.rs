//! Computes times and counts from the reports of an observer and a client.
//!
//! A request stands for the time until the next one. So the times of a run add up to its length, however
//! late the observer was.

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use vipward_tests::{
    frames::Mac,
    measure::{DatagramReport, ProbeReport, Request},
};

/// Requests with their answers, and datagrams.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) wire: ProbeReport,
    pub(super) felt: DatagramReport,
}

impl Seen {
    /// Returns the time since `from` without an answer.
    pub(super) fn silent(&self, from: SystemTime) -> Duration {
        self.time(from, |request| !request.is_answered())
    }

    /// Returns the time since `from` in which two MACs answered.
    pub(super) fn doubled(&self, from: SystemTime) -> Duration {
        self.time(from, |request| {
            let mut macs = request.answers.iter().map(|answer| answer.by.sha);
            macs.next().is_some_and(|first| macs.any(|other| other != first))
        })
    }

    /// Returns the number of datagrams sent since `from` that no host received.
    pub(super) fn lost(&self, from: SystemTime) -> usize {
        self.felt.lost().into_iter().filter(|number| self.felt.sent[*number] >= from).count()
    }

    /// Returns the time from `instant` until another MAC than `old` answered a later request.
    pub(super) fn answered_by_another(&self, instant: SystemTime, old: Mac) -> Option<Duration> {
        let later = self.wire.requests.iter().filter(|request| request.sent_at >= instant);
        let mut answers = later.flat_map(|request| &request.answers).filter(|answer| answer.by.sha != old);
        Some(answers.next()?.at.duration_since(instant).unwrap_or_default())
    }

    /// Returns the time from `instant` until another host than `old` received a later datagram.
    pub(super) fn received_by_another(&self, instant: SystemTime, old: &str) -> Option<Duration> {
        let sent_after = |number: usize| self.felt.sent.get(number).is_some_and(|sent| *sent >= instant);
        let elsewhere = self.felt.received.iter().filter(|received| received.node != old);
        let first =
            elsewhere.filter(|received| sent_after(received.number)).map(|received| received.at).min()?;
        Some(first.duration_since(instant).unwrap_or_default())
    }

    fn time(&self, from: SystemTime, is_so: impl Fn(&Request) -> bool) -> Duration {
        let pairs = self.wire.requests.windows(2).filter(|pair| pair[0].sent_at >= from);
        let so = pairs.filter(|pair| is_so(&pair[0]));
        so.map(|pair| pair[1].sent_at.duration_since(pair[0].sent_at).unwrap_or_default()).sum()
    }
}

/// Returns the share of the datagrams sent between `from` and `until` that a host received.
pub(super) fn share_at(felt: &DatagramReport, node: &str, from: SystemTime, until: SystemTime) -> f64 {
    let within = |number: usize| felt.sent.get(number).is_some_and(|sent| (from..until).contains(sent));
    let sent = (0..felt.sent.len()).filter(|number| within(*number)).count();
    let at_node = felt.received.iter().filter(|received| received.node == node && within(received.number));
    ratio(at_node.count(), sent)
}

/// Returns the time from `instant` until the first datagram was sent after which all that arrive
/// do so at `node`. Returns `None` if the last of them does not, or none arrives.
pub(super) fn right_after(felt: &DatagramReport, node: &str, instant: SystemTime) -> Option<Duration> {
    let numbers = |right: bool| {
        let received = felt.received.iter().filter(move |received| (received.node == node) == right);
        received.map(|received| received.number)
    };
    let last_wrong = numbers(false).max();
    let first_right = numbers(true).filter(|number| last_wrong.is_none_or(|wrong| *number > wrong)).min()?;
    Some(felt.sent.get(first_right)?.duration_since(instant).unwrap_or_default())
}

fn ratio(part: usize, whole: usize) -> f64 {
    let float = |count: usize| u32::try_from(count).map_or(f64::INFINITY, f64::from);
    if whole == 0 { f64::NAN } else { float(part) / float(whole) }
}
