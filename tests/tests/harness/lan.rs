//! The library itself: LANs behave like LANs, the observers
//! notice every fault, and nothing remains.

mod cleanup;
mod kernel_facts;
mod managed;
mod probing;

use std::time::Duration;

/// A time longer than any step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
