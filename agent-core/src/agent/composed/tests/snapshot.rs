//! Tests what the pages show in each state of the agent.

use std::time::Duration;

use vipward_common::EventKind;

use super::{living::settings, world::*, *};
use crate::{base::samples::unknown_host, host::placement::Entry};

const ONE: &str = "vips: [{address: 10.0.0.10}]\nyield: keep\n";

/// Returns the only VIP of an agent: whether it is to be held, and whether it was yielded.
fn only_vip(world: &World) -> (bool, bool) {
    let vips = world.agent.snapshot(world.now).vips;
    let [vip] = vips.as_slice() else { panic!("not one VIP: {vips:?}") };
    (vip.entry == Entry::Held, vip.yielded)
}

#[test]
fn a_vip_that_is_in_use_or_yielded_is_not_believed_to_be_held() {
    let mut held = World::running(ONE, &[10]);
    assert_eq!(only_vip(&held), (true, false), "held");
    held.yield_to(10, PEER);
    held.event(10, EventKind::Yielded, PEER);
    assert_eq!(only_vip(&held), (true, true), "yielded");

    let mut used = World::file(ONE);
    assert!(!used.agent.snapshot(BEGIN).started, "before it begins");
    used.notify(Input::Begin);
    used.after(ms(150));
    assert!(used.agent.snapshot(used.now).started);
    used.event(10, EventKind::Sighted, unknown_host(1));
    assert_eq!(only_vip(&used), (false, false), "in use");
}

#[test]
fn an_interface_that_could_not_be_attached_is_named_with_the_reason() {
    let mut world = World::running(ONE, &[10]);
    let of = |world: &World| {
        let interfaces = world.agent.snapshot(world.now).interfaces;
        interfaces.into_iter().map(|it| (it.ifindex, it.failure)).collect::<Vec<_>>()
    };
    assert_eq!(of(&world), [(ETH0, None)]);
    let unattached = [(ETH0, "refused".to_owned()), (VETH, "gone".to_owned())].into();
    world.agent.attachments.remove(ETH0);
    world.agent.attachments.set_unattached(unattached);
    assert_eq!(of(&world), [(ETH0, Some("refused".to_owned()))], "an interface that is gone is not");
    let unattached = &world.agent.snapshot(world.now).interfaces[0];
    assert!(!unattached.attached && unattached.has_carrier());
}

#[test]
fn a_silent_vip_is_named_and_a_cluster_has_claims() {
    let mut world = World::living(&[10], &[]);
    assert_eq!(world.agent.unanswered(), BTreeMap::new());
    world.unwritable.insert(vip(10));
    world.changed_mac();
    world.after(Duration::from_secs(10));
    assert_eq!(world.agent.unanswered().into_keys().collect::<Vec<_>>(), [vip(10)]);
    assert_eq!(World::file(ONE).agent.snapshot(BEGIN).claims, None);
    let cluster = World::cluster_with(&settings(), &[10]);
    assert_eq!(cluster.agent.snapshot(BEGIN).claims.map(|claims| claims.nodes_alive), Some(0));
}

#[test]
fn a_heartbeat_that_has_missed_ten_beats_has_stopped() {
    let world = World::running(ONE, &[10]);
    let beaten = || match world.agent.source() {
        Source::File(file) => file.beaten(),
        Source::Cluster(_) => panic!("it has a file"),
    };
    let beat = world.agent.config().fence.heartbeat;
    let beats = beat * 10;
    assert_eq!(world.agent.heartbeat_stopped_for(beaten() + beat * 9), None);
    assert_eq!(world.agent.heartbeat_stopped_for(beaten() + beats), Some(beats));
    let unread = World::cluster_with(&settings(), &[]);
    let hour = Duration::from_hours(1);
    assert_eq!(unread.agent.heartbeat_stopped_for(BEGIN + hour), None, "nothing beats before it is read");
}
