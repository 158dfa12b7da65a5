//! The vote on a holder that this node finds unresponsive.

use std::collections::BTreeSet;

use crate::{
    base::{address::mix, time::Boottime},
    liveness::{Counts, Finding, Scale, Watched},
    records::{Session, Wid},
};

#[derive(Debug, Default)]
enum Stage {
    /// The holder answers, or this node cannot judge it.
    #[default]
    Listening,
    /// The other monitors have vote requests.
    Requesting { number: u64, agree: BTreeSet<Wid>, until: Boottime, again: Boottime },
    /// There is no other monitor. Neighbours have been probed.
    Asking { since: Boottime, is_answered: bool, again: Boottime },
    /// Enough agree. A last ping has been sent: frames may have been lost for all until now.
    Looking { until: Boottime },
    /// Too few have agreed, or the engine knows. The next question is at this time.
    Resting { again: Boottime },
}

/// What a vote needs next.
#[derive(Debug)]
pub(super) enum Step {
    RequestVotes(u64),
    AskNeighbours,
    Ping,
    Report,
}

#[derive(Debug, Default)]
pub(super) struct Vote {
    stage: Stage,
    /// True if the engine's last news is that the holder is unresponsive.
    is_reported: bool,
}

impl Vote {
    pub(super) fn begin_anew(&mut self) {
        self.stage = Stage::Listening;
    }

    /// Records another monitor's vote, in answer to the vote request with this number.
    pub(super) fn second(&mut self, wid: Wid, answers: u64) {
        if let Stage::Requesting { number, agree, .. } = &mut self.stage
            && *number == answers
        {
            agree.insert(wid);
        }
    }

    /// Records a neighbour's answer. It counts after this node has found the holder unresponsive.
    pub(super) fn receive_third_station(&mut self, now: Boottime) {
        if let Stage::Asking { since, is_answered, .. } = &mut self.stage {
            *is_answered |= *since <= now;
        }
    }

    /// Ends the vote: the holder is not unresponsive, or this node is no longer a voter.
    pub(super) fn end(&mut self, session: Session) -> Option<Finding> {
        self.stage = Stage::Listening;
        std::mem::take(&mut self.is_reported).then_some(Finding::Answers { session })
    }

    pub(super) fn step(
        &mut self,
        watched: &Watched,
        wid: Wid,
        scale: Scale,
        now: Boottime,
        counts: &mut Counts,
    ) -> Option<Step> {
        match &self.stage {
            Stage::Listening => {
                counts.suspicions += 1;
                return Some(self.ask(watched, wid, scale, now, counts));
            }
            Stage::Requesting { agree, .. } if agree.len() + 1 >= watched.quorum => {
                return Some(self.look(scale, now));
            }
            Stage::Asking { is_answered: true, .. } => return Some(self.look(scale, now)),
            Stage::Looking { until } if *until <= now => {
                counts.agreed += 1;
                self.is_reported = true;
                self.stage = Stage::Resting { again: now + scale.suspect() };
                return Some(Step::Report);
            }
            Stage::Requesting { until, again, .. } if *until <= now => {
                self.stage = Stage::Resting { again: *again }
            }
            Stage::Requesting { .. }
            | Stage::Asking { .. }
            | Stage::Looking { .. }
            | Stage::Resting { .. } => {}
        }
        match self.stage {
            Stage::Asking { again, .. } | Stage::Resting { again } if again <= now => {
                Some(self.ask(watched, wid, scale, now, counts))
            }
            Stage::Listening
            | Stage::Requesting { .. }
            | Stage::Asking { .. }
            | Stage::Looking { .. }
            | Stage::Resting { .. } => None,
        }
    }

    fn look(&mut self, scale: Scale, now: Boottime) -> Step {
        self.stage = Stage::Looking { until: now + scale.last_look() };
        Step::Ping
    }

    fn ask(&mut self, watched: &Watched, wid: Wid, scale: Scale, now: Boottime, counts: &mut Counts) -> Step {
        if watched.others.is_empty() {
            self.stage = Stage::Asking { since: now, is_answered: false, again: now + scale.ping() };
            return Step::AskNeighbours;
        }
        counts.vote_requests += 1;
        // No two vote requests have the same number, so an old answer counts for none.
        let number = mix(wid.number() ^ now.as_nanos());
        let (until, again) = (now + scale.votes(), now + scale.request_again());
        self.stage = Stage::Requesting { number, agree: BTreeSet::new(), until, again };
        Step::RequestVotes(number)
    }

    pub(super) fn deadline(&self) -> Option<Boottime> {
        match self.stage {
            Stage::Requesting { until, .. } | Stage::Looking { until } => Some(until),
            Stage::Asking { again, .. } | Stage::Resting { again } => Some(again),
            Stage::Listening => None,
        }
    }
}
