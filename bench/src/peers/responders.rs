//! Speed of answers, and the number of hosts that get one.
//!
//! keepalived and ucarp leave both to the kernel.

use anyhow::{Result, ensure};

use super::{run::Run, system::System};
use crate::{
    report::Unit,
    stage::{Crowd, Family, Far, Stage},
};
use vipward_tests::kit::interrupt;

/// Requests of a run to Vipward, and to the kernel, which is slower.
const FRAMES: (u32, u32) = (2_000_000, 500_000);
/// Distinct askers.
const ASKERS: u32 = 4_096;
/// The peers are compared with IPv4.
const FAMILY: Family = Family::V4;
const OURS: &str = "vipward";

/// Measures answers a second, by one core that requests, answers and counts.
pub(super) fn flood(run: &mut Run<'_>) -> Result<()> {
    const NATIVE: &str = "answers a second, native XDP";
    const OTHERS: &str = "answers a second, tc or the kernel";
    let subjects = [
        (System::Vipward, NATIVE, Far::Program(OURS), FRAMES.0),
        (System::Vipward, OTHERS, Far::Tc("vipward_tc"), FRAMES.0),
        (System::Kernel, OTHERS, Far::Kernel, FRAMES.1),
    ];
    let mut stage = Stage::new()?;
    stage.hold(FAMILY, 1)?;
    for number in 1..=run.runs {
        interrupt::check()?;
        for (system, what, far, frames) in subjects {
            let ran = stage.run(far, Crowd { family: FAMILY, vips: 1, askers: 1 }, frames)?;
            ensure!(ran.replies > 0, "nothing came back from {system}");
            let rate = f64::from(u32::try_from(ran.replies)?) / ran.elapsed.as_secs_f64();
            run.progress(format!(
                "run {number} of {}: {system}: {what}: {}",
                run.runs,
                Unit::PerSecond.show(rate)
            ));
            run.record(what, Unit::PerSecond, system, rate);
        }
    }
    Ok(())
}

/// Measures the share of new askers that are answered when they come as fast as possible.
///
/// The kernel makes a neighbour entry for each, up to a limit of the whole machine, so the entries
/// are removed after each run.
pub(super) fn askers(run: &mut Run<'_>) -> Result<()> {
    let mut stage = Stage::new()?;
    stage.hold(FAMILY, 1)?;
    for number in 1..=run.runs {
        interrupt::check()?;
        for (system, far) in [(System::Vipward, Far::Program(OURS)), (System::Kernel, Far::Kernel)] {
            let ran = stage.run(far, Crowd { family: FAMILY, vips: 1, askers: ASKERS }, ASKERS);
            stage.drain_neighbours()?;
            let share = f64::from(u32::try_from(ran?.replies)?) / f64::from(ASKERS);
            run.progress(format!("run {number} of {}: {system}: {}", run.runs, Unit::Share.show(share)));
            run.record("4,096 new askers answered", Unit::Share, system, share);
        }
    }
    Ok(())
}
