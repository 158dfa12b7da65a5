//! The fence: while it is valid, it is watched until a heartbeat moves it.

use std::time::Duration;

use tokio::time::sleep;
use vipward_common::{Fence, FenceState};

use crate::{
    core::doctor::{Fact, FenceFact, Heartbeat, Validity},
    shell::{bpf::Maps, clock},
};

/// How often the fence is looked at, and so how exactly a heartbeat's time is known.
const POLL: Duration = Duration::from_millis(50);
/// For how long a heartbeat is waited for.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

/// The fence as it was at first, when a heartbeat was seen after that; else as it is when nothing more is waited for.
/// `watched` is told after each look in vain for how long there was none.
pub(super) async fn read(maps: &Maps, mut watched: impl FnMut(Duration)) -> Fact<FenceFact> {
    let first = Look::now(maps)?;
    let mut last = first;
    while last.is_valid() && !last.is_moved_since(&first) && last.since(&first) < LONG_ENOUGH {
        sleep(POLL).await;
        last = Look::now(maps)?;
        watched(last.since(&first));
    }
    Ok(match (last.state(), last.is_moved_since(&first)) {
        (FenceState::Valid, true) => {
            first.fact(Validity::Valid(Heartbeat::Seen { good_for_ns: last.left_ns(last.fence.deadline_ns) }))
        }
        (FenceState::Valid, false) => {
            last.fact(Validity::Valid(Heartbeat::Missed { watched: last.since(&first) }))
        }
        (FenceState::HeldOver, _) => last.fact(Validity::HeldOver),
        (FenceState::Over, _) => last.fact(Validity::Over),
    })
}

/// The fence at one moment.
#[derive(Clone, Copy)]
struct Look {
    fence: Fence,
    at_ns: u64,
}

impl Look {
    fn now(maps: &Maps) -> Fact<Self> {
        let fence = maps.fence().map_err(|error| super::unread(&error))?;
        Ok(Self { fence, at_ns: clock::coarse_ns().map_err(|errno| super::unread(&errno))? })
    }

    fn state(&self) -> FenceState {
        self.fence.state(self.at_ns)
    }

    fn is_valid(&self) -> bool {
        self.state() == FenceState::Valid
    }

    fn is_moved_since(&self, earlier: &Self) -> bool {
        self.fence.deadline_ns != earlier.fence.deadline_ns
    }

    fn since(&self, earlier: &Self) -> Duration {
        Duration::from_nanos(self.at_ns.saturating_sub(earlier.at_ns))
    }

    /// Both are less than 2^63 ns, which is 292 years, after the machine's start.
    fn left_ns(&self, until_ns: u64) -> i64 {
        until_ns.cast_signed().saturating_sub(self.at_ns.cast_signed())
    }

    fn fact(&self, state: Validity) -> FenceFact {
        FenceFact {
            state,
            policy: self.fence.policy,
            left_ns: self.left_ns(self.fence.deadline_ns),
            hold_left_ns: self.left_ns(self.fence.hold_until_ns),
        }
    }
}
