//! Measures a VIP as an application does: a client's kernel sends a datagram
//! to it every millisecond, and the nodes record those that arrive.
//! The client's neighbour cache finds the VIP, as for any application.
//! Datagrams are numbered; one that no node has received is lost.

mod report;

use std::io::{ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};
use ipnet::IpNet;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage, bind, recvmsg,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;

pub use self::report::{DatagramReport, INTERVAL, Interruption, Received};

use crate::{
    frames::Family,
    kit::{wait_for, wait_until},
    lan::{Host, set_option},
};

/// Size of a receiver's buffer: seconds of datagrams, in case the receiver does not run.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Interval at which a receiver checks for the end.
const STOP_POLL: Duration = Duration::from_millis(20);
/// Longest time on the way: the client's kernel requests a neighbour once a second.
const LAST_LIMIT: Duration = Duration::from_secs(2);
/// Size of the content: flow and number of the datagram.
const PAYLOAD_LEN: usize = 8;

/// Puts a VIP on `lo` of a node, so that its kernel delivers datagrams to the VIP. The
/// kernel may then answer for the VIP on every interface: `arp_ignore` is not changed.
pub fn bind_locally(host: &Host, vip: impl Into<IpAddr>) -> Result<()> {
    host.add_address("lo", IpNet::from(vip.into()))
}

/// Removes a VIP from `lo` of a node.
pub fn unbind_locally(host: &Host, vip: impl Into<IpAddr>) -> Result<()> {
    host.delete_address("lo", IpNet::from(vip.into()))
}

/// Client that sends and nodes that receive, until it is stopped or dropped.
#[derive(Debug)]
pub struct Datagrams {
    shared: Arc<Shared>,
    sender: Option<JoinHandle<Result<()>>>,
    receivers: Vec<JoinHandle<Result<()>>>,
}

#[derive(Debug)]
struct Shared {
    flow: u32,
    stop_sending: AtomicBool,
    stop_receiving: AtomicBool,
    report: Mutex<DatagramReport>,
}

impl Datagrams {
    /// Starts to receive on `nodes`, then to send from `client`.
    /// A node's kernel delivers while it has the address.
    pub fn start(client: &Host, target: impl Into<SocketAddr>, nodes: &[&Host]) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let target = target.into();
        let any = Family::of(target.ip()).unspecified();
        let shared = Arc::new(Shared {
            flow: NEXT.fetch_add(1, Ordering::Relaxed),
            stop_sending: AtomicBool::new(false),
            stop_receiving: AtomicBool::new(false),
            report: Mutex::new(DatagramReport::new(target)),
        });
        let mut datagrams = Self { shared: Arc::clone(&shared), sender: None, receivers: Vec::new() };
        for node in nodes {
            datagrams.receivers.push(start_receiver(node, target, &shared)?);
        }
        let socket =
            client.run(|| UdpSocket::bind((any, 0))).context("failed to open a socket to send from")?;
        let sender = thread::Builder::new().name("datagram-sender".to_owned());
        let sender = sender.spawn(move || send_all(&socket, target, &shared));
        datagrams.sender = Some(sender.context("failed to start a sender thread")?);
        Ok(datagrams)
    }

    /// Returns the number of datagrams sent so far, which is the number of the next one.
    pub fn sent(&self) -> usize {
        self.report_now().sent.len()
    }

    /// Waits until `count` more datagrams are sent.
    pub fn wait_for_sent(&self, count: usize, limit: Duration) -> Result<()> {
        let enough = self.sent() + count;
        wait_until(limit, &format!("{count} more datagrams"), || self.alive().map(|()| self.sent() >= enough))
    }

    /// Waits until a datagram sent from now on arrives, and returns the receiving node.
    pub fn wait_until_received(&self, limit: Duration) -> Result<Received> {
        self.wait_for_receipt(limit, "a datagram to be received", |_| true)
    }

    /// Waits until `node` receives a datagram sent from now on.
    pub fn wait_until_received_by(&self, node: &str, limit: Duration) -> Result<Received> {
        self.wait_for_receipt(limit, &format!("a datagram to be received by {node}"), |received| {
            received.node == node
        })
    }

    /// Returns the report so far. Datagrams that are still on the way count as lost.
    pub fn report(&self) -> DatagramReport {
        self.report_now().clone()
    }

    /// Stops sending, waits for the last datagrams, and returns the report.
    pub fn stop(mut self) -> Result<DatagramReport> {
        self.end()?;
        Ok(self.report())
    }

    fn wait_for_receipt(
        &self,
        limit: Duration,
        what: &str,
        is_it: impl Fn(&Received) -> bool,
    ) -> Result<Received> {
        let first = self.sent();
        let found = wait_for(limit, what, || {
            self.alive()?;
            let report = self.report_now();
            Ok(report
                .received
                .iter()
                .rev()
                .find(|received| received.number >= first && is_it(received))
                .cloned())
        });
        found.with_context(|| format!("what was seen:\n{}", self.report()))
    }

    /// Fails if a thread has ended, because nothing more would be sent or received.
    fn alive(&self) -> Result<()> {
        let ended = self.sender.iter().chain(&self.receivers).any(JoinHandle::is_finished);
        ensure!(!ended, "sending or receiving has ended by itself; stopping it says why");
        Ok(())
    }

    fn report_now(&self) -> MutexGuard<'_, DatagramReport> {
        lock(&self.shared)
    }

    fn end(&mut self) -> Result<()> {
        self.shared.stop_sending.store(true, Ordering::Relaxed);
        let sent = self.sender.take().map_or(Ok(()), join);
        let deadline = Instant::now() + LAST_LIMIT;
        if !self.receivers.is_empty() {
            // The report shows datagrams that have not arrived by now as lost.
            let _ =
                wait_until(deadline.saturating_duration_since(Instant::now()), "the last datagram", || {
                    Ok(self.report_now().last_has_arrived())
                });
        }
        self.shared.stop_receiving.store(true, Ordering::Relaxed);
        let received: Vec<_> = self.receivers.drain(..).map(join).collect();
        received.into_iter().fold(sent, Result::and)
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("{error:#}");
        }
    }
}

fn join(thread: JoinHandle<Result<()>>) -> Result<()> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("a datagram thread panicked")))
}

fn send_all(socket: &UdpSocket, target: SocketAddr, shared: &Shared) -> Result<()> {
    let mut due = Instant::now();
    for number in 0_u32.. {
        if shared.stop_sending.load(Ordering::Relaxed) {
            break;
        }
        lock(shared).sent.push(SystemTime::now());
        let payload = [shared.flow.to_be_bytes(), number.to_be_bytes()].concat();
        match socket.send_to(&payload, target) {
            Ok(_) => {}
            // The kernel gave up on the datagram, which is lost for an application too.
            Err(error) if is_loss(error.kind()) || error.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(error) => return Err(error).with_context(|| format!("failed to send to {target}")),
        }
        // Skips what this thread is too late for, instead of sending a burst.
        due = (due + INTERVAL).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn is_loss(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown)
}

fn start_receiver(node: &Host, target: SocketAddr, shared: &Arc<Shared>) -> Result<JoinHandle<Result<()>>> {
    let socket = node.run(|| receiving_socket(target));
    let socket = socket.with_context(|| format!("failed to receive at {target} on {}", node.name()))?;
    socket.set_read_timeout(Some(STOP_POLL)).context("failed to limit the wait for a datagram")?;
    let (shared, name) = (Arc::clone(shared), node.name().to_owned());
    thread::Builder::new()
        .name("datagram-receiver".to_owned())
        .spawn(move || {
            while !shared.stop_receiving.load(Ordering::Relaxed) {
                if let Some((flow, number, at)) = receive(&socket)?
                    && flow == shared.flow
                {
                    let number = usize::try_from(number).context("invariant: 32 bits fit")?;
                    lock(&shared).received.push(Received { number, node: name.clone(), at });
                }
            }
            Ok(())
        })
        .context("failed to start a receiver thread")
}

/// Returns a socket for an address that the node may get later, lose, and get again.
fn receiving_socket(target: SocketAddr) -> Result<UdpSocket> {
    let family = if target.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let freebind = match target {
        SocketAddr::V4(_) => setsockopt(&socket, sockopt::IpFreebind, &true).map_err(Into::into),
        SocketAddr::V6(_) => set_option(&socket, libc::SOL_IPV6, libc::IPV6_FREEBIND, &1_i32),
    };
    freebind.context("failed to allow an address that is not there yet")?;
    // A child of another test keeps a copy of a closed socket, between its fork and its program.
    setsockopt(&socket, sockopt::ReuseAddr, &true).context("failed to share an address")?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).context("failed to ask for timestamps")?;
    setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES)
        .context("failed to enlarge the receive buffer")?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(target)).context("failed to bind")?;
    Ok(UdpSocket::from(socket))
}

/// Returns flow, number and time of the next datagram. Returns
/// `None` if none arrives for a while, or if it is foreign.
fn receive(socket: &UdpSocket) -> Result<Option<(u32, u32, SystemTime)>> {
    let mut bytes = [0; PAYLOAD_LEN];
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let message = match recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut slices,
        Some(&mut control),
        MsgFlags::empty(),
    ) {
        Ok(message) => message,
        Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
        Err(error) => return Err(error).context("failed to receive a datagram"),
    };
    let stamped = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(SystemTime::UNIX_EPOCH + Duration::from(stamp)),
        _ => None,
    });
    let at = stamped.context("a datagram came without a timestamp")?;
    if message.bytes != PAYLOAD_LEN {
        return Ok(None);
    }
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("invariant: four bytes"));
    Ok(Some((word(0), word(4), at)))
}

fn lock(shared: &Shared) -> MutexGuard<'_, DatagramReport> {
    shared.report.lock().unwrap_or_else(PoisonError::into_inner)
}
