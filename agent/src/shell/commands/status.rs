//! `vipward status`: reads the status, and shows it as tables.

mod table;

use vipward_core::diagnosis::{doctor::WireReport, fact::Fact, pinned::Status};

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
    if let Some(wire) = &mut status.wire
        && let Fact::Read(WireReport { view: Some(view), .. }) = wire_report(pins.dir())
    {
        wire.scale = Some(view.scale);
    }
    Ok(status)
}
