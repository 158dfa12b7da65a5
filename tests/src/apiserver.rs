//! A Kubernetes API server in this process, for tests.
//!
//! It is faithful where clients care: optimistic concurrency, watches with bookmarks and 410 Gone, paging over a
//! snapshot, every kind of patch, server-side apply with its owners and conflicts, status subresources, finalizers,
//! custom resources with their schemas, RBAC, and refusals in the words of a real server. It serves what other tests
//! need of the built-in types, and whatever definitions add; the objects are in memory only.
//!
//! What a real cluster does beside its API server, nobody does here: no controller, no garbage collector, no
//! allocation of addresses; `propagationPolicy` is accepted and changes nothing. Of admission there are the defaults
//! of Services and the rules about namespaces. CEL rules of definitions, dry runs, protobuf and schemas to download
//! are not known (`kubectl apply` needs `--validate=false`).
//!
//! It can be told to make [trouble](ApiServer::trouble), and it [counts](ApiServer::stats) what it is asked and what
//! it delivers. It speaks HTTP/1.1 without TLS, on a thread and a runtime of its own; all of it ends when the value
//! is dropped.
//!
//! ```no_run
//! use std::net::TcpListener;
//! use vipward_tests::apiserver::{ApiServer, Effect, Matching, Often, Options, Verb};
//!
//! # fn main() -> anyhow::Result<()> {
//! let server = ApiServer::start(TcpListener::bind("127.0.0.1:0")?, Options::default())?;
//! server.add_user("secret", "system:serviceaccount:default:agent");
//! server.load_manifest("{apiVersion: v1, kind: Node, metadata: {name: a}}")?;
//!
//! // The next write of that user is done, but it does not hear of it.
//! let theirs = Matching::any().user("system:serviceaccount:default:agent").verb(Verb::Update);
//! server.trouble(theirs, Effect::DropAnswer, Often::Next(1));
//! # Ok(())
//! # }
//! ```

mod answer;
mod apply;
mod builtins;
mod cluster;
mod columns;
mod connections;
mod definitions;
mod discovery;
mod fields;
mod manifest;
mod patch;
mod rbac;
mod reading;
mod refusal;
mod request;
mod resource;
mod schema;
mod selector;
mod services;
mod shape;
mod shared;
mod stats;
mod store;
mod time;
mod trouble;
mod validation;
mod watch;
mod write;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::sys::socket::{Backlog, Shutdown, SockaddrStorage, bind, listen, shutdown};
use serde_json::Value;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch as channel};

pub use connections::Cut;
pub use request::Verb;
pub use stats::{Delivered, RequestKind, Stats};
pub use trouble::{Effect, Matching, Often, TroubleId};

use rbac::User;
use shared::Shared;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The token of the user `admin`, who may do everything.
    pub admin_token: String,
    /// How many changes of each resource are remembered; watches and pages that began before them get 410.
    pub history: usize,
    /// How often a watch that asked for bookmarks gets one when nothing else happens.
    pub bookmark_interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { admin_token: "admin".to_owned(), history: 20_000, bookmark_interval: Duration::from_mins(1) }
    }
}

/// A running server.
#[derive(Debug)]
pub struct ApiServer {
    addr: SocketAddr,
    listener: TcpListener,
    shared: Arc<Shared>,
    runtime: Handle,
    /// Says `true` to those who accept connections; none while it is stopped.
    accepting: Option<channel::Sender<bool>>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ApiServer {
    /// Serves on `listener`, which decides the address and the network namespace.
    pub fn start(listener: TcpListener, options: Options) -> Result<Self> {
        let addr = listener.local_addr().context("failed to read the address of the listener")?;
        let admin_token = options.admin_token.clone();
        let shared = Arc::new(Shared::new(options));
        shared.add_user(&admin_token, User { is_admin: true, ..User::new("admin", &["system:masters"]) });

        let runtime =
            Builder::new_current_thread().enable_all().build().context("failed to build a runtime")?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("apiserver".to_owned())
            .spawn(move || {
                // An end that nobody announces is the end as well.
                drop(runtime.block_on(ended));
                runtime.shutdown_background();
            })
            .context("failed to start the server's thread")?;
        let mut server = Self {
            addr,
            listener,
            shared,
            runtime: handle,
            accepting: None,
            end: Some(end),
            thread: Some(thread),
        };
        for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            server.load_object(serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            }))?;
        }
        server.accept()?;
        Ok(server)
    }

    /// Where it listens.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The base URL for clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Knows whoever has `token` as `user`. A service account is in its groups by its name. The empty token is that of
    /// whoever shows none (`kubectl` shows none without TLS); until it is added they are refused.
    pub fn add_user(&self, token: &str, user: &str) {
        self.add_user_in_groups(token, user, &[]);
    }

    /// The same, in these groups besides.
    pub fn add_user_in_groups(&self, token: &str, user: &str, groups: &[&str]) {
        self.shared.add_user(token, User::new(user, groups));
    }

    /// Creates every object of a manifest (YAML, any number of documents), or replaces it where it exists.
    pub fn load_manifest(&self, yaml: &str) -> Result<()> {
        manifest::load(&self.shared.cluster, yaml)
    }

    /// Creates an object, or replaces it where it exists.
    pub fn load_object(&self, object: Value) -> Result<()> {
        manifest::load_object(&self.shared.cluster, object)
    }

    /// Makes trouble for requests, until it is ended.
    pub fn trouble(&self, matching: Matching, effect: Effect, often: Often) -> TroubleId {
        self.shared.troubles.begin(matching, effect, often)
    }

    /// Stalls the watches that match, those that are open included: they stay open and deliver nothing. What they
    /// miss they deliver when the stall ends.
    pub fn stall_watches(&self, matching: Matching) -> TroubleId {
        self.shared.troubles.stall(matching)
    }

    /// Ends one trouble or stall.
    pub fn end_trouble(&self, id: TroubleId) {
        self.shared.troubles.end(id);
    }

    /// Ends all trouble and all stalls.
    pub fn end_all_trouble(&self) {
        self.shared.troubles.end_all();
    }

    /// Closes all connections, once.
    pub fn drop_connections(&self) {
        self.shared.connections.drop_all();
    }

    /// Closes the connections of one user, once.
    pub fn drop_connections_of(&self, user: &str) {
        self.shared.connections.drop_user(user);
    }

    /// Cuts one user off, until it is let in again.
    pub fn cut_off(&self, user: &str, cut: Cut) {
        self.shared.connections.cut_off(user, cut);
        self.shared.troubles.stalls_may_have_changed();
    }

    /// Lets a user in again who was cut off.
    pub fn let_in(&self, user: &str) {
        self.shared.connections.let_in(user);
        self.shared.troubles.stalls_may_have_changed();
    }

    /// Goes away: open connections are closed, new ones refused. The objects stay.
    pub fn stop(&mut self) -> Result<()> {
        let Some(accepting) = self.accepting.take() else { return Ok(()) };
        accepting.send_replace(true);
        // A listening socket that is shut down refuses connections and keeps its address.
        shutdown(self.listener.as_raw_fd(), Shutdown::Both).context("failed to stop listening")?;
        // … unless the kernel had chosen the port: then it is given back, and has to be taken again.
        match bind(self.listener.as_raw_fd(), &SockaddrStorage::from(self.addr)) {
            Ok(()) | Err(Errno::EINVAL) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("failed to keep the address {}", self.addr));
            }
        }
        self.shared.connections.drop_all();
        Ok(())
    }

    /// Comes back after [`Self::stop`], at the same address and with the same objects.
    pub fn start_again(&mut self) -> Result<()> {
        ensure!(self.accepting.is_none(), "the server on {} was not stopped", self.addr);
        listen(&self.listener, Backlog::new(1024)?).context("failed to listen again")?;
        self.accept()
    }

    fn accept(&mut self) -> Result<()> {
        let (accepting, stopped) = channel::channel(false);
        let listener = self.listener.try_clone().context("failed to duplicate the listener")?;
        connections::accept(&self.shared, listener, stopped, &self.runtime)
            .with_context(|| format!("failed to accept connections on {}", self.addr))?;
        self.accepting = Some(accepting);
        Ok(())
    }

    /// Forgets what happened until now: whoever goes on from an older resourceVersion gets 410.
    pub fn compact(&self) {
        for resource in self.shared.cluster.resources.list() {
            resource.table.compact();
        }
    }

    /// What was counted since the start, or since the last reset.
    pub fn stats(&self) -> Stats {
        self.shared.counters.now()
    }

    /// Counts from zero.
    pub fn reset_stats(&self) {
        self.shared.counters.reset();
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            // Whoever does not hear it has ended.
            end.send(()).unwrap_or_default();
        }
        if let Some(thread) = self.thread.take() {
            // A panic in there is printed in there, and dropping is no place for another.
            drop(thread.join());
        }
    }
}
