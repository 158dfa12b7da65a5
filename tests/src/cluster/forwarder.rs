//! Forwards connections of nodes from the control host to the API server, unless a node is cut off.
//! It does not look into the bytes, which may be TLS. The listening socket is in the control
//! host's network namespace; connections to the upstream start in this process's own.
//!
//! Nodes can be API servers too: each then has a socket that forwards to the same upstream. The
//! control host behaves like kube-proxy: it picks one of them for each connection, also one that is
//! dead, whose connections then hang.

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

/// Way to cut a node off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Drops all traffic: connections stay open, also new ones. Bytes sent
    /// meanwhile pass after the reconnection, as if a kernel had retransmitted them.
    Silent,
    /// Resets connections, also new ones.
    Reset,
}

/// Forwarder. Dropping it ends it.
#[derive(Debug)]
pub struct Forwarder {
    host: Host,
    listen: SocketAddrV4,
    upstream: SocketAddr,
    cuts: watch::Sender<BTreeMap<Ipv4Addr, Cut>>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
    /// The nodes that are API servers. Empty: the upstream alone is one.
    servers: watch::Sender<Vec<Ipv4Addr>>,
    /// Last field: its tasks end with it.
    runtime: Runtime,
}

impl Forwarder {
    /// Starts to listen on an address of `host` and to forward to `upstream`.
    pub fn start(host: &Host, listen: SocketAddrV4, upstream: SocketAddr) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("api-forwarder")
            .enable_all()
            .build()
            .context("failed to make a runtime for a forwarder")?;
        let (cuts, _) = watch::channel(BTreeMap::new());
        let (servers, acceptor) = (watch::Sender::default(), Mutex::default());
        let forwarder = Self { host: host.clone(), listen, upstream, cuts, acceptor, servers, runtime };
        forwarder.listen()?;
        Ok(forwarder)
    }

    pub fn address(&self) -> SocketAddrV4 {
        self.listen
    }

    pub fn cut_off(&self, source: Ipv4Addr, cut: Cut) {
        self.cuts.send_modify(|cuts| {
            cuts.insert(source, cut);
        });
    }

    pub fn reconnect(&self, source: Ipv4Addr) {
        self.cuts.send_modify(|cuts| {
            cuts.remove(&source);
        });
    }

    /// Refuses new connections and resets existing ones, like a host without a listener.
    pub fn refuse_all(&self) {
        // Its connections end with this task.
        if let Some(acceptor) = self.acceptor().take() {
            acceptor.abort();
            // Afterwards the port is free.
            let _ = self.runtime.block_on(acceptor);
        }
    }

    /// Reconnects every source address.
    pub fn heal(&self) -> Result<()> {
        self.cuts.send_modify(BTreeMap::clear);
        if self.acceptor().is_none() { self.listen() } else { Ok(()) }
    }

    fn listen(&self) -> Result<()> {
        let accepting = self.accept_on(&self.host, self.listen, self.servers.subscribe())?;
        *self.acceptor() = Some(accepting);
        Ok(())
    }

    /// Makes the host at this address an API server, at the port of this forwarder.
    pub(super) fn add_server(&self, host: &Host, address: Ipv4Addr) -> Result<()> {
        let this = watch::Sender::new(vec![address]);
        self.accept_on(host, SocketAddrV4::new(address, self.listen.port()), this.subscribe())?;
        Ok(())
    }

    /// Sets the API servers among which connections to this forwarder's own address are shared.
    pub(super) fn set_servers(&self, servers: Vec<Ipv4Addr>) {
        self.servers.send_replace(servers);
    }

    fn accept_on(
        &self,
        host: &Host,
        listen: SocketAddrV4,
        servers: watch::Receiver<Vec<Ipv4Addr>>,
    ) -> Result<JoinHandle<()>> {
        let listener = host.run(|| StdListener::bind(listen));
        let listener =
            listener.with_context(|| format!("failed to listen at {listen} on {}", host.name()))?;
        listener.set_nonblocking(true).context("failed to prepare the listening socket")?;
        let _inside = self.runtime.enter();
        let listener = TcpListener::from_std(listener).context("failed to adopt the listening socket")?;
        Ok(self.runtime.spawn(accept(listener, self.upstream, self.cuts.subscribe(), servers)))
    }

    fn acceptor(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.acceptor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Cuts = watch::Receiver<BTreeMap<Ipv4Addr, Cut>>;

/// Accepts connections until it is aborted, which resets them.
async fn accept(
    listener: TcpListener,
    upstream: SocketAddr,
    cuts: Cuts,
    servers: watch::Receiver<Vec<Ipv4Addr>>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, SocketAddr::V4(from))) = accepted else { continue };
                // An early end of the connection is a reset.
                if client.set_zero_linger().is_ok() {
                    let server = fastrand::choice(servers.borrow().iter().copied());
                    let gate = Gate { source: *from.ip(), server, cuts: cuts.clone() };
                    connections.spawn(forward(client, upstream, gate));
                }
            }
            // The two ends see how a connection ended.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn forward(mut client: TcpStream, upstream: SocketAddr, gate: Gate) -> io::Result<()> {
    let mut reset = gate.clone();
    tokio::select! {
        () = reset.reset() => Ok(()),
        relayed = relay(&mut client, upstream, gate) => {
            relayed?;
            // Both sides have closed: the end is orderly.
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

/// Copies bytes in one direction until their end.
async fn pass(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut gate: Gate) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        gate.open().await;
        let read = tokio::select! {
            read = from.read(&mut buffer) => read?,
            () = gate.changed() => continue,
        };
        // Bytes that arrive during the cut wait too.
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

/// State of one source address, and of the API server of a connection.
#[derive(Clone, Debug)]
struct Gate {
    source: Ipv4Addr,
    /// None: the upstream, which is no node.
    server: Option<Ipv4Addr>,
    cuts: Cuts,
}

impl Gate {
    /// Waits until the source may pass.
    async fn open(&mut self) {
        self.wait_until(|cut| cut.is_none()).await;
    }

    /// Waits until the source's connections must be reset.
    async fn reset(&mut self) {
        self.wait_until(|cut| cut == Some(Cut::Reset)).await;
    }

    /// Waits for a change of any source.
    async fn changed(&mut self) {
        if self.cuts.changed().await.is_err() {
            // The forwarder is ending, and this task with it.
            future::pending::<()>().await;
        }
    }

    async fn wait_until(&mut self, is_it: impl Fn(Option<Cut>) -> bool) {
        let (source, server) = (self.source, self.server);
        let cut = |cuts: &BTreeMap<Ipv4Addr, Cut>| {
            let mut cuts = [Some(source), server].into_iter().flatten().filter_map(|host| cuts.get(&host));
            cuts.next().copied()
        };
        if self.cuts.wait_for(|cuts| is_it(cut(cuts))).await.is_err() {
            future::pending::<()>().await;
        }
    }
}
