//! Pinned maps of another size or another layout: their entries are
//! taken over, and no request goes unanswered.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use aya::maps::{Array, HashMap, Map, MapData};
use serde_json::Value;
use vipward_common::{ABI_VERSION, Field, Layout, Meta, Role, maps};
use vipward_tests::node::{HOLDS_ONE, Node};
use vipward_tests::scene::{NODE, PATIENCE, VIP, ip, map_dump};

/// Number of requests that show a gap of milliseconds before and after a change.
const SOME: usize = 300;
/// An ABI version that was never used.
const OTHER_ABI: u32 = 4711;
/// A generation that this agent would not give a first entry.
const GENERATION: u16 = 4242;

/// Returns key and value of a VIP, with bpftool's names of the fields.
fn entry(node: &Node, vip: std::net::Ipv4Addr) -> Result<Value> {
    let elements = map_dump(&node.agent, maps::VIPS_V4)?;
    let octets: Value = vip.octets().into_iter().map(Value::from).collect();
    let found = elements.into_iter().find(|element| element["key"]["addr"] == octets);
    found.map(|mut element| element["value"].take()).with_context(|| format!("{vip} has no entry"))
}

#[test]
fn entries_go_over_to_a_map_of_another_size_and_no_request_goes_unanswered() -> Result<()> {
    let yaml = "vips: [{address: 192.0.2.10}, {address: 192.0.2.9, mac: '02:00:00:00:00:99'}]\n";
    let mut node = Node::start("resize", yaml)?;
    node.wait_until_answered(VIP, NODE)?;
    let before = entry(&node, VIP)?;
    assert_eq!(node.agent.status()?["max_vips"], 65_536);

    let probe = node.probe(VIP)?;
    for (from, to) in [(65_536, 1_000), (1_000, 2_000)] {
        probe.wait_for_requests(SOME, PATIENCE)?;
        let seen = node.agent.logs()?.len();
        node.agent.kill9()?;
        node.agent.options.max_vips = Some(to);
        node.restart_agent()?;
        node.agent.wait_for_log_after(seen, PATIENCE, "that it resized", |line| {
            line.message() == "data plane resized"
                && line.has("from", from)
                && line.has("to", to)
                && line.has("dropped", 0)
        })?;
        probe.wait_for_requests(SOME, PATIENCE)?;
        let status = node.agent.status()?;
        assert_eq!((&status["max_vips"], &status["entries"]), (&to.into(), &2.into()));
        for key in ["generation", "mac", "role"] {
            assert_eq!(entry(&node, VIP)?[key], before[key], "{key} of the entry");
        }
        assert_eq!(node.vip_status(ip(9))?["mac"], "02:00:00:00:00:99");
    }
    node.assert_answered_throughout(&probe.stop()?);
    Ok(())
}

/// The places of the fields in the other layout: another order,
/// other sizes, and no end of a handover.
const OTHER_LAYOUT: Layout = Layout {
    addr: Field { offset: 0, bytes: 4 },
    vlan: Field { offset: 4, bytes: 2 },
    ifindex: Field { offset: 8, bytes: 4 },
    role: Field { offset: 0, bytes: 1 },
    generation: Field { offset: 2, bytes: 2 },
    mac: Field { offset: 4, bytes: 6 },
    slot: Field { offset: 12, bytes: 4 },
    until_ns: Field { offset: 0, bytes: 0 },
};
type OtherKey = [u8; 12];
type OtherValue = [u8; 16];

fn put(bytes: &mut [u8], field: Field, value: &[u8]) {
    bytes[usize::from(field.offset)..][..usize::from(field.bytes)].copy_from_slice(value);
}

fn other_element(ifindex: u32, vip: std::net::Ipv4Addr, role: u8, slot: u32) -> (OtherKey, OtherValue) {
    let (mut key, mut value) = (OtherKey::default(), OtherValue::default());
    put(&mut key, OTHER_LAYOUT.ifindex, &ifindex.to_ne_bytes());
    put(&mut key, OTHER_LAYOUT.addr, &vip.octets());
    put(&mut value, OTHER_LAYOUT.role, &[role]);
    put(&mut value, OTHER_LAYOUT.mac, &NODE.0);
    put(&mut value, OTHER_LAYOUT.generation, &GENERATION.to_ne_bytes());
    put(&mut value, OTHER_LAYOUT.slot, &slot.to_ne_bytes());
    (key, value)
}

/// Pins a set of maps of another version in place of this version's, as that version's agent would
/// leave it: the link keeps its program, some of today's maps are missing, and one is pinned under
/// its former name.
fn pin_another_layout(pin_dir: &Path, elements: &[(OtherKey, OtherValue)]) -> Result<()> {
    for name in [maps::VIPS_V4, maps::META, maps::FILTER, maps::YIELDS] {
        fs::remove_file(pin_dir.join(name)).with_context(|| format!("failed to unpin {name}"))?;
    }
    for former in maps::FORMER {
        fs::rename(pin_dir.join(maps::OWN_MACS), pin_dir.join(former)).context("failed to rename a pin")?;
    }
    let mut vips = HashMap::<MapData, OtherKey, OtherValue>::create(64, 0)?;
    for (key, value) in elements {
        vips.insert(key, value, 0)?;
    }
    vips.pin(pin_dir.join(maps::VIPS_V4))?;
    let mut meta = Array::<MapData, [u8; size_of::<Meta>()]>::create(1, 0)?;
    let other = Meta { abi_version: OTHER_ABI, _pad: 0, layout: OTHER_LAYOUT };
    meta.set(0, <[u8; size_of::<Meta>()]>::try_from(bytemuck::bytes_of(&other))?, 0)?;
    meta.pin(pin_dir.join(maps::META))?;
    Ok(())
}

#[test]
fn entries_go_over_from_maps_of_another_layout_and_no_request_goes_unanswered() -> Result<()> {
    let mut node = Node::start("migrate", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    let probe = node.probe(VIP)?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    let pin_dir = node.agent.options.pin_dir.clone();
    let links = |pin_dir: &Path| -> Result<Vec<_>> {
        let names = fs::read_dir(pin_dir)?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
        Ok(names.into_iter().filter(|name| name.to_string_lossy().starts_with("link_")).collect())
    };
    let (links_before, programs_before) = (links(&pin_dir)?, node.xdp_programs()?);
    let ifindex = node.host.link("eth0")?.index;

    node.agent.kill9()?;
    let no_role = other_element(ifindex, ip(66), 9, 8);
    pin_another_layout(&pin_dir, &[other_element(ifindex, VIP, Role::Held as u8, 7), no_role])?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    let seen = node.agent.logs()?.len();
    node.restart_agent()?;
    node.agent.wait_for_log_after(seen, PATIENCE, "that it migrated", |line| {
        line.message() == "data plane migrated from another ABI version"
            && line.has("from", OTHER_ABI)
            && line.has("to", ABI_VERSION)
            && line.has("dropped", 1)
    })?;
    probe.wait_for_requests(SOME, PATIENCE)?;

    let kept = entry(&node, VIP)?;
    assert_eq!(kept["generation"], GENERATION, "the entry is the old one: {kept}");
    assert_eq!(node.agent.status()?["abi_version"], ABI_VERSION);
    assert_eq!(node.agent.status()?["entries"], 1);
    assert!(!maps::FORMER.iter().any(|name| pin_dir.join(name).exists()), "former maps are unpinned");
    assert_eq!(links(&pin_dir)?, links_before, "the link goes on");
    assert_ne!(node.xdp_programs()?, programs_before, "with this program");
    // The layout is this version's now: another start changes nothing.
    let found = MapData::from_pin(pin_dir.join(maps::META))?;
    let meta = Array::<_, [u8; size_of::<Meta>()]>::try_from(Map::Array(found))?.get(&0, 0)?;
    assert_eq!(bytemuck::pod_read_unaligned::<Meta>(&meta), Meta::CURRENT);
    node.assert_answered_throughout(&probe.stop()?);
    Ok(())
}
