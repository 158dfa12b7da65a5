//! State of one VIP, as this node sees it.

use std::{sync::Arc, time::Duration};

use super::{ClaimWrite, Demand, Entry, Expected, REFUSED_RETRY, RETRY, address::Asking, handing::Handing};
use crate::{
    cluster::{ClaimRecord, Epoch, NodeName, ServiceName, Session},
    time::Monotonic,
};

/// Number of reads of one claim in a row without a pause.
const READS_AT_ONCE: u8 = 3;
/// Distance between two reads from which they are not in a row.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// Largest number of news about one claim. The oldest are dropped.
const MOST_NEWS: usize = 8;

/// Claim that a list or a watch has shown while a request about it was under way. The request may
/// be ahead of it, or behind. It is looked at when the request is over.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum News {
    Claim(ClaimRecord),
    Gone,
}

/// Time of a VIP's next evaluation.
pub(super) type Again = Option<Monotonic>;

/// A request about a claim that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Busy {
    /// A write that makes this node the holder: a take, an acceptance, a take-back or a repair. Its
    /// second field is the node that has answered for the VIP until then.
    Hold(ClaimWrite, Option<NodeName>),
    /// A write that names a successor.
    Offer,
    /// A write that changes neither the holder nor the epoch of this node's claim.
    Update,
    /// A write that says that no node has the VIP, and why.
    Free,
    Delete,
    Read,
}

/// The state of a VIP, as this node sees it.
#[derive(Debug)]
pub(super) struct Vip {
    pub(super) demand: Option<Demand>,
    pub(super) claim: Option<ClaimRecord>,
    /// Time at which this node last deleted the object.
    pub(super) deleted: Option<Monotonic>,
    /// Time at which the last change of holder was first seen.
    pub(super) changed: Monotonic,
    /// Time since which the claim is in doubt: it is blank, missing,
    /// edited by hand, or of an earlier epoch.
    pub(super) unclear: Option<Monotonic>,
    /// The sessions that the last believed claim names. The VIP may be answered in them.
    pub(super) owners: Vec<(NodeName, Session)>,
    /// The epoch in which this node holds the VIP. None if this node does not hold it.
    pub(super) held: Option<Epoch>,
    /// The entry that was last commanded. None before the first command.
    #[expect(clippy::option_option, reason = "no command, no entry, and an entry are three things")]
    pub(super) entry: Option<Option<Entry>>,
    /// The interface of the last command.
    pub(super) home: Option<Arc<str>>,
    pub(super) busy: Option<Busy>,
    /// The version on which the last write rests.
    pub(super) rested_on: Option<Expected>,
    /// True if the claim must be read before a decision.
    pub(super) unread: bool,
    /// Claims that were seen since the present request was sent.
    pub(super) news: Vec<News>,
    /// Number of reads in a row, and earliest time of the next read.
    reads: (u8, Monotonic),
    /// The cause of the VIP's place, while the claim does not say
    /// it: the claim was edited or is gone.
    pub(super) cause: Option<Box<str>>,
    /// Time before which no request is sent.
    pub(super) retry: Monotonic,
    pub(super) handing: Option<Handing>,
    /// Time since which this node could take the VIP.
    pub(super) free: Option<Monotonic>,
    /// Time since which the VIP has no holder and no candidate.
    pub(super) nobody: Option<Monotonic>,
    /// A better candidate, and the time since which it is one.
    pub(super) better: Option<(NodeName, Monotonic)>,
    /// True if a write of this process may have made this node the holder without its knowledge.
    pub(super) attempted: bool,
    /// True if the program gave way or a peer claims the VIP. Then the claim decides.
    pub(super) disputed: bool,
    /// Results of probes of its address.
    pub(super) asking: Asking,
    pub(super) due: Option<Monotonic>,
}

impl Vip {
    pub(super) fn new(now: Monotonic) -> Self {
        Self {
            demand: None,
            claim: None,
            deleted: None,
            changed: now,
            unclear: None,
            owners: Vec::new(),
            held: None,
            entry: None,
            home: None,
            busy: None,
            rested_on: None,
            unread: false,
            news: Vec::new(),
            reads: (0, now),
            cause: None,
            retry: now,
            handing: None,
            free: None,
            nobody: None,
            better: None,
            attempted: false,
            disputed: false,
            asking: Asking::default(),
            due: None,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Returns true if this node holds the VIP, or has commanded an
    /// entry that answers with its own MAC.
    pub(super) fn has_a_stake(&self) -> bool {
        self.is_held() || matches!(self.entry, Some(Some(Entry::Held)))
    }

    /// Remembers the cause of the VIP's place, before its claim becomes `next` with another cause.
    pub(super) fn keep_cause(&mut self, next: Option<&ClaimRecord>) {
        let Some(known) = self.claim.as_ref().filter(|_| self.is_held() && self.cause.is_none()) else {
            return;
        };
        let confirms = |next: &ClaimRecord| next.state == known.state && next.epoch >= known.epoch;
        if !next.is_some_and(confirms) {
            self.cause = Some(known.note.cause.as_str().into());
        }
    }

    /// Returns the earliest time to read the claim. A few reads
    /// may come at once. Then the pauses grow.
    pub(super) fn next_read(&self) -> Monotonic {
        let (_, next) = self.reads;
        next
    }

    /// Requests a read of the claim, regardless of the last reads.
    pub(super) fn read_at_once(&mut self) {
        self.unread = true;
        self.reads = (0, Monotonic::default());
    }

    pub(super) fn count_read(&mut self, now: Monotonic) {
        let (reads, next) = self.reads;
        let reads = if next + FORGOTTEN < now { 1 } else { reads.saturating_add(1) };
        let slower = u32::from(reads.saturating_sub(READS_AT_ONCE));
        let pause = match slower {
            0 => Duration::ZERO,
            slower => (RETRY * 2_u32.saturating_pow(slower - 1)).min(REFUSED_RETRY),
        };
        self.reads = (reads, now + pause);
    }

    /// Gives up holding the VIP. The claim that names this node is known to be its own
    /// until it is written or deleted, so it is not in doubt.
    pub(super) fn let_go(&mut self) {
        self.held = None;
        self.attempted = true;
    }

    /// Forgets that this node held the VIP, or tried to.
    pub(super) fn disown(&mut self) {
        self.held = None;
        self.attempted = false;
        self.disputed = false;
    }

    /// Returns true if the VIP is held, but its claim must be read or repaired first.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.is_held() && (self.unread || self.disputed || self.busy.is_some())
    }

    pub(super) fn epoch(&self) -> Epoch {
        let claimed = self.claim.as_ref().map(|claim| claim.epoch);
        claimed.max(self.held).unwrap_or_default()
    }

    pub(super) fn expected(&self) -> Expected {
        self.claim.as_ref().map_or(Expected::Absent, |claim| Expected::At(claim.version.clone()))
    }

    pub(super) fn services(&self) -> Vec<ServiceName> {
        self.demand.as_ref().map(|demand| demand.services.clone()).unwrap_or_default()
    }

    pub(super) fn keep_news(&mut self, news: News) {
        if self.news.len() == MOST_NEWS {
            self.news.remove(0);
        }
        self.news.push(news);
    }

    /// Drops the news of an object up to its deletion. A watch may
    /// show them after the answer to the deletion.
    pub(super) fn forget_news_of_the_deleted(&mut self) {
        let after = self.news.iter().rposition(|news| *news == News::Gone).map_or(0, |last| last + 1);
        self.news.drain(..after);
        let is_of_another = |record: &ClaimRecord| {
            !record.deleting && self.claim.as_ref().is_none_or(|deleted| !deleted.says_the_same(record))
        };
        self.news.retain(|news| matches!(news, News::Claim(record) if is_of_another(record)));
    }

    /// Returns true if a claim was edited by hand: it names no node that has had the
    /// VIP or was to have it, and its epoch is no later.
    pub(super) fn is_edited(&self, record: &ClaimRecord) -> bool {
        let named = record.state.sessions();
        let is_later = self.claim.as_ref().is_none_or(|known| record.epoch > known.epoch);
        !named.is_empty()
            && !self.owners.is_empty()
            && !is_later
            && !self.attempted
            && !named.iter().any(|session| self.owners.contains(session))
    }

    /// Returns true if the store went back to this claim. Epochs only grow.
    /// The node that has had the VIP since may answer.
    pub(super) fn is_of_the_past(&self, record: &ClaimRecord) -> bool {
        self.claim.as_ref().is_some_and(|known| {
            let is_known = known.epoch == record.epoch && known.state == record.state;
            known.epoch > record.epoch || is_known && self.unclear.is_some()
        })
    }

    /// Returns the sessions in which the VIP may be answered.
    pub(super) fn depends_on(&self) -> Vec<(NodeName, Session)> {
        let claimed = self.claim.iter().flat_map(|claim| claim.state.sessions());
        claimed.chain(self.owners.iter().cloned()).collect()
    }
}
