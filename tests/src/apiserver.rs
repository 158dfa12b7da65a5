//! A Kubernetes API server in this process, with only the
//! functions that the agent and the scenarios use.
//!
//! [ADR 0013](../../../docs/internals/adr/0013-an-api-server-in-the-tests.md) gives the reasons and the
//! promises. The server supports:
//!
//! - `get`, `list` (with pages), `watch` (from the version of a list, with bookmarks), `create`,
//!   `patch` and `delete` (with preconditions and finalizers) of the types in `builtins.rs` and of
//!   what definitions add;
//! - merge patches, also of the status of Services and Nodes, and strategic ones; server-side apply
//!   of the addresses in the status of a Service; the scale of a Deployment;
//! - tables, the discovery and as much of `OpenAPI` as `kubectl` needs; its selectors `key=value`;
//! - the refusals of a real API server that clients act on: 401, 403 by RBAC, 404, 409 for an
//!   object that exists, another version or another field manager, 410 for a version that is
//!   forgotten, 422 for what types, checks and definitions do not allow.
//!
//! It answers any other request with 501, names the request, and prints it to the test's output. It
//! has no controllers and allocates no addresses: a Deployment counts as rolled out at once. Its
//! objects are in memory. It speaks HTTP/1.1 on its own thread and runtime, which end when the value
//! is dropped. With a [certificate](ApiServer::set_certificate) it also serves clients that begin
//! with TLS.
//!
//! It makes [trouble](ApiServer::trouble) on demand, [goes back](ApiServer::restore) to an older
//! state, and [counts](ApiServer::stats) requests and deliveries.
//!
//! ```no_run
//! use std::net::TcpListener;
//! use vipward_tests::apiserver::{ApiServer, Effect, Matching, Often, Options, Verb};
//!
//! # fn main() -> anyhow::Result<()> {
//! let server = ApiServer::start(TcpListener::bind("127.0.0.1:0")?, Options::default())?;
//! server.add_user("secret", "agent");
//! server.load_manifest("{apiVersion: v1, kind: Node, metadata: {name: a}}")?;
//!
//! // The next patch of that user is done, but its answer is lost.
//! let patches = Matching::any().user("agent").verb(Verb::Patch);
//! server.trouble(patches, Effect::DropAnswer, Often::Next(1));
//! # Ok(())
//! # }
//! ```

mod accept;
mod answer;
mod call;
mod certificate;
mod connections;
mod discovery;
mod objects;
mod openapi;
mod rbac;
mod reading;
mod refusal;
mod registry;
mod request;
mod response;
mod shared;
mod stats;
mod trouble;
mod watch;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::sys::socket::{Backlog, Shutdown, SockaddrStorage, bind, listen, shutdown};
use serde_json::Value;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

pub use self::{
    certificate::{FIRST, SECOND, certificate_in, with_certificate},
    connections::Cut,
    request::Verb,
    shared::Options,
    stats::{Delivered, RequestKind, Stats},
    trouble::{Effect, Matching, Often, TroubleId},
};

use self::{accept::Accepting, rbac::User, registry::resource::Snapshot, shared::Shared};

/// The token of the user `admin`, who has all rights.
const ADMIN_TOKEN: &str = "admin";

/// All objects of a server at one time, with the version of the last write before.
#[derive(Debug, Clone)]
pub struct Saved(Snapshot);

#[derive(Debug)]
pub struct ApiServer {
    addr: SocketAddr,
    listener: TcpListener,
    shared: Arc<Shared>,
    runtime: Handle,
    /// None while the server is stopped.
    accepting: Option<Accepting>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ApiServer {
    /// Starts a server on `listener`, which decides the address and the network namespace.
    pub fn start(listener: TcpListener, options: Options) -> Result<Self> {
        let addr = listener.local_addr().context("failed to read the address of the listener")?;
        let shared = Arc::new(Shared::new(options));
        shared.add_user(ADMIN_TOKEN, User { name: "admin".to_owned(), is_admin: true });

        let runtime =
            Builder::new_current_thread().enable_all().build().context("failed to build a runtime")?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("apiserver".to_owned())
            .spawn(move || {
                // A dropped sender is the end as well.
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
        for namespace in ["default", "kube-system"] {
            server.load_object(serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            }))?;
        }
        server.accept()?;
        Ok(server)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Gives `user` this token. A client without a token has the empty
    /// one; `kubectl` sends none without TLS.
    pub fn add_user(&self, token: &str, user: &str) {
        self.shared.add_user(token, User { name: user.to_owned(), is_admin: false });
    }

    /// Refuses this token from now on, and closes the connections of its user.
    pub fn revoke(&self, token: &str) {
        if let Some(user) = self.shared.remove_token(token) {
            self.shared.connections.drop_user(&user.name);
        }
    }

    /// Presents the certificate in `pem`, which has its key too, to clients that begin with TLS
    /// from now on.
    pub fn set_certificate(&self, pem: &[u8]) -> Result<()> {
        self.shared.set_tls(with_certificate(pem)?);
        Ok(())
    }

    /// Creates every object of a manifest (YAML, any number of documents).
    pub fn load_manifest(&self, yaml: &str) -> Result<()> {
        // YAML 1.1 has many booleans, Kubernetes two: a node may be called `n`.
        let options = serde_saphyr::options! { strict_booleans: true };
        let documents: Vec<Value> =
            serde_saphyr::from_multiple_with_options(yaml, options).context("failed to read the manifest")?;
        let mut documents = documents.into_iter().filter(|document| !document.is_null());
        documents.try_for_each(|document| self.load_object(document))
    }

    /// Creates an object with its status, in the namespace `default` if it names none.
    pub fn load_object(&self, object: Value) -> Result<()> {
        self.shared.cluster.load(object)
    }

    /// Makes trouble for requests, until it is ended.
    pub fn trouble(&self, matching: Matching, effect: Effect, often: Often) -> TroubleId {
        self.shared.troubles.begin(matching, effect, often)
    }

    /// Stalls the watches that match, also the open ones: they stay open and deliver nothing. After
    /// the stall, they deliver the missed changes.
    pub fn stall_watches(&self, matching: Matching) -> TroubleId {
        self.shared.troubles.stall(matching)
    }

    pub fn end_trouble(&self, id: TroubleId) {
        self.shared.troubles.end(id);
    }

    pub fn end_all_trouble(&self) {
        self.shared.troubles.end_all();
    }

    /// Closes the connections of one user, once.
    pub fn drop_connections_of(&self, user: &str) {
        self.shared.connections.drop_user(user);
    }

    /// Cuts a user off until [`Self::let_in`].
    pub fn cut_off(&self, user: &str, cut: Cut) {
        self.shared.connections.cut_off(user, cut);
        self.shared.troubles.recheck_stalls();
    }

    /// Ends the cut of a user.
    pub fn let_in(&self, user: &str) {
        self.shared.connections.let_in(user);
        self.shared.troubles.recheck_stalls();
    }

    /// Closes all connections and refuses new ones. The objects stay.
    pub fn stop(&mut self) -> Result<()> {
        let Some(accepting) = self.accepting.take() else { return Ok(()) };
        accepting.stop();
        // A listening socket that is shut down refuses connections and keeps its address …
        shutdown(self.listener.as_raw_fd(), Shutdown::Both).context("failed to stop listening")?;
        // … unless the kernel chose the port: then the address has to be bound again.
        match bind(self.listener.as_raw_fd(), &SockaddrStorage::from(self.addr)) {
            Ok(()) | Err(Errno::EINVAL) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("failed to keep the address {}", self.addr));
            }
        }
        self.shared.connections.drop_all();
        Ok(())
    }

    /// Starts again after [`Self::stop`], at the same address and with the same objects.
    pub fn start_again(&mut self) -> Result<()> {
        ensure!(self.accepting.is_none(), "the server on {} was not stopped", self.addr);
        listen(&self.listener, Backlog::new(1024)?).context("failed to listen again")?;
        self.accept()
    }

    fn accept(&mut self) -> Result<()> {
        let listener = self.listener.try_clone().context("failed to duplicate the listener")?;
        let accepting = accept::accept(&self.shared, listener, &self.runtime)
            .with_context(|| format!("failed to accept connections on {}", self.addr))?;
        self.accepting = Some(accepting);
        Ok(())
    }

    /// Forgets all changes until now: a client that continues from an older version gets 410.
    pub fn compact(&self) {
        for resource in self.shared.cluster.resources.list() {
            resource.table.compact();
        }
    }

    /// Returns all present objects, as a snapshot of etcd.
    pub fn save(&self) -> Result<Saved> {
        Ok(Saved(self.shared.cluster.resources.save().context("failed to save the objects")?))
    }

    /// Goes back to a saved state, as etcd and an API server do when etcd is restored from a
    /// snapshot. The server must have been [stopped](Self::stop).
    ///
    /// The versions go back too, so new writes reuse versions of the lost future. The history is
    /// empty: a watch from before the snapshot gets 410. A watch from a version in the future stays
    /// open, and delivers nothing until the versions have passed its version. It then delivers the later
    /// changes, and never the earlier ones.
    pub fn restore(&self, saved: &Saved) -> Result<()> {
        let is_stopped = self.accepting.is_none();
        ensure!(is_stopped, "the server on {} runs: stop it before it goes back", self.addr);
        self.shared.cluster.resources.restore(&saved.0);
        Ok(())
    }

    /// Returns the counters since the start, or since the last reset.
    pub fn stats(&self) -> Stats {
        self.shared.counters.now()
    }

    /// Sets all counters to zero.
    pub fn reset_stats(&self) {
        self.shared.counters.reset();
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            // A dropped receiver has ended.
            end.send(()).unwrap_or_default();
        }
        if let Some(thread) = self.thread.take() {
            // The thread prints its own panic. Another panic during a drop would abort.
            drop(thread.join());
        }
    }
}
