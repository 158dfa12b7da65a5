//! Hosts find each other, notice changes of their cables, and accept their settings.

use anyhow::Result;
use vipward_tests::{
    frames::{Arp, Mac},
    kit::{output_of, tools, wait_until},
    lan::{Host, Lan, Nic, Wire, connect},
};

use super::{PATIENCE, ip, net};

#[test]
fn two_hosts_resolve_each_other_through_the_switch() -> Result<()> {
    let lan = Lan::new("resolve")?;
    let a = lan.host("a", Nic::new(net(1)).mac(Mac::local(1)))?;
    let b = lan.host("b", Nic::new(net(2)).mac(Mac::local(2)))?;
    assert_eq!(a.resolve(ip(2))?, Mac::local(2));
    assert_eq!(b.resolve(ip(1))?, Mac::local(1));
    assert_eq!(a.neighbour("eth0", ip(3))?, None, "no host asked for it");
    Ok(())
}

#[test]
fn two_lans_with_the_same_addresses_do_not_meet() -> Result<()> {
    let lans = [Lan::new("twin-1")?, Lan::new("twin-2")?];
    let mut hosts = Vec::new();
    for (lan, number) in lans.iter().zip([1, 2]) {
        let asker = lan.host("asker", Nic::new(net(1)))?;
        let asked = lan.host("asked", Nic::new(net(2)).mac(Mac::local(number)))?;
        hosts.push((asker, asked));
    }
    assert_eq!(hosts[0].0.resolve(ip(2))?, Mac::local(1));
    assert_eq!(hosts[1].0.resolve(ip(2))?, Mac::local(2));
    Ok(())
}

#[test]
fn arping_gets_an_answer_from_a_neighbour() -> Result<()> {
    let lan = Lan::new("arping")?;
    let client = lan.host("client", Nic::new(net(1)))?;
    let _server = lan.host("server", Nic::new(net(2)).mac(Mac::local(2)))?;
    let mut arping = client.command(tools::arping()?);
    arping.args(["-c", "1", "-w", "5", "-I", "eth0", "192.0.2.2"]);
    let printed = output_of(arping)?;
    assert!(printed.contains("Unicast reply from 192.0.2.2 [02:00:00:00:00:02]"), "{printed}");

    let mut arping = client.command(tools::arping()?);
    arping.args(["-c", "1", "-w", "1", "-I", "eth0", "192.0.2.3"]);
    assert!(output_of(arping).is_err(), "no host has that address");
    Ok(())
}

#[test]
fn a_host_sees_its_carrier_go_and_come() -> Result<()> {
    let lan = Lan::new("carrier")?;
    let host = lan.host("host", Nic::new(net(1)))?;
    wait_until(PATIENCE, "carrier at first", || Ok(host.link("eth0")?.carrier))?;
    host.set_carrier("eth0", false)?;
    wait_until(PATIENCE, "carrier to go", || Ok(!host.link("eth0")?.carrier))?;
    assert!(host.link("eth0")?.up, "the interface itself stays up");
    host.set_carrier("eth0", true)?;
    wait_until(PATIENCE, "carrier to return", || Ok(host.link("eth0")?.carrier))?;
    assert!(host.set_carrier("eth9", true).is_err());
    Ok(())
}

#[test]
fn interfaces_are_changed_while_they_are_up() -> Result<()> {
    let lan = Lan::new("change")?;
    let client = lan.host("client", Nic::new(net(1)))?;
    let host = lan.host("host", Nic::new(net(2)))?;

    host.set_mac("eth0", Mac::local(7))?;
    assert_eq!(host.mac("eth0")?, Mac::local(7));
    assert_eq!(client.resolve(ip(2))?, Mac::local(7));

    host.add_address("eth0", net(3))?;
    assert_eq!(client.resolve(ip(3))?, Mac::local(7));
    host.delete_address("eth0", net(3))?;
    assert!(host.delete_address("eth0", net(3)).is_err(), "it is gone");
    assert_eq!(host.address("eth0")?, ip(2));

    host.set_up("eth0", false)?;
    assert!(!host.link("eth0")?.up);
    host.rename("eth0", "lan0")?;
    host.set_up("lan0", true)?;
    host.set_carrier("eth0", false)?;
    wait_until(PATIENCE, "carrier to go after renaming", || Ok(!host.link("lan0")?.carrier))?;
    host.delete_link("lan0")?;
    assert!(host.link("lan0").is_err());
    Ok(())
}

#[test]
fn a_host_can_be_on_two_lans() -> Result<()> {
    let (front, back) = (Lan::new("front")?, Lan::new("back")?);
    let client = front.host("client", Nic::new(net(1)))?;
    let server = back.host("server", Nic::new("198.51.100.2/24".parse()?))?;
    let both = front.host("both", Nic::new(net(2)).mac(Mac::local(1)))?;
    back.plug(&both, Nic::new("198.51.100.1/24".parse()?).named("eth1").mac(Mac::local(2)))?;
    assert_eq!(client.resolve(ip(2))?, Mac::local(1));
    assert_eq!(server.resolve(std::net::Ipv4Addr::new(198, 51, 100, 1))?, Mac::local(2));
    Ok(())
}

#[test]
fn a_pair_is_connected_without_a_switch() -> Result<()> {
    let (a, b) = Lan::pair(("a", Nic::new(net(1))), ("b", Nic::new(net(2)).mac(Mac::local(2))))?;
    assert_eq!(a.resolve(ip(2))?, Mac::local(2));
    a.set_carrier("eth0", false)?;
    wait_until(PATIENCE, "carrier to go", || Ok(!a.link("eth0")?.carrier))?;
    assert!(!b.link("eth0")?.up, "on a pair, the other host is the other end");

    connect((&a, Nic::bare().named("eth1")), (&b, Nic::bare().named("eth1").address(net(9))))?;
    assert_eq!(b.address("eth1")?, ip(9));
    assert!(a.address("eth1").is_err());
    Ok(())
}

#[test]
fn a_cable_can_lead_back_to_its_host() -> Result<()> {
    let host = Host::new("host")?;
    connect((&host, Nic::bare().named("veth-a")), (&host, Nic::bare().named("veth-b")))?;
    let (near, far) = (Wire::open(&host, "veth-a")?, Wire::open(&host, "veth-b")?);
    let frame = Arp::probe(Mac::local(1), ip(1));
    near.send(&frame.to_bytes())?;
    assert_eq!(far.expect_arp(PATIENCE, "the frame at the other end", |_| true)?, frame);
    Ok(())
}

#[test]
fn sysctls_are_those_of_the_host() -> Result<()> {
    let lan = Lan::new("sysctl")?;
    let (a, b) = (lan.host("a", Nic::new(net(1)))?, lan.host("b", Nic::new(net(2)))?);
    let key = "net/ipv4/conf/eth0/arp_ignore";
    a.set_sysctl(key, "8")?;
    assert_eq!((a.sysctl(key)?.as_str(), b.sysctl(key)?.as_str()), ("8", "0"));
    assert!(a.set_sysctl("net/ipv4/conf/eth9/arp_ignore", "8").is_err());

    // The sysctl has its effect: at 8 the kernel answers no request.
    let wire = Wire::open(&b, "eth0")?;
    let ask = |target| Arp::request(Mac::local(1), ip(9), ip(target)).to_bytes();
    wire.send(&ask(1))?;
    a.set_sysctl(key, "0")?;
    wire.send(&ask(1))?;
    wire.expect_arp(PATIENCE, "one reply", Arp::is_reply)?;
    assert_eq!(wire.drain()?, []);
    Ok(())
}

#[test]
fn the_wire_hears_both_directions_and_what_is_for_others() -> Result<()> {
    let lan = Lan::new("wire")?;
    let a = lan.host("a", Nic::new(net(1)))?;
    let b = lan.host("b", Nic::bare())?;
    let (all, arp, far) = (Wire::open_all(&a, "eth0")?, Wire::open(&a, "eth0")?, Wire::open(&b, "eth0")?);

    let for_another = Arp::reply(Mac::local(1), ip(8), Mac::local(99), ip(9));
    far.send(&for_another.to_bytes())?;
    assert_eq!(arp.expect_arp(PATIENCE, "what is for another", |_| true)?, for_another);

    let own = Arp::gratuitous_request(Mac::local(2), ip(8), Mac::ZERO);
    arp.send(&own.to_bytes())?;
    assert_eq!(far.expect_arp(PATIENCE, "what was sent", |_| true)?, own);

    let heard: Vec<_> =
        all.drain()?.iter().filter_map(|frame| Some((frame.arp()?, frame.outgoing))).collect();
    assert_eq!(heard, [(for_another, false), (own, true)]);
    assert_eq!(arp.drain()?, [], "a wire for what comes in does not hear what is sent");
    Ok(())
}
