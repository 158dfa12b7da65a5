//! Cost of a scrape with very many VIPs: its time, its size, the
//! agent's memory, and the time for which it blocks the event loop.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{
    effort::Effort,
    load::{Place, config, peak_resident_bytes, wait_until_held},
};
use crate::report::{Group, Item, Limit, MIB, Report, Samples, Unit};
use vipward_tests::{
    kit::interrupt,
    lan::{
        Host,
        http::{self, PAGES},
    },
};

const VIPS: u32 = 10_000;
const SCRAPES: usize = 21;

pub(super) fn measure(_: &Effort, report: &mut Report) -> Result<()> {
    let place = Place::new()?;
    let limit = VIPS.to_string();
    let mut agent = place.start_with(&config(VIPS, "")?, &["--metrics-max-vips", &limit])?;
    wait_until_held(&mut agent, VIPS)?;

    let mut taken = Samples::default();
    let mut bytes = 0;
    for _ in 0..SCRAPES {
        interrupt::check()?;
        let start = Instant::now();
        let page = http::get(&place.node, PAGES, "/metrics")?.good()?;
        taken.push(start.elapsed().as_secs_f64());
        ensure!(page.matches("vipward_vip_held{").count() == usize::try_from(VIPS)?, "VIPs are missing");
        bytes = page.len();
    }
    let held_up = longest_wait(&place.node)?;
    let peak = peak_resident_bytes(agent.pid()?)?;
    drop(agent);

    let name = |what: &str| format!("{VIPS} VIPs, {what}");
    let item = Item::new(Group::Scrape, name("a scrape"), Unit::Seconds, &taken);
    report.push(item.bar(Limit::AtMost(0.05)));
    let size = f64::from(u32::try_from(bytes)?);
    report.push(Item::new(Group::Scrape, name("its size"), Unit::Bytes, &size.into()));
    let item =
        Item::new(Group::Scrape, name("longest /livez beside scrapes"), Unit::Seconds, &held_up.into());
    report.push(item.bar(Limit::AtMost(0.05)));
    let item = Item::new(Group::Scrape, name("the agent's peak memory"), Unit::Bytes, &peak.into());
    report.push(item.bar(Limit::AtMost(30.0 * MIB)));
    Ok(())
}

/// Returns the longest that the event loop took to answer while one scrape followed the other.
fn longest_wait(node: &Host) -> Result<f64> {
    thread::scope(|scope| {
        let scrapes =
            scope.spawn(|| (0..SCRAPES).try_for_each(|_| http::get(node, PAGES, "/metrics").map(drop)));
        let mut longest = Duration::ZERO;
        while !scrapes.is_finished() {
            let start = Instant::now();
            http::get(node, PAGES, "/livez")?.good()?;
            longest = longest.max(start.elapsed());
            thread::sleep(Duration::from_millis(2));
        }
        scrapes.join().expect("invariant: nothing panics there")?;
        Ok(longest.as_secs_f64())
    })
}
