//! The agents' metrics under the names of `MetalLB`'s speakers, for its dashboards and alerts.
//!
//! Their counters have no `_total`, so they are written here. In `OpenMetrics`, which knows no such
//! counters, they have no type.

use std::{collections::BTreeMap, fmt::Write as _, net::IpAddr};

use vipward_core::{diagnosis::pinned::Contents, records::ServiceName};

use super::text::Format;

#[cfg(test)]
mod tests;

/// What the event loop knows instead of `MetalLB`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MetalLbSnapshot {
    /// The VIPs that this node holds, with their Services.
    pub announced: BTreeMap<IpAddr, Vec<ServiceName>>,
    pub is_loaded: bool,
    /// True if some cannot be read now.
    pub is_stale: bool,
}

const PREFIX: &str = "metallb";

/// Returns the metrics. With more than `most` VIPs, none has series of its own.
pub(super) fn page(
    format: Format,
    snapshot: &MetalLbSnapshot,
    node: &str,
    kernel: Option<&Contents>,
    sent: &BTreeMap<IpAddr, u64>,
    most: usize,
) -> String {
    let mut page = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, rows: Vec<(String, u64)>| {
        let kind = if kind == "counter" && format == Format::OpenMetrics { "unknown" } else { kind };
        let mut line = |text: std::fmt::Arguments<'_>| {
            page.write_fmt(text).expect("invariant: a String takes everything");
        };
        line(format_args!("# HELP {PREFIX}_{name} {help}\n# TYPE {PREFIX}_{name} {kind}\n"));
        for (labels, value) in rows {
            line(format_args!("{PREFIX}_{name}{labels} {value}\n"));
        }
    };
    let flag = |is: bool| vec![(String::new(), u64::from(is))];
    metric(
        "k8s_client_config_loaded_bool",
        "gauge",
        "1 if pools and advertisements were read",
        flag(snapshot.is_loaded),
    );
    metric(
        "k8s_client_config_stale_bool",
        "gauge",
        "1 while pools or advertisements cannot be read",
        flag(snapshot.is_stale),
    );
    let announced = || snapshot.announced.iter().filter(|_| snapshot.announced.len() <= most);
    let services = announced().flat_map(|(vip, services)| services.iter().map(move |service| (vip, service)));
    // No name in Kubernetes has a character that would need an escape.
    let of_service = |(vip, service): (&IpAddr, &ServiceName)| {
        (format!("{{service=\"{service}\",protocol=\"layer2\",node=\"{node}\",ip=\"{vip}\"}}"), 1)
    };
    metric(
        "speaker_announced",
        "gauge",
        "Services whose address this node holds",
        services.map(of_service).collect(),
    );
    let mut answered = BTreeMap::<IpAddr, u64>::new();
    for entry in kernel.iter().flat_map(|kernel| &kernel.entries) {
        if let Some(count) = entry.count {
            let sum = answered.entry(entry.address()).or_default();
            *sum = sum.wrapping_add(count.answered);
        }
    }
    let of_each = |counts: &BTreeMap<IpAddr, u64>| {
        let count = |vip: &IpAddr| counts.get(vip).copied();
        announced().filter_map(|(vip, _)| Some((format!("{{ip=\"{vip}\"}}"), count(vip)?))).collect()
    };
    for (name, help, counts) in [
        ("layer2_requests_received", "Requests for an address that this node holds", &answered),
        ("layer2_responses_sent", "Requests that were answered", &answered),
        ("layer2_gratuitous_sent", "Rounds of announcements of an address", sent),
    ] {
        metric(name, "counter", help, of_each(counts));
    }
    page
}
