//! An address that another host uses: the agent does not take it before it is free.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;
use vipward_tests::{
    agent::{LogLine, NODE, PATIENCE, ROGUE, Scene, VIP},
    frames::{Arp, Mac},
    kit::{Process, tools},
    lan::{Frame, Host, Wire},
};

use super::{TAKEN_AFTER, begins, bound, conflicts_of, ends, has_role, wait_until_held, wait_until_in_use};

fn config() -> String {
    format!("vips: [{{address: {VIP}}}]")
}

/// Checks that an address in use is not held, announced or answered, that its user is named, and
/// that it is taken after `free`.
fn is_left_alone_until_it_is_free(
    scene: &Scene,
    rival: Mac,
    free: impl FnOnce() -> Result<()>,
) -> Result<()> {
    wait_until_in_use(&scene.client, rival)?;
    let wire = Wire::open(&scene.client, "eth0")?;
    let mut agent = scene.agent(&config())?;
    let said = |line: &_| begins(line, "in_use", VIP, rival);
    agent.wait_for_log(PATIENCE, "that the address is in use", said)?;
    assert!(has_role(&agent, VIP, "foreign")?, "it is not held");
    assert_eq!(scene.client.resolve(VIP)?, rival, "its user is not disturbed");
    let by_us = |arp: &Arp| arp.spa == VIP && arp.sha == NODE;
    let received: Vec<Arp> = wire.drain()?.iter().filter_map(Frame::arp).collect();
    assert!(!received.iter().any(by_us), "{received:?}");

    free()?;
    let taken = wait_until_held(&agent, VIP, PATIENCE)?;
    assert!(taken <= TAKEN_AFTER, "taken {taken:?} after it was free");
    agent.wait_for_log(PATIENCE, "that it is over", |line| ends(line, VIP, "the address is free"))?;
    scene.client.flush_neighbours("eth0")?;
    assert_eq!(scene.client.resolve(VIP)?, NODE);
    let notified = conflicts_of(&agent, VIP)?;
    assert_eq!(notified.len(), 2, "one conflict, with a beginning and an end: {notified:?}");
    Ok(())
}

#[test]
fn an_address_that_a_hosts_kernel_has_is_left_alone_until_it_is_free() -> Result<()> {
    let scene = Scene::new("in-use-kernel")?;
    scene.rogue.add_address("eth0", bound(VIP)?)?;
    is_left_alone_until_it_is_free(&scene, ROGUE, || scene.rogue.delete_address("eth0", bound(VIP)?))
}

/// Starts keepalived in a namespace, which takes the VIP at once. Its options are those of the VRRP
/// instance.
fn keepalived(host: &Host, directory: &TempDir, options: &str) -> Result<Process> {
    let path = directory.path().join("keepalived.conf");
    let text = format!(
        "global_defs {{\n  vrrp_startup_delay 0\n}}\nvrrp_instance one {{\n  state MASTER\n  interface eth0\n  \
         virtual_router_id 7\n  priority 200\n  advert_int 1\n  {options}\n  \
         virtual_ipaddress {{\n    {VIP}/32\n  }}\n}}\n"
    );
    fs::write(&path, text)?;
    let mut command = host.command(tools::keepalived()?);
    command.args(["--dont-fork", "--vrrp", "--log-console", "--use-file"]).arg(&path);
    for (option, name) in [("--pid", "pid"), ("--vrrp_pid", "vrrp")] {
        command.arg(option).arg(directory.path().join(name));
    }
    host.spawn(command)
}

#[test]
fn an_address_that_keepalived_has_is_left_alone_until_it_is_free() -> Result<()> {
    let scene = Scene::new("keepalived")?;
    let directory = TempDir::new()?;
    let mut keepalived = keepalived(&scene.rogue, &directory, "")?;
    is_left_alone_until_it_is_free(&scene, ROGUE, || end(&mut keepalived))
}

/// A frame that a host sends to all does not reach its own macvlan devices, so that no probe finds them.
#[test]
fn an_address_that_keepalived_has_on_a_virtual_mac_of_the_same_host_is_left_alone_until_it_is_free()
-> Result<()> {
    const VIRTUAL: Mac = Mac([0, 0, 0x5e, 0, 1, 7]);
    for (name, options) in [("vmac", "use_vmac"), ("vmac-named", "use_vmac shared7")] {
        let scene = Scene::new(name)?;
        let directory = TempDir::new()?;
        let mut keepalived = keepalived(&scene.node, &directory, options)?;
        wait_until_in_use(&scene.client, VIRTUAL)?;
        let wire = Wire::open(&scene.client, "eth0")?;
        let mut agent = scene.agent(&config())?;
        let says = format!("VIP {VIP} waits: this host has it as {VIP}/32 on ");
        let is_said = |line: &LogLine| {
            line.field("problem").and_then(Value::as_str).is_some_and(|problem| problem.starts_with(&says))
        };
        agent.wait_for_log(PATIENCE, "that it waits", is_said)?;
        scene.client.flush_neighbours("eth0")?;
        assert_eq!(scene.client.resolve(VIP)?, VIRTUAL, "{options}");
        let received: Vec<Arp> = wire.drain()?.iter().filter_map(Frame::arp).collect();
        let by_us = |arp: &Arp| arp.spa == VIP && arp.sha == NODE;
        assert!(!received.iter().any(by_us), "{options}: {received:?}");

        end(&mut keepalived)?;
        wait_until_held(&agent, VIP, PATIENCE)?;
        scene.client.flush_neighbours("eth0")?;
        assert_eq!(scene.client.resolve(VIP)?, NODE, "{options}");
    }
    Ok(())
}

#[test]
fn an_address_that_ucarp_has_is_left_alone_until_it_is_free() -> Result<()> {
    let scene = Scene::new("ucarp")?;
    let directory = TempDir::new()?;
    let script = |name: &str, verb: &str| {
        let path = directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\nexec ip address {verb} {VIP}/32 dev eth0\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        anyhow::Ok(path)
    };
    let (up, down) = (script("up", "add")?, script("down", "del")?);
    let mut command = scene.rogue.command(tools::ucarp()?);
    command.args([
        "--interface=eth0",
        "--srcip=192.0.2.3",
        "--vhid=7",
        "--pass=secret",
        "--shutdown",
        "--preempt",
    ]);
    command.arg(format!("--addr={VIP}"));
    command.arg(format!("--upscript={}", up.display())).arg(format!("--downscript={}", down.display()));
    let mut ucarp = scene.rogue.spawn(command)?;
    is_left_alone_until_it_is_free(&scene, ROGUE, || end(&mut ucarp))
}

/// Ends a daemon properly, so that it removes its address.
fn end(daemon: &mut Process) -> Result<()> {
    daemon.signal(nix::sys::signal::Signal::SIGTERM)?;
    daemon.wait(PATIENCE).map(drop).context("it was asked to end")
}
