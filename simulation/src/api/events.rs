//! The stored Events.

use std::{collections::BTreeMap, time::Duration};

use vipward_core::{
    records::ServiceName,
    reports::outbox::{Message, Object, Outcome, Write},
};

/// The time after which the API server forgets an Event that is not written again.
const TTL: Duration = Duration::from_hours(1);

#[derive(Debug)]
struct Stored {
    message: Message,
    /// The time of its last write, from the beginning of the run.
    written: Duration,
}

/// The stored Events by name.
#[derive(Debug, Default)]
pub(crate) struct Events(BTreeMap<String, Stored>);

impl Events {
    /// Creates an Event, or renews it, unless a sabotage leaves renewals out.
    pub(crate) fn write(&mut self, write: &Write, renews: bool, now: Duration) -> Outcome {
        self.0.retain(|_, event| now.saturating_sub(event.written) < TTL);
        match (write.count, self.0.get_mut(&write.name)) {
            (None, Some(_)) => return Outcome::Exists,
            (Some(_), None) => return Outcome::Missing,
            (Some(_), Some(_)) if !renews => {}
            (Some(_), Some(event)) => event.written = now,
            (None, None) => {
                let event = Stored { message: write.message.clone(), written: now };
                self.0.insert(write.name.clone(), event);
            }
        }
        Outcome::Done
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the notes of the stored Events about a Service with this uid.
    pub(crate) fn about<'a>(
        &'a self,
        service: &'a ServiceName,
        uid: Option<&'a str>,
        now: Duration,
    ) -> impl Iterator<Item = &'a str> {
        let stored = self.0.values().filter(move |event| now.saturating_sub(event.written) < TTL);
        let messages = stored.map(|event| &event.message);
        let is_about = move |of: &&Message| matches!(&of.object, Object::Service(name) if name == service);
        messages.filter(is_about).filter(move |of| of.uid.as_deref() == uid).map(Message::note)
    }
}
