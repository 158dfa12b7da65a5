//! Changes of the network.

use std::time::Duration;

use vipward_common::MacAddr;

use super::{world::*, *};
use crate::{
    host::net::Interface,
    segment::failover::{Notice, NoticeKind},
};

const VIPS: &str = "vips: [{address: 10.0.0.10}, {address: \"2001:db8::64\"}]\n";
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

type Change = fn(&mut World) -> Changed;

fn nothing() -> Changed {
    Changed::default()
}

fn gone(world: &mut World) -> Changed {
    world.view.interfaces.remove(&ETH0);
    world.view.routes.clear();
    nothing()
}

#[test]
fn a_change_of_the_network() {
    let rows: [(&str, Change, &[&str]); 9] = [
        ("nothing", |_| nothing(), &["observe"]),
        (
            "a container's interface",
            |world| {
                world.view.interfaces.insert(VETH, Interface::sample(VETH, "veth1"));
                nothing()
            },
            &["observe"],
        ),
        (
            "another MAC",
            |world| {
                world.eth0().mac = OTHER;
                nothing()
            },
            &[
                "observe",
                "read maps",
                "prepare [3]",
                "write own 3 07, 10 held 07, 100 held 07",
                "log 10 held 01 > held 07",
                "announce 10 07 Taking(0)",
                "log 100 held 01 > held 07",
                "announce 100 07 Taking(0)",
                "port 100",
            ],
        ),
        (
            "the carrier is lost",
            |world| {
                world.eth0().carrier = false;
                nothing()
            },
            &["observe"],
        ),
        (
            "the interface is gone",
            gone,
            &[
                "observe",
                "read maps",
                "prepare []",
                "write no 10, no 100, no peer 09, no own 3",
                "log 10 held 01 > none",
                "log 100 held 01 > none",
                "leave ff02::1:ff00:64",
            ],
        ),
        (
            "another program has removed the agent's",
            |world| {
                world.eth0().xdp_programs = vec![77];
                nothing()
            },
            &["observe", "log eth0 lost native 7, has [77]", "read maps", "prepare [3]"],
        ),
        (
            "a new interface",
            |world| {
                world.view.interfaces.insert(4, Interface::sample(4, "eth1"));
                nothing()
            },
            &[
                "observe",
                "read maps",
                "prepare [3, 4]",
                "write own 4 04, peer 09, 10 foreign ?, 100 foreign ?",
                "log 10 none > foreign ?",
                "log 100 none > foreign ?",
                "listen 4 round 5",
            ],
        ),
        (
            "a failover",
            |_| Changed {
                notices: [Notice { ifindex: ETH0, kind: NoticeKind::NotifyPeers }].into(),
                ..nothing()
            },
            &["observe", "log eth0 failed over, 2", "announce 10 01 Failover", "announce 100 01 Failover"],
        ),
        ("notifications were lost", |_| Changed { overrun: true, ..nothing() }, &["log overrun", "observe"]),
    ];
    for (what, change, expected) in rows {
        let mut world = World::running(VIPS, &[10, 100]);
        let changed = change(&mut world);
        let mut lines = world.notify(Input::Changed(changed));
        lines.retain(|line| !line.starts_with("problems"));
        assert_eq!(lines, expected, "{what}");
    }
}

#[test]
fn vips_are_announced_again_when_the_carrier_returns() {
    let mut world = World::running(VIPS, &[10, 100]);
    world.eth0().carrier = false;
    world.changed();
    assert_eq!(world.after_only(Duration::from_secs(90), "announce"), [""; 0], "no frame reaches a host");
    world.eth0().carrier = true;
    let lines = only(world.changed(), "observe|read maps|announce");
    assert_eq!(lines, ["observe", "announce 10 01 Taking(0)", "announce 100 01 Taking(0)"]);
}

#[test]
fn memberships_are_read_again_100_ms_after_an_interface_was_down() {
    let other = VETH;
    let rows: [(&str, Changed, &[&str]); 3] = [
        (
            "this one",
            Changed { may_have_left: [ETH0].into(), ..nothing() },
            &["read groups", "join ff02::1:ff00:64"],
        ),
        ("another", Changed { may_have_left: [other].into(), ..nothing() }, &[]),
        ("unknown ones", Changed { overrun: true, ..nothing() }, &["read groups", "join ff02::1:ff00:64"]),
    ];
    for (what, changed, expected) in rows {
        let mut world = World::running(VIPS, &[10, 100]);
        // The kernel has forgotten them.
        world.groups.clear();
        world.notify(Input::Changed(changed));
        assert_eq!(world.after_only(ms(99), "read groups|join"), [""; 0], "{what}");
        assert_eq!(world.after_only(ms(1), "read groups|join"), expected, "{what}");
    }
}

#[test]
fn a_new_vip_joins_its_group_when_it_is_probed_and_leaves_it_with_its_entry() {
    let mut world = World::file("vips: [{address: \"2001:db8::64\"}]\n");
    assert_eq!(only(world.notify(Input::Begin), "join|leave|probe"), ["join ff02::1:ff00:64"]);
    assert_eq!(world.after_only(ms(900), "join|leave|port"), ["port 100"]);
    let lines = only(world.reload(Some("vips: []\n"), false), "write|join|leave");
    assert_eq!(lines, ["write no 100", "leave ff02::1:ff00:64"]);
}

#[test]
fn a_cluster_s_engine_learns_of_each_change() {
    let mut world = World::living(&[10], &[]);
    world.eth0().carrier = false;
    // The node is silent before its claim states it, so that another may take the VIP.
    let lines = only(world.changed(), "observe|read maps|write|claim");
    assert_eq!(lines, ["observe", "write lease a: session", "write 10 foreign ?", "claim 10: released, 1"]);
    world.eth0().carrier = true;
    let lines = only(world.changed(), "observe|write lease");
    assert_eq!(lines, ["observe", "write lease a: session"]);
}

#[test]
fn the_carrier_of_a_held_back_vip() {
    let mut world = World::file("vips: [{address: 10.0.0.10}]\n");
    world.eth0().carrier = false;
    let lines = {
        world.notify(Input::Begin);
        world.changed();
        world.after_only(Duration::from_secs(3), "probe|write")
    };
    assert_eq!(lines, [""; 0], "silence means nothing without a carrier");
    world.eth0().carrier = true;
    world.changed();
    let lines = world.after_only(ms(900), "probe 10|write 10");
    assert_eq!(lines, ["probe 10", "probe 10", "probe 10", "write 10 held 01"]);
}
