//! The agent's HTTP endpoints: `/metrics`, `/livez`, `/readyz` and, for this host only, `/debug/…`.
//!
//! | page | source |
//! |---|---|
//! | `/livez` | the event loop, whose answer proves that it runs |
//! | `/readyz` | the state of the event loop, compared with what is read back from the kernel |
//! | `/metrics` | counts, the state of the event loop, and what is read from the kernel |
//! | `/debug/wire` | the event loop's report of the failure detector, for `vipward doctor` on this host
//! |
//! | `/debug/waiting` | the VIPs that wait, for `vipward status` and `explain` on this host |
//! | `/debug/file` | whether the file of a standalone agent was refused, for the same
//! |
//! | `/debug/state` | the whole state of event loop and kernel, for this host only |
//!
//! The event loop answers from memory only. A thread of its own reads whole maps, one reading at a
//! time. A page reports when the event loop does not answer.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    Router,
    extract::{ConnectInfo, Path as PathPart, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc, oneshot},
    task::{JoinSet, spawn_blocking},
    time::timeout,
};
use tracing::{info, warn};
use vipward_core::{
    diagnosis::{
        doctor::{FileReport, WireReport},
        pinned::Contents,
    },
    host::answering::Waiting,
};

use super::{
    checks::{self, Check, report},
    client::{FILE, PINS, WAITING, WIRE, identity},
    listener::{BoundedListener, PeerAddress},
    metrics::{Format, Metrics, Snapshot},
};
use crate::{
    cli::{Listen, ListenAddress},
    shell::{
        kernel::{
            bpf::{BpfError, Pins, Reader},
            status,
        },
        logging::errors::chain,
    },
};

/// The time that the event loop has to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most questions that wait for the event loop.
const QUESTIONS: usize = 4;
/// The time before event loop and kernel are compared again after a
/// difference: they are not read at one instant.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// The reason why the endpoints cannot be served.
#[derive(Debug, Error)]
pub enum EndpointsError {
    #[error(
        "failed to serve /metrics, /livez and /readyz on {address}; choose another --listen or --listen-port, or \
         --listen none"
    )]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("--listen none is given beside {address}; give either `none` or addresses")]
    NoneAndMore {
        /// The first of the addresses.
        address: IpAddr,
    },
}

pub enum Question {
    /// The checks of `/livez`.
    Live(oneshot::Sender<Vec<Check>>),
    /// The state for `/metrics` and `/readyz`.
    Look(oneshot::Sender<Snapshot>),
    /// The failure detector, for `/debug/wire`. None without a cluster.
    Wire(oneshot::Sender<Option<WireReport>>),
    /// The VIPs that wait, for `/debug/waiting`.
    Waiting(oneshot::Sender<Vec<Waiting>>),
    /// The file, for `/debug/file`. None in a cluster.
    File(oneshot::Sender<Option<FileReport>>),
    /// The whole state, for `/debug/state`.
    State(oneshot::Sender<Value>),
}

/// A server of the endpoints that runs until it is dropped.
pub struct Endpoints {
    state: Arc<ServerState>,
    _tasks: JoinSet<()>,
}

struct ServerState {
    questions: mpsc::Sender<Question>,
    kernel: OnceLock<Arc<Reader>>,
    metrics: Arc<Metrics>,
    /// A permit for one reading of whole maps at a time.
    reading: Semaphore,
}

impl Listen {
    /// Returns the addresses to serve on, each with true if it is required.
    fn wanted(&self) -> Result<Vec<(SocketAddr, bool)>, EndpointsError> {
        const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let named: Vec<IpAddr> = (self.addresses.iter())
            .filter_map(|address| match address {
                ListenAddress::At(address) => Some(*address),
                ListenAddress::Nowhere => None,
            })
            .collect();
        if let Some(address) = named.first().filter(|_| named.len() < self.addresses.len()) {
            return Err(EndpointsError::NoneAndMore { address: *address });
        }
        let mut wanted: Vec<(SocketAddr, bool)> = Vec::new();
        let mut want = |address, must| {
            let address = SocketAddr::new(address, self.port);
            if wanted.iter().all(|(known, _)| *known != address) {
                wanted.push((address, must));
            }
        };
        if self.addresses.is_empty() {
            want(LOOPBACK, self.needs_loopback);
            if let Some(pod) = self.pod {
                want(pod, false);
            }
        }
        for address in named {
            want(address, true);
        }
        Ok(wanted)
    }
}

impl Endpoints {
    /// Starts to serve. The receiver gets the questions to the event loop. A default address that is
    /// taken only causes a warning: VIPs matter more.
    pub async fn open(
        listen: &Listen,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, mpsc::Receiver<Question>), EndpointsError> {
        let (questions, receiver) = mpsc::channel(QUESTIONS);
        let state =
            Arc::new(ServerState { questions, kernel: OnceLock::new(), metrics, reading: Semaphore::new(1) });
        let tasks = serve(listen, &router(Arc::clone(&state))).await?;
        Ok((Self { state, _tasks: tasks }, receiver))
    }

    /// Lets the endpoints read the pins. Until then, they serve nothing of their contents.
    pub fn begin(&self, pin_dir: &Path) -> Result<(), BpfError> {
        // A second call changes nothing, since the pins are the same.
        let _ = self.state.kernel.set(Arc::new(Reader::open(&Pins::new(pin_dir))?));
        Ok(())
    }
}

/// Serves until the tasks are dropped. A default address that is taken only causes a warning.
pub(crate) async fn serve(listen: &Listen, router: &Router) -> Result<JoinSet<()>, EndpointsError> {
    let mut tasks = JoinSet::new();
    for (address, must) in listen.wanted()? {
        let listener = match BoundedListener::open(address).await {
            Ok(listener) => listener,
            Err(source) if must => return Err(EndpointsError::Listen { address, source }),
            Err(error) => {
                warn!(
                    %address,
                    error = %error,
                    "/metrics, /livez and /readyz are not served here; --listen and --listen-port choose where"
                );
                continue;
            }
        };
        info!(%address, "serving /metrics, /livez and /readyz");
        let router = router.clone().route("/", get(async || Html(LINKS)));
        let service = router.into_make_service_with_connect_info::<PeerAddress>();
        tasks.spawn(async move {
            // The server never ends by itself: an error ends its own connection only.
            let _ = axum::serve(listener, service).await;
        });
    }
    Ok(tasks)
}

fn router(state: Arc<ServerState>) -> Router {
    let one = async |State(state): State<Arc<ServerState>>, PathPart(name): PathPart<String>| {
        report("readyz", &state.readiness().await, Some(&name))
    };
    let one_live = async |State(state): State<Arc<ServerState>>, PathPart(name): PathPart<String>| {
        report("livez", &state.liveness().await, Some(&name))
    };
    let ready =
        async |State(state): State<Arc<ServerState>>| report("readyz", &state.readiness().await, None);
    let live = async |State(state): State<Arc<ServerState>>| report("livez", &state.liveness().await, None);
    Router::new()
        .route("/livez", get(live))
        .route("/livez/{check}", get(one_live))
        .route("/readyz", get(ready))
        .route("/readyz/{check}", get(one))
        .route("/metrics", get(metrics))
        .route(WIRE, get(wire))
        .route(WAITING, get(waiting))
        .route(FILE, get(file))
        .route("/debug/state", get(whole_state))
        .with_state(state)
}

async fn metrics(State(state): State<Arc<ServerState>>, headers: HeaderMap) -> Response {
    let format = accepted(&headers);
    let snapshot = state.query(Question::Look).await;
    // Writing thousands of lines takes time, too.
    let metrics = Arc::clone(&state.metrics);
    let kernel = state.read(true).await.and_then(Result::ok);
    match spawn_blocking(move || metrics.page(format, kernel, snapshot)).await {
        Ok(Ok(page)) => ([(header::CONTENT_TYPE, format.content_type())], page).into_response(),
        Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Returns the format that the scraper accepts.
pub(crate) fn accepted(headers: &HeaderMap) -> Format {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    Format::accepted(&accept.collect::<Vec<_>>().join(","))
}

/// Serves the whole state. It contains addresses, names and sessions, and is for this host only.
async fn whole_state(
    State(state): State<Arc<ServerState>>,
    ConnectInfo(PeerAddress(peer)): ConnectInfo<PeerAddress>,
) -> Response {
    if let Some(refusal) = refusal(peer) {
        return refusal;
    }
    let snapshot =
        state.query(Question::State).await.unwrap_or_else(|| json!({"error": checks::no_answer(PATIENCE)}));
    let lanes = state.metrics.api.pending().map(|(lane, pending)| (lane.name().to_owned(), json!(pending)));
    let state = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "event_loop": snapshot,
        "pending_requests": lanes.collect::<serde_json::Map<_, _>>(),
        "kernel": state.status().await,
    });
    ([(header::CONTENT_TYPE, "application/json")], format!("{state:#}\n")).into_response()
}

/// Serves the event loop's report of the failure detector. It has names and sessions, too.
async fn wire(
    State(state): State<Arc<ServerState>>,
    ConnectInfo(PeerAddress(peer)): ConnectInfo<PeerAddress>,
) -> Response {
    state.report_to(peer, Question::Wire).await
}

/// Serves the VIPs that wait, with the reasons.
async fn waiting(
    State(state): State<Arc<ServerState>>,
    ConnectInfo(PeerAddress(peer)): ConnectInfo<PeerAddress>,
) -> Response {
    state.report_to(peer, Question::Waiting).await
}

/// Serves the report of the file. A refusal may quote the file.
async fn file(
    State(state): State<Arc<ServerState>>,
    ConnectInfo(PeerAddress(peer)): ConnectInfo<PeerAddress>,
) -> Response {
    state.report_to(peer, Question::File).await
}

/// The page that links the others.
const LINKS: &str = "<!DOCTYPE html>\n<title>vipward</title>\n<p><a href=\"/metrics\">/metrics</a></p>\n\
    <p><a href=\"/readyz\">/readyz</a></p>\n<p><a href=\"/livez\">/livez</a></p>\n";

/// Returns a refusal if `peer` is another host: the contents are for this host only.
fn refusal(peer: SocketAddr) -> Option<Response> {
    let why = "/debug is served to this host only: request it from 127.0.0.1 there\n";
    (!peer.ip().to_canonical().is_loopback()).then(|| (StatusCode::FORBIDDEN, why).into_response())
}

impl ServerState {
    /// Returns the event loop's answer, if it comes in time.
    async fn query<T>(&self, question: fn(oneshot::Sender<T>) -> Question) -> Option<T> {
        let answer = async {
            let (sender, answer) = oneshot::channel();
            self.questions.send(question(sender)).await.ok()?;
            answer.await.ok()
        };
        timeout(PATIENCE, answer).await.ok().flatten()
    }

    /// Returns the event loop's answer to this host itself.
    async fn report_to<T: Serialize>(
        &self,
        peer: SocketAddr,
        question: fn(oneshot::Sender<T>) -> Question,
    ) -> Response {
        if let Some(refusal) = refusal(peer) {
            return refusal;
        }
        match self.query(question).await {
            Some(report) => {
                // The client may have meant another agent of this host.
                let pins = self.kernel.get().and_then(|kernel| identity(kernel.pins().dir()));
                let headers = [
                    (header::CONTENT_TYPE, "application/json".to_owned()),
                    (HeaderName::from_static(PINS), pins.unwrap_or_default()),
                ];
                (headers, format!("{}\n", json!(report))).into_response()
            }
            None => (StatusCode::SERVICE_UNAVAILABLE, checks::no_answer(PATIENCE)).into_response(),
        }
    }

    /// Reads the kernel's state, or returns none before the agent has pinned it.
    async fn read(&self, with_counts: bool) -> Option<Result<Contents, BpfError>> {
        let kernel = Arc::clone(self.kernel.get()?);
        let most_counted = if with_counts { self.metrics.max_vips() } else { 0 };
        let _one = self.reading.acquire().await.ok()?;
        spawn_blocking(move || kernel.contents(most_counted)).await.ok()
    }

    async fn liveness(&self) -> Vec<Check> {
        match self.query(Question::Live).await {
            Some(mut checks) => {
                checks.insert(0, Check::ok("event-loop"));
                checks
            }
            None => vec![Check::failed("event-loop", checks::no_answer(PATIENCE))],
        }
    }

    async fn readiness(&self) -> Vec<Check> {
        let checks = self.look_once().await;
        if checks.iter().all(Check::is_ok) {
            return checks;
        }
        // A difference counts when it is seen twice.
        tokio::time::sleep(SECOND_LOOK).await;
        self.look_once().await
    }

    async fn look_once(&self) -> Vec<Check> {
        let Some(snapshot) = self.query(Question::Look).await else {
            return vec![Check::failed("event-loop", checks::no_answer(PATIENCE))];
        };
        let mut found = vec![Check::ok("event-loop")];
        found.extend(checks::of_event_loop(&snapshot));
        let (Some(kernel), Some(read)) = (self.kernel.get(), self.read(false).await) else {
            found.push(Check::failed("pins", "nothing is pinned yet"));
            return found;
        };
        // An interface that could not be attached has no pin, and a VLAN device that is seen through
        // another has none.
        let attached =
            snapshot.agent.interfaces.iter().filter(|it| it.failure.is_none() && it.through.is_none());
        found.push(checks::pins(kernel.pins().has_all(attached.map(|it| (it.ifindex, it.mode)))));
        found.extend(checks::of_kernel(&snapshot, read));
        found
    }

    /// Returns the output of `vipward status`.
    async fn status(&self) -> Value {
        let Some(kernel) = self.kernel.get().map(Arc::clone) else { return Value::Null };
        let Ok(_one) = self.reading.acquire().await else { return Value::Null };
        let read = spawn_blocking(move || Handle::current().block_on(status::read(kernel.pins()))).await;
        match read {
            Ok(Ok(status)) => json!(status),
            Ok(Err(error)) => json!({"error": chain(&error)}),
            Err(_) => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests;
