//! Holders of VIPs, by the nodes' pinned maps.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result};
use aya::maps::{Array, HashMap, Map, MapData, MapError};
use nix::time::{ClockId, clock_gettime};
use vipward_common::{LeaseDeadline, Role, VipEntry, VipKeyV4, maps};

use vipward_tests::cluster::{Cluster, NodeId, SEGMENT};

/// Number of VIPs without a holder after which a look ends. A wait
/// for ten thousand VIPs must not use up the machine that they need.
const MOST_MISSES: usize = 32;

/// The maps of one node.
struct Pins {
    node: NodeId,
    ifindex: u32,
    vips: HashMap<MapData, [u8; size_of::<VipKeyV4>()], [u8; size_of::<VipEntry>()]>,
    lease_deadline: Array<MapData, [u8; size_of::<LeaseDeadline>()]>,
}

impl Pins {
    fn open(cluster: &Cluster, node: NodeId) -> Result<Option<Self>> {
        let member = cluster.member(node)?;
        let agent = member.agent().with_context(|| format!("no agent was started on {node}"))?;
        let dir = &agent.options.pin_dir;
        let (vips, lease_deadline) = (dir.join(maps::VIPS_V4), dir.join(maps::LEASE_DEADLINE));
        // The agent is still making them.
        if !vips.exists() || !lease_deadline.exists() {
            return Ok(None);
        }
        let pinned = |path: &Path| MapData::from_pin(path);
        Ok(Some(Self {
            node,
            ifindex: member.host.link(SEGMENT)?.index,
            vips: Map::HashMap(pinned(&vips)?).try_into()?,
            lease_deadline: Map::Array(pinned(&lease_deadline)?).try_into()?,
        }))
    }

    fn holds(&self, vip: Ipv4Addr) -> Result<bool> {
        let key = VipKeyV4::new(self.ifindex, vip.octets());
        match self.vips.get(&bytemuck::cast(key), 0) {
            Ok(bytes) => {
                let entry: VipEntry = bytemuck::checked::try_pod_read_unaligned(&bytes)
                    .map_err(|error| anyhow::anyhow!("the entry of {vip} is none: {error}"))?;
                Ok(entry.role == Role::Held)
            }
            Err(MapError::KeyNotFound) => Ok(false),
            Err(error) => Err(error).with_context(|| format!("failed to read the entry of {vip}")),
        }
    }

    fn may_answer(&self) -> Result<bool> {
        let lease_deadline = self.lease_deadline.get(&0, 0).context("failed to read the lease deadline")?;
        let lease_deadline: LeaseDeadline = bytemuck::checked::try_pod_read_unaligned(&lease_deadline)
            .map_err(|error| anyhow::anyhow!("the lease deadline is none: {error}"))?;
        let now = std::time::Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
        Ok(u128::from(lease_deadline.deadline_ns) > now.as_nanos())
    }
}

/// Waiting for VIPs to be held, by any of some nodes.
pub(super) struct Outstanding {
    nodes: Vec<NodeId>,
    pins: Vec<Pins>,
    vips: Vec<Ipv4Addr>,
    held: Vec<(Ipv4Addr, NodeId)>,
}

impl Outstanding {
    /// Returns a search for the holders of these VIPs. No holder is known yet.
    pub(super) fn new(nodes: Vec<NodeId>, vips: Vec<Ipv4Addr>) -> Self {
        Self { nodes, pins: Vec::new(), vips, held: Vec::new() }
    }

    /// Reads the pins. Returns the holder of each VIP as soon as every VIP has one whose lease deadline lies
    /// ahead.
    pub(super) fn read_holders(&mut self, cluster: &Cluster) -> Result<Option<&[(Ipv4Addr, NodeId)]>> {
        if self.pins.len() < self.nodes.len() {
            self.pins.clear();
            for node in &self.nodes {
                self.pins.extend(Pins::open(cluster, *node)?);
            }
            if self.pins.len() < self.nodes.len() {
                return Ok(None);
            }
        }
        let mut missed = Vec::new();
        while let Some(vip) = self.vips.pop() {
            let mut holder = None;
            for pins in &self.pins {
                if pins.holds(vip)? {
                    holder = Some(pins.node);
                    break;
                }
            }
            match holder {
                Some(node) => self.held.push((vip, node)),
                None => missed.push(vip),
            }
            if missed.len() >= MOST_MISSES {
                break;
            }
        }
        // Those that were missed come last next time.
        self.vips.splice(0..0, missed);
        if !self.vips.is_empty() {
            return Ok(None);
        }
        for pins in &self.pins {
            if !pins.may_answer()? {
                return Ok(None);
            }
        }
        Ok(Some(&self.held))
    }

    /// Returns how many are not known to be held.
    pub(super) fn left(&self) -> usize {
        self.vips.len()
    }
}
