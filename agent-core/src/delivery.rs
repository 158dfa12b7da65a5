//! Finds out if this node's service proxy (kube-proxy, Cilium) delivers the traffic of a VIP on this node.
//!
//! Two questions are asked, of the proxy of this node alone. Is it healthy, once since the node booted? And
//! for each Service of `externalTrafficPolicy: Local` with a ready endpoint here: does its
//! `healthCheckNodePort` say that the proxy has that endpoint? The answers are a statement in the node's
//! Lease. The shell asks; nothing here waits.

mod gate;
mod message;
mod port;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

pub use self::message::{Answer, Command, News, Target};
use self::{gate::Gate, port::Port};
use crate::{
    base::time::Monotonic,
    records::{Delivers, HealthPort, MOST_PORTS, Proxy},
};

/// The time between two requests: at most 100 a second, whatever the number of Services.
const APART: Duration = Duration::from_millis(10);
/// The number of ports at which a node states them again, after there were too many.
const FEW_AGAIN: usize = 400;
/// Largest number of requests without an answer yet.
const MOST_ASKED: usize = 16;

/// The knowledge if the proxy serves ports at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reached {
    /// This process has not found out yet.
    Unknown,
    /// The same, and the earlier process stated nothing. Neither does this one.
    Unstated,
    /// A port has answered this process.
    Yes,
    /// None has answered, and one was unreachable for too long.
    Never,
}

/// The state of this node's proxy.
#[derive(Debug)]
pub struct Delivery {
    /// The time after which what cannot be reached no longer counts. None: nothing is asked.
    timeout: Option<Duration>,
    gate: Gate,
    ports: BTreeMap<HealthPort, Port>,
    wanted: BTreeMap<IpAddr, HealthPort>,
    /// The ports by the time of their next request, those apart whose answer a VIP waits for.
    queue: BTreeSet<(bool, Monotonic, HealthPort)>,
    asked: usize,
    /// The time from which the next request may leave.
    slot: Monotonic,
    reached: Reached,
    /// True if a Lease has no room for the ports.
    is_full: bool,
    /// False if the ports are to be counted again.
    is_counted: bool,
    /// True if a port at rest is the next to be asked, even if VIPs wait for others.
    rest_is_next: bool,
    commands: Vec<Command>,
}

impl Delivery {
    /// Starts. `continues` is true if an earlier process of this node's boot had a session. With no
    /// `timeout`, nothing is ever asked.
    pub fn start(timeout: Option<Duration>, continues: bool, now: Monotonic) -> Self {
        let is_open = continues || timeout.is_none();
        Self {
            timeout,
            gate: if is_open { Gate::Open } else { Gate::shut(now) },
            ports: BTreeMap::new(),
            wanted: BTreeMap::new(),
            queue: BTreeSet::new(),
            asked: 0,
            slot: now,
            reached: Reached::Unknown,
            is_full: false,
            is_counted: true,
            rest_is_next: false,
            commands: Vec::new(),
        }
    }

    /// Goes on with what the earlier process of this session stated, so that this one takes no VIP from its
    /// node.
    pub fn inherit(&mut self, stated: Option<&Proxy>, now: Monotonic) {
        match stated.filter(|_| self.timeout.is_some()) {
            Some(Proxy::Starting) => self.gate = Gate::shut(now),
            Some(Proxy::Delivers(ports)) => {
                let port = |(number, delivers): (&_, &_)| match delivers {
                    Delivers::Unreached => (*number, Port::unreached(now)),
                    _ => (*number, Port::assumed(now)),
                };
                self.ports = ports.iter().map(port).collect();
                self.is_counted = false;
                if !ports.is_empty() {
                    self.reached = Reached::Yes;
                }
            }
            Some(Proxy::Silent) => self.reached = Reached::Never,
            None => self.reached = Reached::Unstated,
        }
    }

    /// Records that the VIPs are known: what an earlier process stated of others is over.
    pub fn begin(&mut self) {
        self.ports.retain(|_, port| !port.vips.is_empty());
        self.is_counted = false;
    }

    /// Records the port that says whether this node delivers for a VIP, if one does. It is asked at once.
    pub fn on_demand(&mut self, vip: IpAddr, port: Option<HealthPort>, now: Monotonic) {
        let port = port.filter(|_| self.timeout.is_some());
        if self.wanted.get(&vip).copied() == port {
            return;
        }
        let before = match port {
            Some(port) => self.wanted.insert(vip, port),
            None => self.wanted.remove(&vip),
        };
        if let Some(before) = before {
            self.leave(vip, before);
        }
        if let Some(number) = port {
            let new = match self.reached {
                Reached::Unknown | Reached::Yes => Port::new,
                Reached::Unstated => Port::assumed,
                Reached::Never => Port::unreached,
            };
            let port = self.ports.entry(number).or_insert_with(|| new(now));
            port.vips.insert(vip);
            self.is_counted = false;
            if port.is_reported {
                self.commands.push(Command::Unreachable(number, [vip].into()));
            }
            if !port.is_asked {
                self.queue.insert(port.place(number));
            }
        }
    }

    fn leave(&mut self, vip: IpAddr, number: HealthPort) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        port.vips.remove(&vip);
        if port.is_reported {
            self.commands.push(Command::Reached([vip].into()));
        }
        if port.vips.is_empty() {
            self.queue.remove(&port.place(number));
            self.is_counted = false;
            self.ports.remove(&number);
        }
    }

    /// Records an answer.
    pub fn on_answer(&mut self, target: Target, answer: Answer, now: Monotonic) {
        let Some(timeout) = self.timeout else { return };
        match target {
            Target::Health => {
                self.commands.extend(self.gate.on_answer(answer, timeout, now).map(Command::Report));
            }
            Target::Port(number) => self.on_port(number, answer, timeout, now),
        }
    }

    fn on_port(&mut self, number: HealthPort, answer: Answer, timeout: Duration, now: Monotonic) {
        self.asked = self.asked.saturating_sub(1);
        if answer != Answer::Unreachable {
            self.reached = Reached::Yes;
        }
        // It may have gone and come back meanwhile. Then it is in the queue already.
        let Some(port) = self.ports.get_mut(&number).filter(|port| port.is_asked) else { return };
        let (was_reported, rested) = (port.is_reported, port.rests());
        port.on_answer(answer, timeout, now);
        match (was_reported, port.is_reported) {
            (false, true) => self.commands.push(Command::Unreachable(number, port.vips.clone())),
            (true, false) => self.commands.push(Command::Reached(port.vips.clone())),
            (false, false) | (true, true) => {}
        }
        self.is_counted &= rested == port.rests();
        let is_never = port.is_reported && self.reached != Reached::Yes;
        self.queue.insert(port.place(number));
        if is_never && self.reached != Reached::Never {
            (self.reached, self.is_counted) = (Reached::Never, false);
            for (number, port) in self.ports.iter_mut().filter(|(_, port)| !port.rests()) {
                let was_queued = self.queue.remove(&port.place(*number));
                port.give_up();
                if was_queued {
                    self.queue.insert(port.place(*number));
                }
            }
        }
    }

    /// Returns what is to be done now.
    pub fn on_time(&mut self, now: Monotonic) -> Vec<Command> {
        if self.gate.ask(now) {
            self.commands.push(Command::Ask(Target::Health));
        }
        while self.asked < MOST_ASKED && self.slot <= now {
            let due = |counts| {
                let first = self.queue.range((counts, Monotonic::from_nanos(0), HealthPort::FIRST)..).next();
                first.copied().filter(|(of, due, _)| *of == counts && *due <= now)
            };
            let first = self.rest_is_next;
            let Some(next) = due(first).or_else(|| due(!first)) else { break };
            self.rest_is_next = !next.0;
            self.queue.remove(&next);
            if let Some(port) = self.ports.get_mut(&next.2) {
                port.is_asked = true;
            }
            self.asked += 1;
            self.slot = self.slot.max(now) + APART;
            self.commands.push(Command::Ask(Target::Port(next.2)));
        }
        self.count();
        std::mem::take(&mut self.commands)
    }

    /// Counts the ports that a Lease would state.
    fn count(&mut self) {
        if std::mem::replace(&mut self.is_counted, true) {
            return;
        }
        let most = if self.is_full { FEW_AGAIN } else { MOST_PORTS };
        let is_full =
            self.ports.len() > most && self.ports.values().filter(|port| port.rests()).count() > most;
        if is_full != self.is_full {
            self.is_full = is_full;
            self.commands.push(Command::Report(if is_full { News::TooMany } else { News::Fits }));
        }
    }

    /// Returns the time of the next [`Delivery::on_time`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let first = |counts| {
            let first = self.queue.range((counts, Monotonic::from_nanos(0), HealthPort::FIRST)..).next();
            first.map(|(_, due, _)| *due)
        };
        let ports = first(false).into_iter().chain(first(true)).min().map(|due| due.max(self.slot));
        self.gate.due().into_iter().chain(ports.filter(|_| self.asked < MOST_ASKED)).min()
    }

    /// Returns what this node states. None: the `EndpointSlice`s alone count.
    pub fn statement(&self) -> Option<Proxy> {
        if self.gate.is_shut() {
            return Some(Proxy::Starting);
        }
        let stated = |(number, port): (&HealthPort, &Port)| match port.delivers() {
            Delivers::No => None,
            delivers => Some((*number, delivers)),
        };
        match self.reached {
            _ if self.timeout.is_none() => None,
            Reached::Unstated => None,
            Reached::Never => Some(Proxy::Silent),
            Reached::Unknown | Reached::Yes => {
                // A list that a Lease has no room for would be wrong.
                (!self.is_full).then(|| Proxy::Delivers(self.ports.iter().filter_map(stated).collect()))
            }
        }
    }
}
