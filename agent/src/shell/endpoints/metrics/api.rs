//! Requests to the API server: their number, their failures, and those that wait.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// A queue of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// This node's own Lease.
    Renewals,
    Leases,
    Claims,
    Conditions,
    Statuses,
}

impl Lane {
    pub const ALL: [Self; 5] = [Self::Renewals, Self::Leases, Self::Claims, Self::Conditions, Self::Statuses];

    pub fn name(self) -> &'static str {
        match self {
            Self::Renewals => "renewals",
            Self::Leases => "leases",
            Self::Claims => "claims",
            Self::Conditions => "conditions",
            Self::Statuses => "statuses",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ApiError {
    /// 409: another writer was faster.
    Conflict,
    /// 404: there is no such object.
    Missing,
    /// 410: the version at which a watch began is too old.
    Expired,
    /// 429: too many requests.
    Busy,
    /// Any other 4xx.
    Refused,
    /// 5xx.
    Server,
    Deadline,
    Connection,
    Unreadable,
}

impl ApiError {
    fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Missing => "missing",
            Self::Expired => "expired",
            Self::Busy => "busy",
            Self::Refused => "refused",
            Self::Server => "server",
            Self::Deadline => "deadline",
            Self::Connection => "connection",
            Self::Unreadable => "unreadable",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct RequestLabels {
    resource: &'static str,
    verb: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ErrorLabels {
    resource: &'static str,
    kind: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct LaneLabels {
    lane: &'static str,
}

#[derive(Clone, Debug)]
pub struct ApiMetrics {
    requests: Family<RequestLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    pending: Family<LaneLabels, Gauge>,
}

impl Default for ApiMetrics {
    fn default() -> Self {
        let pending = Family::<LaneLabels, Gauge>::default();
        for lane in Lane::ALL {
            drop(pending.get_or_create(&LaneLabels { lane: lane.name() }));
        }
        Self { requests: Family::default(), errors: Family::default(), pending }
    }
}

impl ApiMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("api_requests", "Requests to the API server", self.requests.clone());
        registry.register(
            "api_errors",
            "Failed requests by kind; conflict: another node was faster, no fault",
            self.errors.clone(),
        );
        registry.register(
            "api_pending_requests",
            "Requests that wait to be sent, or for their answer",
            self.pending.clone(),
        );
    }

    pub fn sent(&self, resource: &'static str, verb: &'static str) {
        self.requests.get_or_create(&RequestLabels { resource, verb }).inc();
    }

    pub fn failed(&self, resource: &'static str, error: ApiError) {
        self.errors.get_or_create(&ErrorLabels { resource, kind: error.name() }).inc();
    }

    /// Counts a request as waiting until the returned value is dropped.
    pub fn wait(&self, lane: Lane) -> Pending {
        let gauge = self.pending.get_or_create(&LaneLabels { lane: lane.name() }).clone();
        gauge.inc();
        Pending(gauge)
    }

    /// Returns the number of requests that wait in a lane.
    pub fn waiting(&self, lane: Lane) -> i64 {
        self.pending.get_or_create(&LaneLabels { lane: lane.name() }).get()
    }

    /// Returns the number of requests that wait in each lane.
    pub fn pending(&self) -> impl Iterator<Item = (Lane, i64)> {
        Lane::ALL.into_iter().map(|lane| (lane, self.waiting(lane)))
    }
}

#[derive(Debug)]
pub struct Pending(Gauge);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.dec();
    }
}
