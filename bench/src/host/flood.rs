//! Replies per second while a rogue floods claims, against the same rate of claims on an address that
//! is no VIP.

use anyhow::{Result, ensure};

use super::effort::Effort;
use crate::{
    report::{Group, Item, Limit, Report, Samples, Unit},
    stage::{Crowd, Family, Far, Intruder, Intruders, Stage},
};

/// Frames per intruder: more than 100,000 intruders a second at the usual rates.
const EVERY: u32 = 32;
/// Least share of the rate that must be left beside a flood of claims.
const LEAST: f64 = 0.90;
const SUBJECTS: [(&str, Intruder); 3] = [
    ("1 frame in 32 claims another address", Intruder::Unrelated),
    ("1 frame in 32 claims the VIP", Intruder::Claim),
    ("1 frame in 32 claims it from a new MAC", Intruder::ClaimByNewMac),
];

pub(super) fn measure(effort: &Effort, report: &mut Report) -> Result<()> {
    Family::ALL.into_iter().try_for_each(|family| measure_family(family, effort, report))
}

fn measure_family(family: Family, effort: &Effort, report: &mut Report) -> Result<()> {
    let mut stage = Stage::new()?;
    stage.hold(family, 1)?;
    let crowd = Crowd { family, vips: 1, askers: 1 };
    let (repetitions, frames, _) = effort.rates;
    let mut rates = vec![Vec::new(); SUBJECTS.len()];
    for _ in 0..repetitions {
        for ((name, kind), rates) in SUBJECTS.iter().zip(&mut rates) {
            let intruders = Some(Intruders { every: EVERY, kind: *kind });
            let ran = stage.run_among(Far::Program("vipward"), crowd, intruders, frames)?;
            ensure!(ran.replies > 0, "nothing came back while {name}");
            rates.push(f64::from(u32::try_from(ran.replies)?) / ran.elapsed.as_secs_f64());
        }
    }
    for ((name, kind), own) in SUBJECTS.iter().zip(&rates) {
        let samples = own.iter().copied().collect();
        let mut item =
            Item::new(Group::Flood, format!("{name}, {}", family.protocol()), Unit::PerSecond, &samples);
        if *kind != Intruder::Unrelated {
            let ratios: Samples = own.iter().zip(&rates[0]).map(|(own, base)| own / base).collect();
            item = item.ratio("claims on another address", &ratios, Some(Limit::AtLeast(LEAST)));
        }
        report.push(item);
    }
    Ok(())
}
