//! Kernel memory of the maps, as the kernel itself states it for each.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, Result};
use aya::maps::MapInfo;
use aya::programs::Xdp;

use super::effort::Effort;
use crate::{
    report::{Group, Item, Report, Unit},
    stage,
};

/// Measures the maps of the object that the agent embeds. All memory but the elements of some
/// hash maps is allocated when the maps are made, so the figures hold for any number of VIPs.
pub(super) fn measure(_: &Effort, report: &mut Report) -> Result<()> {
    let mut ebpf = stage::load(&stage::object_path("vipward.o"))?;
    let program: &mut Xdp =
        ebpf.program_mut("vipward").context("the object has no program vipward")?.try_into()?;
    program.load().context("the kernel refused the program")?;
    let ids = program.info()?.map_ids()?.context("the kernel does not report a program's maps")?;

    let mut maps = Vec::new();
    for id in ids {
        let info = MapInfo::from_id(id)?;
        let name = info.name_as_str().context("a map has no name")?.to_owned();
        let what = format!("{name}, {} entries", info.max_entries());
        maps.push((memlock(&info).with_context(|| format!("of map {name}"))?, what));
    }
    maps.sort_by(|a, b| b.cmp(a));
    let total = maps.iter().map(|(bytes, _)| bytes).sum();
    for (bytes, name) in maps.into_iter().chain([(total, "all of them".to_owned())]) {
        let bytes = f64::from(u32::try_from(bytes)?);
        report.push(Item::new(Group::KernelMemory, name, Unit::Bytes, &bytes.into()));
    }
    Ok(())
}

/// Returns what the kernel states in the map's fdinfo; since Linux 6.4 that is what it has
/// allocated.
fn memlock(info: &MapInfo) -> Result<u64> {
    let fd = info.fd()?;
    let path = format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd());
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("memlock:"));
    let bytes = line.with_context(|| format!("{path} has no line memlock"))?;
    bytes.trim().parse().with_context(|| format!("{path} has a bad memlock"))
}
