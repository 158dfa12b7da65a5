//! Frames with this host's own MAC that come from the network: a loop, or a cloned machine.
//!
//! A round of listening compares the frames to groups that this host sends with those that come in. Some
//! switches, access points and teams of cards send each broadcast back, which harms nobody.
//!
//! |frames with the own MAC that come in during a round|finding|
//! |---|---|
//! |none|none|
//! |each repeats a frame that this host sent just now, less than `MOST_COPIES` times|none: a reflection|
//! |one is repeated more often|a loop|
//! |some repeat no frame that this host sent|a clone: another machine has the MAC|
//!
//! A finding begins and ends with the same result in `ROUNDS` rounds in a row.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::Twin;

use super::{frame::Frame, proving::LISTEN};

#[cfg(test)]
mod tests;

/// Number of copies of one frame that a reflection does not make.
const MOST_COPIES: u32 = 4;
const ROUNDS: u32 = 2;
/// The most different frames that a round compares.
const MOST_FRAMES: usize = 256;

/// The frames of one round with this host's own MAC.
#[derive(Clone, Debug, Default)]
pub struct OwnFrames {
    /// The frames that this host sent, with their copies.
    sent: Vec<(Frame, u32)>,
    /// Number of frames that it did not send.
    others: u32,
}

impl OwnFrames {
    /// Records a frame to a group, `after` this time of the round.
    pub fn on_frame(&mut self, frame: Frame, is_outgoing: bool, after: Duration) {
        let is_full = self.sent.len() == MOST_FRAMES;
        match self.sent.iter_mut().find(|(sent, _)| *sent == frame) {
            Some((_, copies)) => *copies += u32::from(!is_outgoing),
            None if is_full => {}
            None if is_outgoing => self.sent.push((frame, 0)),
            // This host may have sent it before the round.
            None => self.others += u32::from(after >= LISTEN / 2),
        }
    }

    pub fn twin(&self) -> Twin {
        let is_looped = self.sent.iter().any(|(_, copies)| *copies >= MOST_COPIES);
        match (self.others, is_looped) {
            (_, true) => Twin::Loop,
            (0, false) => Twin::None,
            (_, false) => Twin::Clone,
        }
    }
}

/// Returns a finding in words.
pub const fn in_words(twin: Twin) -> Option<&'static str> {
    match twin {
        Twin::None => None,
        Twin::Loop => Some(
            "frames of this host come back from the network again and again: the network has a loop. Switch \
             the spanning tree on, and look for a cable that leads back",
        ),
        Twin::Clone => Some(
            "frames with this host's own MAC come from the network, which it has not sent: perhaps a cloned \
             machine. Give each its own MAC",
        ),
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    found: Twin,
    /// The result of the last rounds, and their number.
    last: (Twin, u32),
}

/// The findings about the segments.
#[derive(Debug, Default)]
pub struct Twins(BTreeMap<u32, Segment>);

impl Twins {
    /// Records the result of a round. Returns the finding before, if there is another now.
    pub fn on_round(&mut self, segment: u32, twin: Twin) -> Option<Twin> {
        let segment = self.0.entry(segment).or_default();
        let rounds = if segment.last.0 == twin { segment.last.1 + 1 } else { 1 };
        segment.last = (twin, rounds);
        let is_new = rounds >= ROUNDS && segment.found != twin;
        is_new.then(|| std::mem::replace(&mut segment.found, twin))
    }

    pub fn found(&self, segment: u32) -> Twin {
        self.0.get(&segment).map(|segment| segment.found).unwrap_or_default()
    }
}
