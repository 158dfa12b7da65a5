//! Which VIPs wait, and why, for who looks at this host.

use std::time::Duration;

use super::{
    api::{seen_service, service},
    world::*,
    *,
};

/// Returns the VIPs that wait, each with its interface and the reason up to the first colon.
fn waiting(world: &World) -> Vec<String> {
    let says = |it: &crate::host::answering::Waiting| {
        assert!(!it.remedy.is_empty(), "{it:?}");
        let because = it.because.split([':', ';', ',']).next().unwrap_or_default();
        format!("{} {} {because}", it.address, it.label())
    };
    world.agent.waiting().iter().map(says).collect()
}

#[test]
fn a_vip_that_no_interface_is_for_waits_and_one_that_is_guarded_there_does_not() {
    let vips = "vips: [{address: 10.0.0.10}, {address: 192.0.2.9}, {address: 192.0.2.8, mac: '02:00:00:00:00:99'}, \
                {address: 10.0.0.11, interface: eth7}, {address: 10.0.0.12, vlan: 7}, {address: 10.0.0.0}]\n";
    let mut world = World::running(vips, &[10]);
    let all = [
        "10.0.0.0 - it is the network address of 10.0.0.0/16 on eth0",
        "10.0.0.11 - it belongs to interface eth7",
        "10.0.0.12 - it belongs to VLAN 7",
        "192.0.2.9 - it is in the subnet of no attached interface",
    ];
    let mut found = waiting(&world);
    found.sort();
    assert_eq!(found, all);
    world.reload(Some("vips: [{address: 10.0.0.10}]\n"), true);
    // The agent examines the VIPs again that it had reported as not answered.
    world.after(Duration::from_secs(1));
    assert_eq!(waiting(&world), [""; 0]);
}

#[test]
fn the_vips_that_the_map_has_no_room_for_wait() {
    let vips: Vec<_> = (10..20).map(|last| format!("{{address: 10.0.0.{last}, force: true}}")).collect();
    let mut world = World::file(&format!("vips: [{}]\n", vips.join(", ")));
    world.notify(Input::Begin);
    let out = ["10.0.0.18 - it is left out", "10.0.0.19 - it is left out"];
    assert_eq!(waiting(&world), out);
}

#[test]
fn a_vip_of_a_cluster_that_this_node_probes_first_waits_until_it_is_taken() {
    let mut world = World::living(&[], &[]);
    assert_eq!(waiting(&world), [""; 0]);
    world.see(vec![seen_service(service(14))]);
    assert_eq!(waiting(&world), ["10.0.0.14 eth0 the address is being probed"]);
    world.after(Duration::from_secs(3));
    assert_eq!(waiting(&world), [""; 0]);
}
