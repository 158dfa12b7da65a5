//! Order of the engine's commands, and the refusal of those that stale map entries make unsafe.
//!
//! Entries come first. A claim that names no holder lets other nodes answer, and a claim that names
//! this node promises that it answers. So commands keep the engine's order, with one exception:
//! entries are written together, before the requests about claims that rest on them. Many VIPs then
//! cost little more than one. A write or deletion that a stale entry makes unsafe is not sent. The
//! engine gets it back as refused, and tries again at its pace for refused requests.

use std::{
    collections::{BTreeSet, VecDeque},
    net::IpAddr,
};

use super::{
    command::{ClaimWrite, Command, LeaseWrite, NewDeadline, Notice},
    event::{Event, Outcome},
};
use crate::{
    base::time::Monotonic,
    host::stale::{Left, Stale},
    records::{ClaimState, NodeName, Session, Version},
    segment::probing::Manner,
};

#[cfg(test)]
mod tests;

/// Reason that the engine gets for a request that was not sent.
const NOT_SENT: &str = "not sent, since this node's own entry could not be changed";

/// Step for the agent to take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Write the entries of these VIPs as last commanded.
    /// [`Interlock::next`] then gets the stale ones.
    WriteEntries(BTreeSet<IpAddr>),
    /// Carry out a command. [`Command::SetEntry`] only names the entry that is wanted.
    Do(Command),
    /// Return a request to the engine that was not sent.
    NotSent(Event),
}

#[derive(Debug)]
enum Request {
    Write(ClaimWrite),
    Delete { vip: IpAddr, expected: Version },
    Read(IpAddr),
}

impl Request {
    fn vip(&self) -> IpAddr {
        match self {
            Self::Write(write) => write.vip,
            Self::Delete { vip, expected: _ } | Self::Read(vip) => *vip,
        }
    }

    /// Returns true if the request is safe while the VIP's map entry is stale.
    ///
    /// A claim that names no holder lets others answer, so this node must be silent first. A claim
    /// that names this node must wait until its entry can be written.
    fn is_safe(&self, left: Option<Left>) -> bool {
        let Some(left) = left else { return true };
        match self {
            Self::Read(_) => true,
            Self::Write(write) => left == Left::Silent && !matches!(write.state, ClaimState::Held(_)),
            Self::Delete { .. } => left == Left::Silent,
        }
    }

    /// Returns the command that sends the request. Returns a refusal if the request is not safe.
    fn into_step(self, is_safe: bool) -> Step {
        let refused = || NOT_SENT.into();
        match self {
            Self::Read(vip) => Step::Do(Command::ReadClaim(vip)),
            Self::Write(write) if is_safe => Step::Do(Command::WriteClaim(write)),
            Self::Delete { vip, expected } if is_safe => Step::Do(Command::DeleteClaim { vip, expected }),
            Self::Write(write) => {
                Step::NotSent(Event::ClaimWritten { vip: write.vip, outcome: Outcome::Refused(refused()) })
            }
            Self::Delete { vip, expected: _ } => {
                Step::NotSent(Event::ClaimDeleted { vip, outcome: Outcome::Refused(refused()) })
            }
        }
    }
}

/// Returns true if a write of this node's Lease keeps the session in which its entries answer. Any
/// other write lets other nodes take all its VIPs at once.
fn keeps_session(write: &LeaseWrite, session: Option<Session>) -> bool {
    write.session == session && !session.is_some_and(|session| write.ended.contains(&session))
}

/// The engine's commands that have not been carried out, in the possible order.
#[derive(Debug)]
pub struct Interlock {
    node: NodeName,
    /// The session of the pinned lease deadline. Entries answer in it.
    session: Option<Session>,
    commands: VecDeque<Command>,
    /// VIPs whose entries have changed and have not been written yet.
    entries: BTreeSet<IpAddr>,
    /// Requests about claims that wait for entries, in the engine's
    /// order. The notices that wait are in `notices`.
    requests: Vec<Request>,
    notices: Vec<Notice>,
    /// VIPs to probe at last. The program reports answers only for a VIP with an entry.
    probes: VecDeque<(IpAddr, Manner)>,
    /// Steps that wait for nothing any more.
    ready: VecDeque<Step>,
    /// True if the entries that the next step waits for have just been written.
    is_written: bool,
}

impl Interlock {
    /// Starts with the session of the pinned lease deadline.
    pub fn new(node: NodeName, session: Option<Session>) -> Self {
        Self {
            node,
            session,
            commands: VecDeque::new(),
            entries: BTreeSet::new(),
            requests: Vec::new(),
            notices: Vec::new(),
            probes: VecDeque::new(),
            ready: VecDeque::new(),
            is_written: false,
        }
    }

    pub fn push(&mut self, commands: Vec<Command>) {
        self.commands.extend(commands);
    }

    /// Returns true if nothing is left to do.
    pub fn is_idle(&self) -> bool {
        self.commands.is_empty()
            && self.ready.is_empty()
            && self.entries.is_empty()
            && self.requests.is_empty()
            && self.notices.is_empty()
            && self.probes.is_empty()
    }

    /// Returns the next step. `stale` are the entries that are stale now.
    pub fn next(&mut self, stale: &Stale) -> Option<Step> {
        loop {
            if let Some(step) = self.ready.pop_front() {
                return Some(step);
            }
            let Some(command) = self.commands.front() else {
                if self.has_waiting() {
                    if let Some(step) = self.catch_up(stale) {
                        return Some(step);
                    }
                    continue;
                }
                return self.probes.pop_front().map(|(vip, manner)| Step::Do(Command::Probe { vip, manner }));
            };
            if rests_on_entries(command) && self.has_waiting() {
                if let Some(step) = self.catch_up(stale) {
                    return Some(step);
                }
                continue;
            }
            if self.must_be_silenced(stale) && !std::mem::replace(&mut self.is_written, true) {
                return Some(Step::WriteEntries(stale.answering().collect()));
            }
            self.is_written = false;
            let command = self.commands.pop_front()?;
            self.take(command, stale);
        }
    }

    fn has_waiting(&self) -> bool {
        !(self.entries.is_empty() && self.requests.is_empty() && self.notices.is_empty())
    }

    /// Writes the entries that changed, and the stale ones on which a request rests.
    /// Then makes the waiting requests and notices ready.
    fn catch_up(&mut self, stale: &Stale) -> Option<Step> {
        if !std::mem::replace(&mut self.is_written, true) {
            let vips = self.requests.iter().map(Request::vip);
            self.entries.extend(vips.filter(|vip| stale.left(*vip).is_some()));
            if !self.entries.is_empty() {
                return Some(Step::WriteEntries(std::mem::take(&mut self.entries)));
            }
        }
        self.is_written = false;
        let is_true = |notice: &Notice| match notice {
            Notice::Holds { vip, .. } => stale.left(*vip).is_none(),
            Notice::NoHolder { .. }
            | Notice::CannotMove { .. }
            | Notice::Repaired { .. }
            | Notice::WentBack
            | Notice::SessionEnded { .. }
            | Notice::WireSlow { .. }
            | Notice::FalseEnd { .. }
            | Notice::WireContact { .. }
            | Notice::NotAlone { .. } => true,
        };
        let notices = self.notices.drain(..).filter(is_true);
        self.ready.extend(notices.map(|notice| Step::Do(Command::Notify(notice))));
        for request in self.requests.drain(..) {
            let is_safe = request.is_safe(stale.left(request.vip()));
            self.ready.push_back(request.into_step(is_safe));
        }
        None
    }

    /// Returns true if the next command would end the session while a stale entry answers in it.
    fn must_be_silenced(&self, stale: &Stale) -> bool {
        matches!(self.commands.front(), Some(Command::WriteLease(write)) if self.is_unsafe(write, stale))
    }

    fn is_unsafe(&self, write: &LeaseWrite, stale: &Stale) -> bool {
        write.node == self.node && stale.may_answer() && !keeps_session(write, self.session)
    }

    fn take(&mut self, command: Command, stale: &Stale) {
        match command {
            Command::SetEntry { vip, .. } => {
                self.entries.insert(vip);
                self.ready.push_back(Step::Do(command));
            }
            Command::WriteClaim(write) => self.requests.push(Request::Write(write)),
            Command::DeleteClaim { vip, expected } => self.requests.push(Request::Delete { vip, expected }),
            Command::ReadClaim(vip) => self.requests.push(Request::Read(vip)),
            Command::Probe { vip, manner } => self.probes.push_back((vip, manner)),
            Command::StopProbing { vip } => {
                self.probes.retain(|(waiting, _)| *waiting != vip);
                self.ready.push_back(Step::Do(command));
            }
            Command::SetDeadline(new_deadline) => {
                let new_deadline = self.lease_deadline(new_deadline, stale);
                self.ready.push_back(Step::Do(Command::SetDeadline(new_deadline)));
            }
            Command::WriteLease(write) if self.is_unsafe(&write, stale) => {
                let outcome = Outcome::Refused(NOT_SENT.into());
                self.ready.push_back(Step::NotSent(Event::LeaseWritten { node: write.node, outcome }));
            }
            Command::Notify(notice) if !matches!(notice, Notice::NotAlone { .. }) => {
                self.notices.push(notice);
            }
            Command::SetPeers(_)
            | Command::SetSuccessor { .. }
            | Command::SetUnreached(_)
            | Command::Announce { .. }
            | Command::WriteLease(_)
            | Command::ReadLease(_)
            | Command::SetWire(_)
            | Command::SetHeeding(_)
            | Command::NotifyFormer { .. }
            | Command::ListAnew
            | Command::AvoidServer(_)
            | Command::Notify(_)
            | Command::Stopped => self.ready.push_back(Step::Do(command)),
        }
    }

    /// Returns the lease deadline to write. While a stale entry may answer, the lease deadline
    /// keeps that entry's session and lies in the past. Other nodes may take the VIPs that were
    /// held in it.
    fn lease_deadline(&mut self, new_deadline: NewDeadline, stale: &Stale) -> NewDeadline {
        if stale.may_answer() && new_deadline.session != self.session {
            let over = Monotonic::default();
            return NewDeadline { session: self.session, deadline: over, grace_until: over, ..new_deadline };
        }
        self.session = new_deadline.session;
        new_deadline
    }
}

/// Returns true if a command must come after all entries, claims and notices before it.
fn rests_on_entries(command: &Command) -> bool {
    match command {
        Command::SetDeadline(_)
        | Command::SetPeers(_)
        | Command::Announce { .. }
        | Command::WriteLease(_)
        | Command::Notify(Notice::NotAlone { .. })
        | Command::Stopped => true,
        Command::SetEntry { .. }
        | Command::Probe { .. }
        | Command::StopProbing { .. }
        | Command::SetSuccessor { .. }
        | Command::SetUnreached(_)
        | Command::ReadLease(_)
        | Command::WriteClaim(_)
        | Command::DeleteClaim { .. }
        | Command::ReadClaim(_)
        | Command::SetWire(_)
        | Command::SetHeeding(_)
        | Command::NotifyFormer { .. }
        | Command::ListAnew
        | Command::AvoidServer(_)
        | Command::Notify(_) => false,
    }
}
