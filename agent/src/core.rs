//! The core decides: pure, synchronous, time passed in; no clocks, randomness, environment or I/O.

pub mod net;
