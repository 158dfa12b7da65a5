use std::{cell::Cell, rc::Rc, time::Duration};

use futures::FutureExt as _;
use tokio::{
    task::{LocalSet, spawn_local},
    time::{sleep, timeout},
};
use vipward_core::base::time::Monotonic;

use super::{Timer, now};

const LIMIT: Duration = Duration::from_secs(10);

async fn wait(timer: &mut Timer, deadline: Monotonic) {
    timeout(LIMIT, timer.wait_until(deadline)).await.expect("it wakes").expect("there is a clock");
    assert!(deadline <= now().expect("there is a clock"));
}

fn later(millis: u64) -> Monotonic {
    now().expect("there is a clock") + Duration::from_millis(millis)
}

#[tokio::test]
async fn it_wakes_at_one_deadline_after_the_other_and_not_before() {
    let mut timer = Timer::new().expect("a timer");
    for millis in [3, 0, 20, 1, 1] {
        wait(&mut timer, later(millis)).await;
    }
}

#[tokio::test]
async fn a_deadline_replaces_the_one_before() {
    let mut timer = Timer::new().expect("a timer");
    let (minute, soon) = (later(60_000), later(20));
    assert!(timeout(Duration::from_millis(1), timer.wait_until(minute)).await.is_err());
    wait(&mut timer, soon).await;
    // The timer runs out while no task waits for it.
    assert!(timer.wait_until(later(20)).now_or_never().is_none());
    sleep(Duration::from_millis(40)).await;
    wait(&mut timer, later(20)).await;
}

#[tokio::test]
async fn other_tasks_run_while_deadlines_have_passed() {
    let run = async {
        let ran = Rc::new(Cell::new(false));
        let other = Rc::clone(&ran);
        spawn_local(async move { other.set(true) });
        let mut timer = Timer::new().expect("a timer");
        for _ in 0..1_000 {
            wait(&mut timer, later(0)).await;
        }
        assert!(ran.get());
    };
    LocalSet::new().run_until(run).await;
}
