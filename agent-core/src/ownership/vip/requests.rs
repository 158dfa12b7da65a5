//! Requests about one claim: the one that is under way, and the time of the next.

use std::time::Duration;

use crate::{
    base::time::Monotonic,
    ownership::{
        command::{ClaimWrite, Expected},
        nodes::Former,
        times::{REFUSED_RETRY, RETRY},
    },
    records::ClaimRecord,
};

#[cfg(test)]
mod tests;

/// Number of reads of one claim in a row without a pause.
const READS_AT_ONCE: u8 = 3;
/// Time after which a further read is no longer in a row with the last one.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// Largest number of news that are kept about one claim. The oldest are dropped.
const MOST_NEWS: usize = 8;

/// State of a claim that a list or a watch has shown while a request about the claim was under way.
/// The state may be older or newer than the request's. It is applied when the request is over.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum News {
    Claim(Box<ClaimRecord>),
    Gone,
}

/// A request about a claim that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Busy {
    /// A write that makes this node the holder: a take, an acceptance, a take-back
    /// or a repair. The second field is the node that answered for the VIP before.
    Hold(Box<ClaimWrite>, Option<Former>),
    /// A write that names a successor.
    Offer,
    /// A write that changes neither the holder nor the epoch of this node's claim.
    Update,
    /// A write of a claim without a holder, with the reason.
    Free,
    Delete,
    Read,
}

#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) busy: Option<Busy>,
    /// The version on which the last write rests.
    pub(crate) rested_on: Option<Expected>,
    /// True if the claim must be read before a decision.
    pub(crate) unread: bool,
    /// Time before which no request is sent.
    pub(crate) retry: Monotonic,
    /// Claims that were seen since the present request was sent.
    news: Vec<News>,
    /// Number of reads in a row, and earliest time of the next read.
    reads: (u8, Monotonic),
}

impl Requests {
    pub(crate) fn new(now: Monotonic) -> Self {
        Self { busy: None, rested_on: None, unread: false, retry: now, news: Vec::new(), reads: (0, now) }
    }

    /// Returns the earliest time of the next request. A few reads
    /// may come at once. Then the pauses grow.
    pub(crate) fn next(&self) -> Monotonic {
        let (_, next_read) = self.reads;
        if self.unread { self.retry.max(next_read) } else { self.retry }
    }

    /// Returns true if the VIP is not decided anew now: a request is under way or must wait.
    pub(crate) fn must_wait(&self, now: Monotonic) -> bool {
        self.busy.is_some() || self.retry > now || self.unread
    }

    /// Requests a read of the claim, regardless of the last reads.
    pub(crate) fn read_at_once(&mut self) {
        self.unread = true;
        self.reads = (0, Monotonic::default());
    }

    /// Records that the claim is being read.
    pub(crate) fn begin_read(&mut self, now: Monotonic) {
        self.busy = Some(Busy::Read);
        self.unread = false;
        let (reads, next) = self.reads;
        let reads = if next + FORGOTTEN < now { 1 } else { reads.saturating_add(1) };
        let slower = u32::from(reads.saturating_sub(READS_AT_ONCE));
        let pause = match slower {
            0 => Duration::ZERO,
            slower => (RETRY * 2_u32.saturating_pow(slower - 1)).min(REFUSED_RETRY),
        };
        self.reads = (reads, now + pause);
    }

    /// Records that a request of this kind is over.
    pub(crate) fn end(&mut self, kind: &Busy) {
        if self.busy.as_ref() == Some(kind) {
            self.busy = None;
        }
    }

    pub(crate) fn keep_news(&mut self, news: News) {
        if self.news.len() == MOST_NEWS {
            self.news.remove(0);
        }
        self.news.push(news);
    }

    pub(crate) fn last_news(&self) -> Option<&News> {
        self.news.last()
    }

    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Drops the news of an object up to its deletion. A watch may
    /// show them after the answer to the deletion.
    pub(crate) fn forget_news_of(&mut self, deleted: Option<&ClaimRecord>) {
        let after = self.news.iter().rposition(|news| *news == News::Gone).map_or(0, |last| last + 1);
        self.news.drain(..after);
        let is_of_another = |record: &ClaimRecord| {
            !record.deleting && deleted.is_none_or(|deleted| !deleted.says_the_same(record))
        };
        self.news.retain(|news| matches!(news, News::Claim(record) if is_of_another(record)));
    }
}
