//! Replies per second over a veth pair: Vipward's, a bare reflector's, and the kernel's own, to ARP
//! and to neighbour solicitations.

use anyhow::{Result, ensure};

use super::effort::Effort;
use crate::{
    report::{Group, Item, Limit, Report, Samples, Unit},
    stage::{Crowd, Family, Far, Stage},
};

const ALL: u32 = 65_536;

/// Responder, and the requests that it gets.
struct Subject {
    name: String,
    far: Far,
    crowd: Crowd,
    /// The bar for the ratio to the reflector, and to the kernel.
    bars: (Option<f64>, Option<f64>),
}

const OURS: Far = Far::Program("vipward");
const REFLECTOR: Far = Far::Program("bench_reflect");

/// Returns the responders while one VIP is loaded. In each list the reflector is first, and the kernel
/// second.
fn one_loaded(family: Family) -> Vec<Subject> {
    let least = least_of_one(family);
    let mut subjects = baselines(family);
    subjects.extend([
        subject(family, "Vipward, 1 VIP loaded, one asked", OURS, (1, 1), (Some(least), Some(5.0))),
        subject(
            family,
            "Vipward in mode tc, 1 VIP loaded, one asked",
            Far::Tc("vipward_tc"),
            (1, 1),
            (None, Some(1.5)),
        ),
        subject(
            family,
            "Vipward in generic mode, 1 VIP loaded, one asked",
            Far::Generic("vipward"),
            (1, 1),
            (None, None),
        ),
    ]);
    subjects
}

/// Returns the responders while all VIPs are loaded.
fn all_loaded(family: Family) -> Vec<Subject> {
    let least_of_all = match family {
        Family::V4 => 0.40,
        Family::V6 => 0.35,
    };
    let one = (Some(least_of_one(family)), Some(5.0));
    let mut subjects = baselines(family);
    subjects.extend([
        subject(family, "Vipward, 65,536 loaded, one asked", OURS, (1, 1), one),
        subject(family, "Vipward, 65,536 loaded, one asked by 65,536", OURS, (1, ALL), (None, None)),
        subject(
            family,
            "Vipward, 65,536 loaded, all asked by 65,536",
            OURS,
            (ALL, ALL),
            (Some(least_of_all), None),
        ),
    ]);
    subjects
}

/// Returns the least ratio to the reflector while one VIP is requested. A solicitation is twice as long as
/// a request of ARP, and has a checksum.
fn least_of_one(family: Family) -> f64 {
    match family {
        Family::V4 => 0.75,
        Family::V6 => 0.65,
    }
}

fn baselines(family: Family) -> Vec<Subject> {
    vec![
        subject(family, "bare XDP_TX reflector (exchanges the MACs)", REFLECTOR, (1, 1), (None, None)),
        subject(family, "the kernel, one address, one asker", Far::Kernel, (1, 1), (None, None)),
    ]
}

fn subject(
    family: Family,
    name: &str,
    far: Far,
    (vips, askers): (u32, u32),
    bars: (Option<f64>, Option<f64>),
) -> Subject {
    let name = format!("{name}, {}", family.protocol());
    Subject { name, far, crowd: Crowd { family, vips, askers }, bars }
}

pub(super) fn measure(effort: &Effort, report: &mut Report) -> Result<()> {
    for family in Family::ALL {
        let mut stage = Stage::new()?;
        stage.hold(family, 1)?;
        take_turns(effort, &mut stage, &one_loaded(family), report)?;
        stage.hold(family, ALL)?;
        take_turns(effort, &mut stage, &all_loaded(family), report)?;
    }
    Ok(())
}

fn take_turns(effort: &Effort, stage: &mut Stage, subjects: &[Subject], report: &mut Report) -> Result<()> {
    let (repetitions, frames, frames_to_kernel) = effort.rates;
    let mut rates = vec![Vec::new(); subjects.len()];
    for _ in 0..repetitions {
        for (subject, rates) in subjects.iter().zip(&mut rates) {
            let frames = if subject.far == Far::Kernel { frames_to_kernel } else { frames };
            let ran = stage.run(subject.far, subject.crowd, frames)?;
            let reflected = subject.far == REFLECTOR;
            let back = if reflected { ran.received } else { ran.replies };
            ensure!(back > 0, "nothing came back from {}", subject.name);
            rates.push(f64::from(u32::try_from(back)?) / ran.elapsed.as_secs_f64());
        }
    }
    let baselines = [(0, "the reflector"), (1, "the kernel")];
    for (place, (subject, own)) in subjects.iter().zip(&rates).enumerate() {
        let samples = own.iter().copied().collect();
        let mut item = Item::new(Group::Rate, &subject.name, Unit::PerSecond, &samples);
        for ((baseline, name), limit) in baselines.into_iter().zip([subject.bars.0, subject.bars.1]) {
            if place > baseline {
                let ratios: Samples =
                    own.iter().zip(&rates[baseline]).map(|(own, base)| own / base).collect();
                item = item.ratio(name, &ratios, limit.map(Limit::AtLeast));
            }
        }
        report.push(item);
    }
    Ok(())
}
