//! `vipward status`: reads the status, and shows it as tables.

mod table;

use vipward_core::diagnosis::pinned::Status;

pub use self::table::render;
use crate::shell::{
    kernel::{
        bpf::Pins,
        status::{StatusError, read},
    },
    pages::wire_report,
};

/// Reads the status, and asks the agent for what the maps do not have.
pub async fn read_and_ask(pins: &Pins) -> Result<Status, StatusError> {
    let mut status = read(pins).await?;
    if let Some(wire) = &mut status.wire {
        wire.scale = wire_report(pins.dir()).ok().and_then(|report| report.view).map(|view| view.scale);
    }
    Ok(status)
}
