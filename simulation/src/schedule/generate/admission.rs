//! Admission policies that refuse writes of agents, and Events that are refused or deleted. They have noise
//! of their own.

use fastrand::Rng;

use super::{FIRST_MS, Generator, Mark};
use crate::schedule::{
    plan::{Disturbance, When},
    what::{Denied, OnApi, OnTenants, Refused, What, Who},
};

/// The time after which an Event that was refused or deleted must be there again.
const RENEWED_MS: u32 = 630_000;

impl Generator {
    /// Returns refused writes of agents for every second schedule. No agent puts a claim right meanwhile that was
    /// edited by hand.
    pub(super) fn denials(seed: u64, nodes: u8, others: &[Disturbance]) -> Vec<Disturbance> {
        let mut rng = Rng::with_seed(seed.rotate_left(16));
        let is_rewritten =
            others.iter().any(|of| of.what.rewrites_the_store() || matches!(of.what, What::Lie { .. }));
        if is_rewritten || rng.bool() {
            return Vec::new();
        }
        let denial = |_| {
            let who = Who::Node(rng.u8(0..nodes));
            let of = [Denied::Claims, Denied::Lease, Denied::Shown][rng.usize(0..3)];
            let ms = rng.u32(FIRST_MS..FIRST_MS + 25_000);
            let for_ms = if rng.bool() { rng.u32(50..4_000) } else { rng.u32(4_000..30_000) };
            Disturbance { when: When::Ms(ms), what: What::Api(OnApi::Denied { who, of, for_ms }) }
        };
        (0..2).map(denial).collect()
    }

    /// Returns refused or deleted Events for every fourth schedule with a controller. One in eight of those goes on
    /// until they must be there again.
    pub(super) fn lost_events(seed: u64) -> Vec<Disturbance> {
        let mut rng = Rng::with_seed(seed.rotate_left(48));
        if rng.u8(0..4) > 0 {
            return Vec::new();
        }
        let ms = rng.u32(1_000..FIRST_MS + 30_000);
        let for_ms = rng.u32(500..20_000);
        let what = if rng.bool() {
            What::Api(OnApi::EventsGone)
        } else {
            What::Tenants(OnTenants::Refused { of: Refused::Event, for_ms })
        };
        let mut disturbances = vec![Disturbance { when: When::Ms(ms), what }];
        if rng.u8(0..8) == 0 {
            let (who, mark) = (Who::Node(0), Mark::Cordoned);
            let what = What::Marked { who, mark, for_ms: 1_000 };
            disturbances.push(Disturbance { when: When::Ms(ms + for_ms + RENEWED_MS), what });
        }
        disturbances
    }
}
