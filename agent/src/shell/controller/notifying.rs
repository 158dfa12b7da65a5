//! The log and the Events about Services, reservations and objects with faults.

use std::{net::IpAddr, sync::Arc};

use tracing::{info, warn};
use vipward_core::{
    base::time::Monotonic,
    pools::{Allocator, L2Advertisement, L2AdvertisementRecord},
    records::PoolKind,
    reports::outbox::{ApiObject, ObjectFault, Outcome},
    services::Index,
};

use crate::shell::{
    kube::{ConnectError, Kube, MetalLb, PROBLEM, PROBLEM_OVER, Reporter},
    logging::lines::Trouble,
};

const REFUSED: &str = "the address cannot be reserved; trying again";
const UNKNOWN: &str = "whether the address is reserved is unknown; trying again";
const TAKEN: &str = "the API server accepts the reservation again";

/// A writer of log lines and Events.
pub(super) struct Notifying {
    pub(super) reporter: Reporter,
    metallb: Arc<str>,
}

impl Notifying {
    pub(super) fn start(kube: &Kube, now: Monotonic) -> Result<Self, ConnectError> {
        Ok(Self { reporter: Reporter::start(kube, now)?, metallb: kube.metallb_namespace() })
    }

    /// Reports an object that Vipward does not serve.
    pub(super) fn unserved(&mut self, object: &ApiObject, now: Monotonic) {
        let words = format!("Vipward announces at Layer 2; {} is not served", object.kind);
        self.fault(object, ObjectFault::unused(words), now);
    }

    /// Reports what of an `L2Advertisement` cannot be used.
    pub(super) fn advertisement(
        &mut self,
        record: &L2AdvertisementRecord,
        object: &ApiObject,
        now: Monotonic,
    ) {
        let faults = L2Advertisement::read(record.clone()).1;
        let words = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        self.fault(object, ObjectFault::unused(words), now);
    }

    /// Reports what of `MetalLB`'s pools cannot be used. They have no condition for that.
    pub(super) fn pools(&mut self, allocator: &Allocator, now: Monotonic) {
        for (pool, state) in allocator.pools() {
            let (PoolKind::IpAddressPool, name) = PoolKind::of(&pool.record.name) else { continue };
            let object = MetalLb::IpAddressPools.object(&self.metallb, name, &pool.record.uid);
            let words = state.problem(allocator.faults(&pool.record.name)).unwrap_or_default();
            self.fault(&object, ObjectFault::unused(words), now);
        }
    }

    /// Reports the fault of an object, or that it is over.
    pub(super) fn fault(&mut self, object: &ApiObject, fault: Option<ObjectFault>, now: Monotonic) {
        if !self.reporter.put_fault(object, fault.as_ref(), now) {
            return;
        }
        if let Some(ObjectFault { words, .. }) = fault {
            if self.reporter.admits(Trouble::Is(PROBLEM), now) {
                warn!(%object, problem = words, "{PROBLEM}");
            }
        } else if self.reporter.admits(Trouble::Over(PROBLEM_OVER), now) {
            info!(%object, "{PROBLEM_OVER}");
        }
    }

    /// Forgets an object of `MetalLB`'s that is gone.
    pub(super) fn gone(&mut self, of: MetalLb, name: &str) {
        self.reporter.forget_faults(&of.object(&self.metallb, name, ""));
    }

    /// Logs that a reservation was refused, with the reason. Without a reason, the outcome is unknown.
    pub(super) fn unreserved(&mut self, vip: IpAddr, why: Option<&str>, now: Monotonic) {
        if let Some(why) = why {
            if self.reporter.admits(Trouble::Is(REFUSED), now) {
                warn!(%vip, %why, "{REFUSED}");
            }
        } else if self.reporter.admits(Trouble::Is(UNKNOWN), now) {
            info!(%vip, "{UNKNOWN}");
        }
    }

    /// Logs that the API server accepts a reservation again.
    pub(super) fn reserved(&mut self, vip: IpAddr, now: Monotonic) {
        if self.reporter.admits(Trouble::Over(TAKEN), now) {
            info!(%vip, "{TAKEN}");
        }
    }

    /// Returns the outcome of the request that writes an Event. Safe to cancel.
    pub(super) async fn event_written(&mut self) -> Outcome {
        match self.reporter.event_written().await {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }

    /// Writes the Events that are due.
    pub(super) fn on_time(&mut self, services: &Index, now: Monotonic) {
        self.reporter.on_time(services, |_, _| Some(true), now);
    }
}
