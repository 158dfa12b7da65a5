//! Figures, the bars that they are held against, and their table.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::{machine::Machine, output::Options, stats::Samples};
use vipward_tests::kit::require_root;

pub(crate) const MIB: f64 = 1_048_576.0;

/// Everything that one run measured.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    pub(crate) seconds: u64,
    pub(crate) items: Vec<Item>,
}

#[derive(Clone, Serialize)]
pub(crate) struct Item {
    pub(crate) group: Group,
    pub(crate) name: String,
    /// The median over the repetitions.
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// The same relative to a baseline, where there is one.
    pub(crate) relative: Vec<Relative>,
    pub(crate) bar: Option<Bar>,
}

/// A figure relative to a baseline: the median over the repetitions, each with its own baseline.
#[derive(Clone, Serialize)]
pub(crate) struct Relative {
    pub(crate) to: &'static str,
    pub(crate) value: f64,
    /// A difference rather than a ratio.
    pub(crate) difference: bool,
    pub(crate) bar: Option<Bar>,
}

#[derive(Clone, Copy, Serialize)]
pub(crate) struct Bar {
    pub(crate) limit: Limit,
    pub(crate) met: bool,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    pub(crate) fn judge(self, value: f64) -> Bar {
        let met = match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        };
        Bar { limit: self, met }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Group {
    Cost,
    Rate,
    Flood,
    Traffic,
    Askers,
    KernelMemory,
    Load,
    Memory,
    Pace,
    Scrape,
    Rest,
    Failover,
    FailoverByDefault,
    FailoverOfOneServerOfTwo,
    FailoverOfOneServerOfThree,
    FailoverOfTwo,
    FailoverOfBoth,
    FailoverByLease,
    FailoverOfPeers,
    FailoverOfMany,
    FailoverBusy,
    Stalls,
    Cluster,
    ColdStart,
    Bare,
    Calm,
    Changes,
    WarmStart,
    LostPins,
    Death,
    AgentMemory,
    Pools,
}

impl Group {
    fn title(self) -> &'static str {
        match self {
            Self::Cost => "program cost per frame (BPF_PROG_TEST_RUN)",
            Self::Rate => "replies per second (veth pair, native at the client, which counts)",
            Self::Flood => "replies per second beside a rogue's claims",
            Self::Traffic => "other traffic through a veth with the program",
            Self::Askers => "requests answered, each from another asker",
            Self::KernelMemory => "kernel memory of the maps",
            Self::Load => "time until every VIP is in the map",
            Self::Memory => "peak resident memory of the agent (VmHWM)",
            Self::Pace => "announcing, as captured at the client",
            Self::Scrape => "/metrics, with series for each VIP",
            Self::Rest => "CPU time of an agent at rest, in per cent of one core",
            Self::Failover => "the holder of three nodes loses power: wire failover, --wire 1",
            Self::FailoverByDefault => "the holder of three nodes loses power: wire failover, by default",
            Self::FailoverOfOneServerOfTwo => {
                "the holder of three nodes, one of two API servers, loses power: wire failover, by default"
            }
            Self::FailoverOfOneServerOfThree => {
                "the holder of three nodes, one of three API servers, loses power: wire failover, by default"
            }
            Self::FailoverOfTwo => "the holder of two nodes loses power: wire failover",
            Self::FailoverOfBoth => {
                "the holder of four nodes and one of its witnesses lose power: wire failover, from the first"
            }
            Self::FailoverByLease => "the holder of three nodes loses power: the Lease alone",
            Self::FailoverOfPeers => "the holder loses power: keepalived on three hosts",
            Self::FailoverOfMany => "one of three nodes loses power: wire failover",
            Self::FailoverBusy => "all CPUs are busy: wire failover, three nodes",
            Self::Stalls => "the holder of three nodes stalls: wire failover",
            Self::Cluster => "the cluster",
            Self::ColdStart => "cold start of all agents: Services exist, and nothing of Vipward's",
            Self::Bare => "a bare client that creates the same claims, without agents",
            Self::Calm => "calm: nothing happens",
            Self::Changes => "one Service gets another VIP, from before the write until the first answer",
            Self::WarmStart => "warm start of all agents: claims and pins exist",
            Self::LostPins => "warm start of all agents: claims exist, and the pins are lost",
            Self::Death => "death of a node that holds a third",
            Self::AgentMemory => {
                "peak resident memory of an agent (VmHWM), the largest of all agents and lives"
            }
            Self::Pools => "addresses that the controller gives out of a pool",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Nanoseconds,
    PerSecond,
    Seconds,
    Bytes,
    Count,
    Ratio,
    Share,
}

impl Unit {
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Nanoseconds => format!("{value:.1} ns"),
            Self::PerSecond if value >= 1e5 => format!("{:.2} M/s", value / 1e6),
            Self::PerSecond => format!("{value:.0} /s"),
            Self::Seconds if value < 1.0 => format!("{:.0} ms", value * 1e3),
            Self::Seconds => format!("{value:.2} s"),
            Self::Bytes if value >= f64::from(1 << 20) => format!("{:.1} MiB", value / f64::from(1 << 20)),
            Self::Bytes => format!("{:.1} KiB", value / 1024.0),
            Self::Count => format!("{value:.0}"),
            Self::Ratio => format!("{value:.2}"),
            Self::Share if value < 0.1 => format!("{:.2} %", value * 100.0),
            Self::Share => format!("{:.0} %", value * 100.0),
        }
    }
}

impl Item {
    pub(crate) fn new(group: Group, name: impl Into<String>, unit: Unit, samples: &Samples) -> Self {
        Self {
            group,
            name: name.into(),
            value: samples.median(),
            unit,
            least: samples.min(),
            most: samples.max(),
            relative: Vec::new(),
            bar: None,
        }
    }

    /// Sets the bar for the figure itself, if there is one.
    pub(crate) fn bar(mut self, limit: impl Into<Option<Limit>>) -> Self {
        self.bar = limit.into().map(|limit| limit.judge(self.value));
        self
    }

    /// Returns the ratio to a baseline.
    pub(crate) fn ratio(mut self, to: &'static str, ratios: &Samples, limit: Option<Limit>) -> Self {
        let value = ratios.median();
        let bar = limit.map(|limit| limit.judge(value));
        self.relative.push(Relative { to, value, difference: false, bar });
        self
    }

    /// Returns the difference to a baseline, in the item's own unit.
    pub(crate) fn over(mut self, to: &'static str, differences: &Samples, limit: Option<Limit>) -> Self {
        let value = differences.median();
        let bar = limit.map(|limit| limit.judge(value));
        self.relative.push(Relative { to, value, difference: true, bar });
        self
    }

    fn bars(&self) -> impl Iterator<Item = Bar> {
        self.bar.into_iter().chain(self.relative.iter().filter_map(|relative| relative.bar))
    }

    /// Returns one row for the figure, and one more for each further baseline.
    fn rows(&self) -> Vec<[String; 5]> {
        let spread = if self.least < self.most {
            format!("{} – {}", self.unit.show(self.least), self.unit.show(self.most))
        } else {
            String::new()
        };
        let mut rows = vec![[
            self.name.clone(),
            self.unit.show(self.value),
            spread,
            String::new(),
            self.bar.map(|bar| self.show_bar(bar, true)).unwrap_or_default(),
        ]];
        for relative in &self.relative {
            let shown = if relative.difference {
                let sign = if relative.value < 0.0 { "-" } else { "+" };
                format!("{sign}{} over {}", self.unit.show(relative.value.abs()), relative.to)
            } else {
                format!("{:.2} × {}", relative.value, relative.to)
            };
            let bar = relative.bar.map(|bar| self.show_bar(bar, relative.difference)).unwrap_or_default();
            match rows.last_mut() {
                Some(row) if row[3].is_empty() && row[4].is_empty() => {
                    row[3] = shown;
                    row[4] = bar;
                }
                _ => rows.push([String::new(), String::new(), String::new(), shown, bar]),
            }
        }
        rows
    }

    fn show_bar(&self, bar: Bar, in_unit: bool) -> String {
        let show = |limit: f64| if in_unit { self.unit.show(limit) } else { format!("{limit:.2}") };
        let limit = match bar.limit {
            Limit::AtMost(limit) => format!("≤ {}", show(limit)),
            Limit::AtLeast(limit) => format!("≥ {}", show(limit)),
        };
        format!("{limit} {}", if bar.met { "pass" } else { "FAIL" })
    }
}

impl Report {
    pub(crate) fn new(machine: Machine, quick: bool) -> Self {
        Self { machine, quick, seconds: 0, items: Vec::new() }
    }

    /// Begins a report, and prints the machine. Fails unless this process is root.
    pub(crate) fn begin(options: &Options) -> Result<Self> {
        require_root()?;
        let machine = Machine::read()?;
        println!("{machine}\n");
        Ok(Self::new(machine, options.quick))
    }

    /// Adds a figure behind the others of its group.
    pub(crate) fn push(&mut self, item: Item) {
        let place = self.items.partition_point(|other| other.group <= item.group);
        self.items.insert(place, item);
    }

    /// Returns how many bars were not met.
    pub(crate) fn missed(&self) -> usize {
        self.items.iter().flat_map(Item::bars).filter(|bar| !bar.met).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["", "MEDIAN", "SPREAD", "RELATIVE", "BAR"].map(str::to_owned);
        let rows: Vec<_> = self.items.iter().map(|item| (item.group, item.rows())).collect();
        let all_rows = || rows.iter().flat_map(|(_, rows)| rows).chain([&header]);
        let width =
            |column: usize| all_rows().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths = [0, 1, 2, 3, 4].map(width);
        let write_row = |f: &mut fmt::Formatter<'_>, [name, value, spread, relative, bar]: &[String; 5]| {
            let [w0, w1, w2, w3, _] = widths;
            let line = format!("  {name:w0$}  {value:>w1$}  {spread:w2$}  {relative:w3$}  {bar}");
            writeln!(f, "{}", line.trim_end())
        };
        write_row(f, &header)?;
        let mut group = None;
        for (of, rows) in &rows {
            if group.replace(*of) != Some(*of) {
                writeln!(f, "\n{}", of.title())?;
            }
            rows.iter().try_for_each(|row| write_row(f, row))?;
        }
        let bars = self.items.iter().flat_map(Item::bars).count();
        write!(f, "\n{} of {bars} bars met, in {} s", bars - self.missed(), self.seconds)
    }
}

pub(crate) fn push(report: &mut Report, group: Group, name: &str, value: f64, limit: Option<Limit>) {
    report.push(Item::new(group, name, Unit::Count, &value.into()).bar(limit));
}

/// Adds a time to the report, with the most seconds that it may take.
pub(crate) fn push_time(report: &mut Report, group: Group, name: &str, time: Duration, most: Option<f64>) {
    let item = Item::new(group, name, Unit::Seconds, &time.as_secs_f64().into());
    report.push(item.bar(most.map(Limit::AtMost)));
}

pub(crate) fn count(number: impl TryInto<u32>) -> Result<f64> {
    let number: Option<u32> = number.try_into().ok();
    Ok(number.context("a count does not fit into 32 bits")?.into())
}

#[cfg(test)]
mod tests {
    use super::{Group, Item, Limit, Unit};

    #[test]
    fn a_bar_is_met_at_its_limit_and_missed_beyond() {
        let table = [
            (Limit::AtMost(20.0), 20.0, true),
            (Limit::AtMost(20.0), 20.1, false),
            (Limit::AtLeast(0.75), 0.75, true),
            (Limit::AtLeast(0.75), 0.74, false),
            (Limit::AtMost(1.0), f64::NAN, false),
        ];
        for (limit, value, met) in table {
            assert_eq!(limit.judge(value).met, met, "{value}");
        }
    }

    #[test]
    fn a_row_names_the_baseline_the_bar_and_what_came_of_it() {
        let item = Item::new(Group::Cost, "hit", Unit::Nanoseconds, &73.0.into()).over(
            "bare XDP_TX",
            &43.0.into(),
            Some(Limit::AtMost(20.0)),
        );
        assert_eq!(
            item.rows(),
            [["hit", "73.0 ns", "", "+43.0 ns over bare XDP_TX", "≤ 20.0 ns FAIL"].map(str::to_owned)]
        );
    }

    #[test]
    fn a_second_baseline_gets_a_row_of_its_own() {
        let item = Item::new(Group::Rate, "one VIP", Unit::PerSecond, &5.2e6.into())
            .ratio("the reflector", &0.8.into(), Some(Limit::AtLeast(0.75)))
            .ratio("the kernel", &6.0.into(), None);
        let rows = item.rows();
        assert_eq!(
            rows[0],
            ["one VIP", "5.20 M/s", "", "0.80 × the reflector", "≥ 0.75 pass"].map(str::to_owned)
        );
        assert_eq!(rows[1], ["", "", "", "6.00 × the kernel", ""].map(str::to_owned));
    }
}
