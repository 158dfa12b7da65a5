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
