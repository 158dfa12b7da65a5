//! The sign that connections may be dead: whoever has reason to think so tells all watches to begin anew.
//!
//! A watch that is silent may be a quiet one. But each node renews its Lease about every second, and hears of that
//! through the watch of the Leases: silence there is no quiet. And a renewal that gets no answer says the same of the
//! way to the API server. All watches take that way, so the doubt about one is a doubt about all; beginning anew at
//! the last version costs one request each and lists nothing. When renewals succeed again, whoever waits to try again
//! need not wait longer.

use tokio::sync::watch;

/// Tells, and hears, that connections may be dead.
#[derive(Clone, Debug)]
pub(super) struct Alarm(watch::Sender<u64>);

impl Alarm {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    pub(super) fn raise(&self) {
        self.0.send_modify(|times| *times = times.wrapping_add(1));
    }

    pub(super) fn listen(&self) -> Listener {
        Listener { alarm: self.clone(), heard: self.0.subscribe() }
    }
}

/// Hears an alarm that is raised from its making on.
pub(super) struct Listener {
    /// Keeps the other end open.
    alarm: Alarm,
    heard: watch::Receiver<u64>,
}

impl Listener {
    /// Forgets what was raised so far.
    pub(super) fn forget(&mut self) {
        self.heard.mark_unchanged();
    }

    /// Tells the others.
    pub(super) fn raise(&mut self) {
        self.alarm.raise();
        self.forget();
    }

    /// Resolves when the alarm is raised, or was and is not forgotten. Safe to cancel.
    pub(super) async fn raised(&mut self) {
        self.heard.changed().await.expect("invariant: the listener keeps the other end open");
    }
}
