//! Other programs on the same host: another agent, and a foreign XDP program.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use aya::programs::{Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader};
use vipward_tests::{
    agent::{Agent, AgentOptions, Attachment, Capability, HOLDS_ONE, NODE, Node, PATIENCE, VIP, ask},
    kit::{tools::target_dir, wait_until},
    lan::{Host, Nic, connect},
};

/// Exit code for a pin directory that another agent uses.
const NOT_ALONE: i32 = 5;
/// A program of the benchmarks' object. It passes every frame.
const PASS: &str = "bench_pass";

/// A foreign program on an interface, with a link that ends when this is dropped.
struct Foreign {
    _object: Ebpf,
    id: u32,
}

impl Foreign {
    fn attach(host: &Host, interface: &str) -> Result<Self> {
        let path = target_dir().join("bpf/vipward-bench.o");
        ensure!(path.is_file(), "there is no {}: run `cargo xtask build-ebpf`", path.display());
        let index = host.link(interface)?.index;
        let mut object = EbpfLoader::new().load_file(&path)?;
        let program: &mut Xdp =
            object.program_mut(PASS).with_context(|| format!("the object has no {PASS}"))?.try_into()?;
        program.load()?;
        let id = program.info()?.id();
        // An index belongs to the calling thread's namespace.
        host.run(|| program.attach_to_if_index(index, XdpMode::Skb))?;
        Ok(Self { _object: object, id })
    }
}

/// Makes a node with a second interface. A foreign program is on the
/// first interface before the agent starts.
fn occupied(
    name: &str,
    attachment: Attachment,
    kept: Option<Vec<Capability>>,
) -> Result<(Node, Host, Foreign)> {
    let mut node = Node::start_with(name, attachment, "vips: []\n", |_| {})?;
    node.agent.terminate()?;
    node.agent.unload()?;
    let far = Host::new("far")?;
    let nic = Nic::new("198.51.100.2/24".parse()?).named("eth1").mac(NODE);
    connect((&node.host, nic), (&far, Nic::new("198.51.100.1/24".parse()?)))?;
    let foreign = Foreign::attach(&node.host, "eth0")?;
    node.write_config("vips: [{address: 192.0.2.10}, {address: 198.51.100.10, force: true}]\n")?;
    node.agent.options.only_capabilities = kept;
    node.restart_agent()?;
    Ok((node, far, foreign))
}

#[test]
fn another_program_is_named_and_left_alone_until_it_goes() -> Result<()> {
    let (mut node, far, foreign) = occupied("occupied", Attachment::Generic, None)?;
    let named = format!("interface eth0 has another XDP program already: id {}, name {PASS};", foreign.id);
    let way_out = "Set `attach: auto` or `tc` (--attach), which run beside it";
    node.wait_for_problem(0, &[&named, way_out])?;
    wait_until(PATIENCE, "an answer on the other interface", || {
        Ok(ask(&far, "eth0", "198.51.100.10".parse::<IpAddr>()?)? == Some(NODE))
    })?;
    assert_eq!(node.ask(VIP)?, None, "and nothing is claimed that no node would answer for");
    assert!(node.programs()?.contains(&foreign.id.into()), "it is still there");

    drop(foreign);
    node.wait_until_answered(VIP, NODE)?;
    node.wait_for_end_of_problem(0, &[&named])?;
    Ok(())
}

#[test]
fn beside_another_program_a_vip_is_answered_by_traffic_control() -> Result<()> {
    let (node, far, foreign) = occupied("beside", Attachment::Auto, None)?;
    node.wait_until_answered(VIP, NODE)?;
    assert_eq!(ask(&far, "eth0", "198.51.100.10".parse::<IpAddr>()?)?, Some(NODE), "on the other interface");
    assert_eq!(node.xdp_programs()?, [u64::from(foreign.id)], "it is still there");
    Ok(())
}

#[test]
fn another_program_is_named_by_its_id_where_the_kernel_says_no_more() -> Result<()> {
    let kept = vec![Capability::Bpf, Capability::NetAdmin, Capability::NetRaw, Capability::Perfmon];
    let (mut node, _far, foreign) = occupied("occupied-caps", Attachment::Generic, Some(kept))?;
    let named = format!("interface eth0 has another XDP program already: id {};", foreign.id);
    node.wait_for_problem(0, &[&named])?;
    Ok(())
}

#[test]
fn a_second_agent_is_refused_with_the_pid_of_the_first() -> Result<()> {
    let node = Node::start("second", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    let probe = node.probe(VIP)?;
    let options = AgentOptions::new(&node.agent.options.pin_dir);
    let mut second = Agent::start(&node.host, "vips: [{address: 192.0.2.11}]\n", options)?;
    assert_eq!(second.wait(PATIENCE)?.code(), Some(NOT_ALONE));
    let said = second.transcript();
    let expected = format!(
        "another vipward agent (pid {}) uses {}: stop it; two agents need",
        node.agent.pid()?,
        node.agent.options.pin_dir.display()
    );
    assert!(said.contains(&expected), "{expected} in: {said}");
    assert_eq!(node.agent.status()?["entries"], 1);
    node.assert_answered_throughout(&probe.stop()?);
    // Its pins belong to the first agent, which continues: a drop must not unload them.
    second.options.pin_dir = node.bpffs.pin_dir("nothing");
    Ok(())
}
