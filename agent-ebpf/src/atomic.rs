//! Atomic changes of words in map values.

use core::intrinsics::{self, AtomicOrdering::SeqCst};

/// Replaces a word if it is `old`. Returns true if it was.
///
/// # Safety
/// `word` points to an aligned word of a map value.
#[inline(always)]
pub(crate) unsafe fn compare_exchange(word: *mut u64, old: u64, new: u64) -> bool {
    // SAFETY: as above. The intrinsic is used because `core` has no compare_exchange for this
    // target.
    unsafe { intrinsics::atomic_cxchg::<u64, { SeqCst }, { SeqCst }>(word, old, new).1 }
}

/// Adds to a word.
///
/// # Safety
/// As for [`compare_exchange`].
#[inline(always)]
pub(crate) unsafe fn add(word: *mut u64, n: u64) {
    // SAFETY: as above.
    unsafe { intrinsics::atomic_xadd::<u64, u64, { SeqCst }>(word, n) };
}

/// Sets a word to zero, and returns what it was.
///
/// # Safety
/// As for [`compare_exchange`].
#[inline(always)]
pub(crate) unsafe fn take(word: *mut u64) -> u64 {
    // SAFETY: as above.
    unsafe { intrinsics::atomic_xchg::<u64, { SeqCst }>(word, 0) }
}
