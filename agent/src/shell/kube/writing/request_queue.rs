//! Jobs that run side by side, urgent ones first; jobs with the same key run in order.

use std::collections::{BTreeMap, VecDeque};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::mpsc;

#[cfg(test)]
mod tests;

/// The share of patient jobs while urgent ones wait: one in this many.
const FAIR: usize = 8;

/// Number of jobs that run at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) all: usize,
    /// Number of patient jobs among these, which can wait. The other places are for urgent jobs.
    pub(crate) patient: usize,
}

impl Limit {
    /// Returns the limit of a queue in which all jobs are alike.
    pub(crate) fn of(all: usize) -> Self {
        Self { all, patient: all }
    }
}

/// Runs `work` on each job, one at a time for each key, and sends the results.
///
/// Jobs that can wait, by `is_patient`, run after the others. Each kind runs in the order of
/// arrival. `limit` is called before each job. Ends when no more jobs can come and all are done, or
/// when the receiver of replies is gone.
pub(crate) async fn run<K, J, R, W>(
    mut jobs: mpsc::UnboundedReceiver<(K, J)>,
    limit: impl Fn() -> Limit,
    is_patient: impl Fn(&J) -> bool,
    work: W,
    replies: mpsc::Sender<R>,
) where
    K: Ord + Clone,
    W: AsyncFn(J) -> Option<R>,
{
    let mut waiting =
        Waiting { behind: BTreeMap::new(), urgent: VecDeque::new(), patient: VecDeque::new(), taken: 0 };
    let mut running = FuturesUnordered::new();
    let mut patient_running = 0;
    let work = &work;
    let mut open = true;
    loop {
        // All waiting jobs are received first, so that an urgent one goes before them.
        while let Ok((key, job)) = jobs.try_recv() {
            waiting.put(key, job, &is_patient);
        }
        while let Some((key, job)) = waiting.take_within(limit(), running.len(), patient_running) {
            let patient = is_patient(&job);
            patient_running += usize::from(patient);
            running.push(async move { (key, patient, work(job).await) });
        }
        if !open && running.is_empty() {
            return;
        }
        tokio::select! {
            job = jobs.recv(), if open => match job {
                Some((key, job)) => waiting.put(key, job, &is_patient),
                None => open = false,
            },
            Some((key, patient, reply)) = running.next(), if !running.is_empty() => {
                patient_running -= usize::from(patient);
                waiting.done(key, &is_patient);
                if let Some(reply) = reply
                    && replies.send(reply).await.is_err()
                {
                    return;
                }
            }
        }
    }
}

/// Jobs that have not begun.
struct Waiting<K, J> {
    /// Jobs behind another of their key. Every job under way or ready has its key here.
    behind: BTreeMap<K, VecDeque<J>>,
    urgent: VecDeque<(K, J)>,
    patient: VecDeque<(K, J)>,
    taken: usize,
}

impl<K: Ord + Clone, J> Waiting<K, J> {
    fn put(&mut self, key: K, job: J, is_patient: impl Fn(&J) -> bool) {
        if let Some(queue) = self.behind.get_mut(&key) {
            queue.push_back(job);
        } else {
            self.behind.insert(key.clone(), VecDeque::new());
            self.put_ready(key, job, is_patient);
        }
    }

    fn put_ready(&mut self, key: K, job: J, is_patient: impl Fn(&J) -> bool) {
        let queue = if is_patient(&job) { &mut self.patient } else { &mut self.urgent };
        queue.push_back((key, job));
    }

    /// Returns the next job, if there is room beside those that run.
    fn take_within(&mut self, limit: Limit, running: usize, patient_running: usize) -> Option<(K, J)> {
        if running < limit.all { self.take(patient_running < limit.patient) } else { None }
    }

    /// Returns the next job, which may be a patient one if there is room.
    fn take(&mut self, room_for_patient: bool) -> Option<(K, J)> {
        let (mut none, turn) = (VecDeque::new(), (self.taken + 1).is_multiple_of(FAIR));
        let patient = if room_for_patient { &mut self.patient } else { &mut none };
        let (first, second) = if turn { (patient, &mut self.urgent) } else { (&mut self.urgent, patient) };
        let next = first.pop_front().or_else(|| second.pop_front())?;
        self.taken += 1;
        Some(next)
    }

    /// Makes the next job of the key ready, after one is done.
    fn done(&mut self, key: K, is_patient: impl Fn(&J) -> bool) {
        match self.behind.get_mut(&key).and_then(VecDeque::pop_front) {
            Some(job) => self.put_ready(key, job, is_patient),
            None => drop(self.behind.remove(&key)),
        }
    }
}
