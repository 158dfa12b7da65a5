//! Frames without end from one host, at a rate, until it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::arp::Arp;
use crate::lan::Host;
use crate::wire::Wire;

/// Frames that go out with one system call.
const BATCH: usize = 64;
/// How long nothing is sent when nothing is due: far less than a batch takes to become due at the rates of a flood.
const PAUSE: Duration = Duration::from_micros(100);

/// A thread that sends frames over and over, until it is stopped or dropped.
#[derive(Debug)]
pub struct Flood {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    sent: AtomicU64,
}

impl Flood {
    /// Begins to send `frames`, one after the other and then from the first on again. What the thread is late for is made
    /// up for: the rate is the mean, if the machine is fast enough.
    pub fn start(host: &Host, interface: &str, frames: &[Arp], per_second: u32) -> Result<Self> {
        ensure!(!frames.is_empty(), "a flood needs frames");
        let wire = Wire::open(host, interface)?;
        let frames: Vec<Vec<u8>> = frames.iter().map(Arp::to_bytes).collect();
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("flood".to_owned())
            .spawn(move || flood(&wire, &frames, per_second, &for_thread))
            .context("failed to start a flood's thread")?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Frames sent so far.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Stops, and returns how many frames were sent.
    pub fn stop(mut self) -> Result<u64> {
        self.end().context("invariant: a flood is stopped once")??;
        Ok(self.sent())
    }

    fn end(&mut self) -> Option<Result<()>> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let joined = self.thread.take()?.join();
        Some(joined.unwrap_or_else(|_| Err(anyhow!("the flood's thread panicked"))))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.end();
    }
}

fn flood(wire: &Wire, frames: &[Vec<u8>], per_second: u32, shared: &Shared) -> Result<()> {
    let began = Instant::now();
    let mut batches = frames.chunks(BATCH).cycle();
    while !shared.stop.load(Ordering::Relaxed) {
        let due = began.elapsed().as_nanos() * u128::from(per_second) / 1_000_000_000;
        if u128::from(shared.sent.load(Ordering::Relaxed)) >= due {
            thread::sleep(PAUSE);
            continue;
        }
        let batch = batches.next().context("invariant: there are frames")?;
        wire.send_all(batch)?;
        shared.sent.fetch_add(u64::try_from(batch.len())?, Ordering::Relaxed);
    }
    Ok(())
}
