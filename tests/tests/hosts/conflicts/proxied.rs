//! A router that answers for an address of others: it is named, and the agent does not take the VIP.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vipward_tests::{
    agent::{Agent, PATIENCE, ROGUE, Scene, vip_status},
    frames::Family,
    kit::output_of,
    lan::Host,
};

/// Time in which the agent probes the address again.
const LATER: Duration = Duration::from_secs(15);

fn ip(host: &Host, arguments: &str) -> Result<()> {
    let mut command = host.command("ip");
    command.args(arguments.split(' '));
    output_of(command).map(drop)
}

/// Has the rogue answer for the address of another host, as proxy ARP and the ND proxy of Linux do.
fn proxies(scene: &Scene, family: Family) -> Result<()> {
    let (rogue, vip) = (&scene.rogue, family.ip(10));
    match family {
        Family::V4 => {
            rogue.set_sysctl("net/ipv4/ip_forward", "1")?;
            rogue.set_sysctl("net/ipv4/conf/eth0/proxy_arp", "1")?;
            ip(rogue, &format!("route add {vip}/32 dev lo"))
        }
        Family::V6 => {
            rogue.set_sysctl("net/ipv6/conf/all/forwarding", "1")?;
            rogue.set_sysctl("net/ipv6/conf/eth0/proxy_ndp", "1")?;
            ip(rogue, &format!("-6 neigh add proxy {vip} dev eth0"))
        }
    }
}

/// Returns what `vipward explain` says of a step on the node, and the remedy of the first broken step.
fn explained(scene: &Scene, family: Family, config: &str) -> Result<(String, String)> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), config)?;
    let mut command = scene.node.command(Agent::default_binary());
    command.args(["explain", &family.ip(10).to_string(), "-o", "json", "--config"]).arg(file.path());
    command.arg("--pin-dir").arg(scene.bpffs.pin_dir(scene.node.name()));
    let output = command.output().context("failed to start vipward")?;
    let value: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    ensure!(value["broken"] == "entry", "{value:#}");
    Ok((value["steps"].to_string(), value["remedy"].to_string()))
}

#[test]
fn a_router_that_answers_for_an_address_is_named_and_keeps_it_until_its_route_is_gone() -> Result<()> {
    for family in Family::BOTH {
        let scene = Scene::new_in(family, "proxied")?;
        let vip = family.ip(10);
        proxies(&scene, family)?;
        let config = format!("vips: [{{address: \"{vip}\"}}]");
        let mut agent = scene.agent(&config)?;
        let is_named = |line: &vipward_tests::agent::LogLine| {
            line.message().starts_with("the VIP waits: a router answers for it by proxy ARP")
                && line.has("vip", vip)
                && line.has("mac", ROGUE)
        };
        agent.wait_for_log(PATIENCE, "that a router answers", is_named)?;
        let seen = agent.logs()?.len();
        std::thread::sleep(LATER);
        assert_eq!(vip_status(&agent, vip, "eth0")?["role"], "foreign", "{vip}");
        scene.client.flush_neighbours("eth0")?;
        assert_eq!(scene.client.resolve(vip)?, ROGUE);
        let taken = agent.logs()?.iter().skip(seen).filter(|line| line.has("to", "held")).count();
        assert_eq!(taken, 0, "{vip} was taken meanwhile");
        // The question of `explain` for an IPv4 address is a probe, which such a router does not answer.
        if family == Family::V6 {
            let (steps, remedy) = explained(&scene, family, &config)?;
            assert!(steps.contains("a router answers for it by proxy ARP or ND proxy"), "{steps}");
            assert!(remedy.contains("remove that route") && remedy.contains("force: true"), "{remedy}");
        }

        match family {
            Family::V4 => scene.rogue.set_sysctl("net/ipv4/conf/eth0/proxy_arp", "0")?,
            Family::V6 => ip(&scene.rogue, &format!("-6 neigh del proxy {vip} dev eth0"))?,
        }
        let is_held = || Ok(vip_status(&agent, vip, "eth0")?["role"] == "held");
        vipward_tests::kit::wait_until(PATIENCE, "the VIP to be taken", is_held)?;
    }
    Ok(())
}
