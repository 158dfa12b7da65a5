//! The listeners of the endpoints. They limit the number and the idle time of connections, since anyone
//! may reach an address of the node.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep},
};

/// The most connections to an address at a time. More wait in the kernel.
const MOST: usize = 32;
/// The longest idle time of a connection, also between two requests.
const IDLE: Duration = Duration::from_secs(10);

pub(super) struct BoundedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl BoundedListener {
    pub(super) async fn open(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, places: Arc::new(Semaphore::new(MOST)) })
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("invariant: it is never closed");
        // This never fails. Without free descriptors it waits.
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        (Connection { stream, idle: Box::pin(sleep(IDLE)), _place: place }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PeerAddress(pub(super) SocketAddr);

impl Connected<IncomingStream<'_, BoundedListener>> for PeerAddress {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// A connection. It keeps its place among `MOST` until it is closed.
pub(super) struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Returns the result of a read or a write, or an error after the idle time.
    fn unless_idle<T>(&mut self, cx: &mut Context<'_>, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE);
            return moved;
        }
        self.idle.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.unless_idle(cx, read)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, data);
        self.unless_idle(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.unless_idle(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
