use super::*;

fn write(service: &str, addresses: &[&str]) -> Command {
    let addresses = addresses.iter().map(|address| ip(address)).collect();
    Command::WriteIngress { service: named(service), addresses }
}

fn clear(service: &str) -> Command {
    Command::ClearIngress { service: named(service) }
}

fn leave(service: &str) -> Command {
    Command::LeaveIngress { service: named(service) }
}

fn duty(world: &World) -> Option<&Command> {
    world.duties.get(&named("a/web"))
}

#[test]
fn the_holder_alone_writes_the_status() {
    let mut world = World::new();
    world.put(service("a/web").addressed("192.0.2.8,192.0.2.7"));
    assert_eq!(duty(&world), None);
    assert_eq!(world.hold("192.0.2.9", true), [], "another VIP");
    let all = write("a/web", &["192.0.2.8", "192.0.2.7"]);
    assert_eq!(world.hold("192.0.2.7", true), [all], "all addresses, in the Service's order");
    assert_eq!(world.hold("192.0.2.8", true), [], "it is under way");
    let written =
        service("a/web").addressed("192.0.2.8,192.0.2.7").status("vipward", &["192.0.2.7", "192.0.2.8"]);
    assert_eq!(world.put(written), [leave("a/web")], "done");
}

#[test]
fn what_is_held_before_the_service_is_known_counts() {
    let mut world = World::unsynced(Role::Alone, Settings::default());
    world.hold("192.0.2.7", true);
    world.put(service("a/web").addressed("192.0.2.7"));
    world.notify(Event::Synced);
    assert_eq!(duty(&world), Some(&write("a/web", &["192.0.2.7"])));
}

#[test]
fn a_status_that_vipward_wrote_follows_what_the_service_asks_for() {
    let ours = |record: ServiceRecord| record.status("vipward", &["192.0.2.7"]);
    let mut foreign = service("a/web").addressed("192.0.2.7");
    foreign.class = Some("f5".into());
    let mut elsewhere = service("a/web").addressed("192.0.2.7");
    elsewhere.load_balancer = false;
    let mut deleting = service("a/web");
    deleting.deleting = true;
    let ignored =
        service("a/web").annotated(&[("vipward.io/addresses", "192.0.2.7"), ("vipward.io/ignore", "true")]);
    let table = [
        ("as it is", service("a/web").addressed("192.0.2.7"), None),
        ("it moves", service("a/web").addressed("192.0.2.8"), Some(write("a/web", &["192.0.2.8"]))),
        (
            "one more",
            service("a/web").addressed("192.0.2.7,192.0.2.8"),
            Some(write("a/web", &["192.0.2.7", "192.0.2.8"])),
        ),
        ("one more that is refused", service("a/web").addressed("192.0.2.7,127.0.0.1"), None),
        ("only refused ones", service("a/web").addressed("127.0.0.1"), Some(clear("a/web"))),
        (
            "one more of IPv6",
            service("a/web").addressed("192.0.2.7,2001:db8::7"),
            Some(write("a/web", &["192.0.2.7", "2001:db8::7"])),
        ),
        ("none", service("a/web"), Some(clear("a/web"))),
        ("it cannot be read", service("a/web").addressed("192.0.2.7."), None),
        ("ignored", ignored, Some(clear("a/web"))),
        ("of another class", foreign, Some(clear("a/web"))),
        ("of another type", elsewhere, Some(clear("a/web"))),
        ("being deleted", deleting, Some(clear("a/web"))),
    ];
    for (description, record, expected) in table {
        let mut world = World::new();
        world.hold("192.0.2.7", true);
        world.put(ours(service("a/web").addressed("192.0.2.7")));
        assert_eq!(duty(&world), None, "{description}");
        world.put(ours(record.clone()));
        assert_eq!(duty(&world), expected.as_ref(), "{description}");
        // This node loses the VIP and gets other news before the write is done.
        world.hold("192.0.2.7", false);
        world.put(ours(ServiceRecord { version: Version::from("2"), ..record.clone() }));
        assert_eq!(duty(&world), expected.as_ref(), "{description}: what was begun is ended");

        let mut follower = World::new();
        follower.put(ours(service("a/web").addressed("192.0.2.7")));
        follower.put(ours(record));
        assert_eq!(duty(&follower), None, "{description}: not on a node that never held it");
    }
}

#[test]
fn a_status_that_is_as_it_should_be_is_left() {
    let mut world = World::new();
    world.hold("192.0.2.7", true);
    world.put(service("a/web").status("vipward", &["192.0.2.7"]));
    assert_eq!(duty(&world), Some(&clear("a/web")));
    assert_eq!(world.put(service("a/web")), [leave("a/web")], "cleared");
    world.put(service("a/web").status("vipward", &["192.0.2.7"]));
    assert_eq!(world.notify(Event::ServiceGone(named("a/web"))), [leave("a/web")], "the Service is gone");
}

#[test]
fn a_node_that_held_a_vip_before_still_clears_what_is_left() {
    let mut world = World::new();
    let record = service("a/web").addressed("192.0.2.7").status("vipward", &["192.0.2.7"]);
    world.put(record.clone());
    world.hold("192.0.2.7", true);
    world.hold("192.0.2.7", false);
    world.put(service("a/web").status("vipward", &["192.0.2.7"]));
    assert_eq!(duty(&world), Some(&clear("a/web")));
    world.put(service("a/web"));
    assert!(world.index().held.is_empty(), "and then forgets it");
}

#[test]
fn left_overs_are_cleared_by_any_node_that_lists_everything() {
    let ours = |record: ServiceRecord| record.status("vipward", &["192.0.2.7"]);
    let mut foreign = service("a/web").addressed("192.0.2.7");
    foreign.class = Some("f5".into());
    let table = [
        ("no address is asked for", ours(service("a/web")), Some(clear("a/web"))),
        ("asked for: its holder sees to it", ours(service("a/web").addressed("192.0.2.7")), None),
        ("another one: its holder sees to it", ours(service("a/web").addressed("192.0.2.8")), None),
        ("of another class, maybe another installation's", ours(foreign), None),
        ("another controller's", service("a/web").status("controller", &["192.0.2.7"]), None),
    ];
    for (description, record, expected) in table {
        let mut world = World::unsynced(Role::Alone, Settings::default());
        world.put(record.clone());
        world.notify(Event::Synced);
        assert_eq!(duty(&world), expected.as_ref(), "{description}");
        let mut world = World::new();
        world.put(record);
        assert_eq!(duty(&world), None, "{description}, not at the first news");
        world.notify(Event::Synced);
        assert_eq!(duty(&world), expected.as_ref(), "{description}, listed again");
    }
}

#[test]
fn a_status_of_another_controller_is_never_touched_and_is_reported_when_it_disagrees() {
    let mut world = World::new();
    world.hold("192.0.2.7", true);
    world.hold("192.0.2.8", true);
    let rival = |address: &str| ServiceRecord {
        load_balancer_ip: Some(address.into()),
        ..service("a/web").status("controller", &["192.0.2.8"])
    };
    world.put(rival("192.0.2.7"));
    assert_eq!((world.vips(), duty(&world)), (vec!["192.0.2.8".to_owned()], None));
    assert_eq!(
        world.words(),
        [
            "a/web: it is to have 192.0.2.7 (spec.loadBalancerIP), but field manager \"controller\" has written \
          192.0.2.8 into the status, and Vipward does not change that. Where the other one only assigns addresses, \
          make both name the same. Let one controller serve each Service: create it anew with a \
          spec.loadBalancerClass, \"vipward.io/l2\" for Vipward, and have both leave Services without one alone \
          (Vipward: --class-only), or give each its own namespaces (Vipward: --namespace). If the other one is \
          gone, clear what it left: kubectl -n a patch service web --subresource=status --type=merge -p \
          '{\"status\":{\"loadBalancer\":{\"ingress\":null}}}'"
        ]
    );
    world.put(rival("192.0.2.8"));
    assert_eq!((world.problems.len(), duty(&world)), (0, None), "they agree");
    world.put(rival("0.0.0.0"));
    assert_eq!(world.problems, [], "the choice was left to the controller");
    let mut unknown = rival("192.0.2.7");
    unknown.status_manager = None;
    unknown.ingress[0].mode = IpMode::Proxy;
    world.put(unknown);
    assert_eq!((world.vips().len(), duty(&world)), (0, None), "the address is at a load balancer elsewhere");
    let notified = &world.words()[0];
    assert!(
        notified.contains("an unknown field manager has written no such address into the status"),
        "{notified}"
    );
    world.put(service("a/web").addressed("192.0.2.7"));
    assert_eq!(duty(&world), Some(&write("a/web", &["192.0.2.7"])), "it has gone");
    assert_eq!(world.problems, []);
}

#[test]
fn external_addresses_are_not_written_into_the_status() {
    let mut world = World::with(Settings { external_ips: true, ..Settings::default() });
    world.hold("192.0.2.8", true);
    let mut record = service("a/web").addressed("192.0.2.7");
    record.external_ips = vec![ip("192.0.2.8"), ip("192.0.2.7")];
    world.put(record);
    assert_eq!((world.vips().len(), duty(&world)), (2, None));
    world.hold("192.0.2.7", true);
    assert_eq!(duty(&world), Some(&write("a/web", &["192.0.2.7"])));
}

#[test]
fn nodes_that_see_another_network_do_not_undo_each_others_status() {
    let gateway = network(Vec::new(), &["192.0.2.7"]);
    let record = || service("a/web").addressed("192.0.2.7,198.51.100.7");
    let mut world = World::new();
    world.notify(Event::HostNetwork(gateway));
    world.hold("198.51.100.7", true);
    world.put(record());
    assert_eq!(
        duty(&world),
        Some(&write("a/web", &["198.51.100.7"])),
        "what this node refuses it does not write"
    );
    world.put(record().status("vipward", &["192.0.2.7", "198.51.100.7"]));
    assert_eq!(duty(&world), None, "another node does not refuse it");
    world.node("node-a", &["192.0.2.7"]);
    assert_eq!(duty(&world), Some(&write("a/web", &["198.51.100.7"])), "all refuse it");
}

#[test]
fn an_address_whose_last_segment_is_gone_leaves_the_status_unless_its_vip_is_held() {
    let both = "192.0.2.7,203.0.113.7";
    let record = || service("a/web").addressed(both).status("vipward", &["192.0.2.7", "203.0.113.7"]);
    let gone = || Some(write("a/web", &["192.0.2.7"]));
    for (was_held, is_held, expected) in [(false, false, gone()), (true, false, gone()), (true, true, None)] {
        let mut world = World::new();
        world.notify(on_node("node-y", interface(&["203.0.113.0/24"])));
        world.hold("192.0.2.7", true);
        world.notify(claim(ip("203.0.113.7"), (was_held, is_held), &[], None));
        world.put(record());
        assert_eq!(duty(&world), None);
        world.notify(Event::NodeGone("node-y".into()));
        assert_eq!(duty(&world), expected.as_ref(), "held: {was_held} {is_held}");
    }
}

#[test]
fn agents_alone_keep_what_a_controller_has_reserved_for_a_service_that_asks_for_nothing() {
    let reserved = |vip: &str, name: &str, kept| {
        let reservation = Reservation { service: named(name), pool: None, kept };
        claim(ip(vip), (true, true), &[name], Some(reservation))
    };
    let status = |record: ServiceRecord| record.status("vipward", &["192.0.2.7", "2001:db8::7"]);
    let mut world = World::unsynced(Role::Alone, Settings::default());
    world.put(status(service("a/web")));
    world.put(status(service("a/gone")));
    world.notify(reserved("2001:db8::7", "a/web", None));
    world.notify(reserved("192.0.2.7", "a/web", None));
    world.notify(reserved("192.0.2.8", "a/gone", Some(None)));
    world.notify(Event::Synced);
    assert_eq!(duty(&world), None, "nothing is cleared");
    assert_eq!(world.duties.get(&named("a/gone")), Some(&clear("a/gone")));
    assert_eq!(world.vips(), ["192.0.2.7", "2001:db8::7"]);
    assert_eq!(world.words(), Vec::<String>::new());

    // The requested address goes first.
    world.hold("192.0.2.7", true);
    world.put(status(service("a/web").addressed("192.0.2.9")));
    assert_eq!(world.vips(), ["192.0.2.9"]);
    assert_eq!(duty(&world), Some(&write("a/web", &["192.0.2.9"])));
    world.put(status(service("a/web")));
    assert_eq!(world.vips(), ["192.0.2.7", "2001:db8::7"]);

    world.notify(Event::ClaimGone(ip("2001:db8::7")));
    assert_eq!(duty(&world), Some(&write("a/web", &["192.0.2.7"])));
    world.claim("192.0.2.7", true, false);
    assert_eq!(duty(&world), Some(&clear("a/web")), "an admin has removed the reservations");
}
