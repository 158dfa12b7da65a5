//! Number of requests that are under way at a time: as many as the server answers fast.
//!
//! The number grows while answers stay about as fast as the fastest one, because then requests do
//! not wait for each other at the server. It shrinks when they do. It is halved when the server
//! refuses a request for its load, or does not answer in time.

use std::time::Duration;

#[cfg(test)]
mod tests;

/// The number grows while the mean answer takes at most this many times as long as the fastest.
const FLAT: u32 = 3;
/// The number shrinks when the mean answer takes more than this many times as long as the fastest.
const STEEP: u32 = 6;
/// Time that an answer takes at least, by this measure. On a busy machine shorter times vary.
const SHORTEST: Duration = Duration::from_millis(2);

#[derive(Clone, Debug)]
pub struct Concurrency {
    least: u32,
    most: u32,
    limit: u32,
    /// The fastest answer. It grows slowly, because a server may become slower for good.
    fastest: Option<Duration>,
    /// Number of requests in this round: those that were under way when it began.
    round: u32,
    /// Number of these that have ended, of those that were answered, and the time of the answers.
    ended: u32,
    answers: u32,
    took: Duration,
    /// True if the number was halved in this round. All requests of a round meet the same load.
    halved: bool,
}

impl Concurrency {
    pub fn new(least: u32, most: u32) -> Self {
        Self {
            least,
            most,
            limit: least,
            fastest: None,
            round: least,
            ended: 0,
            answers: 0,
            took: Duration::ZERO,
            halved: false,
        }
    }

    pub fn limit(&self) -> u32 {
        self.limit
    }

    pub fn on_answer(&mut self, took: Duration) {
        let took = took.max(SHORTEST);
        self.fastest = Some(self.fastest.map_or(took, |fastest| fastest.min(took)));
        self.answers += 1;
        self.took += took;
        self.end_request();
    }

    /// Records a request that the server refused for its load, failed, or did not answer in time.
    pub fn on_overload(&mut self) {
        if !self.halved {
            self.limit = (self.limit / 2).max(self.least);
            self.halved = true;
        }
        self.end_request();
    }

    fn end_request(&mut self) {
        self.ended += 1;
        if self.ended < self.round {
            return;
        }
        // A halved number stays for this round: its requests were under way before.
        if !self.halved {
            self.follow(self.took / self.answers);
        }
        self.round = self.limit;
        (self.ended, self.answers, self.took, self.halved) = (0, 0, Duration::ZERO, false);
    }

    /// Changes the number after a round without overload, whose answers took so long on average.
    fn follow(&mut self, mean: Duration) {
        let fastest = self.fastest.unwrap_or(mean);
        if mean <= fastest * FLAT {
            self.limit = (self.limit + self.limit.div_ceil(4)).min(self.most);
        } else if mean > fastest * STEEP {
            self.limit = (self.limit - self.limit.div_ceil(8)).max(self.least);
        }
        self.fastest = Some(fastest + fastest / 512);
    }
}
