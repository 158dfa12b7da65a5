//! Whether the agent lives and is ready, for the kubelet: two pages over HTTP.
//!
//! `/livez` proves that the driver still turns, and with it the heartbeat: it is the driver that answers. `/readyz` is
//! what the driver then reads back from the kernel.

use std::{io, net::SocketAddr, time::Duration};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use thiserror::Error;
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

/// How long the driver may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The pages cannot be served.
#[derive(Debug, Error)]
#[error("failed to serve /livez and /readyz on {address}; choose another --health-address")]
pub struct HealthError {
    address: SocketAddr,
    #[source]
    source: io::Error,
}

/// What is asked of the driver.
pub(super) enum Question {
    /// Does it live? In words, what is wrong if not.
    Live(oneshot::Sender<Vec<String>>),
    /// Is it ready? In words, what is wrong if not.
    Ready(oneshot::Sender<Vec<String>>),
}

type Questions = mpsc::Sender<Question>;

/// Serves the pages until it is dropped.
pub(super) struct Health {
    task: JoinHandle<()>,
}

impl Health {
    /// Begins to serve; what is asked comes out of the receiver.
    pub(super) async fn serve(address: SocketAddr) -> Result<(Self, mpsc::Receiver<Question>), HealthError> {
        let listener = TcpListener::bind(address).await.map_err(|source| HealthError { address, source })?;
        let (questions, receiver) = mpsc::channel(4);
        let pages = Router::new()
            .route("/livez", get(async |State(questions)| ask(questions, Question::Live).await))
            .route("/readyz", get(async |State(questions)| ask(questions, Question::Ready).await))
            .with_state(questions);
        let task = tokio::spawn(async move {
            // It never ends by itself: errors of one connection are that connection's.
            let _ = axum::serve(listener, pages).await;
        });
        Ok((Self { task }, receiver))
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn ask(
    questions: Questions,
    question: fn(oneshot::Sender<Vec<String>>) -> Question,
) -> (StatusCode, String) {
    let answer = async {
        let (sender, answer) = oneshot::channel();
        questions.send(question(sender)).await.ok()?;
        answer.await.ok()
    };
    match timeout(PATIENCE, answer).await.ok().flatten() {
        Some(wrong) if wrong.is_empty() => (StatusCode::OK, "ok\n".to_owned()),
        Some(wrong) => (StatusCode::SERVICE_UNAVAILABLE, wrong.join("\n") + "\n"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the agent does not answer\n".to_owned()),
    }
}
