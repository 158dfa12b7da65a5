//! VIPs that should be held, but that no node answers for: the
//! reasons, and the times of the reports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    time::Duration,
};

use crate::{
    base::{legible::message, time::Monotonic},
    records::{NoAnswer, NodeName},
};

#[cfg(test)]
mod tests;

/// Reason why no node answers for a VIP that is held by a claim or a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// The node that has the VIP does not answer, for the reason that it gives.
    Silent(String),
    /// The session that the claim names is over, and no node has taken the VIP since.
    SessionEnded(NodeName),
}

impl Unanswered {
    /// Reason of the condition `Held` if the session that the claim names is over.
    pub const SESSION_ENDED: &'static str = "SessionEnded";

    /// Returns the reason of the condition `Held`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Silent(_) => "NotAnswered",
            Self::SessionEnded(_) => Self::SESSION_ENDED,
        }
    }
}

impl From<&Unanswered> for NoAnswer {
    fn from(unanswered: &Unanswered) -> Self {
        Self { word: unanswered.reason().to_owned(), message: message(&unanswered.to_string()) }
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(why) => f.write_str(why),
            Self::SessionEnded(node) => {
                write!(f, "the session of {node} in which it was held is over, and no node has taken it")
            }
        }
    }
}

/// VIP that no node answers for.
#[derive(Debug)]
struct Case {
    why: Unanswered,
    /// Another reason, which has come up since the report.
    next: Option<Unanswered>,
    /// Time of the report.
    due: Monotonic,
    notified: bool,
}

/// VIPs that no node answers for. A silence that ends within the grace is
/// not reported, because VIPs move and links flap.
#[derive(Debug)]
pub struct Silences {
    grace: Duration,
    cases: BTreeMap<IpAddr, Case>,
    /// Times of the reports to come.
    due: BTreeSet<(Monotonic, IpAddr)>,
}

impl Silences {
    pub fn start(grace: Duration) -> Self {
        Self { grace, cases: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// Sets the grace of VIPs that fall silent from now on.
    pub fn configure(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// Records the reason why no node answers for a VIP, or that a node answers (`None`). Returns
    /// true if a reported silence is over.
    pub fn record(&mut self, vip: IpAddr, why: Option<Unanswered>, now: Monotonic) -> bool {
        let Some(why) = why else {
            let Some(case) = self.cases.remove(&vip) else { return false };
            self.due.remove(&(case.due, vip));
            return case.notified;
        };
        let due = now + self.grace;
        let Some(case) = self.cases.get_mut(&vip) else {
            self.due.insert((due, vip));
            self.cases.insert(vip, Case { why, next: None, due, notified: false });
            return false;
        };
        if !case.notified {
            case.why = why;
        } else if case.why == why {
            // The link flaps, and the reason is the reported one again.
            case.next = None;
            self.due.remove(&(case.due, vip));
        } else if case.next.replace(why).is_none() {
            self.due.remove(&(case.due, vip));
            case.due = due;
            self.due.insert((due, vip));
        }
        false
    }

    /// Returns the VIPs whose silence has lasted for the grace, and the VIPs whose new reason has.
    pub fn on_tick(&mut self, now: Monotonic) -> Vec<IpAddr> {
        let mut notified = Vec::new();
        while let Some((due, vip)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, vip));
            if let Some(case) = self.cases.get_mut(&vip) {
                case.notified = true;
                case.why = case.next.take().unwrap_or_else(|| case.why.clone());
                notified.push(vip);
            }
        }
        notified
    }

    /// Returns the reported reason why no node answers for a VIP.
    pub fn notified(&self, vip: IpAddr) -> Option<&Unanswered> {
        self.cases.get(&vip).filter(|case| case.notified).map(|case| &case.why)
    }

    /// Returns all VIPs whose silence is reported.
    pub fn all_notified(&self) -> impl Iterator<Item = (IpAddr, &Unanswered)> {
        self.cases.iter().filter(|(_, case)| case.notified).map(|(vip, case)| (*vip, &case.why))
    }

    /// Returns all VIPs that no node answers for, reported or not.
    pub fn all(&self) -> impl Iterator<Item = IpAddr> {
        self.cases.keys().copied()
    }

    /// Returns true if no node answers for a VIP, reported or not.
    pub fn contains(&self, vip: IpAddr) -> bool {
        self.cases.contains_key(&vip)
    }

    /// Returns the time of the next [`Silences::on_tick`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.due.first().map(|(due, _)| *due)
    }
}
