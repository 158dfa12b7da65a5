//! Upgrade to an invented next version, whose maps have another layout, and the way back. No request
//! goes unanswered, and nothing that is pinned is lost.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use vipward_common::{FieldName, Role, VipEntry, VipKeyV4, WireState, maps};
use vipward_tests::{
    agent::{
        Agent, Attachment, Capability, LogLine, NODE, Node, PATIENCE, VIP, ip, map_dump, net, overwrite,
    },
    frames::{Arp, Mac},
    kit::{output_of, tools::bpftool, wait_until},
    lan::{Nic, Wire},
};

/// Number of requests that show a gap of milliseconds before and after a change.
const SOME: usize = 300;
const PEER: Mac = Mac([2, 0, 0, 0, 0, 3]);
const CONFIG: &str = "fence: {duration: 2s, policy: hold}\nyield: keep\npeers: ['02:00:00:00:00:03']\n\
                      vips: [{address: 192.0.2.10}, {address: 192.0.2.9, mac: '02:00:00:00:00:99'}]\n";
/// The map that only the next version has.
const BESIDE: &str = "beside";
/// A session that has ended, and the node's number as a monitor.
const ENDED: u64 = 0x77;
const NOTICES: u64 = 5;
const WID: u64 = 0x88;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    This,
    Next,
}

use Version::{Next, This};

impl Version {
    fn binary(self) -> Result<PathBuf> {
        match self {
            This => Ok(Agent::default_binary()),
            Next => Agent::next_binary(),
        }
    }
}

/// Starts an agent of a version after the end of another.
fn start(node: &mut Node, version: Version) -> Result<()> {
    node.agent.options.binary = Some(version.binary()?);
    node.restart_agent()
}

/// Starts an agent of another version, and checks that it takes over everything but `dropped`
/// elements.
fn change(node: &mut Node, version: Version, dropped: usize) -> Result<()> {
    let seen = node.agent.logs()?.len();
    start(node, version)?;
    let migrated = node.agent.wait_for_log_after(seen, PATIENCE, "that it migrated", |line| {
        line.message() == "data plane migrated from another layout"
    })?;
    assert!(migrated.has("dropped", dropped), "{migrated}");
    Ok(())
}

/// The pinned state that must survive a change of version.
fn pinned(node: &Node) -> Result<Value> {
    let status = node.agent.status()?;
    let mut entries = map_dump(&node.agent, maps::VIPS_V4)?;
    entries.sort_by_key(|element| element["key"]["addr"].to_string());
    let links = status["interfaces"].as_array().context("status lists no interfaces")?;
    let links: Vec<_> = links.iter().map(|link| (&link["ifindex"], &link["link_id"])).collect();
    let own_macs: Vec<_> = map_dump(&node.agent, maps::OWN_MACS)?.into_iter().map(values_only).collect();
    let peers: Vec<_> = map_dump(&node.agent, maps::PEERS)?.into_iter().map(values_only).collect();
    Ok(serde_json::json!({
        "entries": entries.into_iter().map(values_only).collect::<Vec<_>>(),
        "links": links,
        "own_macs": own_macs,
        "peers": peers,
        "policy": status["lease_deadline"]["policy"],
        "ended": number_in(node, maps::WIRE_STATE, "ended")?,
        "notices": number_in(node, maps::WIRE_STATE, "notices")?,
    }))
}

/// Returns an element without its slot, which a new map counts anew, and without what only one
/// layout has.
fn values_only(mut element: Value) -> Value {
    for part in ["key", "value"] {
        if let Some(fields) = element[part].as_object_mut() {
            let changes = ["slot", "last_ns", "proof"];
            fields.retain(|name, _| !name.starts_with('_') && !changes.contains(&name.as_str()));
        }
    }
    element
}

/// Adds an entry with a role that no version knows.
fn add_impossible_entry(node: &Node) -> Result<()> {
    let key = VipKeyV4::new(node.host.link("eth0")?.index, ip(66).octets());
    let entry = VipEntry { mac: NODE.0, generation: 1, role: Role::Held, slot: 9, until_ns: 0 };
    let mut bytes = bytemuck::bytes_of(&entry).to_vec();
    bytes[std::mem::offset_of!(VipEntry, role)] = 9;
    overwrite(&node.agent, maps::VIPS_V4, bytemuck::bytes_of(&key), &bytes)
}

/// Returns a number in the first value of an array.
fn number_in(node: &Node, map: &str, field: &str) -> Result<Value> {
    Ok(map_dump(&node.agent, map)?.first().context("the map is empty")?["value"][field].clone())
}

/// Writes the number of the node as a monitor.
fn set_wid(node: &Node, wid: u64) -> Result<()> {
    overwrite(&node.agent, maps::WIRE_SELF, &[0; 4], &wid.to_ne_bytes())
}

#[test]
fn an_upgrade_and_a_rollback_keep_all_that_is_pinned_and_no_request_goes_unanswered() -> Result<()> {
    let needed = vec![Capability::Bpf, Capability::NetAdmin, Capability::NetRaw, Capability::Perfmon];
    let mut node = Node::start_with("versions", Attachment::Auto, CONFIG, |options| {
        options.only_capabilities = Some(needed);
    })?;
    node.wait_until_answered(VIP, NODE)?;
    let notified = WireState { ended: ENDED, notices: NOTICES };
    overwrite(&node.agent, maps::WIRE_STATE, &[0; 4], bytemuck::bytes_of(&notified))?;
    set_wid(&node, WID)?;
    let before = pinned(&node)?;
    assert_eq!((&before["ended"], &before["notices"]), (&ENDED.into(), &NOTICES.into()));
    assert_eq!(before["entries"].as_array().map(Vec::len), Some(2), "{before}");
    add_impossible_entry(&node)?;

    let probe = node.probe(VIP)?;
    let mut dropped = 1;
    for (turn, version) in [Next, This, Next, This].into_iter().enumerate() {
        let programs = node.programs()?;
        probe.wait_for_requests(SOME, PATIENCE)?;
        node.agent.kill9()?;
        probe.wait_for_requests(SOME, PATIENCE)?;
        change(&mut node, version, dropped)?;
        dropped = 0;
        probe.wait_for_requests(SOME, PATIENCE)?;

        let after = pinned(&node)?;
        assert_eq!(after, before, "after change {turn} to {version:?}");
        assert_ne!(node.programs()?, programs, "the program is replaced");
        assert_eq!(number_in(&node, maps::WIRE_SELF, "wid")?, 0, "another monitor, after change {turn}");
        set_wid(&node, WID)?;
        if turn == 0 {
            overwrite(&node.agent, BESIDE, &[0; 4], &7_u64.to_ne_bytes())?;
        }
        assert_eq!(
            number_in(&node, BESIDE, "number")?,
            7,
            "the next version's map stays, after change {turn}"
        );
    }
    node.assert_answered_throughout(&probe.stop()?);

    // A second start of a version changes nothing.
    let seen = node.agent.logs()?.len();
    node.agent.kill9()?;
    node.restart_agent()?;
    let reuses = |line: &LogLine| line.message() == "reusing pinned data plane";
    node.agent.wait_for_log_after(seen, PATIENCE, "that it reuses", reuses)?;
    assert_eq!(pinned(&node)?, before);
    assert_eq!(number_in(&node, maps::WIRE_SELF, "wid")?, WID, "the same monitor");

    // Without its records of frames, a node is another monitor.
    node.agent.kill9()?;
    fs::remove_file(node.agent.options.pin_dir.join(maps::WIRE_SEEN))?;
    node.restart_agent()?;
    assert_eq!(number_in(&node, maps::WIRE_SELF, "wid")?, 0);

    node.agent.kill9()?;
    let unloaded = node.agent.unload()?;
    assert!(unloaded.contains("map beside"), "{unloaded}");
    assert!(!node.agent.options.pin_dir.exists(), "nothing is left");
    Ok(())
}

/// Returns the names of the records in `layout` that begin with this.
fn described(node: &Node, start: &str) -> Result<Vec<String>> {
    let name = |element: Value| {
        let text = element["key"]["text"].as_array().cloned().unwrap_or_default();
        let bytes = text.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok());
        String::from_utf8_lossy(&bytes.take_while(|byte| *byte != 0).collect::<Vec<_>>()).into_owned()
    };
    let names = map_dump(&node.agent, maps::LAYOUT)?.into_iter().map(name);
    Ok(names.filter(|name| name.starts_with(start)).collect())
}

/// Makes the pins what two versions leave whose common maps have one layout: each has a map that
/// the other lacks.
#[test]
fn versions_that_differ_in_maps_only_use_each_others_pins_and_leave_alone_what_they_do_not_know() -> Result<()>
{
    let mut node = Node::start("beside", CONFIG)?;
    node.wait_until_answered(VIP, NODE)?;
    let (before, probe) = (pinned(&node)?, node.probe(VIP)?);
    node.agent.kill9()?;
    let pin = |name: &str| node.agent.options.pin_dir.join(name);
    // Each field's name begins with its map's, and a dot.
    let of_offenders = format!("{}.", maps::OFFENDERS);
    let offenders = described(&node, &of_offenders)?;
    assert!(offenders.contains(&"offenders.key.mac".to_owned()), "{offenders:?}");
    for name in offenders.iter().map(|name| FieldName::of(name)) {
        let text = name.text.iter().map(|byte| format!("{byte:02x}"));
        let mut bpftool = Command::new(bpftool()?);
        bpftool.args(["map", "delete", "pinned"]).arg(pin(maps::LAYOUT)).args(["key", "hex"]).args(text);
        output_of(bpftool)?;
    }
    fs::rename(pin(maps::OFFENDERS), pin("later"))?;
    overwrite(&node.agent, maps::LAYOUT, &FieldName::of("later.number").text, &[0, 0, 8, 0])?;
    overwrite(&node.agent, maps::LAYOUT, &FieldName::of("lease_deadline.later").text, &[36, 0, 4, 0])?;

    let seen = node.agent.logs()?.len();
    node.restart_agent()?;
    let reuses = |line: &LogLine| line.message() == "reusing pinned data plane";
    node.agent.wait_for_log_after(seen, PATIENCE, "that it reuses", reuses)?;
    assert_eq!(pinned(&node)?, before);
    assert_eq!(described(&node, &of_offenders)?.len(), offenders.len());
    let pin = |name: &str| node.agent.options.pin_dir.join(name);
    assert!(pin(maps::OFFENDERS).exists(), "the missing map is made");
    assert!(pin("later").exists(), "the other version's map stays");
    assert_eq!(described(&node, "later.")?, ["later.number"]);
    assert_eq!(described(&node, "lease_deadline.later")?, ["lease_deadline.later"]);
    probe.wait_for_requests(SOME, PATIENCE)?;
    node.assert_answered_throughout(&probe.stop()?);
    Ok(())
}

#[test]
fn a_command_of_another_version_says_what_differs() -> Result<()> {
    let mut node = Node::start("othercmd", CONFIG)?;
    node.agent.kill9()?;
    change(&mut node, Next, 0)?;
    let mut status = node.host.command(This.binary()?);
    status.arg("status").arg("--pin-dir").arg(&node.agent.options.pin_dir);
    let output = status.output().context("failed to run status")?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    let expected = "the pins are of another version: vips_v4.key.ifindex is 4 bytes at 4 in the pins, and 4 bytes at 0 \
                    in this version. Use the vipward that the agent runs";
    assert!(said.contains(expected), "{said}");
    Ok(())
}

/// Kills the agent, waits until its grace period begins, and lets the peer announce the VIP.
fn yield_without_agent(node: &mut Node, peer: &Wire) -> Result<()> {
    node.agent.kill9()?;
    wait_until(PATIENCE, "the grace period to begin", || {
        Ok(node.agent.status()?["lease_deadline"]["state"] == "grace period")
    })?;
    ensure!(node.ask(VIP)? == Some(NODE), "the VIP is in its grace period");
    peer.send(&Arp::gratuitous_request(PEER, VIP, Mac::ZERO).to_bytes())?;
    node.wait_for_vip(VIP, "yielded", |row| row["yielded"] == true).map(drop)
}

#[test]
fn a_yield_that_a_program_recorded_without_an_agent_is_kept_by_an_upgrade_and_by_a_rollback() -> Result<()> {
    let mut node = Node::start("versyield", CONFIG)?;
    let peer = node.lan()?.host("peer", Nic::new(net(3)).mac(PEER))?;
    let peer = Wire::open(&peer, "eth0")?;
    node.wait_until_answered(VIP, NODE)?;
    for version in [Next, This] {
        yield_without_agent(&mut node, &peer)?;
        let probe = node.probe(VIP)?;
        change(&mut node, version, 0)?;
        probe.wait_for_requests(SOME, PATIENCE)?;
        let report = probe.stop()?;
        assert_eq!(report.answered(), 0, "the VIP is the peer's, and {version:?} does not answer: {report}");
        let row = node.vip_status(VIP)?;
        assert_eq!((&row["role"], &row["mac"]), (&"foreign".into(), &PEER.to_string().into()), "{row}");
        // The next version yields again.
        node.agent.signal(Signal::SIGHUP)?;
        node.wait_until_answered(VIP, NODE)?;
    }
    Ok(())
}

#[test]
fn agents_of_both_versions_that_are_killed_as_they_take_over_lose_nothing() -> Result<()> {
    const TIMES: u32 = 40;
    let mut node = Node::start("verskill", CONFIG)?;
    node.wait_until_answered(VIP, NODE)?;
    let before = pinned(&node)?;
    let probe = node.probe(VIP)?;
    node.agent.kill9()?;
    // The moments are spread over the time of a take-over on this machine, and a little beyond. Loading
    // the programs takes most of it, so every other pair waits until the first new map is pinned.
    let mut longest = Duration::ZERO;
    for version in [Next, This] {
        let began = Instant::now();
        change(&mut node, version, 0)?;
        longest = longest.max(began.elapsed());
        node.agent.kill9()?;
    }
    let (mut begun, mut completed, mut former) = (0, 0, layout(&node)?);
    for turn in 0..TIMES {
        node.agent.options.binary = Some([Next, This][usize::from(turn % 2 == 1)].binary()?);
        node.agent.restart()?;
        if turn % 4 < 2 {
            thread::sleep(longest * 5 / 4 * turn / TIMES);
        } else {
            let begin = Instant::now();
            while unpublished(&node)?.is_empty() && begin.elapsed() < longest * 2 {}
            thread::sleep(Duration::from_micros(100) * turn);
        }
        node.agent.kill9()?;
        begun += usize::from(!unpublished(&node)?.is_empty());
        // While the sets are exchanged, none is in force.
        if node.agent.options.pin_dir.join(maps::LAYOUT).exists() {
            let found = layout(&node)?;
            completed += usize::from(found != former);
            former = found;
        }
    }
    eprintln!("{longest:?}: {begun} of {TIMES} kills left a take-over begun; {completed} came after one");
    assert!(begun > 0 && completed > 0, "{begun} take-overs were begun, and {completed} completed");
    start(&mut node, This)?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    assert_eq!(pinned(&node)?, before);
    assert_eq!(unpublished(&node)?, Vec::<String>::new());
    node.assert_answered_throughout(&probe.stop()?);
    Ok(())
}

/// Returns the records in `layout`, in order.
fn layout(node: &Node) -> Result<Vec<String>> {
    let mut records: Vec<_> = map_dump(&node.agent, maps::LAYOUT)?.iter().map(Value::to_string).collect();
    records.sort();
    Ok(records)
}

fn pin_again(node: &Node, name_of: impl Fn(&str) -> String) -> Result<()> {
    let pin = |name: &str| node.agent.options.pin_dir.join(name);
    for name in maps::all() {
        let mut bpftool = Command::new(bpftool()?);
        bpftool.args(["map", "pin", "pinned"]).arg(pin(name)).arg(pin(&name_of(name)));
        output_of(bpftool)?;
    }
    Ok(())
}

/// Returns the pins of a set that is not in force.
fn unpublished(node: &Node) -> Result<Vec<String>> {
    let names = fs::read_dir(&node.agent.options.pin_dir)?
        .map(|file| Ok(file?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<Vec<_>>>()?;
    Ok(names.into_iter().filter(|name| name.ends_with("_new")).collect())
}

/// Takes an agent away while it puts a new set of maps in force, in each moment that the pins show.
#[test]
fn a_change_that_was_interrupted_is_completed_by_the_next_agent() -> Result<()> {
    let mut node = Node::start("interrupted", CONFIG)?;
    node.wait_until_answered(VIP, NODE)?;
    let before = pinned(&node)?;
    let probe = node.probe(VIP)?;
    let pin = |node: &Node, name: &str| node.agent.options.pin_dir.join(name);
    let all: Vec<_> = maps::all().collect();

    // The old set is in force, and the new one is whole.
    node.agent.kill9()?;
    pin_again(&node, |name| format!("{name}_new"))?;
    let seen = node.agent.logs()?.len();
    node.restart_agent()?;
    node.agent.wait_for_log_after(seen, PATIENCE, "that it repeats", |line| {
        line.message() == "data plane replaced, as an agent that was killed had begun to"
            && line.has("dropped", 0)
    })?;
    assert_eq!(pinned(&node)?, before);
    assert_eq!(unpublished(&node)?, Vec::<String>::new());

    // Some maps of the new set are in force. `layout` is the last.
    for published in [0, 1, all.len() / 2, all.len() - 1] {
        probe.wait_for_requests(SOME, PATIENCE)?;
        node.agent.kill9()?;
        for name in all.iter().skip(published) {
            fs::rename(pin(&node, name), pin(&node, &format!("{name}_new")))?;
        }
        node.restart_agent()?;
        assert_eq!(pinned(&node)?, before, "with {published} maps in force");
        assert_eq!(unpublished(&node)?, Vec::<String>::new());
    }
    node.assert_answered_throughout(&probe.stop()?);
    Ok(())
}

/// Makes the pins what an agent leaves that is killed when the link runs its program, and its maps
/// are not in force yet.
#[test]
fn a_yield_of_a_program_whose_maps_are_not_in_force_yet_is_kept() -> Result<()> {
    let mut node = Node::start("verbetween", CONFIG)?;
    let peer = node.lan()?.host("peer", Nic::new(net(3)).mac(PEER))?;
    let peer = Wire::open(&peer, "eth0")?;
    node.wait_until_answered(VIP, NODE)?;
    node.agent.kill9()?;
    pin_again(&node, |name| format!("former_{name}"))?;
    node.agent.options.max_vips = Some(64);
    node.restart_agent()?;
    yield_without_agent(&mut node, &peer)?;
    let pin = |name: &str| node.agent.options.pin_dir.join(name);
    for name in maps::all() {
        fs::rename(pin(name), pin(&format!("{name}_new")))?;
        fs::rename(pin(&format!("former_{name}")), pin(name))?;
    }
    assert_eq!(node.vip_status(VIP)?["role"], "held", "the maps in force have no yield");

    let probe = node.probe(VIP)?;
    node.restart_agent()?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    let report = probe.stop()?;
    assert_eq!(report.answered(), 0, "the VIP is the peer's: {report}");
    let row = node.vip_status(VIP)?;
    assert_eq!((&row["role"], &row["mac"]), (&"foreign".into(), &PEER.to_string().into()), "{row}");
    assert_eq!(unpublished(&node)?, Vec::<String>::new());
    Ok(())
}
