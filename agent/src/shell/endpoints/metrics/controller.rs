//! The metrics of the controller.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};
use vipward_core::pools::{self, Counts};

use super::{
    api::ApiMetrics,
    page::{IPV4, IPV6, PREFIX, Page, is, size},
    text::{self, Format},
};

#[cfg(test)]
mod tests;

/// Limits of the buckets, in seconds. One reservation and one status take two requests; the rest is
/// waiting for thousands of others.
const BUCKETS: [f64; 10] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0, 60.0];

/// What has become of the write of a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reserved {
    Ok,
    Freed,
    /// Another writer was faster.
    Conflict,
    Refused,
    /// No answer came in time.
    Unknown,
}

impl Reserved {
    const ALL: [Self; 5] = [Self::Ok, Self::Freed, Self::Conflict, Self::Refused, Self::Unknown];

    fn labels(self) -> Labels {
        Labels {
            result: match self {
                Self::Ok => "ok",
                Self::Freed => "freed",
                Self::Conflict => "conflict",
                Self::Refused => "refused",
                Self::Unknown => "unknown",
            },
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Labels {
    result: &'static str,
}

/// What the controller knows at the time of a scrape.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ControllerSnapshot {
    /// Its name as a candidate.
    pub name: String,
    pub leads: bool,
    /// The pools' addresses, which the leader alone knows.
    pub pools: Vec<(Arc<str>, BTreeMap<pools::Family, Counts>)>,
    /// The number of Services without an address that they request. Only the leader knows it.
    pub lacking: Option<usize>,
    /// The metrics of `MetalLB`'s controller, in the place of it.
    pub metallb: String,
}

pub struct ControllerMetrics {
    pub api: ApiMetrics,
    reservations: Family<Labels, Counter>,
    assignments: Histogram,
    registry: Registry,
}

impl Default for ControllerMetrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let reservations = Family::<Labels, Counter>::default();
        for result in Reserved::ALL {
            drop(reservations.get_or_create(&result.labels()));
        }
        let assignments = Histogram::new(BUCKETS);
        let api = ApiMetrics::default();
        api.register(&mut registry);
        registry.register("reservations", "Writes of reservations by outcome", reservations.clone());
        registry.register_with_unit(
            "assignment_duration",
            "Time from the choice of a Service's address to the status that names it, including the time until \
             a node holds it, if the status waits for that",
            Unit::Seconds,
            assignments.clone(),
        );
        Self { api, reservations, assignments, registry }
    }
}

impl ControllerMetrics {
    pub fn reserved(&self, result: Reserved) {
        self.reservations.get_or_create(&result.labels()).inc();
    }

    /// Counts a status that names an address for the first time.
    pub fn assigned(&self, took: Duration) {
        self.assignments.observe(took.as_secs_f64());
    }

    pub fn page(&self, format: Format, snapshot: ControllerSnapshot) -> Result<String, fmt::Error> {
        let mut now = Registry::with_prefix(PREFIX);
        let theirs = snapshot.metallb.clone();
        now.register_collector(Box::new(snapshot));
        text::page(format, &[&self.registry, &now], &theirs)
    }
}

impl Collector for ControllerSnapshot {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut page = Page(encoder);
        page.build("controller", &self.name)?;
        page.value(
            "controller_leads",
            "1 while this controller leads, and allocates the addresses",
            is(self.leads),
        )?;
        if let Some(lacking) = self.lacking {
            page.value(
                "services_lacking",
                "Services without an address that they request; their Events state the reason",
                size(lacking),
            )?;
        }
        let of_families = || {
            self.pools.iter().flat_map(|(pool, counts)| {
                counts
                    .iter()
                    .map(move |(family, counts)| (("pool", &**pool), ("family", name(*family)), counts))
            })
        };
        let sizes = of_families().map(|(pool, family, counts)| ([pool, family], number(counts.total)));
        page.values("pool_size", "Addresses that a pool can allocate", sizes)?;
        let by_state = of_families().flat_map(|(pool, family, counts)| {
            let states =
                [("allocated", counts.allocated), ("kept", counts.kept), ("available", counts.available())];
            states.map(|(state, addresses)| ([pool, family, ("state", state)], number(addresses)))
        });
        page.values(
            "pool_addresses",
            "Addresses of a pool: allocated, kept (Service gone), available",
            by_state,
        )
    }
}

fn name(family: pools::Family) -> &'static str {
    match family {
        pools::Family::V4 => IPV4,
        pools::Family::V6 => IPV6,
    }
}

#[expect(clippy::cast_precision_loss, reason = "no pool has 2^53 addresses")]
fn number(addresses: u128) -> f64 {
    addresses as f64
}
