//! The way to the API server: connections that nodes make to the control host go on to an upstream, unless a node is
//! cut off.
//!
//! Bytes pass as they are, TLS too. The listening socket is in the control host's network namespace, the connections
//! to the upstream are made from this process's own.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener as StdListener};
use std::sync::{Mutex, PoisonError};
use std::{future, io};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::lan::Host;

const BUFFER_BYTES: usize = 64 << 10;

/// How a node is cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Nothing passes and nobody is told: connections stay as they are, new ones come about and stay silent. What was
    /// sent meanwhile passes when the node is reconnected, as from a kernel that has sent it again and again.
    Silent,
    /// Connections are reset, new ones too.
    Reset,
}

/// A forwarder; it ends when dropped.
#[derive(Debug)]
pub struct Forwarder {
    host: Host,
    listen: SocketAddrV4,
    upstream: SocketAddr,
    cuts: watch::Sender<BTreeMap<Ipv4Addr, Cut>>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
    /// Last: what runs on it ends with it.
    runtime: Runtime,
}

impl Forwarder {
    /// Begins to listen on an address of `host`, and to forward to `upstream`.
    pub fn start(host: &Host, listen: SocketAddrV4, upstream: SocketAddr) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("api-forwarder")
            .enable_all()
            .build()
            .context("failed to make a runtime for a forwarder")?;
        let (cuts, _) = watch::channel(BTreeMap::new());
        let forwarder =
            Self { host: host.clone(), listen, upstream, cuts, acceptor: Mutex::default(), runtime };
        forwarder.listen()?;
        Ok(forwarder)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddrV4 {
        self.listen
    }

    /// Cuts one source address off.
    pub fn cut_off(&self, source: Ipv4Addr, cut: Cut) {
        self.cuts.send_modify(|cuts| {
            cuts.insert(source, cut);
        });
    }

    /// Lets one source address through again.
    pub fn reconnect(&self, source: Ipv4Addr) {
        self.cuts.send_modify(|cuts| {
            cuts.remove(&source);
        });
    }

    /// Refuses every new connection and resets those that exist, as a host does on which nothing listens.
    pub fn refuse_all(&self) {
        // Its connections end with it.
        if let Some(acceptor) = self.acceptor().take() {
            acceptor.abort();
            // The port is free when this returns.
            let _ = self.runtime.block_on(acceptor);
        }
    }

    /// Lets everybody through again.
    pub fn heal(&self) -> Result<()> {
        self.cuts.send_modify(BTreeMap::clear);
        if self.acceptor().is_none() { self.listen() } else { Ok(()) }
    }

    fn listen(&self) -> Result<()> {
        let listener = self.host.run(|| StdListener::bind(self.listen));
        let listener = listener
            .with_context(|| format!("failed to listen at {} on {}", self.listen, self.host.name()))?;
        listener.set_nonblocking(true).context("failed to prepare the listening socket")?;
        let _inside = self.runtime.enter();
        let listener = TcpListener::from_std(listener).context("failed to adopt the listening socket")?;
        let accepting = accept(listener, self.upstream, self.cuts.subscribe());
        *self.acceptor() = Some(self.runtime.spawn(accepting));
        Ok(())
    }

    fn acceptor(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.acceptor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Cuts = watch::Receiver<BTreeMap<Ipv4Addr, Cut>>;

/// Accepts until it is aborted; then its connections are reset.
async fn accept(listener: TcpListener, upstream: SocketAddr, cuts: Cuts) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, SocketAddr::V4(from))) = accepted else { continue };
                // Until it ends in order, its end is a reset.
                if client.set_zero_linger().is_ok() {
                    connections.spawn(forward(client, *from.ip(), upstream, cuts.clone()));
                }
            }
            // How one ended is for its two ends to find out.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn forward(
    mut client: TcpStream,
    source: Ipv4Addr,
    upstream: SocketAddr,
    cuts: Cuts,
) -> io::Result<()> {
    let gate = Gate { source, cuts };
    let mut reset = gate.clone();
    tokio::select! {
        () = reset.reset() => Ok(()),
        relayed = relay(&mut client, upstream, gate) => {
            relayed?;
            // Both sides have said all: an orderly end.
            socket_closes_in_order(&client)
        }
    }
}

async fn relay(client: &mut TcpStream, upstream: SocketAddr, mut gate: Gate) -> io::Result<()> {
    gate.open().await;
    let mut upstream = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_upstream, to_upstream) = upstream.split();
    let back = gate.clone();
    tokio::try_join!(pass(from_client, to_upstream, gate), pass(from_upstream, to_client, back))?;
    Ok(())
}

/// Passes bytes on in one direction until they end.
async fn pass(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut gate: Gate) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        gate.open().await;
        let read = tokio::select! {
            read = from.read(&mut buffer) => read?,
            () = gate.changed() => continue,
        };
        // What came just when the node was cut off is held back too.
        gate.open().await;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}

fn socket_closes_in_order(client: &TcpStream) -> io::Result<()> {
    nix::sys::socket::setsockopt(
        client,
        nix::sys::socket::sockopt::Linger,
        &libc::linger { l_onoff: 0, l_linger: 0 },
    )
    .map_err(io::Error::from)
}

/// Whether a source address may pass.
#[derive(Clone, Debug)]
struct Gate {
    source: Ipv4Addr,
    cuts: Cuts,
}

impl Gate {
    /// Waits until the source is not cut off.
    async fn open(&mut self) {
        self.wait_until(|cut| cut.is_none()).await;
    }

    /// Waits until the source's connections are to be reset.
    async fn reset(&mut self) {
        self.wait_until(|cut| cut == Some(Cut::Reset)).await;
    }

    /// Waits until somebody is cut off or reconnected.
    async fn changed(&mut self) {
        if self.cuts.changed().await.is_err() {
            // The forwarder is going, and this task with it.
            future::pending::<()>().await;
        }
    }

    async fn wait_until(&mut self, is_it: impl Fn(Option<Cut>) -> bool) {
        let source = self.source;
        if self.cuts.wait_for(|cuts| is_it(cuts.get(&source).copied())).await.is_err() {
            future::pending::<()>().await;
        }
    }
}
