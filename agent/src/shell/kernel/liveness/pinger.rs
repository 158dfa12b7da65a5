//! The thread that pings: it runs the monitor, and ends with the agent.
//!
//! The event loop may be busy for tens of milliseconds with thousands of VIPs. A ping that is late by
//! that much would make its holder look unresponsive. So a thread of its own sends pings, with realtime
//! priority where that is allowed. It decides nothing: its findings go to the engine.

mod error;
mod peer_records;
mod ping_loop;

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
};

use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tracing::error;
use vipward_core::{
    liveness::{Finding, Plan, Scale, Thread},
    records::Wid,
};

pub use self::error::{Panic, PingerError};
use self::{
    error::{maps, system},
    ping_loop::{Order, PingLoop},
};
use super::Keys;
use crate::shell::{kernel::bpf::WireMaps, logging::errors::chain};

#[cfg(test)]
mod tests;

/// Name of the thread, at most 15 bytes.
pub const THREAD: &str = "vipward-wire";

/// The running thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Pinger {
    /// None only while this is dropped.
    orders: Option<mpsc::Sender<Order>>,
    wake: Arc<EventFd>,
    view: Arc<Mutex<Option<Thread>>>,
    thread: Option<JoinHandle<()>>,
    wid: Wid,
}

impl Pinger {
    /// Starts the thread. The receiver gets its findings, and ends with the thread. The thread logs why
    /// it has ended.
    pub fn start(
        scale: Scale,
        mut maps_of: WireMaps,
    ) -> Result<(Self, UnboundedReceiver<Finding>), PingerError> {
        let wid = own_number(&mut maps_of)?;
        let (orders, taken) = mpsc::channel();
        let (findings, found) = unbounded_channel();
        let mut ping_loop = PingLoop::prepare(scale, wid, maps_of, taken, findings)?;
        let this = Self::spawn(wid, orders, move |woken, shown| ping_loop.run(woken, shown))?;
        Ok((this, found))
    }

    /// Starts the thread with this loop, which is dropped when it ends.
    fn spawn(
        wid: Wid,
        orders: mpsc::Sender<Order>,
        turns: impl FnOnce(&EventFd, &Mutex<Option<Thread>>) -> Result<(), PingerError> + Send + 'static,
    ) -> Result<Self, PingerError> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wake = Arc::new(EventFd::from_flags(flags).map_err(system("open an event counter"))?);
        let view = Arc::new(Mutex::new(None));
        let (woken, shown) = (Arc::clone(&wake), Arc::clone(&view));
        let run = move || {
            if let Err(ended) = guarded(|| turns(&woken, &shown)) {
                error!(
                    problem = chain(&ended),
                    "the failure detector has ended on this node until its agent starts again; its Lease alone counts"
                );
            }
            *shown.lock().unwrap_or_else(PoisonError::into_inner) = None;
        };
        let thread = thread::Builder::new().name(THREAD.to_owned()).spawn(run);
        let thread = Some(thread.map_err(PingerError::Thread)?);
        Ok(Self { orders: Some(orders), wake, view, thread, wid })
    }

    pub fn wid(&self) -> Wid {
        self.wid
    }

    /// Returns the state of the thread. None before its first turn, and once it has ended.
    pub fn view(&self) -> Option<Thread> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_plan(&self, plan: Plan) {
        self.order(Order::Plan(plan));
    }

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

/// Returns this node's number as a monitor. Draws one if the maps are new.
fn own_number(of: &mut WireMaps) -> Result<Wid, PingerError> {
    if let Some(wid) = of.wid().map_err(maps("read this node's number as a monitor"))? {
        return Ok(wid);
    }
    let wid = Wid::from_number(fastrand::u64(1..)).expect("invariant: one or more");
    of.set_wid(Some(wid)).map_err(maps("write this node's number as a monitor"))?;
    Ok(wid)
}

fn guarded(run: impl FnOnce() -> Result<(), PingerError>) -> Result<(), PingerError> {
    // Nothing of it is used after a panic.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(PingerError::Panicked(message(&*panic))))
}

fn message(panic: &(dyn Any + Send)) -> Panic {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Panic(text.unwrap_or("without a message").to_owned())
}
