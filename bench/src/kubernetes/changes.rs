//! Time until a Service's new VIP is answered, one Service after the other.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{
    objects::{self, ADDRESS_MANAGER, Source},
    scene::Scene,
    starts::push_answers,
};
use crate::report::{Group, Item, Limit, Report, Samples, Unit, count};
use vipward_tests::kit::interrupt;

const GROUP: Group = Group::Changes;
/// Long after it should be answered.
const LIMIT: Duration = Duration::from_secs(10);
/// Between a Service's answer and the next change: no two changes meet, and none in step with
/// anything.
const PAUSE_MS: std::ops::Range<u64> = 20..80;

pub(super) fn measure(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let surveyor = scene.surveyor()?;
    let mut taken = Vec::new();
    scene.server()?.reset_stats();
    for turn in 0..scene.effort.changes {
        interrupt::check()?;
        let number = fastrand::u32(0..scene.effort.services / 2) * 2 + turn % 2;
        let number = number.min(scene.effort.services - 1);
        let vip = scene.unused_vip();
        let name = objects::name(number);
        let begin = Instant::now();
        match Source::of(number) {
            Source::Annotation => scene.cluster.set_address(&name, vip)?,
            Source::Status => scene.cluster.set_ingress(&name, ADDRESS_MANAGER, &[vip])?,
        }
        taken.push((surveyor.wait_for(vip, LIMIT)? - begin).as_secs_f64());
        scene.vips[usize::try_from(number)?] = vip;
        interrupt::pass(Duration::from_millis(fastrand::u64(PAUSE_MS)))?;
    }
    let all: Samples = taken.iter().copied().collect();
    report.push(Item::new(GROUP, format!("{} changes, median", taken.len()), Unit::Seconds, &all));
    let p99 = all.percentile(99);
    let item = Item::new(GROUP, "99th percentile", Unit::Seconds, &p99.into());
    report.push(item.bar(Limit::AtMost(0.050)));
    report.push(Item::new(GROUP, "the longest", Unit::Seconds, &all.max().into()));

    scene.wait_until_calm()?;
    let writes = scene.writes()?;
    let changes = f64::from(scene.effort.changes);
    let claims = count(writes.new_claims + writes.changed_claims)? / changes;
    let item = Item::new(
        GROUP,
        "claim writes a change: one new, one let go and deleted",
        Unit::Ratio,
        &claims.into(),
    );
    report.push(item.bar(Limit::AtMost(3.0)));
    // The old holder takes its VIP out of the status,
    // and the new one writes its own, in either order.
    let name = "statuses written for each annotation that changed: by the old and the new holder";
    let statuses = count(writes.statuses)? / (changes / 2.0);
    report.push(Item::new(GROUP, name, Unit::Ratio, &statuses.into()).bar(Limit::AtMost(2.0)));
    push_answers(scene, report, GROUP)?;
    scene.record_memory()
}
