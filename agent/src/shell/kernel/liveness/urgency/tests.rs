use std::{fs, thread};

use nix::errno::Errno;

use super::schedule;

/// Returns the calling thread's real-time priority and scheduling policy, as proc(5) has them.
fn priority_and_policy() -> (i32, i32) {
    let stat = fs::read_to_string("/proc/thread-self/stat").expect("a thread can read its state");
    // The name, which may have blanks, is the second field, in brackets.
    let (_, from_the_third) = stat.rsplit_once(") ").expect("a name in brackets");
    let field = |number: usize| {
        let value = from_the_third.split(' ').nth(number - 3).expect("proc(5) has 52 fields");
        value.parse().expect("a number")
    };
    (field(40), field(41))
}

#[test]
fn a_thread_that_may_be_is_scheduled_before_all_ordinary_ones_and_its_own_children_are_not() {
    let of_a_thread = thread::spawn(|| {
        let scheduled = schedule();
        let child = thread::spawn(priority_and_policy).join().expect("it does not panic");
        (scheduled, priority_and_policy(), child)
    });
    let (scheduled, own, child) = of_a_thread.join().expect("it does not panic");
    let expected = match scheduled {
        Ok(()) => (1, libc::SCHED_FIFO),
        // The only reason that a kernel has.
        Err(error) => {
            assert_eq!(error, Errno::EPERM);
            (0, libc::SCHED_OTHER)
        }
    };
    assert_eq!(own, expected);
    assert_eq!(child, (0, libc::SCHED_OTHER));
}
