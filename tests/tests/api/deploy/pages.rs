//! Statements that several pages share: they are the same on each.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use vipward::cli::CalledAs;

use super::{in_checkout, read};

/// The pages' allowance for the API server's work in a failover.
const REQUESTS: Duration = Duration::from_millis(500);
/// The pages that state the duration of a failover with the default flags.
const ABOUT_FAILOVERS: [&str; 6] = [
    "README.md",
    "docs/failure-detector.md",
    "docs/kubernetes/failures.md",
    "docs/measured/comparison.md",
    "docs/measured/performance.md",
    "docs/measured/scale.md",
];

/// Returns the default of a flag of `vipward kubernetes`.
fn default_of(flag: &str) -> Result<Duration> {
    let command = CalledAs::Vipward.command();
    let command = command.find_subcommand("kubernetes").context("no subcommand kubernetes")?;
    let flag = command.get_arguments().find(|it| it.get_long() == Some(flag)).context("no such flag")?;
    let default = flag.get_default_values().first().context("the flag has no default")?;
    Ok(humantime::parse_duration(&default.to_string_lossy())?)
}

/// Returns the time from the crash until the next holder answers.
///
/// A node is expired when its Lease has stood unchanged for lease and margin. The last renewal was
/// up to one renewal before the crash.
fn failover() -> Result<String> {
    let lease = default_of("lease-duration")?;
    let renewal = default_of("lease-renewal")?;
    let margin = default_of("margin")?;
    let silent = lease + margin;
    let best = silent.checked_sub(renewal).context("a renewal is longer than a lease")?;
    Ok(format!("{}–{} s", best.as_secs_f64(), (silent + REQUESTS).as_secs_f64()))
}

#[test]
fn every_page_gives_the_same_time_of_a_failover() -> Result<()> {
    let figure = failover()?;
    let begins = figure.split('–').next().context("invariant: it is a range")?;
    for path in ABOUT_FAILOVERS {
        let page = read(&in_checkout(path))?;
        assert!(page.contains(&figure), "{path} does not say {figure}");
        for (at, _) in page.match_indices(begins) {
            let rest = &page[at + begins.len()..];
            let is_range = rest.starts_with('–') || rest.starts_with(" to ");
            let line = page[..at].lines().count();
            assert!(!is_range || page[at..].starts_with(&figure), "{path}:{line} says another range");
        }
    }
    let in_words = figure.replace('–', " to ").replace(" s", " seconds");
    for path in ["deploy/prometheus/rules.yaml", "deploy/helm/vipward/templates/NOTES.txt"] {
        let text = read(&in_checkout(path))?.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&in_words), "{path} does not say {in_words}");
    }
    Ok(())
}

/// A row of docs/measured/bench.csv.
struct Measured {
    group: String,
    /// What was measured, and the system behind the last colon where there are several.
    name: String,
    /// Median, least and most, those that there are.
    figures: Vec<f64>,
}

fn measured() -> Result<Vec<Measured>> {
    let mut rows = csv::Reader::from_path(in_checkout("docs/measured/bench.csv"))?;
    let row = |row: Result<csv::StringRecord, csv::Error>| -> Result<Measured> {
        let row = row?;
        let field = |at: usize| row.get(at).unwrap_or_default();
        let figures = (4..=6).map(field).filter(|field| !field.is_empty());
        let figures = figures.map(str::parse).collect::<Result<_, _>>()?;
        Ok(Measured { group: field(0).to_owned(), name: field(1).to_owned(), figures })
    };
    rows.records().map(row).collect()
}

/// Returns the median of a row of a group.
fn median(measured: &[Measured], group: &str, name: &str) -> Result<f64> {
    let row = measured.iter().find(|row| row.group == group && row.name == name);
    Ok(*row.and_then(|row| row.figures.first()).with_context(|| format!("{group} has no {name}"))?)
}

#[test]
fn every_page_gives_the_measured_time_of_a_failover_by_the_detector() -> Result<()> {
    let measured = measured()?;
    let of = |group: &str| -> Result<[f64; 2]> {
        let name = "ARP, until another node answers";
        let p99 = format!("{name}, p99");
        Ok([median(&measured, group, name)?, median(&measured, group, &p99)?].map(|figure| 1000.0 * figure))
    };
    let [default, p99] = of("failover_by_default")?;
    let page = read(&in_checkout("docs/measured/performance.md"))?;
    for [median, p99] in [[default, p99], of("failover")?] {
        let figures = format!("{median:.0} / {p99:.0} ms");
        assert!(page.contains(&figures), "docs/measured/performance.md does not say {figures}");
    }
    let readme = read(&in_checkout("README.md"))?;
    let exact = format!("{default:.0} ms (by its Lease alone {})", failover()?);
    assert!(readme.contains(&exact), "README.md does not say {exact}");

    // Elsewhere in words, rounded up.
    let about = format!("about {} s", (default / 100.0).ceil() / 10.0);
    for path in ["docs/failure-detector.md", "docs/kubernetes/failures.md"] {
        assert!(read(&in_checkout(path))?.contains(&about), "{path} does not say {about}");
    }
    let alike = ["from-metallb.md", "from-kube-vip.md", "from-cilium.md", "monitoring.md", "README.md"];
    let alike = alike.map(|page| format!("docs/kubernetes/{page}"));
    for path in ABOUT_FAILOVERS.into_iter().chain(alike.iter().map(String::as_str)) {
        let page = read(&in_checkout(path))?;
        for (at, _) in page.match_indices("about 0.") {
            let line = page[..at].lines().count();
            assert!(page[at..].starts_with(&about), "{path}:{line} says another time than {about}");
        }
    }
    Ok(())
}

/// Rows of docs/measured/comparison.md by the beginnings of their first cells, and of bench.csv: group, and
/// the beginning of the name.
const SOURCES: [(&str, &str, &str); 7] = [
    ("crash: until datagrams", "peers: crash", "until datagrams"),
    ("move: unanswered", "peers: move", "unanswered"),
    ("kill: SIGKILL, restarted at once: unanswered", "peers: kill", "SIGKILL, restarted at once: unanswered"),
    ("kill: SIGKILL, restarted after 20 s: two", "peers: kill", "SIGKILL, restarted after 20 s: two"),
    ("replies, 1 a second", "peers: forged claims", "replies, 1 a second: datagrams"),
    ("flood: answers", "peers: flood", "answers a second"),
    ("askers: 4,096", "peers: askers", "4,096 new askers"),
];
/// Columns that `cargo xtask bench peers` fills. The others were measured by hand.
const FILLED: [&str; 5] = ["Vipward", "keepalived", "keepalived, 0.1 s", "ucarp", "the kernel"];

/// Returns the value of a figure such as `546 ms`, in the units of bench.csv.
fn value(figure: &str) -> Result<f64> {
    let (number, unit) = figure.split_once(' ').context("no unit")?;
    let number: f64 = number.parse()?;
    Ok(match unit {
        "ms" => number / 1e3,
        "%" => number / 1e2,
        "M/s" => number * 1e6,
        _ => number,
    })
}

#[test]
fn the_figures_of_the_comparison_are_those_that_the_benchmark_recorded() -> Result<()> {
    let measured = measured()?;
    let page = read(&in_checkout("docs/measured/comparison.md"))?;
    let mut compared = 0;
    for table in tables(&page) {
        for row in &table {
            let Some((_, group, name)) = SOURCES.iter().find(|(begins, ..)| row[0].starts_with(begins))
            else {
                continue;
            };
            for (column, cell) in table[0].iter().zip(row).filter(|(column, _)| FILLED.contains(column)) {
                let of_system = |it: &&Measured| {
                    let system = it.name.rsplit(": ").next().unwrap_or_default();
                    let is_same = system == *column || system.starts_with(&format!("{column}, --wire"));
                    it.group == *group && it.name.starts_with(name) && is_same
                };
                let known: Vec<f64> =
                    measured.iter().filter(of_system).flat_map(|it| it.figures.clone()).collect();
                for figure in figures(cell) {
                    let value = value(&figure)?;
                    let is_known = known.iter().any(|known| (known - value).abs() <= value * 1e-6);
                    assert!(is_known, "{}, {column}: {figure} is not among {known:?}", row[0]);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 30, "{compared} figures");
    Ok(())
}

/// Returns the figures of a text: numbers that one of these units follows.
fn figures(text: &str) -> Vec<String> {
    const UNITS: [&str; 5] = ["ms", "s", "%", "M/s", "MiB"];
    let words: Vec<&str> =
        text.split_whitespace().map(|word| word.trim_matches(['(', ')', ',', ';'])).collect();
    let pairs = words.windows(2).filter(|pair| pair[0].starts_with(|c: char| c.is_ascii_digit()));
    pairs.filter(|pair| UNITS.contains(&pair[1])).map(|pair| pair.join(" ")).collect()
}

/// Rows of README.md's comparison with figures, and the rows of docs/measured/comparison.md that have them.
/// Both are given by the beginnings of their first cells.
const ROWS: [(&str, &str); 6] = [
    ("dead node", "crash: until datagrams"),
    ("planned move", "move: unanswered"),
    ("agent killed", "kill: SIGKILL, restarted after 20 s: two"),
    ("client misled, 1 forged reply", "replies, 1 a second: datagrams"),
    ("answers a second", "flood: answers"),
    ("4,096 new askers", "askers: 4,096"),
];
/// Columns of README.md's comparison, and those of docs/measured/comparison.md that have their figures.
const COLUMNS: [(&str, &[&str]); 4] = [
    ("Vipward", &["Vipward"]),
    ("MetalLB L2", &["MetalLB"]),
    ("kube-vip ARP", &["kube-vip"]),
    ("keepalived", &["keepalived", "keepalived, 0.1 s", "the kernel"]),
];

/// Returns the tables of a page: rows of cells. The first row is the head.
fn tables(page: &str) -> Vec<Vec<Vec<&str>>> {
    let lines: Vec<&str> = page.lines().collect();
    let tables = lines.split(|line| !line.starts_with('|')).filter(|table| table.len() > 2);
    tables.map(|table| table.iter().copied().map(cells).collect()).collect()
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn each_figure_of_the_short_comparison_stands_in_its_row_and_column_of_the_long_one() -> Result<()> {
    let (short, long) =
        (read(&in_checkout("README.md"))?, read(&in_checkout("docs/measured/comparison.md"))?);
    let long = tables(&long);
    let short = tables(&short).into_iter().find(|table| table[0].contains(&"Vipward"));
    let [head, _, rows @ ..] = &short.context("README.md compares nothing")?[..] else {
        bail!("README.md compares nothing")
    };
    let mut compared = 0;
    for row in rows {
        let named = ROWS.iter().find(|(name, _)| row[0].starts_with(name));
        let named = named.map_or(row[0], |(_, long)| *long);
        for (column, cell) in head.iter().zip(row).skip(1) {
            let (_, columns) = COLUMNS.iter().find(|(name, _)| name == column).context("another system")?;
            let same = long.iter().flat_map(|table| {
                let rows = table.iter().filter(|row| row[0].starts_with(named));
                rows.flat_map(|row| table[0].iter().zip(row))
            });
            let same: Vec<String> =
                same.filter(|(head, _)| columns.contains(head)).flat_map(|(_, cell)| figures(cell)).collect();
            // The text in brackets says where a figure is from, or what follows from the settings.
            for figure in figures(cell.split('(').next().unwrap_or_default()) {
                assert!(same.contains(&figure), "{}, {column}: {figure} is not among {same:?}", row[0]);
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "{compared} figures");
    Ok(())
}
