//! Watches a valid lease deadline until a heartbeat moves it.

use std::time::Duration;

use tokio::time::sleep;
use vipward_common::DeadlineState;
use vipward_core::diagnosis::{doctor::Heartbeat, fact::Unread, pinned::Contents};

use crate::shell::{
    kernel::bpf::{Pins, Reader},
    logging::errors::unread,
};

/// The time between two readings of the lease deadline. It limits the precision of a heartbeat's time.
const POLL: Duration = Duration::from_millis(50);
/// The time to wait for a heartbeat.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

/// Watches the lease deadline until a heartbeat moves it or it passes. Calls `watched` with the time so
/// far.
///
/// After a heartbeat, `contents` keep the earlier lease deadline. Otherwise they get the last reading.
pub(super) async fn watch(
    pins: &Pins,
    contents: &mut Contents,
    mut watched: impl FnMut(Duration),
) -> Result<Heartbeat, Unread> {
    let reader = Reader::open(pins).map_err(|error| unread(&error))?;
    let mut last = contents.clone();
    let so_far = |last: &Contents| last.passed(contents.now_ns);
    let is_moved = |last: &Contents| last.lease_deadline.deadline_ns != contents.lease_deadline.deadline_ns;
    while last.lease_deadline_state() == DeadlineState::Valid
        && !is_moved(&last)
        && so_far(&last) < LONG_ENOUGH
    {
        sleep(POLL).await;
        (last.lease_deadline, last.now_ns) = reader.lease_deadline().map_err(|error| unread(&error))?;
        watched(so_far(&last));
    }
    if last.lease_deadline_state() == DeadlineState::Valid && is_moved(&last) {
        return Ok(Heartbeat::Seen { good_for: last.left(last.lease_deadline.deadline_ns) });
    }
    let missed = Heartbeat::Missed { watched: so_far(&last) };
    (contents.lease_deadline, contents.now_ns) = (last.lease_deadline, last.now_ns);
    Ok(missed)
}
