//! Where pools have their addresses announced: the demands of an agent.

use super::*;
use crate::pools::{AnnounceRecord, PoolRecord};

pub(super) fn pool(name: &str, created: i64, addresses: &[&str], nodes: &str) -> PoolRecord {
    PoolRecord {
        name: name.into(),
        created,
        addresses: addresses.iter().map(|text| (*text).into()).collect(),
        announce: AnnounceRecord { nodes: Some(nodes.into()), ..AnnounceRecord::default() },
        ..PoolRecord::default()
    }
}

fn put(world: &mut World, record: PoolRecord) -> Vec<Command> {
    world.notify(Event::Pool(pools::Change::Pool(Box::new(record))))
}

/// Returns the pool of a VIP's demand, and the selector of its nodes.
fn policy(world: &World, vip: &str) -> Option<(String, String)> {
    let policy = world.demand(vip).policy.as_ref()?;
    let nodes = policy.allowances[0].nodes.iter().map(Selector::as_str).collect();
    Some((policy.pool.to_string(), nodes))
}

fn notified(commands: &[Command]) -> Vec<String> {
    let vip = |command: &Command| match command {
        Command::Demand(vip, Some(_)) => vip.to_string(),
        other => panic!("{other:?}"),
    };
    commands.iter().map(vip).collect()
}

#[test]
fn whoever_wrote_the_status_the_pool_that_has_the_address_says_where_it_is_announced() {
    for (description, role) in [("alone", Role::Alone), ("beside a controller", Role::Announcer)] {
        let mut world = World::of(role, Settings::default());
        put(&mut world, pool("lan", 1, &["192.0.2.0/29", "2001:db8::10"], "zone=a"));
        world.put(service("default/ours").status("vipward", &["192.0.2.1"]).addressed("192.0.2.1"));
        world.put(service("default/theirs").status("controller", &["192.0.2.2", "2001:db8::10"]));
        world.put(service("default/other").status("controller", &["192.0.2.9"]));
        let lan = Some(("lan".to_owned(), "zone=a".to_owned()));
        for vip in ["192.0.2.1", "192.0.2.2", "2001:db8::10"] {
            assert_eq!(policy(&world, vip), lan, "{description}: {vip}");
        }
        assert_eq!(policy(&world, "192.0.2.9"), None, "{description}");
    }
}

#[test]
fn a_pool_that_comes_changes_or_goes_concerns_its_vips_and_no_others() {
    let mut world = World::new();
    for last in 1..=9 {
        let name = format!("default/web-{last}");
        world.put(service(&name).status("controller", &[&format!("192.0.2.{last}")]));
    }
    let commands = put(&mut world, pool("lan", 1, &["192.0.2.2-192.0.2.4"], "zone=a"));
    assert_eq!(notified(&commands), ["192.0.2.2", "192.0.2.3", "192.0.2.4"]);
    let commands = put(&mut world, pool("young", 2, &["192.0.2.4-192.0.2.6"], "zone=b"));
    assert_eq!(notified(&commands), ["192.0.2.5", "192.0.2.6"], "the older pool has 192.0.2.4");
    let commands = put(&mut world, pool("lan", 1, &["192.0.2.3-192.0.2.4"], "zone=a"));
    assert_eq!(notified(&commands), ["192.0.2.2"]);
    let commands = put(&mut world, pool("lan", 1, &["192.0.2.3-192.0.2.4"], "zone=z"));
    assert_eq!(notified(&commands), ["192.0.2.3", "192.0.2.4"]);
    let commands = world.notify(Event::Pool(pools::Change::PoolGone("lan".into())));
    assert_eq!(notified(&commands), ["192.0.2.3", "192.0.2.4"]);
    assert_eq!(policy(&world, "192.0.2.3"), None);
    assert_eq!(policy(&world, "192.0.2.4"), Some(("young".to_owned(), "zone=b".to_owned())));
}

#[test]
fn the_annotations_of_the_service_stand_beside_the_policy_of_the_pool() {
    let mut world = World::new();
    put(&mut world, pool("lan", 1, &["192.0.2.7"], "zone=a"));
    world.put(service("default/web").annotated(&[
        ("vipward.io/addresses", "192.0.2.7"),
        ("vipward.io/nodes", "rack=1"),
        ("vipward.io/interface", "eth0"),
    ]));
    let demand = world.demand("192.0.2.7");
    assert_eq!(demand.nodes.as_ref().map(Selector::as_str), Some("rack=1"));
    assert!(demand.interfaces[0].matches("eth0"));
    assert_eq!(policy(&world, "192.0.2.7"), Some(("lan".to_owned(), "zone=a".to_owned())));
}
