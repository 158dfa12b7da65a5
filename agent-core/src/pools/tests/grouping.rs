//! Services that get one address of a pool by a key.

use super::{super::*, *};

fn port(port: u16) -> Port {
    Port { port, protocol: Protocol::Udp }
}

fn keyed(key: &str, ports: &[u16]) -> Request {
    let ports = ports.iter().copied().map(port).collect();
    Request { families: vec![Family::V4], keys: vec![ShareKey::Own(key.into())], ports, ..Request::default() }
}

fn metallb(ports: &[u16]) -> Request {
    Request { keys: vec![ShareKey::Metallb("dns".into())], ..keyed("", ports) }
}

fn consents(name: &str, with: &[&str]) -> Event {
    let share_with = with.iter().map(|name| (*name).into()).collect();
    Event::Namespace { name: name.into(), labels: BTreeMap::new(), share_with }
}

#[test]
fn services_of_a_key_get_one_address_ports_permitting() {
    /// A case, the second Service, and true if it shares the address of the first one.
    type Row<'a> = (&'a str, &'a str, Request, bool, &'a str);
    let local = Request { is_local: true, ..metallb(&[54]) };
    let both =
        Request { keys: vec![ShareKey::Own("x".into()), ShareKey::Own("dns".into())], ..keyed("", &[54]) };
    let clash = "it does not share 192.0.2.1 with the Services of its key: its port 53/UDP is that of Service \
                 default/first; change the port, or give it a key of its own";
    let in_pool = |name: Option<&str>| Request { pool: name.map(Into::into), ..keyed("dns", &[54]) };
    let foreign = "it does not share 192.0.2.1 with the Services of its key: it is of namespace default; have the \
                   Namespace default list this Service's namespace in its annotation vipward.io/share-with, and both \
                   Services have the annotation vipward.io/share, or give it a key of its own";
    let other_pool = "it does not share 192.0.2.1 with the Services of its key: that is an address of VIPPool a, and \
                      the Service names VIPPool b; have both name one pool, or give it a key of its own";
    let rows: [Row; 9] = [
        ("the same key", "second", keyed("dns", &[54]), true, ""),
        ("the same port", "second", keyed("dns", &[54, 53]), false, clash),
        ("another key", "second", keyed("web", &[54]), false, ""),
        ("no key", "second", Request { keys: Vec::new(), ..keyed("", &[54]) }, false, ""),
        ("one of its keys", "second", both, true, ""),
        ("another namespace, without consent", "shop/second", keyed("dns", &[54]), false, foreign),
        ("another namespace, with consent", "guest/second", keyed("dns", &[54]), true, ""),
        ("MetalLB's key, and not the same", "second", local, false, ""),
        ("another pool", "second", in_pool(Some("b")), false, other_pool),
    ];
    for (what, name, request, shares, lack) in rows {
        let b = PoolRecord { auto_assign: false, ..pool("b", &["192.0.2.9"]) };
        let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.4"]), b]);
        world.notify(consents("default", &["guest"]));
        assert_eq!(world.ask("first", keyed("dns", &[53])), [ip("192.0.2.1")]);
        let has = world.ask(name, request);
        assert_eq!(has == [ip("192.0.2.1")], shares, "{what}: {has:?}");
        assert_eq!(has.len(), 1, "{what}: none is left without an address");
        assert_eq!(world.lacks(name).concat(), lack, "{what}");
    }
}

#[test]
fn by_the_key_of_metallb_services_of_any_namespace_share_if_their_traffic_goes_to_any_node() {
    for (what, name, is_local, kind, shares) in [
        ("one namespace", "second", false, PoolKind::IpAddressPool, true),
        ("one namespace, and Local", "second", true, PoolKind::IpAddressPool, true),
        ("two namespaces", "other/second", false, PoolKind::IpAddressPool, true),
        ("two namespaces, and Local", "other/second", true, PoolKind::IpAddressPool, false),
        ("two namespaces, in a VIPPool", "other/second", false, PoolKind::VipPool, false),
    ] {
        let record = PoolRecord { name: kind.key("a"), ..pool("a", &["192.0.2.1-192.0.2.4"]) };
        let mut world = World::new([record]);
        world.ask("first", metallb(&[53]));
        let has = world.ask(name, Request { is_local, ..metallb(&[54]) });
        assert_eq!(has == [ip("192.0.2.1")], shares, "{what}: {has:?}");
    }
}

#[test]
fn services_of_a_key_that_come_at_once_wait_for_the_reservation_of_the_first() {
    let vip = ip("192.0.2.1");
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.4"])]);
    let ask = |world: &mut World, name: &str, request| {
        world.allocator.on_event(Event::Request(service(name), Box::new(request)), &world.around)
    };
    let asked = ask(&mut world, "first", keyed("dns", &[53]));
    let [Command::Write(write), Command::Assign(..)] = &asked[..] else { panic!("{asked:?}") };
    let second = ask(&mut world, "second", keyed("dns", &[54]));
    let [Command::Assign(_, given)] = &second[..] else { panic!("{second:?}") };
    assert_eq!(*given, Given::default());
    assert!(world.store.carry_out(write));
    world.notify(world.store.event(vip));
    world.notify(Event::Answered(vip));
    assert_eq!((world.has("first"), world.has("second")), (vec![vip], vec![vip]));
    assert_eq!(world.store.objects.len(), 1);
}

#[test]
fn what_services_of_a_key_share_stays_with_those_that_are_left() {
    let rows: [(&str, Event, &[&str]); 3] = [
        ("the owner goes", Event::Withdrawn(service("first")), &["second", "third"]),
        (
            "the owner has no key any more",
            asks("first", Request { keys: Vec::new(), ..keyed("", &[53]) }),
            &["first"],
        ),
        ("another one goes", Event::Withdrawn(service("second")), &["first", "third"]),
    ];
    for (what, event, having) in rows {
        let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.9"])]);
        for (name, port) in [("first", 53), ("second", 54), ("third", 55)] {
            world.ask(name, keyed("dns", &[port]));
        }
        let gone = match &event {
            Event::Withdrawn(service) => Some(service.name.to_string()),
            _ => None,
        };
        world.notify(event);
        let has: Vec<_> = ["first", "second", "third"]
            .into_iter()
            .filter(|name| {
                !matches!(&gone, Some(gone) if gone == name) && world.has(name) == [ip("192.0.2.1")]
            })
            .collect();
        assert_eq!(has, having, "{what}");
        for name in ["first", "second", "third"] {
            assert_eq!(world.has(name).len(), 1, "{what}: {name}");
        }
    }
}

#[test]
fn a_service_keeps_the_address_of_its_own_when_it_gets_a_key() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.9"])]);
    world.ask("first", keyed("dns", &[53]));
    world.ask("second", Request { keys: Vec::new(), ..keyed("", &[54]) });
    assert_eq!(world.ask("second", keyed("dns", &[54])), [ip("192.0.2.2")]);
}

fn asks(name: &str, request: Request) -> Event {
    Event::Request(service(name), Box::new(request))
}

#[test]
fn a_service_that_may_not_share_takes_no_ports_and_many_of_a_key_hide_no_owner() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.9"])]);
    world.ask("zone/tcp", keyed("dns", &[53]));
    let names = Request { addresses: vec![ip("192.0.2.1")], keys: Vec::new(), ..keyed("", &[54]) };
    world.ask("evil/names", names);
    for number in 0..300 {
        world.ask(&format!("evil/{number}"), Request { is_elsewhere: true, ..keyed("dns", &[54]) });
    }
    assert_eq!(world.ask("zone/udp", keyed("dns", &[54])), [ip("192.0.2.1")]);
}

#[test]
fn what_a_service_had_comes_before_what_it_may_share() {
    let rows: [(&str, Request, Option<Vec<ServiceName>>); 2] = [
        ("its claim names it", keyed("dns", &[54]), Some(vec![service("back")])),
        ("its status names it", Request { status: vec![ip("192.0.2.7")], ..keyed("dns", &[54]) }, None),
    ];
    for (what, request, claimed) in rows {
        let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.9"])]);
        world.ask("first", keyed("dns", &[53]));
        if let Some(services) = claimed {
            world.store.objects.insert(ip("192.0.2.7"), None);
            world.notify(Event::Object { vip: ip("192.0.2.7"), reservation: None, release: false, services });
        }
        assert_eq!(world.ask("back", request), [ip("192.0.2.7")], "{what}");
    }
}

#[test]
fn an_owner_that_is_created_again_shares_its_address_with_the_heir() {
    let vip = ip("192.0.2.1");
    let keyless = |ports: &[u16]| Request { keys: Vec::new(), ..keyed("", ports) };
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.9"])]);
    world.ask("owner", keyless(&[53]));
    world.ask("guest", Request { addresses: vec![vip], ..keyless(&[54]) });
    let claim = |world: &World| Event::Object {
        vip,
        reservation: world.store.objects[&vip].clone(),
        release: false,
        services: vec![service("owner"), service("guest")],
    };
    world.notify(claim(&world));
    world.notify(Event::Withdrawn(service("owner")));
    world.notify(claim(&world));
    assert_eq!(world.store.objects[&vip].as_ref().map(|it| it.service.clone()), Some(service("guest")));
    assert_eq!(world.ask("owner", keyless(&[53])), [vip]);
}

#[test]
fn a_service_waits_for_no_reservation_that_is_refused() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.4"])]);
    let ask = |world: &mut World, name: &str, request| {
        world.allocator.on_event(Event::Request(service(name), Box::new(request)), &world.around)
    };
    ask(&mut world, "first", keyed("dns", &[53]));
    ask(&mut world, "second", keyed("dns", &[54]));
    world.notify(Event::Failed(ip("192.0.2.1")));
    assert_eq!(world.has("second"), [ip("192.0.2.2")]);
}

/// The reason why the second Service of a key has an address of its own, and what ends it.
#[test]
fn a_service_that_shares_with_nobody_of_its_key_says_why_until_it_does() {
    /// A case, the first Service's pool, the second Service, the reason, an event that ends it, and true if
    /// it still has its own address.
    type Row = (&'static str, PoolRecord, &'static str, Request, &'static str, fn(&mut World));
    let a = || pool("a", &["192.0.2.1-192.0.2.4"]);
    let rows: [Row; 5] = [
        ("no consent", a(), "guest/second", keyed("dns", &[54]), "list this Service's namespace", |world| {
            world.notify(consents("default", &["guest"]));
        }),
        (
            "the pool is shared by nobody",
            PoolRecord { sharing: Sharing::Never, ..a() },
            "second",
            keyed("dns", &[54]),
            "spec.sharing of VIPPool a forbids it",
            |world| world.notify(Event::Pool(Box::new(pool("a", &["192.0.2.1-192.0.2.4"])))),
        ),
        (
            "another pool",
            a(),
            "second",
            Request { pool: Some("b".into()), ..keyed("dns", &[54]) },
            "names VIPPool b",
            |world| world.notify(asks("second", keyed("dns", &[54]))),
        ),
        ("the first one goes", a(), "guest/second", keyed("dns", &[54]), "namespace default", |world| {
            world.notify(Event::Withdrawn(service("first")));
        }),
        (
            "a third one of its key comes",
            a(),
            "guest/second",
            keyed("dns", &[54]),
            "namespace default",
            |world| {
                let vip = world.ask("guest/third", keyed("dns", &[55]));
                assert_eq!(vip, world.has("guest/second"));
            },
        ),
    ];
    for (what, first, name, request, reason, ends) in rows {
        let b = PoolRecord { auto_assign: false, ..pool("b", &["192.0.2.9"]) };
        let mut world = World::new([first, b]);
        world.notify(consents("guest", &[]));
        world.ask("first", keyed("dns", &[53]));
        let own = world.ask(name, request);
        let said = world.lacks(name).concat();
        assert!(said.contains(reason), "{what}: {said:?}");
        ends(&mut world);
        assert_eq!(world.lacks(name), [""; 0], "{what}");
        assert_eq!(world.has(name), own, "{what}: it keeps its own");
    }
}

#[test]
fn a_service_whose_own_address_is_released_shares_that_of_its_key() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.9"])]);
    world.ask("first", keyed("dns", &[53]));
    world.ask("second", Request { keys: Vec::new(), ..keyed("", &[54]) });
    world.ask("second", keyed("dns", &[54]));
    world.release(ip("192.0.2.2"));
    assert_eq!(world.has("second"), [ip("192.0.2.1")]);
    assert_eq!(world.store.objects.len(), 1);
}
