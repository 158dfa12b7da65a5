//! docs/reference/metrics.md: every metric, from pages on which each has a series.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use vipward_common::{MacAddr, Role};
use vipward_core::{
    agent::{ClaimSnapshot, VipSnapshot},
    diagnosis::{
        doctor::WireReport,
        pinned::{self, Contents},
    },
    host::placement::Entry,
    ownership::WireCounts,
    pools::{Allocator, Event, PoolRecord, Surroundings, metallb_metrics},
    records::{PoolKind, ServiceName},
};

use super::{GENERATED, assert_committed, head, row};
use crate::shell::endpoints::metrics::{
    ApiError, ApiMetrics, ControllerMetrics, ControllerSnapshot, Format, MetalLbSnapshot, Metrics, Mode,
    Snapshot, snapshot,
};

const PAGE: &str = "metrics.md";
const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
const MAX_VIPS: usize = 10;

/// The description of a metric on a page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Metric {
    kind: String,
    labels: BTreeSet<String>,
    help: String,
}

type All = BTreeMap<String, Metric>;

/// Reads a page in the format of Prometheus.
fn read(page: &str) -> All {
    let mut all = All::new();
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|line| line.split_once(' ')) {
            // The encoder ends each with a full stop.
            help.trim_end_matches('.').clone_into(&mut all.entry(name.to_owned()).or_default().help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
        {
            kind.clone_into(&mut all.entry(name.to_owned()).or_default().kind);
        } else if let Some((series, labels)) =
            line.rsplit_once(' ').and_then(|(series, _)| series.split_once('{'))
        {
            let name = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| series.strip_suffix(suffix));
            let name = name.filter(|name| all.contains_key(*name)).unwrap_or(series);
            let labels = labels.trim_end_matches('}').split("\",").filter_map(|label| label.split_once('='));
            let labels = labels.map(|(label, _)| label.to_owned()).filter(|label| label != "le");
            all.get_mut(name).expect("a series follows its type").labels.extend(labels);
        }
    }
    all
}

fn count_one_request(api: &ApiMetrics) {
    api.sent("leases", "update");
    api.failed("leases", ApiError::Conflict);
}

/// Returns the state of a node that holds one VIP through one interface.
fn held(mode: Mode) -> (Contents, Snapshot) {
    let vip = VipSnapshot { vip: VIP, entry: Entry::Held, yielded: false };
    let entry = pinned::Entry::sample(VIP, Role::Held, MacAddr([2, 0, 0, 0, 0, 2]));
    (Contents::sample(vec![entry]), snapshot(mode, &[vip]))
}

fn standalone() -> All {
    let (kernel, snapshot) = held(Mode::Standalone);
    let metrics = Metrics::new(Mode::Standalone, MAX_VIPS);
    read(&metrics.page(Format::Prometheus, Some(kernel), Some(snapshot)).expect("a page"))
}

fn in_cluster() -> All {
    let (kernel, mut snapshot) = held(Mode::Kubernetes);
    snapshot.agent.claims = Some(ClaimSnapshot { epochs: vec![(VIP, 1)], without_holder: 0, nodes_alive: 1 });
    let report = WireReport { counts: WireCounts::default(), view: None, thread: None };
    snapshot.wire = Some(report);
    let announced = [(VIP, vec![service()])].into();
    snapshot.metallb = Some(MetalLbSnapshot { announced, is_loaded: true, is_stale: false });
    let metrics = Metrics::new(Mode::Kubernetes, MAX_VIPS);
    metrics.announcements.sent(VIP);
    count_one_request(&metrics.api);
    read(&metrics.page(Format::Prometheus, Some(kernel), Some(snapshot)).expect("a page"))
}

fn service() -> ServiceName {
    ServiceName { namespace: "default".into(), name: "web".into() }
}

/// The allocator checks no address of the pools here.
struct Everywhere;

impl Surroundings for Everywhere {
    fn refuses(&self, _: IpAddr) -> bool {
        false
    }

    fn is_free(&self, _: IpAddr) -> bool {
        true
    }
}

fn controller() -> All {
    let mut allocator = Allocator::default();
    for name in [Arc::from("own"), PoolKind::IpAddressPool.key("lan")] {
        let record = PoolRecord { name, addresses: vec!["192.0.2.0/30".into()], ..PoolRecord::default() };
        allocator.on_event(Event::Pool(Box::new(record)), &Everywhere);
    }
    let snapshot = ControllerSnapshot {
        name: "c1".to_owned(),
        leads: true,
        pools: allocator.pools().map(|(pool, state)| (Arc::clone(&pool.record.name), state.counts)).collect(),
        lacking: Some(0),
        metallb: metallb_metrics(&allocator),
    };
    let metrics = ControllerMetrics::default();
    count_one_request(&metrics.api);
    read(&metrics.page(Format::Prometheus, snapshot).expect("a page"))
}

fn section(title: &str, about: &str, metrics: &All) -> String {
    let mut text = format!("\n## {title}\n\n{about}\n\n{}", head(&["name", "type", "labels", "help"]));
    for (name, Metric { kind, labels, help }) in metrics {
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        assert!(!kind.is_empty() && !help.is_empty(), "{name} has no type or no help");
        text += &row(&[&format!("`{name}`"), kind, &labels.join(", "), help]);
    }
    text
}

fn page() -> String {
    let (standalone, cluster, controller) = (standalone(), in_cluster(), controller());
    let is_theirs = |name: &str| name.starts_with("metallb_");
    let of = |all: &All, is_one: &dyn Fn(&str) -> bool| -> All {
        all.iter().filter(|(name, _)| is_one(name)).map(|(name, it)| (name.clone(), it.clone())).collect()
    };
    let more = of(&cluster, &|name| !is_theirs(name) && !standalone.contains_key(name));
    let leaders = of(&controller, &|name| !is_theirs(name));
    let speakers = of(&cluster, &is_theirs);
    let allocators = of(&controller, &is_theirs);
    format!(
        "# Metrics\n\n{GENERATED}\n\n\
         For whoever writes a query, an alert or a dashboard. [Monitoring](../kubernetes/monitoring.md) has\n\
         the scraping, the alerts that ship and what to do about each. Histograms have the series\n\
         `_bucket`, `_sum` and `_count`.\n"
    ) + &section("Every agent", "Standalone and in a cluster.", &standalone)
        + &section("Agents in a cluster", "Besides those of every agent.", &more)
        + &section("Controller", "Those of the pools come from the leader alone.", &leaders)
        + &section(
            "MetalLB's names, agents",
            "With `--metallb`, for dashboards and alerts that know MetalLB's speakers.",
            &speakers,
        )
        + &section(
            "MetalLB's names, controller",
            "With `--metallb`, from the leader, for those that know MetalLB's controller.",
            &allocators,
        )
}

#[test]
fn every_metric_is_in_the_reference() {
    let page = page();
    // A counter without labels, a family, and a histogram.
    for start in [
        "| `vipward_yields_total` | counter |  | ",
        "| `vipward_vip_epoch` | gauge | `family`, `vip` | ",
        "| `vipward_takeover_gap_seconds` | histogram |  | ",
    ] {
        assert!(page.lines().any(|line| line.starts_with(start)), "{start} is not in {page}");
    }
    assert_committed(PAGE, &page);
}
