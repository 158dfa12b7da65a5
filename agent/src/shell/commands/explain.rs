//! `vipward explain`: gathers the facts about an address, or a Service and its addresses, from the API
//! server, the pins and the segment.

mod cluster;
mod gather;
mod host;
mod options;
mod render;

pub use self::{
    gather::{gather, gather_service},
    options::{ExplainError, Options},
    render::{render, render_service},
};
