//! The sessions that have ended, whose nodes are told until they have heard of it.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    base::time::Boottime,
    liveness::{Act, Ended, Path, Scale},
    records::Session,
};

/// Time for which an end is told often. A virtual machine may wake later.
const OFTEN_FOR: Duration = Duration::from_secs(10);
/// Time between two tellings after that.
const RARELY: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Told {
    paths: Vec<Path>,
    since: Boottime,
    next: Boottime,
}

#[derive(Debug, Default)]
pub(super) struct Telling {
    sessions: BTreeMap<Session, Told>,
}

impl Telling {
    pub(super) fn set(&mut self, ended: Vec<Ended>, now: Boottime) {
        let mut before = std::mem::take(&mut self.sessions);
        for Ended { session, paths } in ended {
            let told = match before.remove(&session) {
                Some(known) => Told { paths, ..known },
                None => Told { paths, since: now, next: now },
            };
            self.sessions.insert(session, told);
        }
    }

    pub(super) fn due(
        &mut self,
        scale: Scale,
        now: Boottime,
        tell: impl Fn(Session, &Path) -> Act,
    ) -> Vec<Act> {
        let mut acts = Vec::new();
        for (session, told) in &mut self.sessions {
            if told.next > now {
                continue;
            }
            let is_new = now < told.since + OFTEN_FOR;
            told.next = now + if is_new { scale.ping() } else { RARELY };
            acts.extend(told.paths.iter().map(|path| tell(*session, path)));
        }
        acts
    }

    pub(super) fn next(&self) -> Option<Boottime> {
        self.sessions.values().map(|told| told.next).min()
    }
}
