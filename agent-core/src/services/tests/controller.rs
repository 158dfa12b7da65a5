use super::*;
use crate::pools::{Choice, PoolRecord, ReservationWrite};

fn controller() -> World {
    World::of(Role::Controller, Settings::default())
}

fn announcer() -> World {
    World::of(Role::Announcer, Settings::default())
}

pub(super) fn pool(name: &str, addresses: &[&str]) -> Event {
    let addresses = addresses.iter().map(|text| (*text).into()).collect();
    let record = PoolRecord { name: name.into(), addresses, auto_assign: true, ..PoolRecord::default() };
    Event::Pool(pools::Change::Pool(Box::new(record)))
}

/// Returns the event of an object that reserves an address, whose VIP was never held.
pub(super) fn reserved_for(vip: IpAddr, reservation: Reservation) -> Event {
    claim(vip, (false, false), &[], Some(reservation))
}

impl World {
    /// Carries out what is to be reserved and freed, as the API server would.
    pub(super) fn reserve(&mut self) {
        while let Some(write) = (!self.reserving.is_empty()).then(|| self.reserving.remove(0)) {
            let vip = write.vip;
            self.notify(match write.reservation {
                Some(reservation) => reserved_for(vip, reservation),
                None => Event::ClaimGone(vip),
            });
            self.decide(pools::Event::Answered(vip));
        }
    }

    pub(super) fn status_of(&self, service: &str) -> Option<Vec<String>> {
        match self.duties.get(&named(service))? {
            Command::WriteIngress { addresses, .. } => {
                Some(addresses.iter().map(IpAddr::to_string).collect())
            }
            _ => Some(Vec::new()),
        }
    }
}

fn status(addresses: &[&str]) -> Vec<String> {
    addresses.iter().map(|address| (*address).to_owned()).collect()
}

#[test]
fn a_service_without_an_address_gets_one_of_a_pool_once_it_is_reserved() {
    let mut world = controller();
    world.notify(pool("lan", &["192.0.2.100-192.0.2.101"]));
    world.put(service("default/web"));
    assert_eq!(world.status_of("default/web"), None);
    world.reserve();
    assert_eq!(world.status_of("default/web"), Some(status(&["192.0.2.100"])));
    world.put(service("default/web").status("vipward", &["192.0.2.100"]));
    assert_eq!(world.status_of("default/web"), None);
    assert_eq!(world.words(), Vec::<String>::new());
}

fn dual(name: &str) -> ServiceRecord {
    ServiceRecord { families: vec![pools::Family::V4, pools::Family::V6], ..service(name) }
}

#[test]
fn what_is_reserved_together_is_written_together_and_what_fails_keeps_nothing_back() {
    let mut world = controller();
    world.notify(pool("lan", &["192.0.2.100", "2001:db8::10"]));
    world.put(dual("default/web"));
    let second = world.reserving.pop().expect("two reservations");
    world.reserve();
    assert_eq!(world.status_of("default/web"), None, "{second:?} is under way");
    world.decide(pools::Event::Failed(second.vip));
    assert_eq!(world.status_of("default/web"), Some(status(&["192.0.2.100"])), "it is tried again");
    world.reserving.push(second);
    world.reserve();
    assert_eq!(world.status_of("default/web"), Some(status(&["192.0.2.100", "2001:db8::10"])));
}

#[test]
fn no_status_names_an_address_while_its_reservation_for_another_is_being_kept() {
    let mut world = controller();
    let keeping = PoolRecord {
        name: "lan".into(),
        addresses: vec!["192.0.2.100".into()],
        auto_assign: true,
        keep: Some("1h".into()),
        ..PoolRecord::default()
    };
    world.notify(Event::Pool(pools::Change::Pool(Box::new(keeping))));
    world.put(service("default/web"));
    world.reserve();
    world.put(service("default/web").status("vipward", &["192.0.2.100"]));
    world.put(service("other/guest").addressed("192.0.2.100"));
    assert_eq!(world.words().len(), 1, "it may not share: {:?}", world.words());
    world.notify(Event::ServiceGone(named("default/web")));
    assert_eq!(world.reserving.len(), 1);
    // The agents have released the VIP, and its claim names no Service any more.
    let web = Reservation { service: named("default/web"), pool: Some("lan".into()), kept: None };
    world.notify(reserved_for(ip("192.0.2.100"), web));
    assert_eq!(world.status_of("other/guest"), None);
    world.reserve();
    assert_eq!(world.status_of("other/guest"), None);
    assert!(world.words()[0].contains("which was deleted, and whose address its pool keeps"));
}

#[test]
fn with_a_pool_that_is_not_for_it_an_event_says_why() {
    let mut world = controller();
    world.put(service("default/web"));
    world.notify(pool("six", &["2001:db8::10"]));
    assert_eq!(world.words().len(), 1);
    assert!(world.words()[0].starts_with("default/web: no pool gives this Service an IPv4 address"));
    world.notify(pool("four", &["192.0.2.100"]));
    world.reserve();
    assert_eq!(world.words(), Vec::<String>::new());
}

#[test]
fn an_address_that_a_node_has_is_left_out() {
    let mut world = controller();
    world.node("node-a", &["192.0.2.100"]);
    world.notify(pool("lan", &["192.0.2.100-192.0.2.102"]));
    world.put(service("other/web").addressed("192.0.2.101"));
    world.put(service("default/web"));
    world.reserve();
    assert_eq!(world.status_of("default/web"), Some(status(&["192.0.2.102"])));
}

#[test]
fn a_pool_outside_of_every_segment_is_passed_over_and_serves_when_a_node_is_there() {
    let mut world = controller();
    world.notify(pool("far", &["198.51.100.1"]));
    world.put(service("default/web"));
    world.reserve();
    assert_eq!(world.status_of("default/web"), None);
    let lack = "no node can announce an IPv4 address of VIPPool far. The segments of the nodes are 192.0.2.0/24 and \
                2001:db8::/64. Give the pool addresses of a segment";
    assert_eq!(world.words(), [format!("default/web: {lack}")]);
    world.notify(on_node("node-y", interface(&["198.51.100.0/24"])));
    world.reserve();
    assert_eq!(world.status_of("default/web"), Some(status(&["198.51.100.1"])));
}

#[test]
fn a_status_that_vipward_wrote_is_kept_by_the_next_leader() {
    let mut world = World::unsynced(Role::Controller, Settings::default());
    world.notify(pool("lan", &["192.0.2.100-192.0.2.110"]));
    world.put(service("default/web").status("vipward", &["192.0.2.107"]));
    world.put(service("default/api").addressed("192.0.2.109").status("vipward", &["192.0.2.109"]));
    world.notify(Event::Synced);
    assert_eq!(world.duties, BTreeMap::new(), "nothing is written or cleared meanwhile");
    world.reserve();
    assert_eq!(world.duties, BTreeMap::new());
    assert_eq!(world.vips(), ["192.0.2.107", "192.0.2.109"]);
}

#[test]
fn a_leader_that_begins_gives_no_address_away_that_a_service_names() {
    let mut world = World::unsynced(Role::Controller, Settings::default());
    world.notify(pool("lan", &["192.0.2.100-192.0.2.110"]));
    world.put(service("default/a"));
    world.put(service("default/by-name").addressed("192.0.2.100"));
    world.put(service("default/elsewhere").status("other", &["192.0.2.101"]));
    world.notify(Event::Synced);
    world.reserve();
    assert_eq!(world.status_of("default/a"), Some(status(&["192.0.2.102"])));
    assert_eq!(world.status_of("default/by-name"), Some(status(&["192.0.2.100"])));
}

#[test]
fn a_network_that_may_not_be_used_ends_no_leader() {
    let refuse = vec!["2001:db8::/32".parse().expect("a network")];
    let mut world = World::of(Role::Controller, Settings { refuse, ..Settings::default() });
    world.notify(pool("lan", &["2001:db8::/64"]));
    let mut record = service("default/web");
    record.families = vec![pools::Family::V6];
    world.put(record);
    assert!(world.words()[0].contains("no IPv6 address is free in VIPPool lan"), "{:?}", world.words());
}

#[test]
fn a_service_names_no_more_addresses_than_it_may_have() {
    let mut world = World::of(Role::Controller, Settings { most_addresses: 2, ..Settings::default() });
    world.notify(pool("lan", &["192.0.2.100-192.0.2.110"]));
    world.put(service("default/web").addressed("192.0.2.100,192.0.2.101,192.0.2.102"));
    assert_eq!(world.reserving.len(), 2);
}

#[test]
fn a_namespace_reserves_no_more_addresses_than_it_may_have() {
    let settings = Settings { most_vips: Some(2), ..Settings::default() };
    let mut world = World::of(Role::Controller, settings);
    world.notify(pool("lan", &["192.0.2.100-192.0.2.110"]));
    for name in ["a", "b", "c"] {
        world.put(service(&format!("greedy/{name}")));
    }
    world.put(service("greedy/d").addressed("192.0.2.109"));
    world.put(service("modest/a"));
    world.reserve();
    assert_eq!(world.controller().allocator().reservations().count(), 3);
    assert!(world.words().iter().all(|words| words.contains("may have no more")), "{:?}", world.words());
    world.notify(Event::ServiceGone(named("greedy/a")));
    world.reserve();
    let reserved = world.controller().allocator().reservations();
    let names: BTreeSet<_> = reserved.map(|(_, reservation)| reservation.service.to_string()).collect();
    assert_eq!(names, ["greedy/b", "greedy/c", "modest/a"].map(str::to_owned).into());
}

#[test]
fn a_service_that_ends_gives_its_address_to_one_that_waits() {
    let mut world = controller();
    world.notify(pool("lan", &["192.0.2.100"]));
    world.put(service("default/one"));
    world.reserve();
    world.put(service("default/one").status("vipward", &["192.0.2.100"]));
    world.put(service("default/two"));
    assert!(world.words()[0].starts_with("default/two: no IPv4 address is free in VIPPool lan"));
    world.notify(Event::ServiceGone(named("default/one")));
    world.reserve();
    assert_eq!(world.status_of("default/two"), Some(status(&["192.0.2.100"])));
    assert_eq!(world.words(), Vec::<String>::new());
}

#[test]
fn a_service_whose_type_changes_is_cleared_and_its_address_freed() {
    let mut world = controller();
    world.notify(pool("lan", &["192.0.2.100"]));
    world.put(service("default/web"));
    world.reserve();
    let mut record = service("default/web").status("vipward", &["192.0.2.100"]);
    world.put(record.clone());
    record.load_balancer = false;
    world.put(record);
    assert_eq!(world.status_of("default/web"), Some(status(&[])));
    assert_eq!(world.reserving.iter().map(|write| &write.reservation).collect::<Vec<_>>(), [&None]);
}

#[test]
fn another_controllers_status_goes_first() {
    let mut world = controller();
    world.notify(pool("lan", &["192.0.2.100"]));
    world.put(service("default/web").status("other", &["192.0.2.50"]));
    assert_eq!(world.reserving, []);
    assert_eq!(world.vips(), ["192.0.2.50"]);
    assert_eq!(world.duties, BTreeMap::new());
}

#[test]
fn an_agent_beside_a_controller_announces_statuses_and_writes_none() {
    let mut world = announcer();
    world.notify(pool("lan", &["192.0.2.100"]));
    world.put(service("default/asks").addressed("192.0.2.10"));
    world.put(service("default/waits"));
    assert_eq!(world.vips(), Vec::<String>::new());
    world.put(service("default/asks").addressed("192.0.2.10").status("vipward", &["192.0.2.10"]));
    world.put(service("default/waits").status("vipward", &["192.0.2.100", "2001:db8::10"]));
    world.put(service("default/other").status("other", &["192.0.2.50"]));
    assert_eq!(world.vips(), ["192.0.2.10", "192.0.2.50", "192.0.2.100", "2001:db8::10"]);
    for vip in ["192.0.2.10", "192.0.2.50", "192.0.2.100"] {
        world.hold(vip, true);
    }
    assert_eq!(world.duties, BTreeMap::new());
    assert_eq!(world.reserving, []);
    // An address that a node has is no VIP, whatever the status names.
    world.node("node-a", &["192.0.2.60"]);
    world.put(service("default/bad").status("vipward", &["192.0.2.60"]));
    assert!(!world.vips().contains(&"192.0.2.60".to_owned()));
}

#[test]
fn a_pool_that_spreads_and_a_named_pool_are_followed() {
    let mut world = controller();
    let record = PoolRecord {
        name: "named".into(),
        addresses: vec!["192.0.2.100-192.0.2.150".into()],
        choice: Choice::Spread,
        ..PoolRecord::default()
    };
    world.notify(Event::Pool(pools::Change::Pool(Box::new(record))));
    world.put(service("default/web").annotated(&[("vipward.io/pool", "named")]));
    world.put(service("default/api").annotated(&[("metallb.io/address-pool", "named")]));
    let reserved = |write: &ReservationWrite| Some((write.vip, write.reservation.as_ref()?.pool.clone()));
    let reserved: Vec<_> = world.reserving.iter().filter_map(reserved).collect();
    assert_eq!(reserved.len(), 2);
    assert!(reserved.iter().all(|(_, pool)| pool.as_deref() == Some("named")));
    assert_ne!(reserved[0].0, reserved[1].0);
}

#[test]
fn a_service_that_asks_for_an_address_by_name_says_where() {
    let annotated = |text| service("a/web").annotated(&[("metallb.io/loadBalancerIPs", text)]);
    let rows = [
        (service("a/web").addressed("192.0.2.10"), Some(Place::Addresses)),
        (annotated("192.0.2.9, 192.0.2.10"), Some(Place::MetallbAddresses)),
        (annotated("192.0.2.9"), None),
        (service("a/web"), None),
        // What it is served with is no request, and what cannot be read leaves it in effect.
        (service("a/web").status("vipward", &["192.0.2.10"]), None),
        (annotated("192.0.2.").status("vipward", &["192.0.2.10"]), Some(Place::MetallbAddresses)),
    ];
    for (record, expected) in rows {
        assert_eq!(record.asks_for(ip("192.0.2.10")), expected, "{record:?}");
    }
}

#[test]
fn a_service_that_lacks_an_address_is_counted_while_it_is_served() {
    let mut world = controller();
    world.notify(pool("lan", &["192.0.2.100/32"]));
    for name in ["default/one", "default/two"] {
        world.put(service(name));
    }
    world.reserve();
    assert_eq!(world.index().lacking(), 1);
    world.put(service("default/two").annotated(&[("vipward.io/ignore", "true")]));
    assert_eq!(world.index().lacking(), 0);
}

#[test]
fn a_status_that_was_cleared_and_is_right_again_is_no_turn_of_another_writer() {
    let mut world = controller();
    world.notify(pool("lan", &["192.0.2.100"]));
    world.put(service("default/web"));
    world.reserve();
    for turn in 0..4 {
        world.put(service("default/web").status("vipward", &["192.0.2.100"]));
        world.node("node-c", &["192.0.2.100"]);
        assert_eq!(world.status_of("default/web"), Some(status(&[])), "{turn}: it is to be cleared");
        world.notify(Event::NodeGone("node-c".into()));
        // The request was under way.
        world.put(service("default/web"));
        assert_eq!(world.words(), [""; 0], "{turn}");
        assert_eq!(world.status_of("default/web"), Some(status(&["192.0.2.100"])), "{turn}");
    }
}
