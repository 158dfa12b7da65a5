//! The loop of the thread: it reads frames, steps the monitor, and waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::AsFd,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    net::if_::if_nametoindex,
    poll::{PollFd, PollFlags, ppoll},
    sys::{eventfd::EventFd, time::TimeSpec},
};
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;
use vipward_common::{MacAddr, WireIndexKey, WireSeen};
use vipward_core::{
    base::time::Boottime,
    liveness::{Act, Finding, Kind, Monitor, Plan, Received, Scale, Thread},
    records::{Session, Wid},
};

use super::{
    error::{PingerError, maps, system},
    peer_records::{PeerRecords, index_of},
};
use crate::shell::kernel::{
    bpf::WireMaps,
    clock,
    liveness::{
        Keys,
        neighbour_probe::NeighbourProbe,
        slots::Slots,
        socket::{Incoming, Next, WireSocket},
        urgency::{Urgency, make_urgent},
    },
};

/// Number of frames that are read in one turn. A flood must not keep pings waiting.
const MOST_READ: usize = 64;
/// The shortest time between two turns. Whatever comes, the thread leaves its processor to others.
const SHORTEST: Duration = Duration::from_micros(200);
/// The longest time without a turn: an expiry notice, which the program records, does not wake the
/// thread.
const LONGEST: Duration = Duration::from_millis(100);
/// The time between two updates of the shown state, and between two readings of the interfaces'
/// indexes.
const SHOW: Duration = Duration::from_secs(1);

pub(super) enum Order {
    Plan(Plan),
    Keys(Keys),
}

pub(super) struct PingLoop {
    monitor: Monitor,
    keys: Keys,
    /// None before the first plan: until then the program accepts the peers of an earlier process.
    wanted: Option<Plan>,
    slots: Slots,
    /// The interfaces of the plan by name.
    interfaces: Vec<(Arc<str>, u32)>,
    maps: WireMaps,
    socket: WireSocket,
    probes: Vec<NeighbourProbe>,
    orders: mpsc::Receiver<Order>,
    findings: UnboundedSender<Finding>,
    show_at: Boottime,
    unsent: u64,
    refused: u64,
    left_out: usize,
}

impl PingLoop {
    pub(super) fn prepare(
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
            monitor: Monitor::new(scale, wid),
            keys: Keys::default(),
            wanted: None,
            slots,
            interfaces: Vec::new(),
            maps: of,
            socket: WireSocket::to_receive().map_err(system("open a packet socket"))?,
            probes: Vec::new(),
            orders,
            findings,
            show_at: now,
            unsent: 0,
            refused: 0,
            left_out: 0,
        })
    }

    pub(super) fn run(&mut self, wake: &EventFd, shown: &Mutex<Option<Thread>>) -> Result<(), PingerError> {
        let urgency = make_urgent();
        loop {
            if !self.take_orders()? {
                return Ok(());
            }
            self.read_frames()?;
            let now = now()?;
            let seen = PeerRecords { maps: &self.maps, slots: &self.slots, interfaces: &self.interfaces };
            let acts = self.monitor.on_time(&seen, now);
            self.carry_out(acts, now);
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
                Ok(Order::Keys(keys)) => {
                    if keys.replaces_any_of(&self.keys) {
                        self.monitor.forget_answers(now()?);
                    }
                    self.keys = keys;
                }
                Err(mpsc::TryRecvError::Empty) => break,
                Err(mpsc::TryRecvError::Disconnected) => return Ok(false),
            }
        }
        if let Some(plan) = plan {
            let now = now()?;
            self.wanted = Some(plan.clone());
            self.find_interfaces(now)?;
            self.monitor.set_plan(plan, now);
        }
        Ok(true)
    }

    /// Finds the indexes of the plan's interfaces, and makes the program accept the peers there.
    fn find_interfaces(&mut self, now: Boottime) -> Result<(), PingerError> {
        let Some(plan) = &self.wanted else { return Ok(()) };
        let ids = plan.ids();
        let ended = plan.ended.iter().flat_map(|ended| ended.paths.iter().chain(&ended.takers));
        let ended = ended.map(|path| &path.interface);
        let names: BTreeSet<&Arc<str>> = ids.iter().map(|(_, interface)| interface).chain(ended).collect();
        // An interface that is gone has no index, and no peers.
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
        for slot in changes.cleared {
            self.maps.clear_seen(slot).map_err(maps("clear the records of a peer"))?;
        }
        for (key, slot) in changes.added {
            self.maps.put_index(key, slot).map_err(maps("add a peer to the index"))?;
        }
        if changes.left_out > 0 && self.left_out == 0 {
            warn!(peers = changes.left_out, "the failure detector has too many peers; some are not pinged");
        }
        self.left_out = changes.left_out;
        Ok(())
    }

    fn read_frames(&mut self) -> Result<(), PingerError> {
        for _ in 0..MOST_READ {
            match self.socket.receive(&self.keys).map_err(system("receive a frame"))? {
                Next::Nothing => break,
                Next::Refused => self.refused += 1,
                Next::Frame(Incoming { ifindex, from, frame }) => {
                    let interface = self.interfaces.iter().find(|(_, index)| *index == ifindex);
                    match interface {
                        Some((interface, _)) => {
                            let interface = Arc::clone(interface);
                            self.monitor.on_frame(Received { interface, from, frame }, now()?);
                        }
                        None => self.refused += 1,
                    }
                }
            }
        }
        let now = now()?;
        let mut over = Vec::new();
        for (place, probe) in self.probes.iter().enumerate() {
            if probe.has_received(MOST_READ) {
                self.monitor.on_third_station(probe.session, now);
                over.push(place);
            } else if probe.until <= now {
                over.push(place);
            }
        }
        for place in over.into_iter().rev() {
            self.probes.swap_remove(place);
        }
        Ok(())
    }

    fn carry_out(&mut self, acts: Vec<Act>, now: Boottime) {
        // The pings, each with true if one of its frames was sent.
        let mut pinged: BTreeMap<Session, bool> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Send { interface, to, key, frame } => {
                    let sent = match (index_of(&self.interfaces, &interface), self.keys.get(key)) {
                        (Some(ifindex), Some(secret)) => {
                            self.socket.send(ifindex, to, (key, secret), frame).is_ok()
                        }
                        _ => false,
                    };
                    self.unsent += u64::from(!sent);
                    if frame.kind == Kind::Ping {
                        *pinged.entry(frame.holder).or_default() |= sent;
                    }
                }
                Act::AskNeighbours { session, interface, holder } => {
                    self.probe_neighbours(session, &interface, holder, now);
                }
                // The event loop ends before the thread does.
                Act::Report(finding) => drop(self.findings.send(finding)),
            }
        }
        for (session, _) in pinged.into_iter().filter(|(_, is_sent)| !is_sent) {
            self.monitor.on_unsent(session, now);
        }
    }

    fn probe_neighbours(&mut self, session: Session, interface: &Arc<str>, holder: MacAddr, now: Boottime) {
        let Some(ifindex) = index_of(&self.interfaces, interface) else { return };
        self.probes.retain(|probe| probe.session != session || probe.ifindex != ifindex);
        match NeighbourProbe::begin(session, ifindex, interface, holder, now) {
            Ok(probe) => self.probes.push(probe),
            Err(_) => self.unsent += 1,
        }
    }

    fn show(&self, urgency: Urgency, shown: &Mutex<Option<Thread>>, now: Boottime) {
        let why = |right: Result<(), Errno>| right.err().map(|errno| errno.desc().to_owned());
        let view = Thread {
            not_first: why(urgency.scheduled),
            not_locked: why(urgency.locked),
            peers: self.monitor.traffic(now),
            counts: self.monitor.counts(),
            frames_unsent: self.unsent,
            frames_refused: self.refused,
            peers_left_out: self.left_out,
        };
        // A reader may be slow: the next second will do.
        if let Ok(mut shown) = shown.try_lock() {
            *shown = Some(view);
        }
    }

    fn wait(&self, wake: &EventFd) -> Result<(), PingerError> {
        thread::sleep(SHORTEST);
        let now = now()?;
        let deadline = self.monitor.next_deadline().map_or(LONGEST, |next| next.saturating_since(now));
        let timeout = TimeSpec::from(deadline.min(LONGEST));
        let sockets = self.probes.iter().map(NeighbourProbe::as_fd);
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
