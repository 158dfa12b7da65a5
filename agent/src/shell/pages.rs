//! The agent's pages, over HTTP: `/metrics`, `/livez`, `/readyz` and `/debug/state`.
//!
//! | page | who answers |
//! |---|---|
//! | `/livez` | the driver: that it answers proves that it turns |
//! | `/readyz` | what the driver believes is compared with what is read back from the kernel |
//! | `/metrics` | what was counted, what the driver has in memory, what is read from the kernel |
//! | `/debug/state` | all that the driver knows, and all that the kernel has; only for this host |
//!
//! The driver is asked for what it has in its memory only. Maps are read whole by a thread of their own, one reading at a
//! time. Whoever asks gets an answer when the driver does not: that says so.

mod checks;
mod doors;

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
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc, oneshot},
    task::{JoinSet, spawn_blocking},
    time::timeout,
};
use tracing::{info, warn};

pub use self::checks::Check;
use self::{
    checks::report,
    doors::{Doors, PeerAddress},
};
use super::{
    bpf::BpfError,
    causes::chain,
    metrics::{Format, Kernel, Metrics, Reading, Snapshot},
    status,
};

/// How long the driver may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Questions that may wait for the driver.
const QUESTIONS: usize = 4;
/// How long after a difference between belief and kernel both are looked at once more: they are not read at one instant.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// The pages cannot be served.
#[derive(Debug, Error)]
pub enum PagesError {
    /// An address cannot be had.
    #[error(
        "failed to serve /metrics, /livez and /readyz on {address}; choose another --listen or --listen-port, or \
         --listen none"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Nowhere, and somewhere.
    #[error("--listen none is given beside {address}; give either `none` or addresses")]
    NoneAndMore {
        /// The first of the others.
        address: IpAddr,
    },
}

/// Where the pages are served, as an operator says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    /// The addresses; none: the default ones.
    pub addresses: Vec<ListenAddress>,
    /// The port on all of them.
    pub port: u16,
    /// The pod's address, which is one of the default ones in a cluster.
    pub pod: Option<IpAddr>,
    /// Whether the agent ends when it cannot have the loopback address, though nobody has named it: the kubelet asks
    /// there, and would end it anyway.
    pub needs_loopback: bool,
}

/// One address, or none at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenAddress {
    /// Serve nothing.
    Nowhere,
    /// On this one.
    At(IpAddr),
}

/// What is asked of the driver.
pub enum Question {
    /// Does it live?
    Live(oneshot::Sender<Vec<Check>>),
    /// What is in its memory that a scrape is about?
    Look(oneshot::Sender<Snapshot>),
    /// All that is in its memory?
    State(oneshot::Sender<Value>),
}

/// Serves the pages until it is dropped.
pub struct Pages {
    desk: Arc<Desk>,
    _tasks: JoinSet<()>,
}

/// What every request shares.
struct Desk {
    questions: mpsc::Sender<Question>,
    kernel: OnceLock<Arc<Kernel>>,
    metrics: Arc<Metrics>,
    /// One reading of all maps at a time.
    reading: Semaphore,
}

impl Listen {
    /// Where to serve, and whether that must be possible.
    fn wanted(&self) -> Result<Vec<(SocketAddr, bool)>, PagesError> {
        const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let named: Vec<IpAddr> = (self.addresses.iter())
            .filter_map(|address| match address {
                ListenAddress::At(address) => Some(*address),
                ListenAddress::Nowhere => None,
            })
            .collect();
        if let Some(address) = named.first().filter(|_| named.len() < self.addresses.len()) {
            return Err(PagesError::NoneAndMore { address: *address });
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

impl Pages {
    /// Begins to serve; what is asked of the driver comes out of the receiver. An address that nobody has named and
    /// that cannot be had is only warned of: VIPs matter more.
    pub async fn open(
        listen: &Listen,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, mpsc::Receiver<Question>), PagesError> {
        let (questions, receiver) = mpsc::channel(QUESTIONS);
        let desk = Arc::new(Desk { questions, kernel: OnceLock::new(), metrics, reading: Semaphore::new(1) });
        let mut tasks = JoinSet::new();
        for (address, must) in listen.wanted()? {
            let doors = match Doors::open(address).await {
                Ok(doors) => doors,
                Err(source) if must => return Err(PagesError::Listen { address, source }),
                Err(error) => {
                    warn!(
                        %address,
                        error = %error,
                        "not serving /metrics, /livez and /readyz here; --listen and --listen-port choose where"
                    );
                    continue;
                }
            };
            info!(%address, "serving /metrics, /livez and /readyz");
            let service = router(Arc::clone(&desk)).into_make_service_with_connect_info::<PeerAddress>();
            tasks.spawn(async move {
                // It never ends by itself: errors of one connection are that connection's.
                let _ = axum::serve(doors, service).await;
            });
        }
        Ok((Self { desk, _tasks: tasks }, receiver))
    }

    /// From now on the pins of the agent can be read; before, what is in them is missing on the pages.
    pub fn begin(&self, pin_dir: &Path) -> Result<(), BpfError> {
        // A second time changes nothing: the pins are the same.
        let _ = self.desk.kernel.set(Arc::new(Kernel::open(pin_dir)?));
        Ok(())
    }
}

fn router(desk: Arc<Desk>) -> Router {
    let one = async |State(desk): State<Arc<Desk>>, PathPart(name): PathPart<String>| {
        report("readyz", &desk.readiness().await, Some(&name))
    };
    let one_live = async |State(desk): State<Arc<Desk>>, PathPart(name): PathPart<String>| {
        report("livez", &desk.liveness().await, Some(&name))
    };
    let ready = async |State(desk): State<Arc<Desk>>| report("readyz", &desk.readiness().await, None);
    let live = async |State(desk): State<Arc<Desk>>| report("livez", &desk.liveness().await, None);
    Router::new()
        .route("/livez", get(live))
        .route("/livez/{check}", get(one_live))
        .route("/readyz", get(ready))
        .route("/readyz/{check}", get(one))
        .route("/metrics", get(metrics))
        .route("/debug/state", get(state))
        .with_state(desk)
}

async fn metrics(State(desk): State<Arc<Desk>>, headers: HeaderMap) -> Response {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let format = Format::accepted(&accept.collect::<Vec<_>>().join(","));
    let driver = desk.ask(Question::Look).await;
    // Writing thousands of lines takes its time, too.
    let metrics = Arc::clone(&desk.metrics);
    let kernel = desk.read(true).await.and_then(Result::ok);
    match spawn_blocking(move || metrics.page(format, kernel, driver)).await {
        Ok(Ok(page)) => ([(header::CONTENT_TYPE, format.content_type())], page).into_response(),
        Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// It has addresses, names and sessions in it: for those who are on this host anyway.
async fn state(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(PeerAddress(peer)): ConnectInfo<PeerAddress>,
) -> Response {
    if !peer.ip().to_canonical().is_loopback() {
        let why = "/debug/state is served to this host only: ask 127.0.0.1 there\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let driver =
        desk.ask(Question::State).await.unwrap_or_else(|| json!({"error": checks::no_answer(PATIENCE)}));
    let lanes = desk.metrics.api.pending().map(|(lane, pending)| (lane.name().to_owned(), json!(pending)));
    let state = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "driver": driver,
        "pending_requests": lanes.collect::<serde_json::Map<_, _>>(),
        "kernel": desk.status().await,
    });
    ([(header::CONTENT_TYPE, "application/json")], format!("{state:#}\n")).into_response()
}

impl Desk {
    /// The driver's answer, if it comes in time.
    async fn ask<T>(&self, question: fn(oneshot::Sender<T>) -> Question) -> Option<T> {
        let answer = async {
            let (sender, answer) = oneshot::channel();
            self.questions.send(question(sender)).await.ok()?;
            answer.await.ok()
        };
        timeout(PATIENCE, answer).await.ok().flatten()
    }

    /// What the kernel has; none before there is anything to be read.
    async fn read(&self, with_counts: bool) -> Option<Result<Reading, BpfError>> {
        let kernel = Arc::clone(self.kernel.get()?);
        let most_counted = if with_counts { self.metrics.max_vips() } else { 0 };
        let _one = self.reading.acquire().await.ok()?;
        spawn_blocking(move || kernel.read(most_counted)).await.ok()
    }

    async fn liveness(&self) -> Vec<Check> {
        match self.ask(Question::Live).await {
            Some(mut checks) => {
                checks.insert(0, Check::ok("driver"));
                checks
            }
            None => vec![Check::failed("driver", checks::no_answer(PATIENCE))],
        }
    }

    async fn readiness(&self) -> Vec<Check> {
        let checks = self.look_whether_ready().await;
        if checks.iter().all(Check::is_ok) {
            return checks;
        }
        // Only what is so twice is so.
        tokio::time::sleep(SECOND_LOOK).await;
        self.look_whether_ready().await
    }

    async fn look_whether_ready(&self) -> Vec<Check> {
        let Some(driver) = self.ask(Question::Look).await else {
            return vec![Check::failed("driver", checks::no_answer(PATIENCE))];
        };
        let mut found = vec![Check::ok("driver")];
        found.extend(checks::of_driver(&driver));
        let (Some(kernel), Some(read)) = (self.kernel.get(), self.read(false).await) else {
            found.push(Check::failed("pins", "nothing is pinned yet"));
            return found;
        };
        // What could not be attached has no pin to be missing.
        let links = driver.links.iter().filter(|link| link.failure.is_none());
        found.push(checks::pins(kernel.is_pinned(links.map(|link| (link.ifindex, link.mode)))));
        found.extend(checks::of_kernel(&driver, read));
        found
    }

    /// What `vipward status` says.
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
