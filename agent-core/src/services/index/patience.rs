//! Services that have no address yet. Another controller may be about to give them one, or their
//! endpoints are being read, so that nothing is wrong for a minute.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{base::time::Monotonic, records::ServiceName};

const LASTS: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct Patience {
    /// The end of the time for each Service, or none if it is over.
    ends: BTreeMap<ServiceName, Option<Monotonic>>,
    /// The ends to come. It is zero until the time is known.
    due: BTreeSet<(Monotonic, ServiceName)>,
}

impl Patience {
    /// Records whether a Service waits. Returns true if it does so for too long, or does not wait.
    pub(super) fn is_over(&mut self, service: &ServiceName, waits: bool) -> bool {
        match self.ends.get(service).copied() {
            Some(end) if waits => end.is_none(),
            None if waits => {
                self.ends.insert(service.clone(), Some(Monotonic::default()));
                self.due.insert((Monotonic::default(), service.clone()));
                false
            }
            end => {
                self.ends.remove(service);
                if let Some(Some(end)) = end {
                    self.due.remove(&(end, service.clone()));
                }
                true
            }
        }
    }

    /// Returns the Services that have waited for too long since the last call.
    pub(super) fn on_time(&mut self, now: Monotonic) -> Vec<ServiceName> {
        let mut over = Vec::new();
        while self.due.first().is_some_and(|(end, _)| *end <= now)
            && let Some((end, service)) = self.due.pop_first()
        {
            let begins = (end == Monotonic::default()).then_some(now + LASTS);
            match begins {
                Some(end) => _ = self.due.insert((end, service.clone())),
                None => over.push(service.clone()),
            }
            self.ends.insert(service, begins);
        }
        over
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.due.first().map(|(end, _)| *end)
    }
}
