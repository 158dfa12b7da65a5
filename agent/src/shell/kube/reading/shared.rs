//! The shared state of this module's tasks: the API server, the agent's names,
//! and the last known state of claims and Leases.

use std::{net::IpAddr, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use vipward_core::records::{NodeName, Version};

use super::{alarm::Alarm, overload::Overload};
use crate::shell::{
    endpoints::metrics::Lane,
    kube::{
        kinds::{claims::KnownClaims, leases::KnownLeases, resource::Resource},
        link::{call::Collection, connect::Server},
    },
};

/// Number of waiting requests about claims that everyday changes do not reach.
const FEW: i64 = 4;
/// Longest time for which other requests let very many claims pass.
const LONGEST: Duration = Duration::from_secs(30);
/// Time between two readings of their number.
const LOOK: Duration = Duration::from_millis(50);

/// The way to the API server, for the agent of one node.
#[derive(Clone)]
pub struct Kube {
    pub(crate) server: Server,
    pub(crate) node: NodeName,
    pub(crate) namespace: Arc<str>,
    pub(crate) metallb: Arc<str>,
    pub(crate) claims: Arc<KnownClaims>,
    pub(crate) leases: Arc<KnownLeases>,
    pub(crate) alarm: Alarm,
    pub(crate) overload: Arc<Overload>,
}

impl Kube {
    /// Returns the way for the agent of `node`, with the Leases in `namespace`.
    pub fn new(server: Server, node: NodeName, namespace: &str) -> Self {
        Self {
            server,
            node,
            namespace: namespace.into(),
            metallb: Arc::default(),
            claims: Arc::default(),
            leases: Arc::default(),
            alarm: Alarm::new(),
            overload: Arc::default(),
        }
    }

    /// Returns the same way, with `MetalLB`'s objects in `namespace`.
    #[must_use]
    pub fn with_metallb(self, namespace: &str) -> Self {
        Self { metallb: namespace.into(), ..self }
    }

    /// Returns the namespace of `MetalLB`'s objects. It is empty if they are not read.
    pub fn metallb_namespace(&self) -> Arc<str> {
        Arc::clone(&self.metallb)
    }

    /// Makes every [`Reader`](crate::shell::kube::Reader) list everything anew, soon. Their watches
    /// end. After each list come the vanished objects and
    /// [`Seen::Synced`](crate::shell::kube::Seen::Synced). Each type is listed at most once a second.
    pub fn list_anew(&self) {
        self.alarm.list_anew();
    }

    /// Sends no request to an API server on this node for now. The watches there begin anew on
    /// another.
    pub fn avoid_server(&self, node: &NodeName) {
        self.server.servers().avoid(node, Instant::now());
    }

    /// Returns the uid of the VIP's claim, in its last known state.
    pub(crate) fn claim_uid(&self, vip: IpAddr) -> Option<Arc<str>> {
        self.claims.latest(vip)?.uid
    }

    /// Returns the version of the VIP's claim, in its last known state.
    pub fn claim_version(&self, vip: IpAddr) -> Option<Version> {
        Some(self.claims.latest(vip)?.version)
    }

    /// Waits while very many claims are written, at most until that has gone on for 30 seconds. A VIP
    /// is answered as soon as its claim is written, so other writes about it come later.
    pub(crate) async fn let_claims_pass(&self) {
        while self.overloaded_for().is_some_and(|lasts| lasts < LONGEST) {
            sleep(LOOK).await;
        }
    }

    /// Returns the time for which nodes have been writing very many claims.
    pub fn overloaded_for(&self) -> Option<Duration> {
        let waits = self.server.requests().waiting(Lane::Claims) > FEW;
        self.overload.lasts(waits, Instant::now())
    }

    pub(crate) fn collection(&self, resource: Resource) -> Collection {
        resource.collection(match resource {
            Resource::MetalLb(_) => &self.metallb,
            _ => &self.namespace,
        })
    }
}
