//! A parsed page of metrics. The parser follows the text format's
//! specification, and shares no code with the writer.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

/// A metric: its type, and the labels of its series.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Metric {
    pub(crate) kind: String,
    pub(crate) labels: BTreeSet<String>,
}

/// A page in Prometheus' text format, 0.0.4.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exposition {
    pub(crate) metrics: BTreeMap<String, Metric>,
    /// The values by series, in the written form.
    pub(crate) samples: BTreeMap<String, f64>,
}

impl Exposition {
    pub(crate) fn parse(page: &str) -> Result<Self> {
        let mut parsed = Self::default();
        for line in page.lines() {
            if let Some(described) = line.strip_prefix("# TYPE ") {
                let (name, kind) = described.split_once(' ').context("a type without a name")?;
                let metric = Metric { kind: kind.to_owned(), labels: BTreeSet::new() };
                ensure!(
                    parsed.metrics.insert(name.to_owned(), metric).is_none(),
                    "{name} is described twice"
                );
            } else if !line.starts_with('#') {
                parsed.take_sample(line).with_context(|| line.to_owned())?;
            }
        }
        Ok(parsed)
    }

    fn take_sample(&mut self, line: &str) -> Result<()> {
        let (series, value) = line.rsplit_once(' ').context("no value")?;
        let value = match value {
            "+Inf" => f64::INFINITY,
            number => number.parse()?,
        };
        ensure!(self.samples.insert(series.to_owned(), value).is_none(), "a series that is there twice");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let described = of_histogram.filter(|name| self.metrics.contains_key(*name)).unwrap_or(name);
        let metric = self.metrics.get_mut(described).context("it has no type")?;
        for label in labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty()) {
            let (label, _) = label.split_once('=').context("a label without a value")?;
            if label != "le" {
                metric.labels.insert(label.to_owned());
            }
        }
        Ok(())
    }

    /// Returns the value of a series, given in the written form.
    pub(crate) fn value(&self, series: &str) -> Result<f64> {
        self.samples.get(series).copied().with_context(|| {
            let name = series.split('{').next().unwrap_or(series);
            let alike: Vec<_> = self.samples.keys().filter(|known| known.starts_with(name)).collect();
            format!("there is no {series}; there are {alike:?}")
        })
    }
}
