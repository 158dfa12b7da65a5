//! The agent's capabilities: each missing one is named, and the four are enough.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use tempfile::TempDir;
use vipward_tests::{
    agent::{Agent, AgentOptions, Attachment, Bpffs, Capability, HOLDS_ONE, NODE, Node, PATIENCE, VIP, ip},
    kit::wait_until,
    lan::Host,
};

/// Exit code for a host that cannot run the agent.
const UNFIT_HOST: i32 = 4;
const NEEDED: [(Capability, &str); 4] = [
    (Capability::Bpf, "CAP_BPF"),
    (Capability::NetAdmin, "CAP_NET_ADMIN"),
    (Capability::NetRaw, "CAP_NET_RAW"),
    (Capability::Perfmon, "CAP_PERFMON"),
];
const ALL_NAMES: &str = "CAP_BPF CAP_NET_ADMIN CAP_NET_RAW CAP_PERFMON";
/// The four capabilities, in the form of setpriv(1).
const FOUR: &str = "-all,+bpf,+net_admin,+net_raw,+perfmon";

fn four() -> Vec<Capability> {
    NEEDED.iter().map(|(capability, _)| *capability).collect()
}

/// A directory that every user may enter, with a script in the agent's place.
struct Wrapper {
    directory: TempDir,
}

impl Wrapper {
    /// Writes the `lines` of a shell script, in which `"$VIPWARD" "$@"` starts the agent.
    fn new(lines: &str) -> Result<Self> {
        let directory = TempDir::with_prefix("vipward-wrapper-")?;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
        // A copy serves users who may not enter the build directory.
        let agent = directory.path().join("vipward");
        fs::copy(Agent::default_binary(), &agent).context("failed to copy the agent")?;
        let wrapper = Self { directory };
        let script = format!("#!/bin/sh\nexport VIPWARD={}\n{lines}\n", agent.display());
        fs::write(wrapper.script(), script)?;
        fs::set_permissions(wrapper.script(), Permissions::from_mode(0o755))?;
        Ok(wrapper)
    }

    /// Returns the agent as the user nobody, with further options of setpriv(1).
    fn as_nobody(more: &str) -> Result<Self> {
        // The configuration is in a directory of root.
        let readable = "for arg; do case \"$arg\" in */vipward.yaml) chmod 755 \"${arg%/*}\";; esac; done";
        let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
        Self::new(&format!("{readable}\nexec {nobody} {more} \"$VIPWARD\" \"$@\""))
    }

    fn script(&self) -> PathBuf {
        self.directory.path().join("agent.sh")
    }

    fn options(&self, pin_dir: impl Into<PathBuf>) -> AgentOptions {
        AgentOptions { binary: Some(self.script()), ..AgentOptions::new(pin_dir) }
    }
}

fn assert_refused(agent: &mut Agent, parts: &[&str]) -> Result<()> {
    let status = agent.wait(PATIENCE)?;
    let said = agent.transcript();
    assert_eq!(status.code(), Some(UNFIT_HOST), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part} in: {said}");
    }
    Ok(())
}

#[test]
fn a_user_who_is_not_root_sees_all_that_is_missing() -> Result<()> {
    let (host, bpffs) = (Host::new("node")?, Bpffs::mount()?);
    let wrapper = Wrapper::as_nobody("")?;
    let mut agent = Agent::start(&host, "vips: []\n", wrapper.options(bpffs.pin_dir("node")))?;
    let lacks = format!("this process lacks {ALL_NAMES}: run it as root (sudo)");
    assert_refused(
        &mut agent,
        &[&lacks, "setcap cap_bpf,cap_net_admin,cap_net_raw,cap_perfmon+ep on the binary"],
    )
}

#[test]
fn namespaces_in_which_the_program_or_its_deadline_cannot_work_are_refused() -> Result<()> {
    let rows = [
        ("unshare --user --map-root-user", "this process is in a user namespace"),
        ("unshare --time --boottime 100000 --fork", "a time namespace whose boot clock is 100000 s off"),
    ];
    let (host, bpffs) = (Host::new("node")?, Bpffs::mount()?);
    for (unshare, why) in rows {
        let wrapper = Wrapper::new(&format!("exec {unshare} \"$VIPWARD\" \"$@\""))?;
        let mut agent = Agent::start(&host, "vips: []\n", wrapper.options(bpffs.pin_dir("node")))?;
        assert_refused(&mut agent, &[why])?;
        assert!(!agent.options.pin_dir.exists(), "nothing is pinned");
    }
    Ok(())
}

#[test]
fn an_agent_whose_bpffs_ends_with_its_mount_namespace_warns() -> Result<()> {
    // As `ip netns exec` does.
    let fresh = "mount --make-rslave / && umount -l /sys && mount -t sysfs sysfs /sys";
    let inside = format!("{fresh} && exec \\\"$VIPWARD\\\" \\\"\\$@\\\"");
    let wrapper = Wrapper::new(&format!("exec unshare --mount sh -c \"{inside}\" sh \"$@\""))?;
    let host = Host::new("node")?;
    let mut agent = Agent::start(&host, "vips: []\n", wrapper.options("/sys/fs/bpf/vipward-of-a-test"))?;
    let line = agent.wait_for_log(PATIENCE, "a warning", |line| {
        line.message().starts_with("the pins end with this agent's mount namespace")
    })?;
    assert_eq!(line.level(), "WARN");
    Ok(())
}

/// Exercises all functions of an agent, with only the four capabilities.
fn lives(node: &mut Node) -> Result<()> {
    // The agent requires this on a host that binds VIPs.
    node.host.set_sysctl("net/ipv4/conf/eth0/arp_announce", "2")?;
    node.wait_until_answered(VIP, NODE)?;
    node.write_config("vips: [{address: 192.0.2.10, bind: lo}, {address: 192.0.2.11}]\n")?;
    node.wait_until_answered(ip(11), NODE)?;
    wait_until(PATIENCE, "the VIP on lo", || {
        Ok(node.host.namespace().addresses("lo")?.iter().any(|address| address.addr() == VIP))
    })?;
    let probe = node.probe(VIP)?;
    node.agent.kill9()?;
    node.restart_agent()?;
    node.agent.kill9()?;
    node.agent.options.max_vips = Some(1_000);
    node.restart_agent()?;
    node.agent.signal(Signal::SIGHUP)?;
    probe.wait_for_requests(200, PATIENCE)?;
    node.assert_answered_throughout(&probe.stop()?);
    let problems = node.agent.logs()?.into_iter().filter(|line| line.field("problem").is_some()).count();
    assert_eq!(problems, 0, "{}", node.agent.transcript());

    node.write_config("shutdown: withdraw\nvips: [{address: 192.0.2.10, bind: lo}]\n")?;
    wait_until(PATIENCE, "the other VIP to be left", || Ok(node.ask(ip(11))?.is_none()))?;
    assert_eq!(node.agent.terminate()?.code(), Some(0));
    assert_eq!(node.ask(VIP)?, None);
    node.agent.unload()?;
    assert!(!node.agent.options.pin_dir.exists());
    Ok(())
}

#[test]
fn four_capabilities_are_enough_for_root() -> Result<()> {
    let mut node = Node::start_with("four", Attachment::Auto, HOLDS_ONE, |options| {
        options.only_capabilities = Some(four());
    })?;
    lives(&mut node)
}

#[test]
fn four_capabilities_are_enough_for_a_user_who_is_not_root() -> Result<()> {
    let caps = format!("--inh-caps {FOUR} --ambient-caps {FOUR} --bounding-set {FOUR}");
    let wrapper = Wrapper::as_nobody(&caps)?;
    let mut node = Node::start_with("nobody", Attachment::Auto, HOLDS_ONE, |options| {
        options.binary = Some(wrapper.script());
    })?;
    let status = fs::read_to_string(format!("/proc/{}/status", node.agent.pid()?))?;
    let line = |key: &str| status.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
    assert_eq!(line("Uid:"), "Uid:\t65534\t65534\t65534\t65534");
    let mask = NEEDED.iter().fold(0_u64, |mask, (capability, _)| mask | 1 << *capability as u8);
    assert_eq!(line("CapEff:"), format!("CapEff:\t{mask:016x}"));
    lives(&mut node)
}
