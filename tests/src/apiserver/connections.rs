//! The open connections: their users, the users that are cut off, and ways to close connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// A way of cutting a user off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// Connections are closed, and a new one is closed at its first request.
    Closed,
    /// Requests are not done and have no answer, and watches deliver nothing.
    Silent,
}

/// All connections, and the users that are cut off.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    open: BTreeMap<u64, Open>,
    cut: BTreeMap<String, Cut>,
}

#[derive(Debug)]
struct Open {
    task: AbortHandle,
    users: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionId(u64);

impl Connections {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection that the task of `spawn` serves.
    pub(super) fn add(&self, spawn: impl FnOnce(ConnectionId) -> AbortHandle) {
        let mut state = self.state();
        state.last_id += 1;
        let id = state.last_id;
        // The task cannot be removed before it is added here: a removal needs the same lock.
        let task = spawn(ConnectionId(id));
        state.open.insert(id, Open { task, users: BTreeSet::new() });
    }

    pub(super) fn remove(&self, connection: ConnectionId) {
        self.state().open.remove(&connection.0);
    }

    /// Records that `user` uses a connection. Returns that user's cut, if there is one.
    pub(super) fn used_by(&self, connection: ConnectionId, user: &str) -> Option<Cut> {
        let mut state = self.state();
        let cut = state.cut.get(user).copied();
        if let Some(open) = state.open.get_mut(&connection.0)
            && !open.users.contains(user)
        {
            open.users.insert(user.to_owned());
        }
        cut
    }

    pub(super) fn drop_all(&self) {
        self.drop_where(|_| true);
    }

    pub(super) fn drop_user(&self, user: &str) {
        self.drop_where(|open| open.users.contains(user));
    }

    fn drop_where(&self, wanted: impl Fn(&Open) -> bool) {
        self.state().open.retain(|_, open| {
            let is_wanted = wanted(open);
            if is_wanted {
                open.task.abort();
            }
            !is_wanted
        });
    }

    pub(super) fn cut_off(&self, user: &str, cut: Cut) {
        self.state().cut.insert(user.to_owned(), cut);
        if cut == Cut::Closed {
            self.drop_user(user);
        }
    }

    /// Ends the cut of a user. Closes connections that were silent.
    pub(super) fn let_in(&self, user: &str) {
        let cut = self.state().cut.remove(user);
        if cut == Some(Cut::Silent) {
            self.drop_user(user);
        }
    }

    /// Returns true if a user is cut off silently.
    pub(super) fn is_silent(&self, user: &str) -> bool {
        self.state().cut.get(user) == Some(&Cut::Silent)
    }
}
