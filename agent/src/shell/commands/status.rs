//! `vipward status`: reads the status, and shows it as tables.

mod table;

use vipward_core::diagnosis::{doctor::WireReport, fact::Fact, pinned::Status};

pub use self::table::{Detail, brief, render};
use crate::shell::{
    endpoints::{waiting, wire_report},
    kernel::{
        bpf::Pins,
        status::{StatusError, read},
    },
};

/// Reads the status from the maps, and the rest from the agent.
pub async fn read_with_agent(pins: &Pins) -> Result<Status, StatusError> {
    let mut status = read(pins).await?;
    if let Some(wire) = &mut status.wire
        && let Fact::Read(WireReport { view: Some(view), .. }) = wire_report(pins.dir())
    {
        wire.scale = Some(view.scale);
    }
    if let Fact::Read(waiting) = waiting(pins.dir()) {
        status.set_waiting(waiting);
    }
    Ok(status)
}
