//! Alarms among the tasks: connections may be dead, or the store may have gone back.
//!
//! **Connections may be dead.** A watch without events may just have none to deliver. The watch of the
//! Leases always has some, because each node renews its Lease about every second. A renewal without an
//! answer is a sign, too. All watches use the same way to the API server, so all begin anew, at the
//! last version: that costs one request each, and no list. When renewals succeed again, tasks that wait
//! before their next attempt stop waiting.
//!
//! **The store may have gone back.** A watch from a version in the future delivers nothing, and
//! beginning it anew changes nothing: everything must be listed. The task that notices requests the
//! lists. The first list that shows an older state is logged.

use tokio::sync::watch;

#[cfg(test)]
mod tests;

#[derive(Clone, Copy, Debug, Default)]
struct Signs {
    lists: u64,
    /// The number of the request that was made when the store had last gone back; 0: none.
    back: u64,
    renewals: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Alarm(watch::Sender<Signs>);

impl Alarm {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Signs::default()))
    }

    /// Raises the alarm that connections may be dead, or that they work again.
    pub(crate) fn raise(&self) {
        self.0.send_modify(|_| {});
    }

    pub(crate) fn list_anew(&self) {
        self.0.send_modify(|signs| signs.lists += 1);
    }

    /// Records that this node has renewed its Lease. Raises no alarm.
    pub(crate) fn renewed(&self) {
        self.0.send_if_modified(|signs| {
            signs.renewals += 1;
            false
        });
    }

    pub(crate) fn listen(&self) -> Listener {
        let Signs { lists, back, renewals: _ } = *self.0.borrow();
        Listener { alarm: self.clone(), received: self.0.subscribe(), listed: lists, back }
    }
}

/// Receives the alarms that are raised after it was made.
pub(crate) struct Listener {
    /// Keeps the other end open.
    alarm: Alarm,
    received: watch::Receiver<Signs>,
    /// The number of the last request that a list has served.
    listed: u64,
    /// The number of the request by which this task knows that the store went back.
    back: u64,
}

impl Listener {
    pub(crate) fn forget(&mut self) {
        self.received.mark_unchanged();
    }

    pub(crate) fn raise(&mut self) {
        self.alarm.raise();
        self.forget();
    }

    /// Waits for an alarm that is not forgotten, or a request for lists. Safe to cancel.
    pub(crate) async fn raised(&mut self) {
        self.received.changed().await.expect("invariant: the listener keeps the other end open");
    }

    pub(crate) fn renewals(&self) -> u64 {
        self.received.borrow().renewals
    }

    /// Requests lists of everything, of this task too.
    pub(crate) fn list_anew(&self) {
        self.alarm.list_anew();
    }

    /// Returns true if a list has been requested since the last one began.
    pub(crate) fn wants_list(&self) -> bool {
        self.received.borrow().lists != self.listed
    }

    pub(crate) fn begin_list(&mut self) {
        self.listed = self.received.borrow().lists;
    }

    /// Records the end of the list. If it is the first that shows that the store went back, requests
    /// lists from all other tasks and returns true.
    pub(crate) fn end_list(&mut self, is_older: bool) -> bool {
        let Self { alarm, received: _, listed, back } = self;
        alarm.0.send_if_modified(|signs| {
            let is_news = is_older && signs.back == *back;
            if is_news {
                let is_served = *listed == signs.lists;
                signs.lists += 1;
                signs.back = signs.lists;
                if is_served {
                    *listed = signs.lists;
                }
            }
            if is_older || *listed >= signs.back {
                *back = signs.back;
            }
            is_news
        })
    }
}
