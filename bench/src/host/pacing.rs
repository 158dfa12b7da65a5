//! The pace of announcements of many VIPs, as captured at the other end of the cable.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, ensure};

use super::{
    effort::Effort,
    load::{Place, config},
};
use crate::report::{Group, Item, Limit, Report, Unit};
use vipward_tests::{frames::Arp, kit::interrupt, lan::Wire};

const WINDOW: Duration = Duration::from_secs(1);

pub(super) fn measure(effort: &Effort, report: &mut Report) -> Result<()> {
    let (vips, rate) = effort.announced;
    let place = Place::new()?;
    let wire = Wire::open(&place.client, "eth0")?;
    let agent = place.start(&config(vips, &format!("announce: {{rate: {rate}}}\nprobe: {{count: 0}}"))?)?;
    let captured = capture(
        &wire,
        usize::try_from(vips)?,
        Duration::from_secs_f64(4.0 * f64::from(vips) / f64::from(rate)),
    );
    drop(agent);
    let captured = captured?;

    let busiest = f64::from(u32::try_from(busiest_window(&captured.times))?);
    let first = captured.times.first().copied().unwrap_or(SystemTime::UNIX_EPOCH);
    let all = captured.complete_at.duration_since(first)?.as_secs_f64();
    let name = format!("{vips} VIPs, frames in the busiest second, {rate} configured");
    let item = Item::new(Group::Pace, name, Unit::PerSecond, &busiest.into());
    report.push(item.bar(Limit::AtMost(f64::from(rate))));
    let name = format!("{vips} VIPs, each announced once in both forms");
    report.push(Item::new(Group::Pace, name, Unit::Seconds, &all.into()));
    Ok(())
}

struct Captured {
    /// Times of the announcements, from the first on.
    times: Vec<SystemTime>,
    /// Time at which every VIP had been announced in both forms.
    complete_at: SystemTime,
}

/// Captures until every VIP has been announced in both forms, and a window more, in which the later
/// rounds compete.
fn capture(wire: &Wire, vips: usize, expected: Duration) -> Result<Captured> {
    let limit = Duration::from_secs(10) + 2 * expected;
    let mut end = Instant::now() + limit;
    let mut times = Vec::new();
    let mut seen = BTreeSet::new();
    let mut complete_at = None;
    while let Some(frame) = wire.receive(end)? {
        interrupt::check()?;
        let Some(arp) = frame.arp().filter(Arp::is_gratuitous) else { continue };
        times.push(frame.at);
        seen.insert((arp.spa, arp.oper));
        if complete_at.is_none() && seen.len() == 2 * vips {
            complete_at = Some(frame.at);
            end = Instant::now() + 2 * WINDOW;
        }
        if Instant::now() >= end {
            break;
        }
    }
    ensure!(complete_at.is_some(), "only {} of {} announcements came within {limit:?}", seen.len(), 2 * vips);
    Ok(Captured { times, complete_at: complete_at.unwrap_or(SystemTime::UNIX_EPOCH) })
}

/// Returns the most frames that came within one second, whenever that began.
fn busiest_window(times: &[SystemTime]) -> usize {
    let mut from = 0;
    let mut most = 0;
    for (to, at) in times.iter().enumerate() {
        while at.duration_since(times[from]).is_ok_and(|age| age >= WINDOW) {
            from += 1;
        }
        most = most.max(to + 1 - from);
    }
    most
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::busiest_window;

    fn at(milliseconds: &[u64]) -> Vec<SystemTime> {
        milliseconds.iter().map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(*ms)).collect()
    }

    #[test]
    fn the_busiest_second_may_begin_at_any_frame() {
        let table: [(&[u64], usize, &str); 4] = [
            (&[], 0, "nothing"),
            (&[0, 999], 2, "within a second"),
            (&[0, 1_000], 1, "a second apart is not within one"),
            (&[0, 900, 950, 990, 1_800, 1_950], 4, "across the full second"),
        ];
        for (times, most, what) in table {
            assert_eq!(busiest_window(&at(times)), most, "{what}");
        }
    }
}
