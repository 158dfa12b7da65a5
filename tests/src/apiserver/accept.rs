//! Accepting connections, and serving HTTP/1.1 on each in a task of its own.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use super::{answer, connections::ConnectionId, shared::Shared};

/// The task that accepts connections, until it is stopped.
#[derive(Debug)]
pub(super) struct Accepting {
    stop: oneshot::Sender<()>,
    /// Closed when the task has ended. The mutex is there for `Sync` alone.
    ended: Mutex<mpsc::Receiver<()>>,
}

impl Accepting {
    /// Returns when the server accepts no more connections.
    ///
    /// If a socket listened again while a task still waited for it, it would keep that task busy
    /// for ever: tokio does not forget that a socket was closed.
    pub(super) fn stop(self) {
        // A task without a receiver has ended.
        self.stop.send(()).unwrap_or_default();
        // The task sends nothing, and closes the channel when it ends.
        self.ended.into_inner().unwrap_or_else(PoisonError::into_inner).recv().unwrap_or_default();
    }
}

pub(super) fn accept(shared: &Arc<Shared>, listener: TcpListener, runtime: &Handle) -> io::Result<Accepting> {
    listener.set_nonblocking(true)?;
    let _guard = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let shared = Arc::clone(shared);
    let (stop, mut stopped) = oneshot::channel();
    let (ending, ended) = mpsc::channel();
    runtime.spawn(async move {
        let _ending: mpsc::Sender<()> = ending;
        loop {
            let accepted = tokio::select! {
                _ = &mut stopped => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // The client has closed it already.
                tokio::task::yield_now().await;
                continue;
            };
            let serving = Arc::clone(&shared);
            shared.connections.add(|id| tokio::spawn(serve(serving, stream, id)).abort_handle());
        }
        drop(listener);
    });
    Ok(Accepting { stop, ended: Mutex::new(ended) })
}

/// First byte of a client's TLS handshake. No method of HTTP begins with it.
const HANDSHAKE: u8 = 22;

async fn serve(shared: Arc<Shared>, stream: TcpStream, id: ConnectionId) {
    // Without this option small answers may wait for an acknowledgement. A failure costs only time.
    drop(stream.set_nodelay(true));
    let mut first = [0];
    let has_begun = stream.peek(&mut first).await.is_ok();
    match shared.tls().filter(|_| has_begun && first == [HANDSHAKE]) {
        Some(tls) => {
            // A client that does not trust the certificate goes away.
            if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                serve_http(&shared, stream, id).await;
            }
        }
        None => serve_http(&shared, stream, id).await,
    }
    shared.connections.remove(id);
}

async fn serve_http(shared: &Arc<Shared>, stream: impl AsyncRead + AsyncWrite + Unpin, id: ConnectionId) {
    let service = service_fn(|request| answer::answer(Arc::clone(shared), id, request));
    let connection =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
    // A connection that fails was closed by its client, or dropped on purpose.
    drop(connection.await);
}
