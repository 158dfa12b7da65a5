//! `bind:` gives a VIP to local programs, and removes it when this node no longer holds it.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use anyhow::{Context, Result};
use ipnet::IpNet;
use vipward_tests::{
    agent::{NODE, PATIENCE, Scene, answers_in, belief, request_of_client, wait_until_running},
    frames::{Family, Mac, Message},
    kit::{output_of, tools, wait_until},
    lan::{Frame, Host, Wire},
};

/// Returns a configuration that binds these addresses to `lo`.
fn bound(vips: &[IpAddr]) -> String {
    let vips: Vec<_> = vips.iter().map(|vip| format!("{{address: '{vip}', bind: lo}}")).collect();
    format!("vips: [{}]", vips.join(", "))
}

fn has(host: &Host, interface: &str, address: IpAddr) -> Result<bool> {
    let found = host.namespace().addresses(interface)?;
    Ok(found.contains(&IpNet::from(address)))
}

/// Connects from the client to a listener at the VIP on the node, and waits for an echo.
fn talk(scene: &Scene, vip: IpAddr) -> Result<()> {
    let listener = scene.node.run(|| TcpListener::bind((vip, 0))).context("failed to listen at the VIP")?;
    let at = SocketAddr::from((vip, listener.local_addr()?.port()));
    thread::scope(|scope| {
        let server = scope.spawn(move || {
            let (mut stream, _) = listener.accept()?;
            stream.write_all(b"from the VIP")
        });
        let mut stream = scene.client.run(|| TcpStream::connect_timeout(&at, PATIENCE))?;
        let mut received = String::new();
        stream.read_to_string(&mut received)?;
        assert_eq!(received, "from the VIP");
        server.join().expect("invariant: the server does not panic")?;
        Ok(())
    })
}

/// Returns the MACs in the answers to a request of the client.
fn answerers(scene: &Scene, vip: IpAddr) -> Result<Vec<Mac>> {
    let family = Family::of(vip);
    let wire = Wire::open_in(&scene.client, "eth0", family)?;
    let answers = answers_in(&wire, &request_of_client(vip), family.ip(2))?;
    Ok(answers.iter().map(Message::sender).collect())
}

#[test]
fn a_bound_vip_is_delivered_to_local_programs() -> Result<()> {
    for family in Family::BOTH {
        let vip = family.vip();
        let scene = Scene::new_in(family, "bind")?;
        let unbound = scene.node.run(|| TcpListener::bind((vip, 0)));
        assert!(unbound.is_err(), "without the agent no process can listen at the VIP");
        let _agent = scene.agent(&bound(&[vip]))?;
        assert!(has(&scene.node, "lo", vip)?);
        talk(&scene, vip)?;
        let mut ping = scene.client.command(tools::ping()?);
        ping.args(["-c", "3", "-i", "0.2", "-W", "5", &vip.to_string()]);
        assert!(output_of(ping)?.contains("3 received"), "{vip}");
        assert_eq!(belief(&scene.client, vip)?, Some(NODE));
        // The program still answers, and once.
        assert_eq!(answerers(&scene, vip)?, [NODE]);
        // The host does not speak from an address that is bound.
        let source = scene.node.run(|| {
            let socket = UdpSocket::bind((family.unspecified(), 0))?;
            socket.connect((family.ip(1), 9))?;
            socket.local_addr()
        })?;
        assert_eq!(source.ip(), family.ip(2));
    }
    Ok(())
}

#[test]
fn withdrawing_unbinds_and_leaves_the_operators_own_addresses() -> Result<()> {
    for family in Family::BOTH {
        let vip = family.vip();
        let scene = Scene::new_in(family, "withdraw")?;
        scene.node.add_address("lo", IpNet::from(family.ip(99)))?;
        let mut agent = scene.agent(&format!("{{{}, shutdown: withdraw}}", bound(&[vip])))?;
        assert!(has(&scene.node, "lo", vip)?);
        assert_eq!(agent.terminate()?.code(), Some(0));
        assert!(!has(&scene.node, "lo", vip)?, "the VIP");
        assert!(has(&scene.node, "lo", family.ip(99))?, "an address that Vipward did not bind");
        assert_eq!(answerers(&scene, vip)?, []);
        assert_eq!(agent.status()?["entries"], 0);
        agent.restart()?;
        wait_until(PATIENCE, "the VIP to be bound again", || has(&scene.node, "lo", vip))?;
    }
    Ok(())
}

#[test]
fn what_a_killed_agent_left_bound_is_removed_at_the_next_start() -> Result<()> {
    for family in Family::BOTH {
        let (vip, kept) = (family.vip(), family.ip(11));
        let scene = Scene::new_in(family, "left-over")?;
        let mut agent = scene.agent(&bound(&[vip, kept]))?;
        agent.kill9()?;
        assert!(has(&scene.node, "lo", vip)? && has(&scene.node, "lo", kept)?, "it could not clean up");
        talk(&scene, vip)?;

        agent.write_config(&bound(&[kept]))?;
        let seen = agent.logs()?.len();
        let wire = Wire::open_in(&scene.client, "eth0", family)?;
        agent.restart()?;
        wait_until_running(&mut agent, seen)?;
        assert!(!has(&scene.node, "lo", vip)?, "the left-over");
        assert!(has(&scene.node, "lo", kept)?, "what is configured still");
        assert_eq!(answerers(&scene, vip)?, []);
        assert_eq!(answerers(&scene, kept)?, [NODE]);
        // By the pins both were still held: the kept one is announced at once, without a probe.
        let sent: Vec<_> = wire.drain()?.iter().filter_map(Frame::message).collect();
        let first_about = |of: IpAddr| {
            let of_node = sent.iter().filter(|message| message.sender() == NODE);
            let mut unasked =
                of_node.filter(|message| message.is_announcement() || message.asks_for().is_some());
            unasked.find(|message| [message.asks_for(), message.answers_for()].contains(&Some(of)))
        };
        assert_eq!(first_about(vip), None);
        assert!(first_about(kept).is_some_and(Message::is_announcement), "{sent:?}");
    }
    Ok(())
}
