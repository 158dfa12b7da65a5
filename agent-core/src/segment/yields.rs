//! Yielded VIPs: each stays with the peer that announced it, or is taken back.
//!
//! After the lease deadline, the program yields to the first announcement with a peer's MAC, and
//! any host can send one. So the agent probes the VIP. If no peer answers within [`PATIENCE`], this
//! node takes the VIP back.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use vipward_common::{MacAddr, Role, VipKey};

use super::probing::Probed;
use crate::{
    base::time::Monotonic,
    host::{
        placement::Desired,
        plan::{self, Observed},
    },
};

#[cfg(test)]
mod tests;

/// Time that a peer has to answer.
pub const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The program has yielded a VIP that this node may take back.
    Yielded { key: VipKey, to: MacAddr },
    /// The result of [`Command::Ask`]. Only a peer's answer counts as use.
    Probed { key: VipKey, probed: Probed },
    /// Events were held back by their limiter, and an answer may be among them.
    Unclear { key: VipKey },
    /// The VIP's entry was decided anew: by its claim, the file or an operator.
    Decided(IpAddr),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Probe the VIP's address.
    Ask(VipKey),
    StopAsking(VipKey),
}

/// The answer to a question: no peer has the VIP. Its address is to be probed no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoPeer {
    pub key: VipKey,
    /// The MAC in whose name it was announced.
    pub from: MacAddr,
    /// True if this node is to take the VIP back and to announce it.
    pub take_back: bool,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    to: MacAddr,
    until: Monotonic,
    /// True if no peer has answered, and no more probes are to be sent.
    no_peer: bool,
}

/// The yielded VIPs that are probed, and the VIPs that were taken back.
#[derive(Debug, Default)]
pub struct Yields {
    questions: BTreeMap<VipKey, Question>,
    taken_back: BTreeSet<IpAddr>,
}

impl Yields {
    /// Begins to probe the VIPs that the program has yielded since the last reconciliation, if this
    /// node held them and may take them back.
    ///
    /// If the source is not known yet, a pinned entry is the desired one. It is foreign if an earlier
    /// agent has settled the yield.
    pub fn on_observed(
        &mut self,
        observed: &Observed,
        desired: &Desired,
        is_known: bool,
        may_take_back: impl Fn(IpAddr) -> bool,
        now: Monotonic,
    ) -> Vec<Command> {
        let was_held = |key: &VipKey| match desired.entries.get(key).map(|entry| entry.role) {
            Some(Role::Held) => true,
            Some(Role::Foreign) => !is_known,
            Some(Role::Handover) | None => false,
        };
        let mut commands = Vec::new();
        for (key, to) in plan::yielded_entries(observed) {
            let vip = key.addr;
            let is_old = observed.remembered.contains_key(&vip)
                || observed.taken_back.contains(&vip)
                || self.asks_about(&key);
            if was_held(&key) && !is_old && may_take_back(vip) {
                commands.extend(self.on_event(Event::Yielded { key, to }, now));
            }
        }
        commands
    }

    pub fn on_event(&mut self, event: Event, now: Monotonic) -> Vec<Command> {
        match event {
            Event::Yielded { key, to } => {
                self.taken_back.remove(&key.addr);
                self.questions.insert(key, Question { to, until: now + PATIENCE, no_peer: false });
                vec![Command::Ask(key)]
            }
            Event::Probed { key, probed } => self.on_probed(key, probed, now),
            Event::Unclear { key } => {
                if let Some(question) = self.questions.get_mut(&key) {
                    question.until = now + PATIENCE;
                }
                Vec::new()
            }
            Event::Decided(vip) => {
                self.taken_back.remove(&vip);
                let asked = self.questions.extract_if(.., |key, _| key.addr == vip);
                asked.map(|(key, _)| Command::StopAsking(key)).collect()
            }
        }
    }

    /// Ends the probes that are due. `may_take_back` returns true if this node may still hold a
    /// VIP.
    pub fn on_tick(&mut self, may_take_back: impl Fn(IpAddr) -> bool, now: Monotonic) -> Vec<NoPeer> {
        let is_due = |question: &mut Question| question.no_peer && question.until <= now;
        let due = self.questions.extract_if(.., |_, question| is_due(question));
        let ended = due.map(|(key, question)| {
            let vip = key.addr;
            let take_back = may_take_back(vip);
            if take_back {
                self.taken_back.insert(vip);
            }
            NoPeer { key, from: question.to, take_back }
        });
        ended.collect()
    }

    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.questions.values().filter(|question| question.no_peer).map(|question| question.until).min()
    }

    pub fn asks_about(&self, key: &VipKey) -> bool {
        self.questions.contains_key(key)
    }

    pub fn asked(&self) -> impl Iterator<Item = IpAddr> {
        self.questions.keys().map(|key| key.addr)
    }

    /// Returns the VIPs that were taken back. Their entries answer even after the lease deadline.
    pub fn taken_back(&self) -> &BTreeSet<IpAddr> {
        &self.taken_back
    }

    fn on_probed(&mut self, key: VipKey, probed: Probed, now: Monotonic) -> Vec<Command> {
        let Some(question) = self.questions.get_mut(&key) else { return Vec::new() };
        match probed {
            // Only peers' answers are passed on.
            Probed::InUse { .. } | Probed::Late { .. } => {
                self.questions.remove(&key);
                vec![Command::StopAsking(key)]
            }
            // Until the time is over, a peer may take the VIP and begin to answer.
            Probed::Free if now < question.until => vec![Command::Ask(key)],
            Probed::Unheard => Vec::new(),
            Probed::Free => {
                question.no_peer = true;
                Vec::new()
            }
        }
    }
}
