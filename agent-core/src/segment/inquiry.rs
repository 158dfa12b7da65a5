//! Asks for the VIPs that other nodes hold, as clients do: what a node finds about its own way out and in
//! can be wrong.
//!
//! Each round of listening ([`super::proving`]) asks all hosts of the segment for some of these VIPs, and
//! their holders for their own addresses. A holder whose VIP has no answer is asked once more, by unicast.
//!
//! |the VIP is answered|the holder's own address, which all hosts were asked for, too|two rounds in a row show|
//! |---|---|---|
//! |to the request to all|any|that it is well|
//! |to the unicast alone|is answered|[`VipFault::Blind`]|
//! |not|is answered|[`VipFault::Unheard`]|
//! |not, or to the unicast alone|not|nothing: the holder is out of reach. The next round is the first|
//! |(no request could be sent)|any|nothing|
//!
//! A finding is about one tenure of a VIP: the next holder, or the next epoch, begins without one.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::{MacAddr, VipFault, VipKey};

use crate::records::{Epoch, Unreached};

#[cfg(test)]
mod tests;

/// Rounds in a row that show a fault.
const STRIKES: u8 = 2;

/// A VIP that another node holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    pub vip: IpAddr,
    /// The holder's MAC.
    pub mac: MacAddr,
    /// An address of the holder's own, of the same family.
    pub host: IpAddr,
    /// The epoch of its claim.
    pub epoch: Epoch,
}

/// The request to which a VIP was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answered {
    ToAll,
    ToUnicast,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Suspect {
    question: Question,
    fault: VipFault,
    strikes: u8,
}

#[derive(Debug, Default)]
pub struct Inquiry {
    /// The questions of the rounds under way, by segment.
    rounds: BTreeMap<u32, (u64, Vec<Question>)>,
    suspects: BTreeMap<VipKey, Suspect>,
}

impl Inquiry {
    /// Records the questions of a round.
    pub fn begin(&mut self, segment: u32, round: u64, questions: Vec<Question>) {
        self.rounds.insert(segment, (round, questions));
    }

    /// Returns true if an address is one of these VIPs.
    pub fn asks_for(&self, segment: u32, address: IpAddr) -> bool {
        let round = self.rounds.get(&segment);
        round.is_some_and(|(_, questions)| questions.iter().any(|question| question.vip == address))
    }

    /// Ends a round. `answers` has the VIPs for which it asked, `hosts` the hosts that answered.
    /// `now` returns the present question about a VIP. Returns true if the findings have changed.
    pub fn end(
        &mut self,
        (segment, number): (u32, u64),
        answers: &BTreeMap<IpAddr, Option<Answered>>,
        hosts: &BTreeSet<IpAddr>,
        now: impl Fn(IpAddr) -> Option<Question>,
    ) -> bool {
        let before: Vec<_> = self.findings(segment).collect();
        if let Some((_, questions)) = self.rounds.remove(&segment).filter(|(round, _)| *round == number) {
            for question in
                questions.into_iter().filter(|question| now(question.vip).as_ref() == Some(question))
            {
                let key = VipKey::new(segment, question.vip);
                let fault = match answers.get(&question.vip) {
                    None => continue,
                    Some(Some(Answered::ToAll)) => None,
                    Some(_) if !hosts.contains(&question.host) => {
                        self.forget_open(key);
                        continue;
                    }
                    Some(Some(Answered::ToUnicast)) => Some(VipFault::Blind),
                    Some(None) => Some(VipFault::Unheard),
                };
                self.judge(key, question, fault);
            }
        }
        self.suspects.retain(|key, suspect| {
            key.ifindex != segment || now(key.addr).is_some_and(|question| question == suspect.question)
        });
        !self.findings(segment).eq(before)
    }

    /// Forgets that a VIP had no answer once, since its holder has none either by now.
    fn forget_open(&mut self, key: VipKey) {
        if self.suspects.get(&key).is_some_and(|suspect| suspect.strikes < STRIKES) {
            self.suspects.remove(&key);
        }
    }

    fn judge(&mut self, key: VipKey, question: Question, fault: Option<VipFault>) {
        let Some(fault) = fault else {
            self.suspects.remove(&key);
            return;
        };
        let known = self.suspects.get(&key).filter(|it| it.question == question && it.fault == fault);
        let strikes = known.map_or(1, |it| (it.strikes + 1).min(STRIKES));
        self.suspects.insert(key, Suspect { question, fault, strikes });
    }

    /// Forgets what was found on a segment, since frames take another way. Returns true if that was
    /// anything.
    pub fn begin_anew(&mut self, segment: u32) -> bool {
        self.rounds.remove(&segment);
        self.suspects.extract_if(.., |key, _| key.ifindex == segment).count() > 0
    }

    /// Returns the VIPs on a segment that must be asked for again soon, and those with findings.
    pub fn suspects(&self, segment: u32) -> impl Iterator<Item = IpAddr> {
        self.suspects.keys().filter(move |key| key.ifindex == segment).map(|key| key.addr)
    }

    /// Returns true if another round must show whether a VIP has a fault.
    pub fn is_open(&self, segment: u32) -> bool {
        self.suspects.iter().any(|(key, suspect)| key.ifindex == segment && suspect.strikes < STRIKES)
    }

    pub fn findings(&self, segment: u32) -> impl Iterator<Item = Unreached> {
        let shown =
            self.suspects.iter().filter(move |(key, it)| key.ifindex == segment && it.strikes == STRIKES);
        shown.map(|(key, it)| Unreached { vip: key.addr, epoch: it.question.epoch, fault: it.fault })
    }
}
