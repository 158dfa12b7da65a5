//! Runs a thread until it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, ensure};

/// Request to end, which a worker checks often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Thread that ends when it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Worker<T> {
    name: &'static str,
    stop: Stop,
    /// Handle; `None` after the join.
    thread: Option<JoinHandle<Result<T>>>,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts `work` on a new thread.
    pub(crate) fn start(
        name: &'static str,
        work: impl FnOnce(&Stop) -> Result<T> + Send + 'static,
    ) -> Result<Self> {
        let stop = Stop::default();
        let for_thread = stop.clone();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&for_thread))
            .with_context(|| format!("failed to start thread {name}"))?;
        Ok(Self { name, stop, thread: Some(thread) })
    }

    /// Fails if the thread has ended by itself.
    pub(crate) fn check_alive(&self) -> Result<()> {
        let ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        ensure!(!ended, "thread {} has ended by itself; stopping it says why", self.name);
        Ok(())
    }

    pub(crate) fn stop(mut self) -> Result<T> {
        self.end().context("invariant: a thread is stopped once")?
    }
}

impl<T> Worker<T> {
    fn end(&mut self) -> Option<Result<T>> {
        self.stop.0.store(true, Ordering::Relaxed);
        let joined = self.thread.take()?.join();
        let done = joined.unwrap_or_else(|_| Err(anyhow!("it panicked")));
        Some(done.with_context(|| format!("thread {} failed", self.name)))
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.end() {
            eprintln!("{error:#}");
        }
    }
}
