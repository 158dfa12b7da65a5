//! Sends frames from a host at a constant rate until it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::{
    kit::worker::{Stop, Worker},
    lan::{Host, Wire},
};

/// Number of frames in one system call.
const BATCH: usize = 64;
/// Pause while no frame is due, far shorter than the time between two batches.
const PAUSE: Duration = Duration::from_micros(100);

/// Thread that sends frames until it is stopped or dropped.
#[derive(Debug)]
pub struct Flood {
    sent: Arc<AtomicU64>,
    worker: Worker<()>,
}

impl Flood {
    /// Starts to send `frames` in turn, again and again. The thread catches up when
    /// it is late, so that the mean is `rate` on a machine that is fast enough.
    pub fn start(
        host: &Host,
        interface: &str,
        frames: impl IntoIterator<Item = Vec<u8>>,
        per_second: u32,
    ) -> Result<Self> {
        let frames: Vec<Vec<u8>> = frames.into_iter().collect();
        ensure!(!frames.is_empty(), "a flood needs frames");
        let wire = Wire::open(host, interface)?;
        let sent = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&sent);
        let worker = Worker::start("flood", move |stop| flood(&wire, &frames, per_second, &count, stop))?;
        Ok(Self { sent, worker })
    }

    /// Returns the number of frames sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Stops, and returns the number of frames sent.
    pub fn stop(self) -> Result<u64> {
        self.worker.stop()?;
        Ok(self.sent.load(Ordering::Relaxed))
    }
}

fn flood(wire: &Wire, frames: &[Vec<u8>], per_second: u32, sent: &AtomicU64, stop: &Stop) -> Result<()> {
    let began = Instant::now();
    let mut batches = frames.chunks(BATCH).cycle();
    while !stop.is_asked_for() {
        let due = began.elapsed().as_nanos() * u128::from(per_second) / 1_000_000_000;
        if u128::from(sent.load(Ordering::Relaxed)) >= due {
            thread::sleep(PAUSE);
            continue;
        }
        let batch = batches.next().context("invariant: there are frames")?;
        wire.send_all(batch)?;
        sent.fetch_add(u64::try_from(batch.len())?, Ordering::Relaxed);
    }
    Ok(())
}
