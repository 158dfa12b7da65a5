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
    let other_pool = "it does not share 192.0.2.1 with the Services of its key: that is an address of VIPPool a, and \
                      the Service names VIPPool b; have both name one pool, or give it a key of its own";
    let rows: [Row; 9] = [
        ("the same key", "second", keyed("dns", &[54]), true, ""),
        ("the same port", "second", keyed("dns", &[54, 53]), false, clash),
        ("another key", "second", keyed("web", &[54]), false, ""),
        ("no key", "second", Request { keys: Vec::new(), ..keyed("", &[54]) }, false, ""),
        ("one of its keys", "second", both, true, ""),
        ("another namespace, without consent", "shop/second", keyed("dns", &[54]), false, ""),
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

fn local(nodes: &[&str], request: Request) -> Request {
    let nodes = nodes.iter().map(|node| (*node).into()).collect();
    let limits = Limits { endpoints: [(Family::V4, nodes)].into(), ..Limits::default() };
    Request { is_local: true, limits: Some(Box::new(limits)), ..request }
}

/// The reason why the second Service of a key has an address of its own, and what is said when it is over.
#[test]
fn a_service_that_shares_with_nobody_of_its_key_says_why_until_it_does() {
    /// A case, the first and the second Service, the reason, an event that ends it, and what is said then.
    type Row = (
        &'static str,
        (PoolRecord, Request),
        (&'static str, Request),
        &'static str,
        fn(&mut World),
        &'static str,
    );
    const COULD: &str = "it keeps its own. To have it share: vipward release";
    let a = || pool("a", &["192.0.2.1-192.0.2.4"]);
    let never = PoolRecord { sharing: Sharing::Never, ..a() };
    let (first, second) = (keyed("dns", &[53]), keyed("dns", &[54]));
    let far = Request { pool: Some("b".into()), ..second.clone() };
    let key = |ports| Request { keys: vec![ShareKey::Metallb("dns".into())], ..keyed("", ports) };
    let rows: [Row; 8] = [
        (
            "a port of both",
            (a(), first.clone()),
            ("second", keyed("dns", &[53])),
            "its port 53/UDP is that of Service default/first",
            |world| drop(world.ask("first", keyed("dns", &[55]))),
            COULD,
        ),
        (
            "consent in the wrong direction",
            (a(), first.clone()),
            ("guest/second", second.clone()),
            "have the Namespace default list this Service's namespace",
            |world| world.notify(consents("default", &["guest"])),
            COULD,
        ),
        (
            "the pool is shared by nobody",
            (never, first.clone()),
            ("second", second.clone()),
            "spec.sharing of VIPPool a forbids it",
            |world| world.notify(Event::Pool(Box::new(pool("a", &["192.0.2.1-192.0.2.4"])))),
            COULD,
        ),
        (
            "another pool",
            (a(), first.clone()),
            ("second", far),
            "names VIPPool b",
            |world| world.notify(Event::Withdrawn(service("first"))),
            "",
        ),
        (
            "no node has endpoints of both",
            (a(), local(&["n1"], first.clone())),
            ("second", local(&["n2"], second.clone())),
            "no node has endpoints of both it and Service default/first",
            |world| drop(world.ask("first", local(&["n1", "n2"], keyed("dns", &[53])))),
            COULD,
        ),
        (
            "MetalLB's key, in a pool of Vipward",
            (a(), key(&[53])),
            ("guest/second", key(&[54])),
            "it is of namespace default",
            |world| world.notify(Event::Withdrawn(service("first"))),
            "",
        ),
        (
            "it gets its key later",
            (a(), first.clone()),
            ("second", Request { keys: Vec::new(), ..second.clone() }),
            "",
            |world| drop(world.ask("second", keyed("dns", &[54]))),
            COULD,
        ),
        (
            "a third one shares its own",
            (a(), first),
            ("guest/second", second),
            "have the Namespace default list",
            |world| {
                let vip = world.ask("guest/third", keyed("dns", &[55]));
                assert_eq!(vip, world.has("guest/second"));
            },
            "",
        ),
    ];
    for (what, (pool_a, first), (name, request), reason, ends, then) in rows {
        let b = PoolRecord { auto_assign: false, ..pool("b", &["192.0.2.9"]) };
        let mut world = World::new([pool_a, b]);
        world.notify(consents("default", &[]));
        world.notify(consents("guest", &["default"]));
        world.ask("first", first);
        let own = world.ask(name, Request { created: 1, ..request });
        let check = |world: &World, part: &str, when: &str| {
            let said = world.lacks(name).concat();
            assert!(said.contains(part) && said.is_empty() == part.is_empty(), "{what}, {when}: {said:?}");
            assert_eq!(world.lacks("first"), [""; 0], "{what}, {when}: the older one has no fault");
        };
        check(&world, reason, "at first");
        ends(&mut world);
        check(&world, then, "when it is over");
        assert_eq!(world.has(name), own, "{what}: it keeps its own");
    }
}

/// 300 Services of a key, each in the way of the next one only: what one does wakes few.
#[test]
fn each_service_that_cannot_share_is_told_of_the_one_before_it() {
    let mut world = World::new([PoolRecord { sharing: Sharing::Never, ..pool("a", &["10.0.0.0/16"]) }]);
    for number in 0..300 {
        world.ask(&format!("s{number:03}"), Request { created: number, ..keyed("dns", &[54]) });
    }
    for (number, before) in [(1, "s000"), (150, "s149"), (255, "s254")] {
        let lacks = world.lacks(&format!("s{number:03}"));
        let vip = world.has(before)[0];
        assert!(lacks.concat().contains(&format!("does not share {vip} ")), "{number}: {lacks:?}");
    }
}

#[test]
fn a_service_whose_shared_address_is_written_keeps_it_while_its_own_is_released() {
    let (own, shared) = (ip("192.0.2.2"), ip("192.0.2.1"));
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.9"])]);
    world.ask("first", keyed("dns", &[53]));
    world.ask("second", Request { keys: Vec::new(), ..keyed("", &[54]) });
    let written = || Request { status: vec![own], ..keyed("dns", &[54]) };
    world.ask("second", written());
    world.release(own);
    assert_eq!(world.has("second"), [shared], "the status still has its own");
    assert!(world.store.objects.contains_key(&own));
    world.ask("second", Request { status: vec![shared], ..keyed("dns", &[54]) });
    assert_eq!(world.has("second"), [shared]);
    assert!(!world.store.objects.contains_key(&own), "it is freed once the status names the other one");
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
