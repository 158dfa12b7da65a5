//! The kernel's side of wire failover: the maps, and what the program does with a frame. Like
//! `program`, it is written from docs/internals/dataplane.md.

use std::collections::{BTreeMap, BTreeSet};

use vipward_common::MacAddr;
use vipward_core::{
    base::time::Boottime,
    liveness::{ExpiryNotice, Seen, Sight},
    records::{KeyId, Session, Wid},
};

use crate::schedule::{Sabotage, names};

#[cfg(test)]
mod tests;

/// The type of a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Ping,
    Echo,
    VoteRequest,
    Vote,
    Ended,
}

/// A frame of wire failover. Its tag is right; the frames of others do not get past it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Packet {
    pub(crate) from: MacAddr,
    pub(crate) to: MacAddr,
    pub(crate) kind: Kind,
    pub(crate) key: u8,
    /// The session.
    pub(crate) holder: u64,
    /// The number of the monitor; zero in [`Kind::Ended`].
    pub(crate) wid: u64,
    /// The time of a ping, or the number of a vote request and of the vote.
    pub(crate) sent_ns: u64,
    /// The time of an answer to a ping; otherwise zero.
    pub(crate) answered_ns: u64,
}

/// The outcome of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is dropped, and changes nothing.
    Refused,
    /// It ends here.
    Consumed,
    /// This frame is sent in its place.
    Answered(Packet),
    /// It goes to the agent's socket.
    Passed,
    /// It has notified the program of the end of this node's session.
    Ended,
}

/// The maps, which live as long as the other pinned ones.
#[derive(Debug, Default)]
pub(crate) struct Wired {
    pub(crate) wid: Option<Wid>,
    pub(crate) keys: BTreeSet<u8>,
    /// The known sessions and monitors, each with a segment.
    pub(crate) index: BTreeSet<(u64, usize)>,
    seen: BTreeMap<(u64, usize), Sight>,
    /// The session in the last expiry notice, and the number of notices.
    ended: Option<Session>,
    notices: u64,
    /// One more than the number of the last notice that the agent has settled; 0 for none.
    pub(crate) notices_settled: u64,
    sabotage: Option<Sabotage>,
}

impl Wired {
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Self {
        Self { sabotage, ..Self::default() }
    }

    /// Handles a frame. `session` is the one in the lease deadline.
    pub(crate) fn receive(
        &mut self,
        packet: Packet,
        segment: usize,
        session: Option<Session>,
        now: Boottime,
    ) -> Verdict {
        let own = session.map_or(0, Session::number);
        let is_known = |id: u64| self.index.contains(&(id, segment));
        let is_mine = packet.holder == own && own != 0;
        let is_known = match packet.kind {
            Kind::Ping => is_mine && is_known(packet.wid),
            Kind::Echo => {
                let is_own = self.wid.is_some_and(|wid| wid.number() == packet.wid);
                is_known(packet.holder) && is_own && packet.sent_ns <= now.as_nanos()
            }
            Kind::VoteRequest | Kind::Vote => is_known(packet.holder),
            Kind::Ended => packet.holder != 0,
        };
        if !is_known || !self.keys.contains(&packet.key) {
            return Verdict::Refused;
        }
        match packet.kind {
            Kind::Ping => {
                let sent = Boottime::from_nanos(packet.sent_ns);
                let seen = self.seen.entry((packet.wid, segment)).or_default();
                if sent > seen.answered || self.sabotage == Some(Sabotage::OldPingsCount) {
                    seen.answered = seen.answered.max(sent);
                    seen.received = seen.received.max(now);
                }
                let Packet { from: to, to: from, .. } = packet;
                Verdict::Answered(Packet {
                    kind: Kind::Echo,
                    from,
                    to,
                    answered_ns: now.as_nanos(),
                    ..packet
                })
            }
            Kind::Echo => {
                let sent = Boottime::from_nanos(packet.sent_ns);
                let seen = self.seen.entry((packet.holder, segment)).or_default();
                let is_new = sent > seen.answered;
                let counts_old = matches!(
                    self.sabotage,
                    Some(
                        Sabotage::EchoesCountAsTheyCome | Sabotage::OldEchoesCount | Sabotage::OldPingsCount
                    )
                );
                if !is_new && !counts_old {
                    return Verdict::Refused;
                }
                seen.answered = match self.sabotage {
                    Some(Sabotage::EchoesCountAsTheyCome) => now,
                    Some(Sabotage::OldEchoesCount) => sent,
                    _ => seen.answered.max(sent),
                };
                if is_new || self.sabotage == Some(Sabotage::OldPingsCount) {
                    seen.received = seen.received.max(now);
                }
                Verdict::Consumed
            }
            Kind::VoteRequest | Kind::Vote => Verdict::Passed,
            Kind::Ended if !is_mine => Verdict::Passed,
            Kind::Ended => {
                let is_news = !self.has_ended(session);
                self.ended = session;
                self.notices += 1;
                if is_news { Verdict::Ended } else { Verdict::Consumed }
            }
        }
    }

    /// Returns whether the program counts this session, the one in the lease deadline, as ended.
    pub(crate) fn has_ended(&self, session: Option<Session>) -> bool {
        let is_settled =
            self.notices_settled == self.notices + 1 && self.sabotage != Some(Sabotage::NoSettling);
        session.is_some() && self.ended == session && !is_settled
    }

    /// Makes maps that have received one expiry notice.
    #[cfg(test)]
    pub(crate) fn ended_once(&mut self, session: Option<Session>) {
        (self.ended, self.notices) = (session, 1);
    }

    fn sight(&self, id: u64, interface: &str) -> Sight {
        self.seen.get(&(id, names::segment(interface))).copied().unwrap_or_default()
    }

    /// Sets the ids that frames may carry.
    pub(crate) fn set_index(&mut self, index: BTreeSet<(u64, usize)>) {
        // What was learned of a peer stays for a minute.
        self.index = index;
    }

    pub(crate) fn set_keys(&mut self, keys: &[KeyId]) {
        self.keys = keys.iter().map(|key| key.0).collect();
    }
}

impl Seen for Wired {
    fn holder(&self, session: Session, interface: &str) -> Sight {
        self.sight(session.number(), interface)
    }

    fn monitor(&self, wid: Wid, interface: &str) -> Sight {
        self.sight(wid.number(), interface)
    }

    fn notified(&self) -> Option<ExpiryNotice> {
        Some(ExpiryNotice { session: self.ended?, number: self.notices })
    }
}
