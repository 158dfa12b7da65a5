//! Measures the time from the holder's loss of power until another node has its VIPs.

mod busy;
mod course;
mod crash;
mod measurements;
mod plot;
pub(crate) mod stalls;

pub(crate) use self::measurements::run;
