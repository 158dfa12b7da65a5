//! Keeps the state of one VIP, as this node sees it.

use std::{sync::Arc, time::Duration};

use super::{ClaimWrite, Demand, Entry, Expected, REFUSED_RETRY, RETRY, address::Asking, handing::Handing};
use crate::{
    cluster::{ClaimRecord, Epoch, NodeName, ServiceName, Session},
    time::Monotonic,
};

/// The number of reads of one claim in a row without a pause.
const READS_AT_ONCE: u8 = 3;
/// Reads that are further apart are not in a row.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// The number of news that are kept of one claim; the oldest are dropped.
const MOST_NEWS: usize = 8;

/// What a list or a watch has shown of a claim while a request about it was under way. The request
/// may be ahead of it, or behind: it is looked at when the request is over.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum News {
    Claim(ClaimRecord),
    Gone,
}

/// When a VIP is evaluated again.
pub(super) type Again = Option<Monotonic>;

/// A request about a claim that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Busy {
    /// Makes this node the holder: a take, an acceptance, a take-back or a repair. With
    /// the node that has answered for the VIP until then.
    Hold(ClaimWrite, Option<NodeName>),
    /// Names a successor.
    Offer,
    /// Changes neither the holder nor the epoch of this node's claim.
    Update,
    /// Says that no node has the VIP, and why.
    Free,
    Delete,
    Read,
}

/// The state of a VIP, as this node sees it.
#[derive(Debug)]
pub(super) struct Vip {
    pub(super) demand: Option<Demand>,
    pub(super) claim: Option<ClaimRecord>,
    /// When this node last deleted the object.
    pub(super) deleted: Option<Monotonic>,
    /// When the holder was first seen to have changed.
    pub(super) changed: Monotonic,
    /// Since when the claim is in doubt: it is blank, missing,
    /// edited by hand, or of an earlier epoch.
    pub(super) unclear: Option<Monotonic>,
    /// The sessions that the last believed claim names: the VIP may be answered in them.
    pub(super) owners: Vec<(NodeName, Session)>,
    /// The epoch in which this node holds the VIP; none when it does not.
    pub(super) held: Option<Epoch>,
    /// The entry that was last commanded; none before the first command.
    #[expect(clippy::option_option, reason = "no command, no entry, and an entry are three things")]
    pub(super) entry: Option<Option<Entry>>,
    /// The interface of the last command.
    pub(super) home: Option<Arc<str>>,
    pub(super) busy: Option<Busy>,
    /// The version on which the last write rests.
    pub(super) rested_on: Option<Expected>,
    /// True if the claim must be read before anything is decided.
    pub(super) unread: bool,
    /// What was seen of the claim since the present request was sent.
    pub(super) news: Vec<News>,
    /// The number of reads in a row, and when the next one may be sent.
    reads: (u8, Monotonic),
    /// Why the VIP is here, while the claim does not say it: it was edited or is gone.
    pub(super) cause: Option<Box<str>>,
    /// No request is sent before this.
    pub(super) retry: Monotonic,
    pub(super) handing: Option<Handing>,
    /// Since when this node could take the VIP.
    pub(super) free: Option<Monotonic>,
    /// Since when the VIP has no holder and no candidate.
    pub(super) nobody: Option<Monotonic>,
    /// A better candidate, and since when it is one.
    pub(super) better: Option<(NodeName, Monotonic)>,
    /// True if a write of this process may have made this node the holder without its knowledge.
    pub(super) attempted: bool,
    /// True if the program gave way or a peer claims the VIP, so that the claim decides.
    pub(super) disputed: bool,
    /// What probes have found of its address.
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

    /// Returns true if this node answers for it with its own MAC.
    pub(super) fn has_a_stake(&self) -> bool {
        self.is_held() || matches!(self.entry, Some(Some(Entry::Held)))
    }

    /// Remembers why the VIP is here before its claim becomes `next`, which says something else.
    pub(super) fn keep_cause(&mut self, next: Option<&ClaimRecord>) {
        let Some(known) = self.claim.as_ref().filter(|_| self.is_held() && self.cause.is_none()) else {
            return;
        };
        let confirms = |next: &ClaimRecord| next.state == known.state && next.epoch >= known.epoch;
        if !next.is_some_and(confirms) {
            self.cause = Some(known.note.cause.as_str().into());
        }
    }

    /// Returns when the claim may be read: at once a few times, then at a pace that slows down.
    pub(super) fn next_read(&self) -> Monotonic {
        let (_, next) = self.reads;
        next
    }

    /// Has the claim read, however often it was read lately.
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

    /// Holds the VIP no more. The claim that names this node is known to be its own
    /// until it is written or deleted, so it is not doubted.
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

    /// Returns true if the VIP is held and its claim must be read or repaired first.
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

    /// Drops what was seen of an object until it was gone: what a watch shows of
    /// it may come after the answer to its deletion.
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

    /// Returns true if the store went back to this claim, since epochs only grow.
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
