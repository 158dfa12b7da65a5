//! The addresses that the controller writes into statuses, and those that it leaves there.

use super::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Pool,
    Allowed,
    /// In the subnet of a node whose Node object has an address there.
    Confirmed,
    /// In the subnet of a node that has no such address by its Node object.
    Unconfirmed,
    Nowhere,
}

/// When a node held the VIP, by its claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    Now,
    Lately,
    LongAgo,
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Named,
    /// It is not written, and stays if it is there.
    Left,
    /// It is not written, and is removed if it is there.
    Unnamed,
}

const NAME: &str = "default/web";

impl World {
    fn reserved(&mut self, vip: &str, was_held: bool, is_held: bool) {
        let pool = match &self.process {
            Process::Agent(_) => None,
            Process::Controller(it) => it.allocator().kind_of(ip(vip)).map(|_| "lan".into()),
        };
        let reservation = Reservation { service: named(NAME), pool, kept: None };
        self.notify(claim(ip(vip), (was_held, is_held), &[NAME], Some(reservation)));
        self.decide(pools::Event::Answered(ip(vip)));
    }

    fn interfaces(&mut self, node: &str, subnets: &[&str]) {
        let interfaces = vec![interface(subnets)];
        self.notify(Event::NodeInterfaces { node: node.into(), interfaces, session: Some(session(1)) });
    }

    fn written(&self) -> Option<Vec<String>> {
        self.status_of(NAME)
    }
}

fn seconds(number: u64) -> Monotonic {
    Monotonic::from_nanos(number * 1_000_000_000)
}

/// Returns the controller of a cluster in which a Service requests the address.
fn world(at: At, held: Held, stands: bool) -> (World, &'static str) {
    let vip = if at == At::Nowhere { "203.0.113.9" } else { "192.0.2.9" };
    let allow = if at == At::Allowed { vec!["192.0.2.8/30".parse().expect("a network")] } else { Vec::new() };
    let mut world = World::unsynced(Role::Controller, Settings { allow, ..Settings::default() });
    world.node("node-z", &[if at == At::Confirmed { "192.0.2.1" } else { "198.51.100.1" }]);
    if at == At::Pool {
        world.notify(controller::pool("lan", &["192.0.2.8-192.0.2.11"]));
    }
    let record = service(NAME).addressed(vip);
    world.put(if stands { record.status("vipward", &[vip]) } else { record });
    world.reserved(vip, held != Held::Never, matches!(held, Held::Now | Held::Lately));
    world.notify(Event::Synced);
    if held == Held::Lately {
        world.reserved(vip, true, false);
    }
    (world, vip)
}

#[test]
fn a_status_names_what_an_admin_chose_and_else_what_is_held_on_a_segment_that_a_node_object_confirms() {
    use Fate::{Left, Named, Unnamed};
    let table = [
        (At::Pool, [Named, Named, Named, Named]),
        (At::Allowed, [Named, Named, Named, Named]),
        (At::Confirmed, [Named, Named, Left, Unnamed]),
        (At::Unconfirmed, [Left, Left, Unnamed, Unnamed]),
        (At::Nowhere, [Left, Left, Unnamed, Unnamed]),
    ];
    for (at, fates) in table {
        for (held, fate) in [Held::Now, Held::Lately, Held::LongAgo, Held::Never].into_iter().zip(fates) {
            let (absent, vip) = world(at, held, false);
            let expected = (fate == Named).then(|| vec![vip.to_owned()]);
            assert_eq!(absent.written(), expected, "{at:?}, held {held:?}, not there yet");
            let (mut present, _) = world(at, held, true);
            if held != Held::Lately {
                present.pass(seconds(1));
                present.pass(seconds(12));
            }
            let expected = (fate == Unnamed).then(Vec::new);
            assert_eq!(present.written(), expected, "{at:?}, held {held:?}, there already");
        }
    }
}

#[test]
fn what_no_node_holds_stays_for_ten_seconds_after_its_holder_or_the_begin_of_the_controller() {
    let rows = [
        (At::Confirmed, Held::Lately, None),
        (At::Unconfirmed, Held::Lately, Some(Vec::new())),
        (At::Unconfirmed, Held::LongAgo, Some(Vec::new())),
        (At::Confirmed, Held::Never, Some(Vec::new())),
    ];
    for (place, held, expected) in rows {
        let (mut world, _) = world(place, held, true);
        world.pass(seconds(1));
        world.pass(seconds(10));
        assert_eq!(world.written(), None, "{place:?}, held {held:?}: a node may be about to take it");
        world.pass(seconds(12));
        assert_eq!(world.written(), expected, "{place:?}, held {held:?}: none has taken it");
    }
}

#[test]
fn a_lease_that_lies_about_its_subnets_brings_no_address_into_a_status() {
    let lies = [
        ("8.8.8.8", "8.8.8.1/24"),
        ("8.8.8.8", "0.0.0.0/0"),
        ("8.8.8.8", "0.0.0.0/1"),
        ("192.0.2.9", "192.0.0.0/7"),
        ("2001:db9::8", "2001:db9::1/64"),
        ("2001:db9::8", "2001::/16"),
        ("2001:db9::8", "2000::/31"),
    ];
    for (vip, lie) in lies {
        let mut world = World::of(Role::Controller, Settings::default());
        world.interfaces("node-z", &["198.51.100.2/24", lie]);
        world.node("node-z", &["198.51.100.2", "192.0.2.2", "2001:db8::2"]);
        world.node("node-y", &["198.51.100.3", "8.8.8.3", "2001:db9::3"]);
        world.put(service(NAME).addressed(if vip == "8.8.8.8" {
            "8.8.8.8,198.51.100.9"
        } else if vip == "192.0.2.9" {
            "192.0.2.9,198.51.100.9"
        } else {
            "2001:db9::8,198.51.100.9"
        }));
        for address in [vip, "198.51.100.9"] {
            world.reserved(address, true, true);
        }
        let expected = Some(vec!["198.51.100.9".to_owned()]);
        assert_eq!(world.written(), expected, "{lie} of node-z, and {vip} is of no address of its own");
    }
}

#[test]
fn a_segment_counts_once_the_node_object_has_an_address_there_and_a_problem_says_so_before() {
    let mut world = World::of(Role::Controller, Settings::default());
    world.put(service(NAME).addressed("192.0.2.9"));
    world.reserve();
    assert_eq!((world.written(), world.words()), (None, Vec::new()), "no node holds it");
    world.reserved("192.0.2.9", true, true);
    assert_eq!(world.written(), None);
    let notified = world.words();
    assert_eq!(notified.len(), 1, "{notified:?}");
    assert!(
        notified[0].contains("192.0.2.9 is announced, but Vipward does not write it into the status"),
        "{notified:?}"
    );
    world.node("node-y", &["192.0.2.1"]);
    assert_eq!(world.written(), None, "the Lease of that node says nothing of such a subnet");
    world.node("node-z", &["192.0.2.1"]);
    assert_eq!((world.written(), world.words()), (Some(vec!["192.0.2.9".to_owned()]), Vec::new()));
    world.put(service(NAME).addressed("192.0.2.9").status("vipward", &["192.0.2.9"]));
    assert_eq!(world.written(), None);
    // The last node of the segment goes, and takes the VIP along.
    world.notify(Event::NodeGone("node-z".into()));
    assert_eq!(world.written(), None, "it may be between two holders");
    world.pass(seconds(1));
    world.pass(seconds(12));
    assert_eq!(world.written(), Some(Vec::new()));
}

#[test]
fn an_agent_beside_a_controller_takes_what_is_reserved_for_a_service_before_its_status_names_it() {
    let mut world = World::of(Role::Announcer, Settings::default());
    world.put(service(NAME).addressed("192.0.2.9"));
    world.put(service("default/other").addressed("192.0.2.9"));
    assert_eq!(world.vips(), [""; 0]);
    world.reserved("192.0.2.9", false, false);
    assert_eq!(world.demand("192.0.2.9").services, [named(NAME)]);
    world.reserved("203.0.113.9", false, false);
    assert_eq!(world.vips(), ["192.0.2.9"], "it is outside of the segments");
    world.put(service(NAME).status("controller", &["192.0.2.10"]));
    assert_eq!(world.vips(), ["192.0.2.10"], "another controller's status goes first");
    world.put(service(NAME));
    assert_eq!(world.vips(), ["192.0.2.9"]);
    world.notify(Event::ClaimGone(ip("192.0.2.9")));
    assert_eq!((world.vips(), world.duties.len()), (Vec::new(), 0));
}

#[test]
fn what_is_refused_is_reserved_once_it_is_not() {
    let mut world = World::of(Role::Controller, Settings::default());
    world.node("node-y", &["192.0.2.9"]);
    let asked = "192.0.2.9,203.0.113.8,203.0.113.9,2001:db9::8,192.0.2.10";
    world.put(service(NAME).addressed(asked));
    let reserving =
        |world: &World| world.reserving.iter().map(|write| write.vip.to_string()).collect::<Vec<_>>();
    assert_eq!(reserving(&world), ["192.0.2.10"]);
    assert_eq!(world.words().len(), 4, "{:?}", world.words());
    world.reserve();
    world.interfaces("node-y", &["203.0.113.1/24"]);
    assert_eq!(reserving(&world), ["203.0.113.8", "203.0.113.9"]);
    world.reserve();
    world.notify(Event::NodeGone("node-y".into()));
    assert_eq!(reserving(&world), ["192.0.2.9"]);
    world.reserve();
    assert_eq!(world.controller().allocator().reservations().count(), 4);
}
