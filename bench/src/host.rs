//! Measures the cost, speed and memory of the program and the agent on one host.

pub(crate) mod against;
mod askers;
mod cost;
mod effort;
mod flood;
mod load;
mod measurements;
mod memory;
mod pacing;
mod rates;
mod scrape;
mod traffic;

pub(crate) use self::{
    load::{Place, config, peak_resident_bytes, vips, wait_until_held},
    measurements::run,
};
