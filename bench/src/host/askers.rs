//! Share of distinct askers that are answered, by Vipward and by the kernel's own responder.

use anyhow::Result;

use super::effort::Effort;
use crate::{
    report::{Group, Item, Limit, Report, Unit},
    stage::{Crowd, Family, Far, Stage},
};

const SIZES: [u32; 5] = [500, 1_000, 1_500, 2_000, 4_096];

/// Measures crowds of askers, the largest no larger than the bar's.
/// The kernel's limit (`gc_thresh3`) is one for the whole machine,
/// so each crowd's neighbour entries are removed before the next.
pub(super) fn measure(_: &Effort, report: &mut Report) -> Result<()> {
    for family in Family::ALL {
        let mut stage = Stage::new()?;
        stage.hold(family, 1)?;
        for (far, who) in [(Far::Program("vipward"), "Vipward"), (Far::Kernel, "the kernel")] {
            for size in SIZES {
                let ran = stage.run(far, Crowd { family, vips: 1, askers: size.next_power_of_two() }, size);
                stage.drain_neighbours()?;
                let answered = f64::from(u32::try_from(ran?.replies)?);
                let name = format!("{who}, {size} askers, {}", family.protocol());
                let item = Item::new(Group::Askers, name, Unit::Count, &answered.into());
                report.push(if far == Far::Kernel {
                    item
                } else {
                    item.bar(Limit::AtLeast(f64::from(size)))
                });
            }
        }
    }
    Ok(())
}
