//! Runs a switch in user space. A thread has a packet socket on each port, and passes the frames on by the
//! rules of the ports.
//!
//! - `forwarding`: the decision about each frame, without I/O.

mod forwarding;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;

pub use self::forwarding::Rules;
use self::forwarding::{Forwarding, Outgoing};
use super::{
    hook::{Hook, Hooked},
    netns::NetNs,
    wire::Wire,
};
use crate::{
    frames::Mac,
    kit::worker::{Stop, Worker},
};

/// Longest time until the thread serves a new port, or ends.
const POLL: Duration = Duration::from_millis(10);
/// Most frames of a port before the next one's turn.
const BATCH: usize = 64;

/// Switch. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct ManagedSwitch {
    shared: Arc<Mutex<Shared>>,
    _worker: Worker<()>,
}

/// Port of a managed switch.
#[derive(Clone, Debug)]
pub struct Port {
    shared: Arc<Mutex<Shared>>,
    number: usize,
}

#[derive(Debug, Default)]
struct Shared {
    /// Cables, by the number of their port.
    cables: Vec<Cable>,
    forwarding: Forwarding,
}

/// End of a veth in the switch's namespace.
#[derive(Debug)]
struct Cable {
    interface: String,
    wire: Arc<Wire>,
    /// Program for hosts that run native XDP at the other end.
    _pass: Hooked,
}

impl ManagedSwitch {
    /// Starts a switch without ports.
    pub(super) fn start() -> Result<Self> {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let for_thread = Arc::clone(&shared);
        let worker = Worker::start("managed-switch", move |stop| run(&for_thread, stop))?;
        Ok(Self { shared, _worker: worker })
    }

    /// Makes an interface a port without rules.
    pub(super) fn add_port(&self, namespace: &NetNs, interface: &str) -> Result<()> {
        let wire = Arc::new(Wire::open_all_in(namespace, interface)?);
        let pass = Hooked::attach_in(namespace, interface, Hook::NativeXdp, "pass")?;
        let mut shared = lock(&self.shared);
        shared.cables.push(Cable { interface: interface.to_owned(), wire, _pass: pass });
        shared.forwarding.ports.push(Rules::default());
        Ok(())
    }

    pub(super) fn port(&self, interface: &str) -> Result<Port> {
        let found = lock(&self.shared).cables.iter().position(|cable| cable.interface == interface);
        let number = found.context("it is not plugged into this switch")?;
        Ok(Port { shared: Arc::clone(&self.shared), number })
    }

    pub(super) fn learnt(&self, address: IpAddr) -> Option<Mac> {
        lock(&self.shared).forwarding.learnt(address)
    }
}

impl Port {
    /// Changes the rules. They hold for every frame that arrives from now on.
    pub fn change(&self, change: impl FnOnce(&mut Rules)) -> Result<()> {
        let mut shared = lock(&self.shared);
        shared.pass_frames()?;
        change(&mut shared.forwarding.ports[self.number]);
        Ok(())
    }
}

fn run(shared: &Mutex<Shared>, stop: &Stop) -> Result<()> {
    while !stop.is_asked_for() {
        let (wires, due) = {
            let shared = lock(shared);
            let wires: Vec<_> = shared.cables.iter().map(|cable| Arc::clone(&cable.wire)).collect();
            (wires, shared.forwarding.next_due())
        };
        let poll = Instant::now() + POLL;
        Wire::wait_for_any(wires.iter().map(Arc::as_ref), due.map_or(poll, |due| due.min(poll)))?;
        lock(shared).pass_frames()?;
    }
    Ok(())
}

impl Shared {
    /// Passes on all frames that have arrived, and those whose delay is over.
    fn pass_frames(&mut self) -> Result<()> {
        loop {
            let mut is_idle = true;
            for from in 0..self.cables.len() {
                for _ in 0..BATCH {
                    let Some(frame) = self.cables[from].wire.take_waiting()? else { break };
                    is_idle = false;
                    if !frame.outgoing {
                        let passed = self.forwarding.receive(from, frame.bytes, Instant::now());
                        self.send(passed)?;
                    }
                }
            }
            let passed = self.forwarding.release(Instant::now());
            self.send(passed)?;
            if is_idle {
                return Ok(());
            }
        }
    }

    fn send(&self, frames: Vec<Outgoing>) -> Result<()> {
        frames.into_iter().try_for_each(|(to, frame)| match self.cables[to].wire.send(&frame) {
            Err(error) if is_without_link(&error) => Ok(()),
            sent => sent,
        })
    }
}

/// Returns true if the port is down, or its host has ended.
fn is_without_link(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Errno::ENETDOWN | Errno::ENXIO))
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
