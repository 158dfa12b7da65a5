//! Replies per second over a veth pair: Vipward's, a bare reflector's, and the kernel's own.

use anyhow::{Result, ensure};

use super::Effort;
use super::report::{Group, Item, Limit, Report, Unit};
use super::stage::{Far, Stage};
use super::stats::Samples;

const ALL: u32 = 65_536;

/// Responder, and the requests that it gets.
struct Subject {
    name: &'static str,
    far: Far,
    vips: u32,
    askers: u32,
    /// The bar for the ratio to the reflector, and to the kernel.
    bars: (Option<f64>, Option<f64>),
}

const OURS: Far = Far::Program("vipward");
const TC: Far = Far::Tc("vipward_tc");
const GENERIC: Far = Far::Generic("vipward");
const REFLECTOR: Subject = Subject {
    name: "bare XDP_TX reflector (exchanges the MACs)",
    far: Far::Program("bench_reflect"),
    vips: 1,
    askers: 1,
    bars: (None, None),
};
const KERNEL: Subject = Subject {
    name: "the kernel's own ARP, one address, one asker",
    far: Far::Kernel,
    vips: 1,
    askers: 1,
    bars: (None, None),
};
/// The reflector is first in each list, the kernel second.
const ONE_LOADED: [Subject; 5] = [
    REFLECTOR,
    KERNEL,
    Subject {
        name: "Vipward, 1 VIP loaded, one asked",
        far: OURS,
        vips: 1,
        askers: 1,
        bars: (Some(0.75), Some(5.0)),
    },
    Subject {
        name: "Vipward in mode tc, 1 VIP loaded, one asked",
        far: TC,
        vips: 1,
        askers: 1,
        bars: (None, Some(1.5)),
    },
    Subject {
        name: "Vipward in generic mode, 1 VIP loaded, one asked",
        far: GENERIC,
        vips: 1,
        askers: 1,
        bars: (None, None),
    },
];
const ALL_LOADED: [Subject; 5] = [
    REFLECTOR,
    KERNEL,
    Subject {
        name: "Vipward, 65,536 loaded, one asked",
        far: OURS,
        vips: 1,
        askers: 1,
        bars: (Some(0.75), Some(5.0)),
    },
    Subject {
        name: "Vipward, 65,536 loaded, one asked by 65,536",
        far: OURS,
        vips: 1,
        askers: ALL,
        bars: (None, None),
    },
    Subject {
        name: "Vipward, 65,536 loaded, all asked by 65,536",
        far: OURS,
        vips: ALL,
        askers: ALL,
        bars: (Some(0.40), None),
    },
];

pub(super) fn measure(effort: &Effort, report: &mut Report) -> Result<()> {
    let mut stage = Stage::new()?;
    stage.hold(1)?;
    take_turns(effort, &mut stage, &ONE_LOADED, report)?;
    stage.hold(ALL)?;
    take_turns(effort, &mut stage, &ALL_LOADED, report)
}

fn take_turns(effort: &Effort, stage: &mut Stage, subjects: &[Subject], report: &mut Report) -> Result<()> {
    let (repetitions, frames, frames_to_kernel) = effort.rates;
    let mut rates = vec![Vec::new(); subjects.len()];
    for _ in 0..repetitions {
        for (subject, rates) in subjects.iter().zip(&mut rates) {
            let frames = if subject.far == Far::Kernel { frames_to_kernel } else { frames };
            let ran = stage.run(subject.far, subject.vips, subject.askers, frames)?;
            let reflected = subject.far == REFLECTOR.far;
            let back = if reflected { ran.received } else { ran.replies };
            ensure!(back > 0, "nothing came back from {}", subject.name);
            rates.push(f64::from(u32::try_from(back)?) / ran.elapsed.as_secs_f64());
        }
    }
    let baselines = [(0, "the reflector"), (1, "the kernel")];
    for (place, (subject, own)) in subjects.iter().zip(&rates).enumerate() {
        let samples = own.iter().copied().collect();
        let mut item = Item::new(Group::Rate, subject.name, Unit::PerSecond, &samples);
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
