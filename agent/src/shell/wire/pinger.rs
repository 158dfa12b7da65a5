//! The thread that pings: it runs the witness, and ends with the agent.
//!
//! The event loop may be busy for tens of milliseconds with thousands of VIPs. A ping that is late
//! by that would look like a silent holder, so a thread of its own sends them, before all others of
//! the host where that is allowed. It decides nothing: what it finds goes to the engine.

use std::{
    any::Any,
    collections::BTreeSet,
    fmt, io,
    os::fd::AsFd,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::{
    errno::Errno,
    net::if_::if_nametoindex,
    poll::{PollFd, PollFlags, ppoll},
    sys::{
        eventfd::{EfdFlags, EventFd},
        time::TimeSpec,
    },
};
use thiserror::Error;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::{error, warn};
use vipward_common::{MacAddr, WireIndexKey, WireSeen};
use vipward_core::{
    cluster::Session,
    wire::{Act, Boottime, Counts, Finding, Plan, Received, Scale, Seen, Sight, Traffic, Wid, Witness},
};

use super::{
    Keys,
    asking::Asking,
    slots::Slots,
    socket::{Heard, Next, WireSocket},
    urgency::{Urgency, make_urgent},
};
use crate::shell::{
    bpf::{BpfError, WireMaps},
    causes::chain,
    clock,
};

#[cfg(test)]
mod tests;

/// Name of the thread, at most 15 bytes.
pub const THREAD: &str = "vipward-wire";
/// Number of frames that are read in one turn. A flood must not keep pings waiting.
const MOST_READ: usize = 64;
/// The shortest time between two turns. Whatever comes, the thread leaves its processor to others.
const SHORTEST: Duration = Duration::from_micros(200);
/// The longest time without a turn. The program's word that the session has ended wakes nobody.
const LONGEST: Duration = Duration::from_millis(100);
/// The time between two updates of what people see, and two looks at the interfaces' indexes.
const SHOW: Duration = Duration::from_secs(1);

/// Reason why the thread does not run, or no longer.
#[derive(Debug, Error)]
pub enum PingerError {
    /// The maps cannot be read or written.
    #[error("failed to {operation}")]
    Maps {
        /// The operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: BpfError,
    },
    /// A system call failed.
    #[error("failed to {operation}")]
    System {
        /// The operation.
        operation: &'static str,
        /// The kernel's error.
        #[source]
        source: Errno,
    },
    /// The thread cannot be started.
    #[error("failed to start the thread")]
    Thread(#[source] io::Error),
    /// It has panicked.
    #[error("the thread has panicked: {0}")]
    Panicked(Panic),
}

/// The message of a panic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic(String);

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn maps(operation: &'static str) -> impl FnOnce(BpfError) -> PingerError {
    move |source| PingerError::Maps { operation, source }
}

fn system(operation: &'static str) -> impl FnOnce(Errno) -> PingerError {
    move |source| PingerError::System { operation, source }
}

/// The state of the thread, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// The rights of the thread.
    pub urgency: Urgency,
    /// The traffic with each peer.
    pub traffic: Vec<Traffic>,
    /// What has happened.
    pub counts: Counts,
    /// Frames that could not be sent.
    pub unsent: u64,
    /// Frames that came to the agent and were not for it, or had a wrong tag.
    pub refused: u64,
    /// Peers for which the map has no slot.
    pub left_out: usize,
}

/// An order of the event loop.
enum Order {
    Plan(Plan),
    Keys(Keys),
}

/// The running thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Pinger {
    /// None only while this is dropped.
    orders: Option<mpsc::Sender<Order>>,
    wake: Arc<EventFd>,
    view: Arc<Mutex<Option<View>>>,
    thread: Option<JoinHandle<()>>,
    wid: Wid,
}

impl Pinger {
    /// Starts the thread. The receiver has what it finds, and ends when the thread does; the reason
    /// is logged.
    pub fn start(
        scale: Scale,
        mut maps_of: WireMaps,
    ) -> Result<(Self, UnboundedReceiver<Finding>), PingerError> {
        let wid = own_number(&mut maps_of)?;
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wake = Arc::new(EventFd::from_flags(flags).map_err(system("open an event counter"))?);
        let (orders, taken) = mpsc::channel();
        let (findings, found) = unbounded_channel();
        let view = Arc::new(Mutex::new(None));
        let mut turning = Turning::prepare(scale, wid, maps_of, taken, findings)?;
        let (woken, shown) = (Arc::clone(&wake), Arc::clone(&view));
        let run = move || {
            if let Err(ended) = guarded(|| turning.run(&woken, &shown)) {
                error!(
                    problem = chain(&ended),
                    "wire failover has ended on this node; its Lease alone counts"
                );
            }
            *shown.lock().unwrap_or_else(PoisonError::into_inner) = None;
        };
        let thread = thread::Builder::new().name(THREAD.to_owned()).spawn(run);
        let thread = Some(thread.map_err(PingerError::Thread)?);
        Ok((Self { orders: Some(orders), wake, view, thread, wid }, found))
    }

    /// Returns this node's number as a witness.
    pub fn wid(&self) -> Wid {
        self.wid
    }

    /// Returns what the thread does. None once it has ended, and before its first turn.
    pub fn view(&self) -> Option<View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it another plan.
    pub fn set_plan(&self, plan: Plan) {
        self.order(Order::Plan(plan));
    }

    /// Gives it other keys.
    pub fn set_keys(&self, keys: Keys) {
        self.order(Order::Keys(keys));
    }

    fn order(&self, order: Order) {
        // A thread that has ended takes no orders.
        if self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok()) {
            // The counter can only be full if the thread is to wake already.
            let _ = self.wake.write(1);
        }
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.wake.write(1);
        if let Some(thread) = self.thread.take() {
            // The thread catches its panics.
            let _ = thread.join();
        }
    }
}

/// Returns this node's number as a witness. Draws one if the maps are new.
fn own_number(of: &mut WireMaps) -> Result<Wid, PingerError> {
    if let Some(wid) = of.wid().map_err(maps("read this node's number as a witness"))? {
        return Ok(wid);
    }
    let wid = Wid::from_number(fastrand::u64(1..)).expect("invariant: one or more");
    of.set_wid(Some(wid)).map_err(maps("write this node's number as a witness"))?;
    Ok(wid)
}

/// Runs `run`. A panic becomes an error.
fn guarded(run: impl FnOnce() -> Result<(), PingerError>) -> Result<(), PingerError> {
    // Nothing of it is used after a panic.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(PingerError::Panicked(message(&*panic))))
}

fn message(panic: &(dyn Any + Send)) -> Panic {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Panic(text.unwrap_or("without a message").to_owned())
}

/// What the thread has.
struct Turning {
    witness: Witness,
    keys: Keys,
    /// None before the first plan: until then the program hears those whom an earlier process named.
    wanted: Option<Plan>,
    slots: Slots,
    /// The interfaces of the plan by name.
    interfaces: Vec<(Arc<str>, u32)>,
    maps: WireMaps,
    socket: WireSocket,
    asking: Vec<Asking>,
    orders: mpsc::Receiver<Order>,
    findings: UnboundedSender<Finding>,
    show_at: Boottime,
    unsent: u64,
    refused: u64,
    left_out: usize,
}

impl Turning {
    fn prepare(
        scale: Scale,
        wid: Wid,
        mut of: WireMaps,
        orders: mpsc::Receiver<Order>,
        findings: UnboundedSender<Finding>,
    ) -> Result<Self, PingerError> {
        let now = now()?;
        let index = of.index().map_err(maps("read the index of peers"))?;
        let is_used = |slot| of.seen(slot).is_ok_and(|seen| seen != WireSeen::default());
        let (slots, faulty) = Slots::start(index, is_used, now);
        for key in faulty {
            of.remove_index(key).map_err(maps("remove a peer from the index"))?;
        }
        Ok(Self {
            witness: Witness::new(scale, wid),
            keys: Keys::default(),
            wanted: None,
            slots,
            interfaces: Vec::new(),
            maps: of,
            socket: WireSocket::to_receive().map_err(system("open a packet socket"))?,
            asking: Vec::new(),
            orders,
            findings,
            show_at: now,
            unsent: 0,
            refused: 0,
            left_out: 0,
        })
    }

    fn run(&mut self, wake: &EventFd, shown: &Mutex<Option<View>>) -> Result<(), PingerError> {
        let urgency = make_urgent();
        loop {
            if !self.take_orders()? {
                return Ok(());
            }
            self.read_frames()?;
            let now = now()?;
            let seen = Sights { maps: &self.maps, slots: &self.slots, interfaces: &self.interfaces };
            let acts = self.witness.on_time(&seen, now);
            for act in acts {
                self.carry_out(act, now);
            }
            if self.show_at <= now {
                self.show_at = now + SHOW;
                self.find_interfaces(now)?;
                self.show(urgency, shown, now);
            }
            self.wait(wake)?;
        }
    }

    /// Takes the orders that wait. Returns false if the agent ends.
    fn take_orders(&mut self) -> Result<bool, PingerError> {
        let mut plan = None;
        loop {
            match self.orders.try_recv() {
                Ok(Order::Plan(newer)) => plan = Some(newer),
                Ok(Order::Keys(keys)) => self.keys = keys,
                Err(mpsc::TryRecvError::Empty) => break,
                Err(mpsc::TryRecvError::Disconnected) => return Ok(false),
            }
        }
        if let Some(plan) = plan {
            let now = now()?;
            self.wanted = Some(plan.clone());
            self.find_interfaces(now)?;
            self.witness.set_plan(plan, now);
        }
        Ok(true)
    }

    /// Finds the indexes of the plan's interfaces, and lets the program know who may be heard there.
    fn find_interfaces(&mut self, now: Boottime) -> Result<(), PingerError> {
        let Some(plan) = &self.wanted else { return Ok(()) };
        let ids = plan.ids();
        let ended = plan.ended.iter().flat_map(|ended| &ended.paths).map(|path| &path.interface);
        let names: BTreeSet<&Arc<str>> = ids.iter().map(|(_, interface)| interface).chain(ended).collect();
        // One that is gone has no index, and nobody is heard there.
        let found =
            names.into_iter().filter_map(|name| Some((Arc::clone(name), if_nametoindex(&**name).ok()?)));
        self.interfaces = found.collect();
        let key = |(id, interface): &(u64, Arc<str>)| {
            Some(WireIndexKey::new(*id, index_of(&self.interfaces, interface)?))
        };
        let wanted: BTreeSet<WireIndexKey> = ids.iter().filter_map(key).collect();
        let changes = self.slots.set(&wanted, now);
        for key in changes.removed {
            self.maps.remove_index(key).map_err(maps("remove a peer from the index"))?;
        }
        for (key, slot) in changes.added {
            self.maps.put_index(key, slot).map_err(maps("add a peer to the index"))?;
        }
        if changes.left_out > 0 && self.left_out == 0 {
            warn!(peers = changes.left_out, "too many peers for wire failover; some are not asked");
        }
        self.left_out = changes.left_out;
        Ok(())
    }

    fn read_frames(&mut self) -> Result<(), PingerError> {
        for _ in 0..MOST_READ {
            match self.socket.receive(&self.keys).map_err(system("receive a frame"))? {
                Next::Nothing => break,
                Next::Refused => self.refused += 1,
                Next::Frame(Heard { ifindex, from, frame }) => {
                    let interface = self.interfaces.iter().find(|(_, index)| *index == ifindex);
                    match interface {
                        Some((interface, _)) => {
                            let interface = Arc::clone(interface);
                            self.witness.on_frame(Received { interface, from, frame }, now()?);
                        }
                        None => self.refused += 1,
                    }
                }
            }
        }
        let now = now()?;
        let mut over = Vec::new();
        for (place, asking) in self.asking.iter().enumerate() {
            if asking.has_heard(MOST_READ) {
                self.witness.on_third_station(asking.session, now);
                over.push(place);
            } else if asking.until <= now {
                over.push(place);
            }
        }
        for place in over.into_iter().rev() {
            self.asking.swap_remove(place);
        }
        Ok(())
    }

    fn carry_out(&mut self, act: Act, now: Boottime) {
        match act {
            Act::Send { interface, to, key, frame } => {
                let sent = match (index_of(&self.interfaces, &interface), self.keys.get(key)) {
                    (Some(ifindex), Some(secret)) => {
                        self.socket.send(ifindex, to, (key, secret), frame).is_ok()
                    }
                    _ => false,
                };
                self.unsent += u64::from(!sent);
            }
            Act::AskNeighbours { session, interface, holder } => self.ask(session, &interface, holder, now),
            // The event loop ends before the thread does.
            Act::Report(finding) => drop(self.findings.send(finding)),
        }
    }

    fn ask(&mut self, session: Session, interface: &Arc<str>, holder: MacAddr, now: Boottime) {
        let Some(ifindex) = index_of(&self.interfaces, interface) else { return };
        self.asking.retain(|asking| asking.session != session || asking.ifindex != ifindex);
        match Asking::begin(session, ifindex, interface, holder, now) {
            Ok(asking) => self.asking.push(asking),
            Err(_) => self.unsent += 1,
        }
    }

    fn show(&self, urgency: Urgency, shown: &Mutex<Option<View>>, now: Boottime) {
        let view = View {
            urgency,
            traffic: self.witness.traffic(now),
            counts: self.witness.counts(),
            unsent: self.unsent,
            refused: self.refused,
            left_out: self.left_out,
        };
        // A reader may be slow: the next second will do.
        if let Ok(mut shown) = shown.try_lock() {
            *shown = Some(view);
        }
    }

    /// Waits for a frame, an order or the witness's deadline.
    fn wait(&self, wake: &EventFd) -> Result<(), PingerError> {
        thread::sleep(SHORTEST);
        let now = now()?;
        let deadline = self.witness.next_deadline().map_or(LONGEST, |next| next.saturating_since(now));
        let timeout = TimeSpec::from(deadline.min(LONGEST));
        let sockets = self.asking.iter().map(Asking::as_fd);
        let fds = [self.socket.as_fd(), wake.as_fd()].into_iter().chain(sockets);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match ppoll(&mut fds, Some(timeout), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(system("wait")(error)),
        }
        match wake.read() {
            Ok(_) | Err(Errno::EAGAIN) => Ok(()),
            Err(error) => Err(system("read the event counter")(error)),
        }
    }
}

fn now() -> Result<Boottime, PingerError> {
    clock::boottime_ns().map(Boottime::from_nanos).map_err(system("read the clock"))
}

fn index_of(interfaces: &[(Arc<str>, u32)], name: &str) -> Option<u32> {
    interfaces.iter().find(|(known, _)| **known == *name).map(|(_, index)| *index)
}

/// What the program has seen, by the maps.
struct Sights<'a> {
    maps: &'a WireMaps,
    slots: &'a Slots,
    interfaces: &'a [(Arc<str>, u32)],
}

impl Sights<'_> {
    fn of(&self, id: u64, interface: &str) -> Sight {
        let ifindex = index_of(self.interfaces, interface);
        let slot = ifindex.and_then(|ifindex| self.slots.of(WireIndexKey::new(id, ifindex)));
        // A map that cannot be read shows nothing; so nobody is found silent who was never heard.
        let seen = slot.and_then(|slot| self.maps.seen(slot).ok()).unwrap_or_default();
        Sight { answered: Boottime::from_nanos(seen.answered), heard: Boottime::from_nanos(seen.heard) }
    }
}

impl Seen for Sights<'_> {
    fn holder(&self, session: Session, interface: &str) -> Sight {
        self.of(session.number(), interface)
    }

    fn witness(&self, witness: Wid, interface: &str) -> Sight {
        self.of(witness.number(), interface)
    }

    fn ended(&self) -> Option<Session> {
        self.maps.ended().ok().and_then(Session::from_number)
    }
}
