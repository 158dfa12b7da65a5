//! Watches a valid fence until a heartbeat moves it.

use std::time::Duration;

use tokio::time::sleep;
use vipward_common::FenceState;
use vipward_core::diagnosis::{doctor::Heartbeat, fact::Unread, pinned::Contents};

use crate::shell::{
    kernel::bpf::{Pins, Reader},
    logging::causes::unread,
};

/// The time between two looks at the fence, and so the precision of a heartbeat's time.
const POLL: Duration = Duration::from_millis(50);
/// The time to wait for a heartbeat.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

/// Watches the fence while it is valid and no heartbeat has moved it, calling `watched` with the
/// time so far.
///
/// When a heartbeat was seen, `contents` keep the fence as it was before. Otherwise they get the
/// last reading.
pub(super) async fn watch(
    pins: &Pins,
    contents: &mut Contents,
    mut watched: impl FnMut(Duration),
) -> Result<Heartbeat, Unread> {
    let reader = Reader::open(pins).map_err(|error| unread(&error))?;
    let mut last = contents.clone();
    let so_far = |last: &Contents| last.passed(contents.now_ns);
    let is_moved = |last: &Contents| last.fence.deadline_ns != contents.fence.deadline_ns;
    while last.fence_state() == FenceState::Valid && !is_moved(&last) && so_far(&last) < LONG_ENOUGH {
        sleep(POLL).await;
        (last.fence, last.now_ns) = reader.fence().map_err(|error| unread(&error))?;
        watched(so_far(&last));
    }
    if last.fence_state() == FenceState::Valid && is_moved(&last) {
        return Ok(Heartbeat::Seen { good_for: last.left(last.fence.deadline_ns) });
    }
    let missed = Heartbeat::Missed { watched: so_far(&last) };
    (contents.fence, contents.now_ns) = (last.fence, last.now_ns);
    Ok(missed)
}
