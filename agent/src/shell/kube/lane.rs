//! Work that is done side by side, what is urgent first, except that what is about one thing is done in order.

use std::collections::{BTreeMap, VecDeque};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::mpsc;

#[cfg(test)]
mod tests;

/// Does `work` on the jobs that come, up to `limit` at a time and one at a time for each key; what it returns goes to
/// `replies`. Of the jobs that are not behind another of their key, those of the lowest `rank` come first, and of these
/// the one that came first. Ends when no more jobs can come and all are done, or when nobody takes the replies.
pub(super) async fn run<K, J, R, W, P>(
    mut jobs: mpsc::UnboundedReceiver<(K, J)>,
    limit: usize,
    rank: impl Fn(&J) -> P,
    work: W,
    replies: mpsc::Sender<R>,
) where
    K: Ord + Clone,
    P: Ord,
    W: AsyncFn(J) -> Option<R>,
{
    let mut behind: BTreeMap<K, VecDeque<J>> = BTreeMap::new();
    let mut ready: BTreeMap<(P, u64), (K, J)> = BTreeMap::new();
    let mut numbers = 0..;
    let mut place = |job: &J| (rank(job), numbers.next().expect("invariant: 64 bits count everything"));
    let mut running = FuturesUnordered::new();
    let work = &work;
    let mut open = true;
    loop {
        while running.len() < limit
            && let Some((_, (key, job))) = ready.pop_first()
        {
            running.push(async move { (key, work(job).await) });
        }
        if !open && running.is_empty() {
            return;
        }
        tokio::select! {
            job = jobs.recv(), if open => match job {
                Some((key, job)) => if let Some(queue) = behind.get_mut(&key) {
                    queue.push_back(job);
                } else {
                    behind.insert(key.clone(), VecDeque::new());
                    ready.insert(place(&job), (key, job));
                },
                None => open = false,
            },
            Some((key, reply)) = running.next(), if !running.is_empty() => {
                match behind.get_mut(&key).and_then(VecDeque::pop_front) {
                    Some(job) => drop(ready.insert(place(&job), (key, job))),
                    None => drop(behind.remove(&key)),
                }
                if let Some(reply) = reply
                    && replies.send(reply).await.is_err()
                {
                    return;
                }
            }
        }
    }
}
