//! Checks what a user sees of a lack: the stored Events of P3.

use std::{sync::Arc, time::Duration};

use vipward_common::DeadlineState;
use vipward_core::{records::ServiceName, reports::outbox::Message};

use crate::{machine::At, schedule::names, world::World};

/// The longest time until a problem that lasts is an Event: it stands for a second, and is written.
pub(super) const NOTIFIED: Duration = Duration::from_secs(3);
/// The longest time until a request whose outcome is unknown has been repeated.
const REPEATED: Duration = Duration::from_secs(40);
/// The longest time until an Event that was refused or deleted is written again.
const RENEWED: Duration = Duration::from_secs(605);

impl World {
    /// Returns the time from which a problem that lasts must be an Event, if no process was disturbed.
    pub(super) fn events_due(&self) -> At {
        let lost = self.record.events_lost.map(|lost| lost + RENEWED);
        let unknown = self.record.events_unknown.map(|unknown| unknown + REPEATED);
        lost.max(unknown).unwrap_or_default()
    }

    /// Returns whether a stored Event has the text of a problem of this Service that the controller knows.
    pub(super) fn is_reported(&self, service: &ServiceName) -> bool {
        let problems = self.fit_leader().and_then(|it| it.leading()?.problems.get(service));
        let uid = self.api.services.get(service).map(|found| Arc::clone(&found.record().uid));
        let text = |problem| Message::of_problem(service.clone(), uid.clone(), problem).note().to_owned();
        let texts: Vec<String> = problems.into_iter().flatten().map(text).collect();
        self.api
            .events_of(service, self.now.since(At::default()))
            .any(|note| texts.iter().any(|of| of == note))
    }

    /// Checks P3 of the stranger's Services: none may have its VIPs.
    pub(super) fn check_strangers(&mut self) {
        let fit: Option<Vec<At>> = self.nodes.iter().map(|node| node.times.fit).collect();
        let Some(fit) = fit.and_then(|since| since.into_iter().max()) else { return };
        // The node that is to report changes with the nodes that count as alive.
        if self.nodes.iter().any(|node| node.lease_deadline(self.now) != DeadlineState::Valid) {
            self.record.people.strangers = self.now;
        }
        let calm = fit.max(self.record.trouble.disturbed).max(self.events_due());
        for index in 0..self.desired.strangers.len() {
            let stranger = self.desired.strangers[index];
            let is_latest = self.desired.strangers[index + 1..].iter().all(|of| of.number != stranger.number);
            let mut vips = (0..self.plan.vips.len()).filter(|vip| stranger.vips >> vip & 1 == 1).peekable();
            let is_refused = vips.peek().is_some() && vips.all(|vip| !self.record.people.unrecorded[vip]);
            let service = names::strangers_service(stranger.number);
            if !is_latest || !is_refused || self.now.since(calm.max(self.record.people.strangers)) <= NOTIFIED
            {
                continue;
            }
            if self.api.events_of(&service, self.now.since(At::default())).next().is_none() {
                self.violate("P3", format!("{service} has none of its VIPs, and no Event says why"));
            }
        }
    }
}
