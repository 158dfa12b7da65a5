//! A page that is written, one metric after another.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

/// The prefix of every name.
pub(super) const PREFIX: &str = "vipward";

/// Values of the label `family`.
pub(super) const IPV4: &str = "ipv4";
pub(super) const IPV6: &str = "ipv6";

pub(super) struct Page<'a>(pub(super) DescriptorEncoder<'a>);

impl Page<'_> {
    pub(super) fn value(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        ConstGauge::new(value).encode(self.0.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }

    pub(super) fn seconds(&mut self, name: &str, help: &str, seconds: f64) -> fmt::Result {
        let unit = Some(&Unit::Seconds);
        ConstGauge::new(seconds).encode(self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?)
    }

    pub(super) fn total(&mut self, name: &str, help: &str, total: u64) -> fmt::Result {
        ConstCounter::new(total).encode(self.0.encode_descriptor(name, help, None, MetricType::Counter)?)
    }

    pub(super) fn values<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        values
            .into_iter()
            .try_for_each(|(labels, value)| ConstGauge::new(value).encode(metric.encode_family(&labels)?))
    }

    pub(super) fn counts<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        counts: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        counts
            .into_iter()
            .try_for_each(|(labels, count)| ConstCounter::new(count).encode(metric.encode_family(&labels)?))
    }

    pub(super) fn build(&mut self, mode: &str, node: &str) -> fmt::Result {
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("mode", mode), ("node", node)];
        self.values(
            "build_info",
            "This process: its version, subcommand and node or name; always 1",
            [(labels, 1.0)],
        )
    }
}

pub(super) fn is(so: bool) -> f64 {
    f64::from(u8::from(so))
}

pub(super) fn size(size: usize) -> f64 {
    f64::from(u32::try_from(size).unwrap_or(u32::MAX))
}
