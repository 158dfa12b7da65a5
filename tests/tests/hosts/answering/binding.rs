//! `bind:` gives a VIP to local programs, and removes it when this node no longer holds it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result};
use ipnet::Ipv4Net;
use vipward_tests::lan::Host;
use vipward_tests::scene::{
    NODE, PATIENCE, Scene, VIP, answers_to, belief, clients_request, ip, wait_until_running,
};
use vipward_tests::wait::wait_until;
use vipward_tests::wire::Wire;

const BOUND: &str = "vips: [{address: 192.0.2.10, bind: lo}]";

fn has(host: &Host, interface: &str, address: Ipv4Addr) -> Result<bool> {
    let found = host.namespace().addresses(interface)?;
    Ok(found.contains(&Ipv4Net::new(address, 32)?.into()))
}

/// Connects from the client to a listener at the VIP on the node, and waits for an echo.
fn talk(scene: &Scene) -> Result<()> {
    let listener = scene.node.run(|| TcpListener::bind((VIP, 0))).context("failed to listen at the VIP")?;
    let at = SocketAddr::from((VIP, listener.local_addr()?.port()));
    thread::scope(|scope| {
        let server = scope.spawn(move || {
            let (mut stream, _) = listener.accept()?;
            stream.write_all(b"from the VIP")
        });
        let mut stream = scene.client.run(|| TcpStream::connect_timeout(&at, PATIENCE))?;
        let mut heard = String::new();
        stream.read_to_string(&mut heard)?;
        assert_eq!(heard, "from the VIP");
        server.join().expect("invariant: the server does not panic")?;
        Ok(())
    })
}

#[test]
fn a_bound_vip_is_delivered_to_local_programs() -> Result<()> {
    let scene = Scene::new("bind")?;
    let unbound = scene.node.run(|| TcpListener::bind((VIP, 0)));
    assert!(unbound.is_err(), "without the agent no process can listen at the VIP");
    let _agent = scene.agent(BOUND)?;
    assert!(has(&scene.node, "lo", VIP)?);
    talk(&scene)?;
    assert_eq!(belief(&scene.client, VIP)?, Some(NODE));
    // The program still answers, and once.
    let wire = Wire::open(&scene.client, "eth0")?;
    let answers = answers_to(&wire, &clients_request(VIP), ip(2))?;
    assert_eq!(answers, [clients_request(VIP).answered_by(NODE)]);
    Ok(())
}

#[test]
fn a_bind_ends_with_its_line_in_the_configuration() -> Result<()> {
    let scene = Scene::new("unbind")?;
    let agent = scene.agent(BOUND)?;
    assert!(has(&scene.node, "lo", VIP)?);
    agent.write_config("vips: [{address: 192.0.2.10, bind: eth0}]")?;
    wait_until(PATIENCE, "the bind to move", || {
        Ok(has(&scene.node, "eth0", VIP)? && !has(&scene.node, "lo", VIP)?)
    })?;
    talk(&scene)?;
    agent.write_config("vips: [{address: 192.0.2.10}]")?;
    wait_until(PATIENCE, "the bind to end", || Ok(!has(&scene.node, "eth0", VIP)?))?;
    Ok(())
}

#[test]
fn withdrawing_unbinds_and_leaves_the_operators_own_addresses() -> Result<()> {
    let scene = Scene::new("withdraw")?;
    scene.node.add_address("lo", Ipv4Net::new(ip(99), 32)?)?;
    let mut agent = scene.agent(&format!("{{{BOUND}, shutdown: withdraw}}"))?;
    assert!(has(&scene.node, "lo", VIP)?);
    assert_eq!(agent.terminate()?.code(), Some(0));
    assert!(!has(&scene.node, "lo", VIP)?, "the VIP");
    assert!(has(&scene.node, "lo", ip(99))?, "an address that Vipward did not bind");
    let wire = Wire::open(&scene.client, "eth0")?;
    assert_eq!(answers_to(&wire, &clients_request(VIP), ip(2))?, []);
    Ok(())
}

#[test]
fn what_a_killed_agent_left_bound_is_removed_at_the_next_start() -> Result<()> {
    let scene = Scene::new("left-over")?;
    let mut agent =
        scene.agent("vips: [{address: 192.0.2.10, bind: lo}, {address: 192.0.2.11, bind: lo}]")?;
    agent.kill9()?;
    assert!(has(&scene.node, "lo", VIP)? && has(&scene.node, "lo", ip(11))?, "it could not clean up");
    talk(&scene)?;

    agent.write_config("vips: [{address: 192.0.2.11, bind: lo}]")?;
    let seen = agent.logs()?.len();
    agent.restart()?;
    wait_until_running(&mut agent, seen)?;
    assert!(!has(&scene.node, "lo", VIP)?, "the left-over");
    assert!(has(&scene.node, "lo", ip(11))?, "what is configured still");
    let wire = Wire::open(&scene.client, "eth0")?;
    assert_eq!(answers_to(&wire, &clients_request(VIP), ip(2))?, []);
    let answers = answers_to(&wire, &clients_request(ip(11)), ip(2))?;
    assert_eq!(answers, [clients_request(ip(11)).answered_by(NODE)]);
    Ok(())
}
