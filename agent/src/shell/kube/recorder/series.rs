//! Which messages become Events, and which are only counted: pure, with the time passed in.

use std::{collections::BTreeMap, time::Duration};

use super::{Kind, Message, Regarding};

#[cfg(test)]
mod tests;

/// A message that is said again is written again after this time.
const REPEAT: Duration = Duration::from_mins(10);
/// A message that was not said for so long is forgotten: the API server forgets Events after an hour.
const FORGET: Duration = Duration::from_mins(45);
/// So many messages are remembered.
const MAX_REMEMBERED: usize = 4_096;
/// So many Events may be written at once.
const BURST: u32 = 50;
/// The last of them only of what is wrong.
const FOR_WARNINGS: u32 = 10;
/// And one more after this time.
const REFILL: Duration = Duration::from_secs(1);

/// What is to be done about a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It was counted.
    Nothing,
    /// It is too much now.
    TooMuch,
    /// Make an Event of this name.
    Create {
        /// The name.
        name: String,
    },
    /// Write into that Event how often it was said.
    Count {
        /// Its name.
        name: String,
        /// How often.
        count: u32,
    },
}

#[derive(Debug)]
struct Told {
    name: String,
    count: u32,
    /// When it was written last.
    written: Duration,
    /// How often it had been said by then.
    written_count: u32,
    /// When it was said last.
    said: Duration,
}

/// What was told; times are since some beginning.
#[derive(Debug)]
pub(super) struct Series {
    told: BTreeMap<Message, Told>,
    /// What may be written now.
    tokens: u32,
    /// When that was so.
    refilled: Duration,
}

impl Default for Series {
    fn default() -> Self {
        Self { told: BTreeMap::new(), tokens: BURST, refilled: Duration::ZERO }
    }
}

impl Series {
    /// Takes a message; `identity` makes the name of its Event.
    pub(super) fn on_message(&mut self, message: &Message, identity: u64, now: Duration) -> Step {
        if let Some(told) = self.told.get_mut(message)
            && is_remembered(told, now)
        {
            told.count = told.count.saturating_add(1);
            told.said = now;
            if now.saturating_sub(told.written) < REPEAT {
                return Step::Nothing;
            }
            return self.write_count(message, now).unwrap_or(Step::Nothing);
        }
        self.told.remove(message);
        if self.told.len() >= MAX_REMEMBERED {
            self.told.retain(|_, told| is_remembered(told, now));
        }
        if self.told.len() >= MAX_REMEMBERED || !self.take_token(message.kind, now) {
            return Step::TooMuch;
        }
        let name = format!("{}.{identity:016x}", name_of(&message.regarding));
        let told = Told { name: name.clone(), count: 1, written: now, written_count: 1, said: now };
        self.told.insert(message.clone(), told);
        Step::Create { name }
    }

    /// The counts that are due to be written: of messages that were said again, and not since.
    pub(super) fn due(&mut self, now: Duration) -> Vec<(Message, String, u32)> {
        let waits =
            |told: &Told| told.count > told.written_count && now.saturating_sub(told.written) >= REPEAT;
        let due: Vec<Message> =
            self.told.iter().filter(|(_, told)| waits(told)).map(|(message, _)| message.clone()).collect();
        due.into_iter()
            .filter_map(|message| match self.write_count(&message, now)? {
                Step::Count { name, count } => Some((message, name, count)),
                Step::Nothing | Step::TooMuch | Step::Create { .. } => None,
            })
            .collect()
    }

    /// The Event that was to be made is there: returns how often it was said, at least.
    pub(super) fn already_told(&mut self, message: &Message) -> u32 {
        const AT_LEAST: u32 = 2;
        let Some(told) = self.told.get_mut(message) else { return AT_LEAST };
        told.count = told.count.max(AT_LEAST);
        told.written_count = told.count;
        told.count
    }

    /// There is no such Event.
    pub(super) fn forget(&mut self, message: &Message) {
        self.told.remove(message);
    }

    fn write_count(&mut self, message: &Message, now: Duration) -> Option<Step> {
        if !self.take_token(message.kind, now) {
            return None;
        }
        let told = self.told.get_mut(message)?;
        told.written = now;
        told.written_count = told.count;
        Some(Step::Count { name: told.name.clone(), count: told.count })
    }

    fn take_token(&mut self, kind: Kind, now: Duration) -> bool {
        let kept = match kind {
            Kind::Normal => FOR_WARNINGS,
            Kind::Warning => 0,
        };
        let fresh = now.saturating_sub(self.refilled).as_nanos() / REFILL.as_nanos();
        let fresh = u32::try_from(fresh).unwrap_or(u32::MAX);
        self.tokens = self.tokens.saturating_add(fresh).min(BURST);
        self.refilled += REFILL.saturating_mul(fresh);
        if self.tokens <= kept {
            return false;
        }
        self.tokens -= 1;
        true
    }
}

fn is_remembered(told: &Told, now: Duration) -> bool {
    now.saturating_sub(told.said) < FORGET
}

fn name_of(regarding: &Regarding) -> String {
    match regarding {
        Regarding::Service { name, .. } => name.name.to_string(),
        Regarding::VirtualIp(vip) => vip.to_string(),
    }
}
