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

/// The number of requests under way, between two bounds.
#[derive(Clone, Debug)]
pub struct Concurrency {
    least: u32,
    most: u32,
    limit: u32,
    /// The fastest answer. It grows slowly, because a server may become slower for good.
    fastest: Option<Duration>,
    /// Number of answers in this round, and the time that they took together. A round has as many
    /// answers as there are requests under way.
    answers: u32,
    took: Duration,
    /// True if the number was halved in this round. All requests of a round meet the same load.
    halved: bool,
}

impl Concurrency {
    /// Starts with `least` requests.
    pub fn new(least: u32, most: u32) -> Self {
        let (fastest, took) = (None, Duration::ZERO);
        Self { least, most, limit: least, fastest, answers: 0, took, halved: false }
    }

    /// Returns the number of requests that may be under way.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Takes in an answer, and the time that it took.
    pub fn on_answer(&mut self, took: Duration) {
        let took = took.max(SHORTEST);
        self.fastest = Some(self.fastest.map_or(took, |fastest| fastest.min(took)));
        self.answers += 1;
        self.took += took;
        if self.answers >= self.limit {
            self.end_round();
        }
    }

    /// Takes in that the server refused a request for its load (429), or did not answer in time.
    pub fn on_overload(&mut self) {
        if !self.halved {
            self.limit = (self.limit / 2).max(self.least);
            self.halved = true;
            (self.answers, self.took) = (0, Duration::ZERO);
        }
    }

    fn end_round(&mut self) {
        let mean = self.took / self.answers;
        let fastest = self.fastest.unwrap_or(mean);
        if self.halved {
            // These answers were under way when the number was halved.
        } else if mean <= fastest * FLAT {
            self.limit = (self.limit + self.limit.div_ceil(4)).min(self.most);
        } else if mean > fastest * STEEP {
            self.limit = (self.limit - self.limit.div_ceil(8)).max(self.least);
        }
        self.fastest = Some(fastest + fastest / 512);
        (self.answers, self.took, self.halved) = (0, Duration::ZERO, false);
    }
}
