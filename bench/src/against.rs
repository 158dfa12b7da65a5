//! Cost of this build's program against another build's, for a change of the program.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aya::programs::{TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use nix::time::{ClockId, clock_gettime};

use super::Options;
use super::machine::Machine;
use super::report::{Group, Item, Limit, Report, Unit};
use super::stage::object_path;
use super::stats::Samples;
use vipward_tests::arp::MIN_FRAME_LEN;
use vipward_tests::{interrupt, require_root};

const PROGRAM: &str = "vipward";
/// Pairs of measurements, and runs of the program in each.
const EFFORT: (usize, u32) = (21, 2_000_000);
/// The most that a frame may cost, as a part of what it cost before.
const MOST: f64 = 1.05;

/// Measures a frame that is not ARP with the program of another object and with this build's, in
/// turns. Returns how many bars were missed.
pub(crate) fn run(options: &Options, other: &Path) -> Result<usize> {
    require_root()?;
    let machine = Machine::read()?;
    println!("{machine}\n");
    let mut report = Report::new(machine, options.quick);
    let (before, after) = (load(other)?, load(&object_path("vipward.o"))?);
    let (mut costs, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..EFFORT.0 {
        interrupt::check()?;
        let (before, after) = (cost(&before)?, cost(&after)?);
        costs.push(after);
        ratios.push(after / before);
    }
    let (costs, ratios): (Samples, Samples) = (costs.into_iter().collect(), ratios.into_iter().collect());
    let item = Item::new(Group::Cost, "not ARP", Unit::Nanoseconds, &costs);
    report.push(item.ratio("the other object", &ratios, Some(Limit::AtMost(MOST))));
    println!("{report}");
    Ok(report.missed())
}

fn load(path: &Path) -> Result<Ebpf> {
    let failed = || format!("failed to load {}", path.display());
    let mut ebpf = EbpfLoader::new()
        .override_global("AYA_LOG_LEVEL", &0_u8, false)
        .load_file(path)
        .with_context(failed)?;
    let program = ebpf.program_mut(PROGRAM).with_context(failed)?;
    <&mut Xdp>::try_from(program)?.load().with_context(failed)?;
    Ok(ebpf)
}

/// Returns the nanoseconds of this thread's CPU time that a frame of IPv4 takes.
fn cost(ebpf: &Ebpf) -> Result<f64> {
    const XDP_PASS: u32 = 2;
    let mut frame = [0; MIN_FRAME_LEN];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let options = TestRunOptions { data_in: Some(&frame), repeat: EFFORT.1, ..TestRunOptions::new() };
    let program: &Xdp = ebpf.program(PROGRAM).context("the object has no such program")?.try_into()?;
    let start = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    let ran = program.test_run(options).context("failed to run the program")?;
    let elapsed = Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)? - start);
    ensure!(ran.return_value == XDP_PASS, "the program returned {}", ran.return_value);
    Ok(elapsed.as_secs_f64() * 1e9 / f64::from(EFFORT.1))
}
