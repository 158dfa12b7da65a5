//! VIPs to evaluate, now and later.

use std::{collections::BTreeSet, net::IpAddr};

use crate::base::time::Monotonic;

#[cfg(test)]
mod tests;

/// The VIPs to evaluate.
#[derive(Default, Debug)]
pub(crate) struct Queue {
    now: BTreeSet<IpAddr>,
    later: BTreeSet<(Monotonic, IpAddr)>,
}

impl Queue {
    pub(crate) fn add(&mut self, vip: IpAddr) {
        self.now.insert(vip);
    }

    pub(crate) fn add_all(&mut self, vips: impl IntoIterator<Item = IpAddr>) {
        self.now.extend(vips);
    }

    /// Moves a VIP's next evaluation from `known` to `due`.
    pub(crate) fn schedule(&mut self, vip: IpAddr, known: &mut Option<Monotonic>, due: Option<Monotonic>) {
        if let Some(known) = known.take() {
            self.later.remove(&(known, vip));
        }
        self.later.extend(due.map(|due| (due, vip)));
        *known = due;
    }

    /// Adds the VIPs whose time has come.
    pub(crate) fn wake(&mut self, now: Monotonic) {
        while let Some((due, vip)) = self.later.first().copied().filter(|(due, _)| *due <= now) {
            self.later.remove(&(due, vip));
            self.now.insert(vip);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<IpAddr> {
        self.now.pop_first()
    }

    /// Returns true if no VIP is to be evaluated now.
    pub(crate) fn is_empty(&self) -> bool {
        self.now.is_empty()
    }

    /// Returns the time of the next evaluation.
    pub(crate) fn next(&self) -> Option<Monotonic> {
        self.later.first().map(|(due, _)| *due)
    }
}
