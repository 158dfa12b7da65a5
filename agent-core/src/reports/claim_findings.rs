//! The parts of a claim's object that are for users: whether it shows them, and which of them a
//! write keeps.

use super::unanswered::Unanswered;
use crate::{
    base::legible::message,
    records::{ClaimRecord, ClaimState, Epoch, NoAnswer, Session, Shows},
};

#[cfg(test)]
mod tests;

/// A node's finding about a VIP, which the VIP's claim is to show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The hosts that claim the VIP on the segment; none: the conflict is over.
    Conflict(Option<String>),
    /// The reason why no node answers, while the claim
    /// names this session; none: its holder answers.
    Answers(Session, Option<Unanswered>),
}

impl Finding {
    /// Returns true if a claim's object shows exactly this finding. Without an object, nothing is shown.
    pub fn is_shown_by(&self, claim: Option<&ClaimRecord>) -> bool {
        let nothing = Shows::default();
        let shows = claim.and_then(|claim| claim.shows.as_deref()).unwrap_or(&nothing);
        match self {
            Self::Conflict(conflict) => shows.conflict == conflict.as_deref().map(message),
            Self::Answers(_, unanswered) => {
                !shows.is_torn && shows.unanswered == unanswered.as_ref().map(NoAnswer::from)
            }
        }
    }

    /// Returns true if a claim in this state should show the finding. A claim that names another
    /// session has another holder, which reports its own findings.
    pub fn concerns(&self, state: &ClaimState) -> bool {
        match (self, state) {
            (Self::Conflict(_), _) => true,
            (Self::Answers(session, _), ClaimState::Held(holder)) => holder.session == *session,
            (Self::Answers(..), ClaimState::Offered { .. } | ClaimState::Released | ClaimState::Blank) => {
                false
            }
        }
    }
}

/// The aspect of a claim that a finding is about. Each is written on its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Aspect {
    /// The other hosts that claim the VIP.
    Conflict,
    /// The answers for the VIP, or the reason why there are none.
    Answers,
}

impl Aspect {
    /// Returns the name that logs use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Answers => "answers",
        }
    }

    pub const fn of(finding: &Finding) -> Self {
        match finding {
            Finding::Conflict(_) => Self::Conflict,
            Finding::Answers(..) => Self::Answers,
        }
    }
}

/// What a claim's object shows before a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Before {
    /// Its place in the order of the VIP's claims.
    pub epoch: Epoch,
    /// True if it shows that a node has the VIP, answered or not.
    pub has_holder: bool,
}

/// The findings that stay on a claim's object when its claim is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// True if the VIP stays where it is, and with it the time of its last move.
    pub place: bool,
    /// True if the reason stays why no node answers.
    pub answers: bool,
    /// True if the conflict stays.
    pub conflict: bool,
}

impl Kept {
    /// Returns what stays when a claim is written in this state and epoch. A holder's findings are
    /// not about the next holder: they stay until the holder reports others, or the VIP moves.
    /// Without an object, nothing stays.
    pub fn by_write(state: &ClaimState, epoch: Epoch, before: Option<Before>) -> Self {
        let place = before.is_some_and(|before| before.epoch == epoch);
        let is_let_go = *state == ClaimState::Released && before.is_some_and(|before| before.has_holder);
        Self {
            place,
            answers: place && matches!(state, ClaimState::Held(_)),
            // An address in use keeps its conflict while no node has the VIP.
            conflict: place && !is_let_go,
        }
    }
}
