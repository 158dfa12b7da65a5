//! Whether this node's service proxy (kube-proxy, Cilium) delivers what a VIP on this node would receive.
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

pub use self::message::{Answer, Command, Target};
use self::{gate::Gate, port::Port};
use crate::{
    base::time::Monotonic,
    records::{HealthPort, MOST_PORTS, Proxy},
};

/// The time between two requests: at most 100 a second, whatever the number of Services.
const APART: Duration = Duration::from_millis(10);
/// Largest number of requests without an answer yet.
const MOST_ASKED: usize = 16;

/// The state of this node's proxy.
#[derive(Debug)]
pub struct Delivery {
    /// The time after which what cannot be reached no longer counts. None: nothing is asked.
    timeout: Option<Duration>,
    gate: Gate,
    ports: BTreeMap<HealthPort, Port>,
    wanted: BTreeMap<IpAddr, HealthPort>,
    /// The ports by the time of their next request. Those whose answer a VIP waits for come first.
    queue: BTreeSet<(bool, Monotonic, HealthPort)>,
    asked: usize,
    /// The time from which the next request may leave.
    slot: Monotonic,
    /// False while no port has answered, and one was unreachable for too long: this proxy may have none.
    /// Then the `EndpointSlice`s alone count.
    checks: bool,
    /// True if a port has answered this process.
    answered: bool,
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
            checks: timeout.is_some(),
            answered: false,
            commands: Vec::new(),
        }
    }

    /// Goes on with what the earlier process of this session stated, so that this one takes no VIP from its
    /// node.
    pub fn inherit(&mut self, stated: Option<&Proxy>, now: Monotonic) {
        match stated.filter(|_| self.timeout.is_some()) {
            Some(Proxy::Starting) => self.gate = Gate::shut(now),
            Some(Proxy::Delivers(ports)) => {
                self.ports = ports.iter().map(|port| (*port, Port::assumed(now))).collect();
            }
            None => self.checks = false,
        }
    }

    /// Records that the VIPs are known: what an earlier process stated of others is over.
    pub fn begin(&mut self) {
        self.ports.retain(|_, port| !port.vips.is_empty());
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
            let checks = self.checks;
            let new = || if checks { Port::new(now) } else { Port::assumed(now) };
            let port = self.ports.entry(number).or_insert_with(new);
            port.vips.insert(vip);
            if port.is_reported {
                self.commands.push(Command::Unreachable(number, [vip].into()));
            }
            if !port.is_asked {
                self.queue.insert((port.counts(), port.due, number));
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
            self.queue.remove(&(port.counts(), port.due, number));
            self.ports.remove(&number);
        }
    }

    /// Records an answer.
    pub fn on_answer(&mut self, target: Target, answer: Answer, now: Monotonic) {
        let Some(timeout) = self.timeout else { return };
        match target {
            Target::Health => {
                if self.gate.on_answer(answer, timeout, now) {
                    self.commands.push(Command::Ungated);
                }
            }
            Target::Port(number) => self.on_port(number, answer, timeout, now),
        }
    }

    fn on_port(&mut self, number: HealthPort, answer: Answer, timeout: Duration, now: Monotonic) {
        self.asked = self.asked.saturating_sub(1);
        if answer != Answer::Unreachable {
            (self.answered, self.checks) = (true, true);
        }
        let Some(port) = self.ports.get_mut(&number) else { return };
        let was_reported = port.is_reported;
        port.on_answer(answer, timeout, now);
        match (was_reported, port.is_reported) {
            (false, true) => self.commands.push(Command::Unreachable(number, port.vips.clone())),
            (true, false) => self.commands.push(Command::Reached(port.vips.clone())),
            (false, false) | (true, true) => {}
        }
        self.queue.insert((port.counts(), port.due, number));
        if port.is_reported && !self.answered && std::mem::take(&mut self.checks) {
            for (number, port) in self.ports.iter_mut().filter(|(_, port)| !port.counts()) {
                self.queue.remove(&(false, port.due, *number));
                port.assume();
                if !port.is_asked {
                    self.queue.insert((true, port.due, *number));
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
            let Some(next) = due(false).or_else(|| due(true)) else { break };
            self.queue.remove(&next);
            if let Some(port) = self.ports.get_mut(&next.2) {
                port.is_asked = true;
            }
            self.asked += 1;
            self.slot = self.slot.max(now) + APART;
            self.commands.push(Command::Ask(Target::Port(next.2)));
        }
        std::mem::take(&mut self.commands)
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
        let ports = || self.ports.iter().filter(|(_, port)| port.counts()).map(|(number, _)| *number);
        // A list that a Lease has no room for would be wrong.
        (self.checks && ports().count() <= MOST_PORTS).then(|| Proxy::Delivers(ports().collect()))
    }
}
