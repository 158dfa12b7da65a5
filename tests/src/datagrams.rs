//! What a user feels: a client's kernel sends a datagram to a VIP every millisecond, and the nodes write down which of
//! them arrive.
//!
//! The client's own neighbour cache finds the VIP, as it would for any application. Datagrams are numbered; what no
//! node has received is lost.

mod report;

use std::io::{ErrorKind, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};
use ipnet::Ipv4Net;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrIn, bind, recvmsg, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeSpec;

pub use report::{DatagramReport, Interruption, Received};

use crate::lan::Host;
use crate::wait::{wait_for, wait_until};

/// How often a datagram is sent.
pub const INTERVAL: Duration = Duration::from_millis(1);
/// Enough for seconds of datagrams while a receiver does not run.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// How often a receiver looks whether it shall end.
const STOP_POLL: Duration = Duration::from_millis(20);
/// How long the last datagrams may be under way: the client's kernel asks for a neighbour once a second.
const LAST_LIMIT: Duration = Duration::from_secs(2);
/// Which flow, and the number of the datagram.
const PAYLOAD_LEN: usize = 8;

/// Puts a VIP on `lo` of a node, so that its kernel delivers what is sent to the VIP. The kernel would answer for it
/// too, on every interface: `arp_ignore` stays what it is.
pub fn bind_locally(host: &Host, vip: Ipv4Addr) -> Result<()> {
    host.add_address("lo", Ipv4Net::from(vip))
}

/// Takes it away again.
pub fn unbind_locally(host: &Host, vip: Ipv4Addr) -> Result<()> {
    host.delete_address("lo", Ipv4Net::from(vip))
}

/// A client that sends and nodes that receive, until it is stopped or dropped.
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
    /// Begins to receive on `nodes`, whose kernels deliver while they have the address bound, and then to send from `client`.
    pub fn start(client: &Host, target: SocketAddrV4, nodes: &[&Host]) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
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
            client.run(|| UdpSocket::bind("0.0.0.0:0")).context("failed to open a socket to send from")?;
        let sender = thread::Builder::new().name("datagram-sender".to_owned());
        let sender = sender.spawn(move || send_all(&socket, target, &shared));
        datagrams.sender = Some(sender.context("failed to start a sender thread")?);
        Ok(datagrams)
    }

    /// How many were sent so far: the number of the next one.
    pub fn sent(&self) -> usize {
        self.report_now().sent.len()
    }

    /// Waits until `count` more have been sent.
    pub fn wait_for_sent(&self, count: usize, limit: Duration) -> Result<()> {
        let enough = self.sent() + count;
        wait_until(limit, &format!("{count} more datagrams"), || self.alive().map(|()| self.sent() >= enough))
    }

    /// Waits until a datagram that is sent from now on has been received, and says by which node.
    pub fn wait_until_received(&self, limit: Duration) -> Result<Received> {
        self.wait_for_receipt(limit, "a datagram to be received", |_| true)
    }

    /// Waits until a datagram that is sent from now on has been received by `node`.
    pub fn wait_until_received_by(&self, node: &str, limit: Duration) -> Result<Received> {
        self.wait_for_receipt(limit, &format!("a datagram to be received by {node}"), |received| {
            received.node == node
        })
    }

    /// What is known so far. The last datagrams may still be under way, and count as lost.
    pub fn report(&self) -> DatagramReport {
        self.report_now().clone()
    }

    /// Stops sending, waits for what is still under way, and reports.
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

    /// Fails when a thread has ended: then nothing more will be sent or seen.
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
            // Whatever has not come by then is lost, which is not for this to judge.
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

fn send_all(socket: &UdpSocket, target: SocketAddrV4, shared: &Shared) -> Result<()> {
    let mut due = Instant::now();
    for number in 0_u32.. {
        if shared.stop_sending.load(Ordering::Relaxed) {
            break;
        }
        lock(shared).sent.push(SystemTime::now());
        let payload = [shared.flow.to_be_bytes(), number.to_be_bytes()].concat();
        match socket.send_to(&payload, target) {
            Ok(_) => {}
            // The kernel gave up on it: lost, as the application would find.
            Err(error) if is_loss(error.kind()) || error.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(error) => return Err(error).with_context(|| format!("failed to send to {target}")),
        }
        // What this thread was too late for is left out, not made up for in a burst.
        due = (due + INTERVAL).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn is_loss(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown)
}

fn start_receiver(node: &Host, target: SocketAddrV4, shared: &Arc<Shared>) -> Result<JoinHandle<Result<()>>> {
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

/// A socket for an address that the node may get only later, and may lose and get again.
fn receiving_socket(target: SocketAddrV4) -> Result<UdpSocket> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::IpFreebind, &true)
        .context("failed to allow an address that is not there yet")?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).context("failed to ask for timestamps")?;
    setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES)
        .context("failed to enlarge the receive buffer")?;
    bind(socket.as_raw_fd(), &SockaddrIn::from(target)).context("failed to bind")?;
    Ok(UdpSocket::from(socket))
}

/// Flow, number and time of the next datagram; none when none comes in a while, or it is not ours.
fn receive(socket: &UdpSocket) -> Result<Option<(u32, u32, SystemTime)>> {
    let mut bytes = [0; PAYLOAD_LEN];
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let message =
        match recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut slices, Some(&mut control), MsgFlags::empty()) {
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
