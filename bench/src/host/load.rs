//! Time until every VIP is in the map, and the agent's memory for all VIPs.

use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aya::Pod;
use aya::maps::{HashMap, Map, MapData};
use ipnet::IpNet;
use vipward_common::{MacAddr, VipKeyV4, VipKeyV6, maps};

use super::effort::{Effort, Load};
use crate::{
    report::{Group, Item, Limit, MIB, Report, Samples, Unit},
    stage::{Family, Object},
};
use vipward_tests::{
    agent::{Agent, AgentOptions, Bpffs},
    kit::{interrupt, memory_bytes},
    lan::{Host, Lan, Nic},
};

const ALL: u32 = 65_536;
const REPETITIONS: usize = 3;
/// Time in which an agent does all its recurring work: a few heartbeats and announcements.
const SETTLING: Duration = Duration::from_secs(2);
const LOADING_LIMIT: Duration = Duration::from_mins(2);
/// Loading alone is measured. Probes whether addresses are in use take 700 ms, and longer at their
/// highest pace.
const UNASKED: &str = "probe: {count: 0}";
const NIC: &str = "eth0";

impl Load {
    const ONE: Self = Self { v4: 1, v6: 0 };
    const ALL: Self = Self { v4: ALL, v6: 0 };

    fn count(self) -> u32 {
        self.v4 + self.v6
    }

    fn name(self) -> String {
        match self {
            Self { v4, v6: 0 } => vips(v4),
            Self { v4: 0, v6 } => format!("{} of IPv6", vips(v6)),
            Self { v4, v6 } => format!("{}, and {v6} of IPv6", vips(v4)),
        }
    }

    /// Returns the most that the agent's memory may be.
    fn most_bytes(self) -> f64 {
        if self.v6 == 0 { 30.0 * MIB } else { 45.0 * MIB }
    }

    /// Returns a configuration with these VIPs, and with `more` in front.
    fn config(self, more: &str) -> Result<String> {
        let mut yaml = format!("{more}\nvips:\n");
        for (family, count) in [(Family::V4, self.v4), (Family::V6, self.v6)] {
            for number in 0..count {
                writeln!(yaml, "  - address: {}", family.vip(number))?;
            }
        }
        Ok(yaml)
    }
}

pub(super) fn measure(effort: &Effort, report: &mut Report) -> Result<()> {
    for family in Family::ALL {
        raw(family, report)?;
    }
    for load in effort.vips {
        agent(*load, effort.loads, report)?;
    }
    reload(effort.loads, report)
}

/// Measures the system calls alone, one per entry.
fn raw(family: Family, report: &mut Report) -> Result<()> {
    let mut samples = Samples::default();
    for _ in 0..REPETITIONS {
        let mut object = Object::load()?;
        let taken = object.tables.hold(1, MacAddr([2, 0, 0, 0, 0, 1]), family, ALL)?;
        samples.push(taken.as_secs_f64());
    }
    let name = format!("65,536 VIPs, map updates alone, {}", family.protocol());
    let item = Item::new(Group::Load, name, Unit::Seconds, &samples);
    report.push(item.bar(Limit::AtMost(1.0)));
    Ok(())
}

/// Measures a load, from the start of the agent's process.
fn agent(load: Load, repetitions: usize, report: &mut Report) -> Result<()> {
    let yaml = load.config(UNASKED)?;
    let (mut taken, mut peak) = (Samples::default(), Samples::default());
    for _ in 0..repetitions {
        let place = Place::new()?;
        if load.v6 > 0 {
            place.node.add_address(NIC, "2001:db8::9:9/64".parse::<IpNet>()?)?;
        }
        let start = Instant::now();
        let mut agent = place.start(&yaml)?;
        wait_until_loaded(&mut agent, load)?;
        taken.push(start.elapsed().as_secs_f64());
        interrupt::pass(SETTLING)?;
        peak.push(peak_resident_bytes(agent.pid()?)?);
    }
    let name = format!("{} from the agent's start", load.name());
    let item = Item::new(Group::Load, name, Unit::Seconds, &taken);
    report.push(if load.count() == ALL { item.bar(Limit::AtMost(1.0)) } else { item });
    let item = Item::new(Group::Memory, load.name(), Unit::Bytes, &peak);
    report.push(item.bar(Limit::AtMost(load.most_bytes())));
    Ok(())
}

/// Measures the load of all VIPs, from the replacement of a running agent's file.
fn reload(repetitions: usize, report: &mut Report) -> Result<()> {
    let (one, all) = (Load::ONE.config(UNASKED)?, Load::ALL.config(UNASKED)?);
    let mut taken = Samples::default();
    for _ in 0..repetitions {
        let place = Place::new()?;
        let mut agent = place.start(&one)?;
        wait_until_loaded(&mut agent, Load::ONE)?;
        let start = Instant::now();
        agent.write_config(&all)?;
        wait_until_loaded(&mut agent, Load::ALL)?;
        taken.push(start.elapsed().as_secs_f64());
    }
    let name = "from 1 to 65,536 VIPs, from the change of the file";
    report.push(Item::new(Group::Load, name, Unit::Seconds, &taken).bar(Limit::AtMost(1.0)));
    Ok(())
}

pub(crate) fn vips(count: u32) -> String {
    if count == 1 { "1 VIP".to_owned() } else { format!("{count} VIPs") }
}

/// Place of an agent: a host with a cable to another, and a bpffs.
pub(crate) struct Place {
    bpffs: Bpffs,
    pub(crate) client: Host,
    pub(crate) node: Host,
}

impl Place {
    pub(crate) fn new() -> Result<Self> {
        let client = Nic::new("10.0.0.1/8".parse()?);
        let (client, node) = Lan::pair(("client", client), ("node", Nic::new("10.0.0.2/8".parse()?)))?;
        Ok(Self { bpffs: Bpffs::mount()?, client, node })
    }

    pub(crate) fn start(&self, yaml: &str) -> Result<Agent> {
        self.start_with(yaml, &[])
    }

    pub(crate) fn start_with(&self, yaml: &str, args: &[&str]) -> Result<Agent> {
        let mut options = AgentOptions::new(self.bpffs.pin_dir("agent"));
        options.args = args.iter().map(ToString::to_string).collect();
        Agent::start(&self.node, yaml, options)
    }
}

/// Returns a configuration with `count` VIPs of IPv4, and with `more` in front.
pub(crate) fn config(count: u32, more: &str) -> Result<String> {
    Load { v4: count, v6: 0 }.config(more)
}

/// Waits until the agent holds `count` VIPs of IPv4.
pub(crate) fn wait_until_held(agent: &mut Agent, count: u32) -> Result<()> {
    wait_until_loaded(agent, Load { v4: count, v6: 0 })
}

fn wait_until_loaded(agent: &mut Agent, load: Load) -> Result<()> {
    let index = agent.host().link(NIC)?.index;
    let pins = agent.options.pin_dir.clone();
    let held = interrupt::wait(LOADING_LIMIT, &format!("{} to be in the map", load.name()), || {
        ensure!(agent.is_running()?, "the agent has ended");
        for (family, count) in [(Family::V4, load.v4), (Family::V6, load.v6)] {
            if count > 0 && !has_entries(&pins, index, family, count)? {
                return Ok(None);
            }
        }
        Ok(Some(()))
    });
    held.with_context(|| format!("the agent's log:\n{}", agent.transcript()))
}

/// Returns true if the map of a family has `count` VIPs.
fn has_entries(pins: &Path, ifindex: u32, family: Family, count: u32) -> Result<bool> {
    match family.vip(count - 1) {
        IpAddr::V4(last) => {
            let last = bytemuck::cast(VipKeyV4::new(ifindex, last.octets()));
            has_keys::<8>(&pins.join(maps::VIPS_V4), last, count)
        }
        IpAddr::V6(last) => {
            let last = bytemuck::cast(VipKeyV6::new(ifindex, last.octets()));
            has_keys::<20>(&pins.join(maps::VIPS_V6), last, count)
        }
    }
}

/// Returns whether the map has `last`, and only then whether it has `count` entries, which takes longer
/// to read.
fn has_keys<const BYTES: usize>(path: &Path, last: [u8; BYTES], count: u32) -> Result<bool>
where
    [u8; BYTES]: Pod,
{
    if !path.exists() {
        return Ok(false);
    }
    let map = Map::HashMap(MapData::from_pin(path)?);
    let map: HashMap<MapData, [u8; BYTES], [u8; 24]> = map.try_into()?;
    Ok(map.get(&last, 0).is_ok() && map.keys().count() == usize::try_from(count)?)
}

pub(crate) fn peak_resident_bytes(pid: u32) -> Result<f64> {
    Ok(f64::from(u32::try_from(memory_bytes(pid, "VmHWM")?)?))
}
