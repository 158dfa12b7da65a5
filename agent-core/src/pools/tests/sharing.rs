use super::{super::*, *};

#[test]
fn sharing_is_what_the_pool_says() {
    for (sharing, of_namespace, of_another) in
        [(Sharing::Never, false, false), (Sharing::Namespace, true, false), (Sharing::Key, true, true)]
    {
        let mut world = World::new([PoolRecord { sharing, ..pool("a", &["192.0.2.1"]) }]);
        assert_eq!(world.ask("owner", v4()), [ip("192.0.2.1")]);
        let shares = |has: Vec<IpAddr>| !has.is_empty();
        assert_eq!(shares(world.ask("guest", for_addresses(&["192.0.2.1"]))), of_namespace, "{sharing:?}");
        assert_eq!(
            shares(world.ask("other/guest", for_addresses(&["192.0.2.1"]))),
            of_another,
            "{sharing:?}"
        );
        // When the owner goes, one that requested the address has it.
        world.notify(Event::Withdrawn(service("owner")));
        assert_eq!(world.has("guest"), [ip("192.0.2.1")], "{sharing:?}");
    }
}

#[test]
fn a_service_that_waits_for_the_reservation_of_another_shares_the_address_or_is_reported_whose_it_is() {
    let vip = ip("192.0.2.1");
    for (sharing, has, lack) in [
        (Sharing::Key, vec![vip], None),
        (
            Sharing::Never,
            vec![],
            Some("192.0.2.1 is reserved for Service default/owner; choose another address"),
        ),
    ] {
        let mut world = World::new([PoolRecord { sharing, ..pool("a", &["192.0.2.1"]) }]);
        let ask = |world: &mut World, name: &str| {
            let request = Box::new(for_addresses(&["192.0.2.1"]));
            world.allocator.on_event(Event::Request(service(name), request), &world.around)
        };
        let asked = ask(&mut world, "owner");
        let [Command::Write(write), Command::Assign(..)] = &asked[..] else { panic!("{asked:?}") };
        // The write is under way.
        let Some(Command::Assign(_, given)) = ask(&mut world, "guest").pop() else { panic!() };
        assert_eq!((given.addresses, given.lacks), (vec![], vec![]), "{sharing:?}");
        // While it fails, an Event names the Service that is to have the address.
        world.notify(Event::Failed(vip));
        assert!(world.lacks("guest")[0].starts_with("192.0.2.1 is reserved for Service default/owner"));
        assert!(world.store.carry_out(write));
        world.notify(world.store.event(vip));
        world.notify(Event::Answered(vip));
        let lacks = world.lacks("guest");
        assert_eq!((world.has("guest"), lacks.first().map(String::as_str)), (has, lack), "{sharing:?}");
    }
}

#[test]
fn a_hand_over_to_one_that_shares_is_tried_again_at_its_pace() {
    let vip = ip("192.0.2.1");
    let mut world = World::new([PoolRecord { sharing: Sharing::Namespace, ..pool("a", &["192.0.2.1"]) }]);
    for name in ["owner", "guest"] {
        world.notify(Event::Request(service(name), Box::new(for_addresses(&["192.0.2.1"]))));
    }
    let is_for_guest = |command: &Command| match command {
        Command::Write(write) => write.reservation.as_ref().is_some_and(|it| it.service == service("guest")),
        Command::GiveUp(_) | Command::Assign(..) => false,
    };
    let commands = world.allocator.on_event(Event::Withdrawn(service("owner")), &world.around);
    assert!(commands.iter().any(is_for_guest), "{commands:?}");
    for _ in 0..3 {
        let commands = world.allocator.on_event(Event::Failed(vip), &world.around);
        let assigned = |command: &Command| matches!(command, Command::Assign(..));
        assert!(commands.iter().all(assigned), "{commands:?}");
    }
    let commands = world.allocator.on_event(Event::Withdrawn(service("guest")), &world.around);
    assert!(commands.contains(&Command::GiveUp(vip)), "{commands:?}");
}

#[test]
fn a_kept_address_that_is_shared_goes_to_the_one_that_shares_it() {
    let keeping = PoolRecord { keep: Some("1h".into()), ..pool("a", &["192.0.2.1-192.0.2.2"]) };
    let mut world = World::new([keeping]);
    assert_eq!(world.ask("owner", v4()), [ip("192.0.2.1")]);
    assert_eq!(world.ask("guest", for_addresses(&["192.0.2.1"])), [ip("192.0.2.1")]);
    world.notify(Event::Withdrawn(service("owner")));
    assert_eq!(world.has("guest"), [ip("192.0.2.1")]);
    assert_eq!(world.allocator.next_expiry(), None);
    world.notify(Event::Synced);
    assert_eq!(world.has("guest"), [ip("192.0.2.1")]);
}

#[test]
fn a_service_of_the_owners_namespace_inherits_before_one_of_another() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.2"])]);
    assert_eq!(world.ask("owner", v4()), [ip("192.0.2.1")]);
    let shares = Request { status: vec![ip("192.0.2.1")], ..for_addresses(&["192.0.2.1"]) };
    world.ask("aaa/guest", shares.clone());
    world.ask("second", shares);
    world.notify(Event::Withdrawn(service("owner")));
    let reservation = world.store.objects[&ip("192.0.2.1")].clone().expect("it is reserved");
    assert_eq!((reservation.service, reservation.kept), (service("second"), None));
}

#[test]
fn a_service_of_another_namespace_inherits_only_what_its_status_names() {
    let keeping = PoolRecord { keep: Some("1h".into()), ..pool("a", &["192.0.2.1-192.0.2.2"]) };
    let served = Request { status: vec![ip("192.0.2.1")], ..for_addresses(&["192.0.2.1"]) };
    for (what, request, heir, kept) in [
        ("it waits", for_addresses(&["192.0.2.1"]), "default/owner", Some(Some(3_600))),
        ("it shares", served, "other/guest", None),
    ] {
        let mut world = World::new([keeping.clone()]);
        assert_eq!(world.ask("owner", v4()), [ip("192.0.2.1")]);
        world.ask("aaa/stranger", for_addresses(&["192.0.2.1"]));
        world.ask("other/guest", request);
        world.notify(Event::Withdrawn(service("owner")));
        let reservation = world.store.objects[&ip("192.0.2.1")].clone().expect("it is reserved");
        assert_eq!((reservation.service, reservation.kept), (service(heir), kept), "{what}");
    }
}

#[test]
fn a_shared_address_that_is_released_goes_to_one_that_asks_for_it() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.2"])]);
    assert_eq!(world.ask("owner", v4()), [ip("192.0.2.1")]);
    assert_eq!(world.ask("guest", for_addresses(&["192.0.2.1"])), [ip("192.0.2.1")]);
    world.release(ip("192.0.2.1"));
    assert_eq!(world.has("owner"), [ip("192.0.2.2")]);
    assert_eq!(world.has("guest"), [ip("192.0.2.1")]);
    assert_eq!(world.store.objects.len(), 2);
}
