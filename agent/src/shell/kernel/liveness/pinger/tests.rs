use std::sync::mpsc;

use nix::{errno::Errno, sys::eventfd::EventFd};
use vipward_core::{
    liveness::{Counts, Finding, Plan},
    records::{Session, Wid},
};

use super::*;

#[test]
fn a_panic_is_an_error_that_says_what_it_said() {
    let text = |run: fn() -> Result<(), PingerError>| guarded(run).err().map(|error| error.to_string());
    assert_eq!(text(|| Ok(())), None);
    assert_eq!(text(|| Err(system("wait")(Errno::EBADF))), Some("failed to wait".to_owned()));
    assert_eq!(text(|| panic!("no slot")), Some("the thread has panicked: no slot".to_owned()));
    let number = 7;
    assert_eq!(
        guarded(|| panic!("slot {number}")).err().map(|error| error.to_string()),
        Some("the thread has panicked: slot 7".to_owned())
    );
}

fn shown() -> Thread {
    Thread {
        not_first: None,
        not_locked: None,
        peers: Vec::new(),
        counts: Counts::default(),
        frames_unsent: 0,
        frames_refused: 0,
        peers_left_out: 0,
    }
}

#[test]
fn a_thread_that_fails_or_panics_ends_its_findings_and_shows_nothing_any_longer() {
    type End = fn() -> Result<(), PingerError>;
    let ends: [(&str, End); 2] =
        [("an error", || Err(system("receive a frame")(Errno::EBADF))), ("a panic", || panic!("no slot"))];
    for (what, end) in ends {
        let (orders, taken) = mpsc::channel();
        let (findings, mut found) = unbounded_channel();
        let session = Session::from_number(7).expect("not zero");
        let turns = move |_: &EventFd, view: &Mutex<Option<Thread>>| {
            *view.lock().expect("no panic yet") = Some(shown());
            drop(findings.send(Finding::Answers { session }));
            // Its first order ends it.
            taken.recv().expect("an order");
            end()
        };
        let wid = Wid::from_number(1).expect("not zero");
        let pinger = Pinger::spawn(wid, orders, turns).expect("a thread");
        assert_eq!(found.blocking_recv(), Some(Finding::Answers { session }), "{what}");
        assert_eq!(pinger.view(), Some(shown()), "{what}");
        pinger.set_plan(Plan::default());
        assert_eq!(found.blocking_recv(), None, "{what}: the event loop learns that it has ended");
        let thread = pinger.thread.as_ref().expect("it was started");
        while !thread.is_finished() {
            thread::yield_now();
        }
        assert_eq!(pinger.view(), None, "{what}");
        // Later orders go nowhere, and do not fail.
        pinger.set_plan(Plan::default());
    }
}
