//! The connections of clients: accepting them, knowing whose they are, and closing them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::answer;
use super::shared::Shared;

/// What a client that is cut off notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// Its connections are closed, and so is each new one when it asks for something.
    Closed,
    /// Nothing: its requests are not done and have no answer, and its watches say no more.
    Silent,
}

/// All connections, and who is cut off.
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

/// One connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionId(u64);

impl Connections {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whose connection this is; says whether that user is cut off.
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

    /// Closes all connections.
    pub(super) fn drop_all(&self) {
        for (_, open) in std::mem::take(&mut self.state().open) {
            open.task.abort();
        }
    }

    /// Closes the connections of one user.
    pub(super) fn drop_user(&self, user: &str) {
        let mut state = self.state();
        let (theirs, others) =
            std::mem::take(&mut state.open).into_iter().partition(|(_, open)| open.users.contains(user));
        state.open = others;
        drop(state);
        let theirs: BTreeMap<u64, Open> = theirs;
        for (_, open) in theirs {
            open.task.abort();
        }
    }

    /// Cuts a user off.
    pub(super) fn cut_off(&self, user: &str, cut: Cut) {
        self.state().cut.insert(user.to_owned(), cut);
        if cut == Cut::Closed {
            self.drop_user(user);
        }
    }

    /// Lets a user in again; connections that were silent are closed.
    pub(super) fn let_in(&self, user: &str) {
        let cut = self.state().cut.remove(user);
        if cut == Some(Cut::Silent) {
            self.drop_user(user);
        }
    }

    /// Whether a user hears nothing.
    pub(super) fn is_silent(&self, user: &str) -> bool {
        self.state().cut.get(user) == Some(&Cut::Silent)
    }

    fn add(&self, spawn: impl FnOnce(ConnectionId) -> AbortHandle) {
        let mut state = self.state();
        state.last_id += 1;
        let id = state.last_id;
        // The task cannot note its end before it is noted here: it needs the same lock.
        let task = spawn(ConnectionId(id));
        state.open.insert(id, Open { task, users: BTreeSet::new() });
    }

    fn remove(&self, connection: ConnectionId) {
        self.state().open.remove(&connection.0);
    }
}

/// Accepts connections on `listener` until `stopped` says so.
pub(super) fn accept(
    shared: &Arc<Shared>,
    listener: TcpListener,
    mut stopped: watch::Receiver<bool>,
    runtime: &Handle,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let _guard = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let shared = Arc::clone(shared);
    runtime.spawn(async move {
        loop {
            let accepted = tokio::select! {
                _ = stopped.changed() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // The client is gone again, or the listener is about to be stopped.
                tokio::task::yield_now().await;
                continue;
            };
            let serving = Arc::clone(&shared);
            shared.connections.add(|id| tokio::spawn(serve(serving, stream, id)).abort_handle());
        }
    });
    Ok(())
}

async fn serve(shared: Arc<Shared>, stream: TcpStream, id: ConnectionId) {
    // Without it small answers may wait for an acknowledgement; where it cannot be had, they do.
    drop(stream.set_nodelay(true));
    let service = service_fn(|request| answer::answer(Arc::clone(&shared), id, request));
    let connection =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
    // A client that goes away, or that we drop on purpose, is no news.
    drop(connection.await);
    shared.connections.remove(id);
}
