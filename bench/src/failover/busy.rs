//! A machine so busy that pings are late: nothing may move.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::report::{Group, Item, Limit, Report, Unit, count};
use vipward_tests::{
    cluster::{ClusterOptions, ServiceSpec, scenario},
    frames::Family,
};

/// Threads that spin on each CPU.
const SPINNERS_A_CPU: usize = 2;
/// Time for which they do, in a full and in a quick measurement.
const BUSY: (Duration, Duration) = (Duration::from_mins(1), Duration::from_secs(10));

/// Measures what a busy minute does to the holder of a VIP.
pub(super) fn measure(quick: bool, progress: &impl Fn(&str), report: &mut Report) -> Result<()> {
    let lasts = if quick { BUSY.1 } else { BUSY.0 };
    progress(&format!("all CPUs are busy for {lasts:?}"));
    scenario("busy", ClusterOptions::with_wire(3, 1), |cluster| {
        cluster.make_wire_key()?;
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let holder = cluster.wait_until_all_held(&Family::vips())?;
        cluster.wait_until_witnessed(holder)?;
        let watch = cluster.watch(&Family::vips())?;
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            let cpus = thread::available_parallelism().map_or(1, usize::from);
            for _ in 0..cpus * SPINNERS_A_CPU {
                scope.spawn(|| {
                    while !ends.load(Ordering::Relaxed) {
                        hint::spin_loop();
                    }
                });
            }
            let passed = watch.let_pass(lasts);
            ends.store(true, Ordering::Relaxed);
            passed
        })?;
        let seen = watch.stop()?;
        let mut push = |what: &str, unit: Unit, value: f64| {
            let item = Item::new(Group::FailoverBusy, what, unit, &value.into());
            report.push(if unit == Unit::Count { item.bar(Limit::AtMost(0.0)) } else { item });
        };
        push("time", Unit::Seconds, lasts.as_secs_f64());
        for (family, vip) in Family::BOTH.map(|family| (family, family.vip())) {
            let wire = seen.wire.vip(vip)?;
            push(&format!("{family:?}: false moves"), Unit::Count, count(wire.moves().len())?);
            push(&format!("{family:?}: requests not answered"), Unit::Count, {
                count(wire.requests.len() - wire.answered())?
            });
            let late = wire.longest_delay_of_monitor();
            push(&format!("{family:?}: the asker itself was late by"), Unit::Seconds, late.as_secs_f64());
        }
        Ok(())
    })
}
