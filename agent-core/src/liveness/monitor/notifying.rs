//! The expired sessions. Their nodes get expiry notices until they know.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    base::time::Boottime,
    liveness::{Act, Ended, Path, Scale},
    records::Session,
};

/// Time for which expiry notices are frequent. A virtual machine may wake later.
const OFTEN_FOR: Duration = Duration::from_secs(10);
/// Time between two tellings after that.
const RARELY: Duration = Duration::from_secs(1);
/// Number of notices to each node that may take the session's VIPs. Its watch shows the end too.
const TO_TAKERS: u8 = 2;

#[derive(Debug)]
struct Notified {
    paths: Vec<Path>,
    takers: Vec<Path>,
    /// Number of times that they were notified.
    times: u8,
    since: Boottime,
    next: Boottime,
}

#[derive(Debug, Default)]
pub(super) struct Notifying {
    sessions: BTreeMap<Session, Notified>,
}

impl Notifying {
    pub(super) fn set(&mut self, ended: Vec<Ended>, now: Boottime) {
        let mut before = std::mem::take(&mut self.sessions);
        for Ended { session, paths, takers } in ended {
            let notified = match before.remove(&session) {
                Some(known) => Notified { paths, takers, ..known },
                None => Notified { paths, takers, times: 0, since: now, next: now },
            };
            self.sessions.insert(session, notified);
        }
    }

    pub(super) fn due(
        &mut self,
        scale: Scale,
        now: Boottime,
        notify: impl Fn(Session, &Path) -> Act,
    ) -> Vec<Act> {
        let mut acts = Vec::new();
        for (session, notified) in &mut self.sessions {
            if notified.next > now {
                continue;
            }
            let is_new = now < notified.since + OFTEN_FOR;
            notified.next = now + if is_new { scale.ping() } else { RARELY };
            let takers = notified.takers.iter().filter(|_| notified.times < TO_TAKERS);
            acts.extend(takers.chain(&notified.paths).map(|path| notify(*session, path)));
            notified.times = notified.times.saturating_add(1);
        }
        acts
    }

    pub(super) fn next(&self) -> Option<Boottime> {
        self.sessions.values().map(|notified| notified.next).min()
    }
}
