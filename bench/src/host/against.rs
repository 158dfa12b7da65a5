//! Cost and speed of this build's program against another build's, for a change of the program.

use std::path::Path;

use anyhow::{Result, ensure};
use vipward_tests::kit::interrupt;

use super::cost::{TC_NEXT, XDP_PASS, other};
use crate::{
    report::{Group, Item, Limit, Options, Report, Samples, Unit},
    stage::{Crowd, Family, Far, Object, Stage, hold, object_path},
};

const NATIVE: &str = "vipward";
const TC: &str = "vipward_tc";
/// Pairs of measurements, runs of the program in each, and requests in each.
const EFFORT: (usize, u32, u32) = (21, 2_000_000, 1_000_000);
/// The most that a frame may cost, as a part of what it cost before.
const MOST: f64 = 1.05;
/// The least rate of answers, as a part of that before.
const LEAST: f64 = 0.97;

/// Measures frames that are neither ARP nor neighbour discovery with the programs of another object
/// and with this build's, in turns, and then answers. Returns how many bars were missed.
pub(crate) fn run(options: &Options, path: &Path) -> Result<usize> {
    let mut report = Report::begin(options)?;
    let load = |path: &Path| Object::load_programs(path, &[NATIVE], &[TC]);
    let (mut before, after) = (load(path)?, load(&object_path("vipward.o"))?);
    costs(&before, &after, &mut report)?;
    rates(&mut before, &mut report)?;
    println!("{report}");
    Ok(report.missed())
}

fn costs(before: &Object, after: &Object, report: &mut Report) -> Result<()> {
    let mut echo = other(Family::V6);
    // ICMPv6, and its echo request.
    (echo[20], echo[54]) = (58, 128);
    let frames =
        [("IPv4", other(Family::V4)), ("TCP over IPv6", other(Family::V6)), ("ICMPv6 that is not ND", echo)];
    let subjects: Vec<_> = frames
        .iter()
        .flat_map(|(name, frame)| [(*name, frame, NATIVE, XDP_PASS), (*name, frame, TC, TC_NEXT)])
        .collect();
    let mut measured = vec![(Vec::new(), Vec::new()); subjects.len()];
    for _ in 0..EFFORT.0 {
        for ((_, frame, program, action), (costs, ratios)) in subjects.iter().zip(&mut measured) {
            let cost = |object: &Object| -> Result<f64> {
                let (returned, cost) = object.test_run(program, frame, EFFORT.1)?;
                ensure!(returned == *action, "{program} returned {returned}");
                Ok(cost)
            };
            let (before, after) = (cost(before)?, cost(after)?);
            costs.push(after);
            ratios.push(after / before);
        }
    }
    for ((name, _, program, _), measured) in subjects.iter().zip(measured) {
        push(
            report,
            (Group::Cost, Unit::Nanoseconds),
            format!("{name}, {program}"),
            measured,
            Limit::AtMost(MOST),
        );
    }
    Ok(())
}

fn rates(other: &mut Object, report: &mut Report) -> Result<()> {
    for family in Family::ALL.into_iter().filter(|family| other.tables.has(*family)).collect::<Vec<_>>() {
        for vips in [1, 65_536] {
            let mut stage = Stage::new()?;
            stage.hold(family, vips)?;
            hold(other, &stage.node, family, vips)?;
            let crowd = Crowd { family, vips, askers: vips };
            for far in [Far::Program(NATIVE), Far::Tc(TC)] {
                let mut measured = (Vec::new(), Vec::new());
                for _ in 0..EFFORT.0 {
                    interrupt::check()?;
                    let before = stage.run_other(other, far, crowd, EFFORT.2)?.rate()?;
                    let after = stage.run(far, crowd, EFFORT.2)?.rate()?;
                    measured.0.push(after);
                    measured.1.push(after / before);
                }
                let program = if far == Far::Tc(TC) { TC } else { NATIVE };
                let name = format!("{}, {vips} VIPs in turn, {program}", family.protocol());
                push(report, (Group::Rate, Unit::PerSecond), name, measured, Limit::AtLeast(LEAST));
            }
        }
    }
    Ok(())
}

fn push(
    report: &mut Report,
    (group, unit): (Group, Unit),
    name: String,
    (values, ratios): (Vec<f64>, Vec<f64>),
    limit: Limit,
) {
    let (values, ratios): (Samples, Samples) = (values.into_iter().collect(), ratios.into_iter().collect());
    report.push(Item::new(group, name, unit, &values).ratio("the other object", &ratios, Some(limit)));
}
