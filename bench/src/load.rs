//! Time until every VIP is in the map, and the agent's memory for all VIPs.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aya::maps::{HashMap, Map, MapData};
use vipward_common::{MacAddr, VipKeyV4, maps};

use super::Effort;
use super::report::{Group, Item, Limit, Report, Unit};
use super::stage::{FIRST_VIP, Object};
use super::stats::Samples;
use vipward_tests::agent::{Agent, AgentOptions};
use vipward_tests::bpffs::Bpffs;
use vipward_tests::interrupt;
use vipward_tests::lan::{Host, Lan, Nic};
use vipward_tests::process::memory_bytes;

const ALL: u32 = 65_536;
const REPETITIONS: usize = 3;
/// Time in which an agent does all its recurring work: a few heartbeats and announcements.
const SETTLING: Duration = Duration::from_secs(2);
const LOADING_LIMIT: Duration = Duration::from_mins(2);
/// Loading alone is measured: asking whether addresses are in use takes 700 ms, and longer when its
/// pace is reached.
const UNASKED: &str = "probe: {count: 0}";
const NIC: &str = "eth0";
pub(super) const MIB: f64 = 1_048_576.0;

pub(super) fn measure(effort: &Effort, report: &mut Report) -> Result<()> {
    raw(report)?;
    for count in effort.vips {
        agent(*count, effort.loads, report)?;
    }
    reload(effort.loads, report)
}

/// Measures the system calls alone, one per entry.
fn raw(report: &mut Report) -> Result<()> {
    let mut samples = Samples::default();
    for _ in 0..REPETITIONS {
        let mut object = Object::load()?;
        let taken = object.tables.hold(1, MacAddr([2, 0, 0, 0, 0, 1]), FIRST_VIP, ALL)?;
        samples.push(taken.as_secs_f64());
    }
    let item = Item::new(Group::Load, "65,536 VIPs, map updates alone", Unit::Seconds, &samples);
    report.push(item.bar(Limit::AtMost(1.0)));
    Ok(())
}

/// Measures the load of `count` VIPs, from the start of the agent's process.
fn agent(count: u32, repetitions: usize, report: &mut Report) -> Result<()> {
    let yaml = config(count, UNASKED)?;
    let (mut taken, mut peak) = (Samples::default(), Samples::default());
    for _ in 0..repetitions {
        let place = Place::new()?;
        let start = Instant::now();
        let mut agent = place.start(&yaml)?;
        wait_until_held(&mut agent, count)?;
        taken.push(start.elapsed().as_secs_f64());
        interrupt::pass(SETTLING)?;
        peak.push(peak_resident_bytes(agent.pid()?)?);
    }
    let name = format!("{} from the agent's start", vips(count));
    let item = Item::new(Group::Load, name, Unit::Seconds, &taken);
    report.push(if count == ALL { item.bar(Limit::AtMost(1.0)) } else { item });
    let item = Item::new(Group::Memory, vips(count), Unit::Bytes, &peak);
    report.push(item.bar(Limit::AtMost(30.0 * MIB)));
    Ok(())
}

/// Measures the load of all VIPs, from the replacement of a running agent's file.
fn reload(repetitions: usize, report: &mut Report) -> Result<()> {
    let (one, all) = (config(1, UNASKED)?, config(ALL, UNASKED)?);
    let mut taken = Samples::default();
    for _ in 0..repetitions {
        let place = Place::new()?;
        let mut agent = place.start(&one)?;
        wait_until_held(&mut agent, 1)?;
        let start = Instant::now();
        agent.write_config(&all)?;
        wait_until_held(&mut agent, ALL)?;
        taken.push(start.elapsed().as_secs_f64());
    }
    let name = "from 1 to 65,536 VIPs, from the change of the file";
    report.push(Item::new(Group::Load, name, Unit::Seconds, &taken).bar(Limit::AtMost(1.0)));
    Ok(())
}

pub(super) fn vips(count: u32) -> String {
    if count == 1 { "1 VIP".to_owned() } else { format!("{count} VIPs") }
}

/// Place of an agent: a host with a cable to another, and a bpffs.
pub(super) struct Place {
    bpffs: Bpffs,
    pub(super) client: Host,
    pub(super) node: Host,
}

impl Place {
    pub(super) fn new() -> Result<Self> {
        let client = Nic::new("10.0.0.1/8".parse()?);
        let (client, node) = Lan::pair(("client", client), ("node", Nic::new("10.0.0.2/8".parse()?)))?;
        Ok(Self { bpffs: Bpffs::mount()?, client, node })
    }

    /// Starts an agent on the node.
    pub(super) fn start(&self, yaml: &str) -> Result<Agent> {
        self.start_with(yaml, &[])
    }

    /// Starts one with more arguments.
    pub(super) fn start_with(&self, yaml: &str, args: &[&str]) -> Result<Agent> {
        let mut options = AgentOptions::new(self.bpffs.pin_dir("agent"));
        options.args = args.iter().map(ToString::to_string).collect();
        Agent::start(&self.node, yaml, options)
    }
}

/// Returns a configuration with `count` VIPs, and with `more` in front.
pub(super) fn config(count: u32, more: &str) -> Result<String> {
    let mut yaml = format!("{more}\nvips:\n");
    for number in 0..count {
        writeln!(yaml, "  - address: {}", vip(number))?;
    }
    Ok(yaml)
}

fn vip(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from_be_bytes(FIRST_VIP) + number)
}

pub(super) fn wait_until_held(agent: &mut Agent, count: u32) -> Result<()> {
    let index = agent.host().link(NIC)?.index;
    let last = VipKeyV4::new(index, vip(count - 1).octets());
    let path = agent.options.pin_dir.join(maps::VIPS_V4);
    let held = interrupt::wait(LOADING_LIMIT, &format!("{count} VIPs to be in the map"), || {
        ensure!(agent.is_running()?, "the agent has ended");
        entries_with(&path, last, count)
    });
    held.with_context(|| format!("the agent's log:\n{}", agent.transcript()))
}

/// Returns whether the map has `last`, and then whether it has `count` entries: that takes longer
/// to ask.
fn entries_with(path: &Path, last: VipKeyV4, count: u32) -> Result<Option<()>> {
    if !path.exists() {
        return Ok(None);
    }
    let map = Map::HashMap(MapData::from_pin(path)?);
    let map: HashMap<MapData, [u8; 8], [u8; 24]> = map.try_into()?;
    if map.get(&bytemuck::cast(last), 0).is_err() {
        return Ok(None);
    }
    Ok((map.keys().count() == usize::try_from(count)?).then_some(()))
}

pub(super) fn peak_resident_bytes(pid: u32) -> Result<f64> {
    Ok(f64::from(u32::try_from(memory_bytes(pid, "VmHWM")?)?))
}
