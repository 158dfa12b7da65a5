use std::cell::{Cell, RefCell};

use tokio::sync::Semaphore;

use super::*;

/// The first number of jobs that can wait.
const PATIENT: u8 = 100;

async fn results(jobs: &[(u8, u8)], limit: Limit, work: impl AsyncFn(u8) -> Option<u8>) -> Vec<u8> {
    let (sender, receiver) = mpsc::unbounded_channel();
    for job in jobs {
        sender.send(*job).expect("the lane is there");
    }
    drop(sender);
    let (replies, mut results) = mpsc::channel(jobs.len().max(1));
    run(receiver, || limit, |job| *job >= PATIENT, work, replies).await;
    let mut all = Vec::new();
    while let Some(result) = results.recv().await {
        all.push(result);
    }
    all
}

#[tokio::test]
async fn what_is_about_one_thing_is_done_one_by_one_in_order() {
    let running = Cell::new(0);
    let all = results(&[(1, 1), (1, 2), (1, 3)], Limit::of(8), async |job| {
        assert_eq!(running.replace(1), 0, "two at once");
        tokio::task::yield_now().await;
        running.set(0);
        Some(job)
    })
    .await;
    assert_eq!(all, [1, 2, 3]);
}

#[tokio::test]
async fn things_do_not_wait_for_each_other() {
    let gate = Semaphore::new(0);
    let all = results(&[(1, 1), (1, 2), (2, 3)], Limit::of(8), async |job| {
        match job {
            // The first ends only after the job with the other key.
            1 => gate.acquire().await.expect("it is open").forget(),
            3 => gate.add_permits(1),
            _ => {}
        }
        Some(job)
    })
    .await;
    assert_eq!(all, [3, 1, 2]);
}

#[tokio::test]
async fn no_more_than_the_limit_are_done_at_a_time() {
    let (running, most) = (Cell::new(0), Cell::new(0));
    let jobs: Vec<_> = (0..20).map(|number| (number, number)).collect();
    let all = results(&jobs, Limit::of(3), async |job| {
        running.set(running.get() + 1);
        most.set(most.get().max(running.get()));
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        running.set(running.get() - 1);
        Some(job)
    })
    .await;
    assert_eq!((all.len(), most.get()), (20, 3));
}

#[tokio::test]
async fn a_job_without_a_result_holds_up_nothing() {
    let done = RefCell::new(Vec::new());
    let all = results(&[(1, 1), (1, 2), (2, 3)], Limit::of(1), async |job| {
        done.borrow_mut().push(job);
        (job != 1).then_some(job)
    })
    .await;
    assert_eq!(all.len(), 2);
    assert_eq!(done.into_inner().len(), 3);
}

#[tokio::test]
async fn what_is_urgent_overtakes_what_can_wait() {
    let jobs = [(1, 101), (2, 102), (3, 3), (4, 4), (5, 103)];
    assert_eq!(results(&jobs, Limit::of(1), async |job| Some(job)).await, [3, 4, 101, 102, 103]);
}

#[tokio::test]
async fn what_can_wait_does_not_wait_for_ever() {
    let jobs: Vec<_> = (0..20).map(|number| (number, number)).chain([(50, 101), (51, 102)]).collect();
    let all = results(&jobs, Limit::of(1), async |job| Some(job)).await;
    let place = |job| all.iter().position(|done| *done == job);
    assert_eq!((place(101), place(102)), (Some(FAIR - 1), Some(2 * FAIR - 1)), "{all:?}");
}

#[tokio::test]
async fn what_can_wait_leaves_room_for_what_is_urgent() {
    let gate = Semaphore::new(0);
    let jobs = [(1, 101), (2, 102), (3, 103), (4, 4)];
    let all = results(&jobs, Limit { all: 3, patient: 2 }, async |job| {
        // No job that can wait ends before the urgent one, which came last.
        if job >= PATIENT {
            gate.acquire().await.expect("it is open").forget();
        } else {
            gate.add_permits(3);
        }
        Some(job)
    })
    .await;
    assert_eq!(all, [4, 101, 102, 103]);
}

#[tokio::test]
async fn what_is_about_one_thing_stays_in_order_however_urgent() {
    let jobs = [(1, 101), (1, 2), (2, 3), (2, 104)];
    assert_eq!(results(&jobs, Limit::of(1), async |job| Some(job)).await, [3, 101, 2, 104]);
}

#[tokio::test]
async fn a_limit_that_changes_is_followed_by_the_next_jobs() {
    let (limit, running, most) = (Cell::new(1), Cell::new(0), Cell::new(0));
    let (sender, receiver) = mpsc::unbounded_channel();
    for number in 0..20_u8 {
        sender.send((number, number)).expect("the lane is there");
    }
    drop(sender);
    let (replies, _results) = mpsc::channel(20);
    let work = async |job: u8| {
        running.set(running.get() + 1);
        if job < 10 {
            assert_eq!(running.get(), 1, "job {job}");
        }
        most.set(most.get().max(running.get()));
        tokio::task::yield_now().await;
        running.set(running.get() - 1);
        if job == 9 {
            limit.set(3);
        }
        Some(job)
    };
    run(receiver, || Limit::of(limit.get()), |_| false, work, replies).await;
    assert_eq!(most.get(), 3);
}
