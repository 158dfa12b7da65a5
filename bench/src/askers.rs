//! Share of distinct askers that are answered, by Vipward and by the kernel's own responder.

use anyhow::Result;

use super::Effort;
use super::report::{Group, Item, Limit, Report, Unit};
use super::stage::{Far, Stage};

const SIZES: [u32; 5] = [500, 1_000, 1_500, 2_000, 4_096];

/// Measures crowds of askers, the largest no larger than the bar's.
/// The kernel's limit (`gc_thresh3`) is one for the whole machine,
/// so each crowd's neighbour entries are removed before the next.
pub(super) fn measure(_: &Effort, report: &mut Report) -> Result<()> {
    let mut stage = Stage::new()?;
    stage.hold(1)?;
    for (far, who) in [(Far::Program("vipward"), "Vipward"), (Far::Kernel, "the kernel's own ARP")] {
        for size in SIZES {
            let ran = stage.run(far, 1, size.next_power_of_two(), size);
            stage.drain_neighbours()?;
            let answered = f64::from(u32::try_from(ran?.replies)?);
            let item =
                Item::new(Group::Askers, format!("{who}, {size} askers"), Unit::Count, &answered.into());
            report.push(if far == Far::Kernel { item } else { item.bar(Limit::AtLeast(f64::from(size))) });
        }
    }
    Ok(())
}
