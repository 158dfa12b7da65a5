//! The monitor: pings other nodes, judges missing answers, and sends expiry notices.
//!
//! It pings by the clock and reads the program's records of the answers, so it needs no frame to
//! decide. Its findings go to the engine. Only the engine expires sessions.

mod contact;
mod notifying;
mod pinged;
mod pings;
mod voting;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use vipward_common::MacAddr;

use self::{contact::Contacts, notifying::Notifying, pinged::PingedBy, pings::Pings, voting::Vote};
use super::{
    Act, Counts, ExpiryNotice, Finding, Frame, Kind, Path, Peer, Plan, Received, Scale, Seen, Traffic,
    Watched,
};
use crate::{
    base::time::Boottime,
    records::{KeyId, Session, Wid},
};

/// Most vote requests, and most expiry notices, that are kept until the next [`Monitor::on_time`].
const MOST_REQUESTS: usize = 64;

#[derive(Debug)]
struct Watch {
    peer: Peer,
    pings: Pings,
    vote: Vote,
    pinged: PingedBy,
}

impl Watch {
    fn ping(&mut self, wid: Wid, key: KeyId, scale: Scale, now: Boottime, counts: &mut Counts) -> Vec<Act> {
        let lost = self.pings.lost();
        counts.late += u64::from(self.pings.ping(self.peer.watched.is_some(), scale, now));
        counts.pings += 1;
        counts.lost += self.pings.lost() - lost;
        let frame = Frame::ping(self.peer.session, wid, now);
        self.peer.paths.iter().map(|path| send(path, key, frame)).collect()
    }
}

#[derive(Debug)]
struct Question {
    session: Session,
    number: u64,
    asker: Wid,
    interface: Arc<str>,
    from: MacAddr,
}

#[derive(Debug)]
pub struct Monitor {
    scale: Scale,
    wid: Wid,
    key: Option<KeyId>,
    set: Vec<Wid>,
    peers: BTreeMap<Session, Watch>,
    contacts: Contacts,
    notifying: Notifying,
    questions: Vec<Question>,
    notified: Option<ExpiryNotice>,
    /// The sessions of other nodes for which expiry notices have come.
    expired: BTreeSet<Session>,
    counts: Counts,
    /// True if [`Monitor::on_time`] is due at once.
    is_due: bool,
    now: Boottime,
}

impl Monitor {
    /// Starts with nothing to do. `wid` is the number in the program's maps.
    pub fn new(scale: Scale, wid: Wid) -> Self {
        Self {
            scale,
            wid,
            key: None,
            set: Vec::new(),
            peers: BTreeMap::new(),
            contacts: Contacts::default(),
            notifying: Notifying::default(),
            questions: Vec::new(),
            notified: None,
            expired: BTreeSet::new(),
            counts: Counts::default(),
            is_due: false,
            now: Boottime::default(),
        }
    }

    /// Applies another plan. The record of a session stays while the plan has the session.
    pub fn set_plan(&mut self, plan: Plan, now: Boottime) {
        let Plan { key, peers, set, ended } = plan;
        if std::mem::replace(&mut self.key, key) != key {
            self.contacts.begin_anew(now);
        }
        self.set = set;
        let mut before = std::mem::take(&mut self.peers);
        for peer in peers {
            let session = peer.session;
            let watch = match before.remove(&session) {
                Some(mut known) => {
                    if known.peer.watched != peer.watched {
                        known.vote.begin_anew();
                    }
                    known.peer = peer;
                    known
                }
                None => {
                    Watch { peer, pings: Pings::new(now), vote: Vote::default(), pinged: PingedBy::new(now) }
                }
            };
            self.peers.insert(session, watch);
        }
        let ways = self
            .peers
            .iter()
            .flat_map(|(session, watch)| watch.peer.paths.iter().map(|path| (&path.interface, *session)));
        self.contacts.set(ways, now);
        self.notifying.set(ended, now);
        self.is_due = true;
    }

    /// Records a vote request, a vote or an expiry notice. [`Monitor::on_time`] is due at once.
    pub fn on_frame(&mut self, received: Received, now: Boottime) {
        let Received { interface, from, frame } = received;
        let Frame { kind, holder, wid: sender, stamp } = frame;
        if kind == Kind::Ended && self.expired.len() < MOST_REQUESTS {
            self.expired.insert(holder);
            self.is_due = true;
        }
        let (Some(watch), Some(sender)) = (self.peers.get_mut(&holder), sender) else { return };
        let is_member = watch
            .peer
            .watched
            .as_ref()
            .is_some_and(|watched| watched.others.iter().any(|(wid, _)| *wid == sender));
        if !is_member {
            return;
        }
        self.contacts.receive(&interface, now);
        match kind {
            Kind::VoteRequest if self.questions.len() < MOST_REQUESTS => {
                self.questions.push(Question {
                    session: holder,
                    number: stamp,
                    asker: sender,
                    interface,
                    from,
                });
            }
            Kind::Vote => watch.vote.second(sender, stamp),
            Kind::VoteRequest | Kind::Ping | Kind::Ended => return,
        }
        self.is_due = true;
    }

    /// Records a neighbour's answer to [`Act::AskNeighbours`]. [`Monitor::on_time`] is due at once.
    pub fn on_third_station(&mut self, session: Session, now: Boottime) {
        if let Some(watch) = self.peers.get_mut(&session) {
            watch.vote.receive_third_station(now);
            self.is_due = true;
        }
    }

    /// Forgets all answers, because another key has a known number now. A peer without the new key
    /// cannot answer, and must not count as unresponsive.
    pub fn forget_answers(&mut self, now: Boottime) {
        for watch in self.peers.values_mut() {
            watch.pings = Pings::new(now);
            watch.vote.begin_anew();
        }
        self.contacts.begin_anew(now);
    }

    /// Records that the last ping could not be sent. It shows nothing about the peer.
    pub fn on_unsent(&mut self, session: Session, now: Boottime) {
        if let Some(watch) = self.peers.get_mut(&session) {
            watch.pings.begin_anew(now);
        }
    }

    /// Does what is due. `seen` is read no earlier than `now`.
    pub fn on_time(&mut self, seen: &impl Seen, now: Boottime) -> Vec<Act> {
        self.is_due = false;
        let mut acts = Vec::new();
        if let Some(word) = seen.notified().filter(|word| self.notified != Some(*word)) {
            self.notified = Some(word);
            acts.push(Act::Report(Finding::Ended(word)));
        }
        let expired = std::mem::take(&mut self.expired).into_iter();
        acts.extend(expired.map(|session| Act::Report(Finding::Expired { session })));
        self.look(seen, now, &mut acts);
        if let Some(key) = self.key {
            self.ping(key, now, &mut acts);
            self.judge(key, now, &mut acts);
            self.answer(key, now, &mut acts);
            let notify = |session, path: &Path| send(path, key, Frame::ended(session));
            acts.extend(self.notifying.due(self.scale, now, notify));
        }
        self.questions.clear();
        self.now = now;
        acts
    }

    fn look(&mut self, seen: &impl Seen, now: Boottime, acts: &mut Vec<Act>) {
        self.contacts.listen(self.scale, self.now, now);
        for (session, watch) in &mut self.peers {
            let wid = watch.peer.wid;
            for path in &watch.peer.paths {
                let interface = &path.interface;
                let (answers, pings) = (seen.holder(*session, interface), seen.monitor(wid, interface));
                watch.pings.update(answers);
                self.contacts.see(interface, *session, answers, pings);
                let is_member = self.set.contains(&wid);
                watch.pinged.update(interface, pings.received, is_member, self.scale);
            }
            let lately = watch.pinged.news(self.scale, now);
            acts.extend(lately.map(|lately| Act::Report(Finding::Pinged { by: wid, lately })));
        }
        acts.extend(self.contacts.news(self.scale, now).map(Act::Report));
    }

    fn ping(&mut self, key: KeyId, now: Boottime, acts: &mut Vec<Act>) {
        for watch in self.peers.values_mut() {
            if watch.pings.is_due(watch.peer.watched.is_some(), self.scale, now) {
                acts.extend(watch.ping(self.wid, key, self.scale, now, &mut self.counts));
            }
        }
    }

    fn judge(&mut self, key: KeyId, now: Boottime, acts: &mut Vec<Act>) {
        for (session, watch) in &mut self.peers {
            let Some(watched) = &watch.peer.watched else {
                acts.extend(watch.vote.end(*session).map(Act::Report));
                continue;
            };
            if !watch.pings.is_unresponsive(self.scale, now) {
                acts.extend(watch.vote.end(*session).map(Act::Report));
                continue;
            }
            match watch.vote.step(watched, self.wid, self.scale, now, &mut self.counts) {
                None => {}
                Some(voting::Step::Report) => {
                    acts.push(Act::Report(Finding::Unresponsive { session: *session, round: watched.round }));
                }
                Some(voting::Step::Ping) => {
                    acts.extend(watch.ping(self.wid, key, self.scale, now, &mut self.counts));
                }
                Some(voting::Step::RequestVotes(number)) => {
                    let frame = Frame::vote_request(*session, self.wid, number);
                    let paths = watched.others.iter().flat_map(|(_, paths)| paths);
                    acts.extend(paths.map(|path| send(path, key, frame)));
                }
                Some(voting::Step::AskNeighbours) => {
                    acts.extend(watch.peer.paths.iter().map(|path| Act::AskNeighbours {
                        session: *session,
                        interface: Arc::clone(&path.interface),
                        holder: path.mac,
                    }));
                }
            }
        }
    }

    fn answer(&mut self, key: KeyId, now: Boottime, acts: &mut Vec<Act>) {
        for Question { session, number, asker, interface, from } in self.questions.drain(..) {
            let Some(watch) = self.peers.get(&session) else { continue };
            let is_member = |watched: &Watched| watched.others.iter().any(|(wid, _)| *wid == asker);
            let may_ask = watch.peer.watched.as_ref().is_some_and(is_member);
            if may_ask && watch.pings.is_unresponsive(self.scale, now) {
                self.counts.seconded += 1;
                let frame = Frame::vote(session, self.wid, number);
                acts.push(Act::Send { interface, to: from, key, frame });
            }
        }
    }

    pub fn next_deadline(&self) -> Option<Boottime> {
        if self.is_due {
            return Some(self.now);
        }
        let mut deadlines: Vec<Boottime> = Vec::new();
        for watch in self.peers.values() {
            let is_watched = watch.peer.watched.is_some();
            deadlines.extend(self.key.map(|_| watch.pings.next(is_watched, self.scale)));
            deadlines.extend(watch.pings.unresponsive_at(self.scale).filter(|_| is_watched));
            deadlines.extend(watch.vote.deadline());
            deadlines.push(watch.pinged.deadline(self.scale));
        }
        deadlines.extend(self.contacts.deadlines(self.scale));
        deadlines.extend(self.key.and_then(|_| self.notifying.next()));
        deadlines.into_iter().filter(|deadline| *deadline > self.now).min()
    }

    pub fn traffic(&self, now: Boottime) -> Vec<Traffic> {
        self.peers.iter().map(|(session, watch)| watch.pings.traffic(*session, now)).collect()
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }
}

fn send(path: &Path, key: KeyId, frame: Frame) -> Act {
    Act::Send { interface: Arc::clone(&path.interface), to: path.mac, key, frame }
}
