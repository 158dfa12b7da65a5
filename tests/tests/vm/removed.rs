//! A filter of traffic control that another program removes is back at once, on kernels without tcx.

use std::time::Duration;

use anyhow::{Context, Result};
use vipward_tests::{
    frames::Family,
    kit::{output_of, wait_until},
    lan::vm::Machine,
};

use crate::segment::{Kind, Segment};

/// A slow virtual machine, and yet well below the 30 s after which the agent reads everything back.
const SOON: Duration = Duration::from_secs(5);
const REMOVED: &str = "another program has removed Vipward's from the interface; attaching it again";

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn a_filter_or_its_discipline_that_another_program_removes_is_back_soon() -> Result<()> {
    let machine = Machine::here()?;
    let segment = Segment::new(&machine, Kind::Plain)?;
    let mut agent = segment.agent("attach: tc\n")?;
    segment.wait_until_answered()?;
    let nic = segment.at_node;
    let index = segment.node.link(nic)?.index;
    if !agent.options.pin_dir.join(format!("filter_{index}")).exists() {
        println!("this kernel has tcx, whose links no filter command removes");
        return Ok(());
    }
    let rows: [&[&str]; 3] = [
        &["qdisc", "del", "dev", nic, "clsact"],
        &["filter", "del", "dev", nic, "ingress"],
        &["filter", "del", "dev", nic, "ingress", "prio", "1"],
    ];
    for arguments in rows {
        let seen = agent.logs()?.len();
        let mut tc = segment.node.command("tc");
        tc.args(arguments);
        output_of(tc)?;
        let line = agent.wait_for_log_after(seen, SOON, REMOVED, |line| line.message() == REMOVED)?;
        assert_eq!((line.level(), line.has("interface", nic)), ("WARN", true), "{arguments:?}");
        wait_until(SOON, "the VIP", || segment.is_answered(Family::V4))
            .with_context(|| format!("{arguments:?}\n{}", agent.transcript()))?;
    }
    Ok(())
}
