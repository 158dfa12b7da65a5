//! The rights of the pinging thread to a processor and to memory.

use nix::errno::Errno;

/// The rights that a thread has got: to run before all others, and never to wait for its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Urgency {
    /// Ok if it runs at once whenever it is due (`SCHED_FIFO`), else the reason why not.
    pub(super) scheduled: Result<(), Errno>,
    /// Ok if the memory of the process is locked, else the reason why not.
    pub(super) locked: Result<(), Errno>,
}

pub(super) fn make_urgent() -> Urgency {
    Urgency { scheduled: schedule(), locked: lock() }
}

/// Gives the calling thread the lowest priority above all ordinary threads.
fn schedule() -> Result<(), Errno> {
    // The kernel's `struct sched_param`. musl's differs, and its `sched_setscheduler` only fails.
    let priority: libc::c_int = 1;
    // A process that the thread might start gets an ordinary priority.
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the pointer is to one int, which is only read; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    Errno::result(result).map(drop)
}

/// Locks the present memory of the process, page by page at its first use. Later mappings stay
/// ordinary, so that no allocation fails for want of locked memory.
fn lock() -> Result<(), Errno> {
    const MCL_ONFAULT: libc::c_int = 4;
    // SAFETY: this changes no memory's contents.
    Errno::result(unsafe { libc::mlockall(libc::MCL_CURRENT | MCL_ONFAULT) }).map(drop)
}

#[cfg(test)]
mod tests;
