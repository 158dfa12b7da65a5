//! The reasons for which a Service waits for an address, and the events that end each of them, whoever
//! causes them.

use super::{super::*, *};
use crate::records::NodeInterface;

const VIP: &str = "192.0.2.1";

fn any() -> Request {
    Request { families: vec![Family::V4], ..Request::default() }
}

fn named() -> Request {
    Request { addresses: vec![ip(VIP)], ..any() }
}

fn one(sharing: Sharing) -> PoolRecord {
    PoolRecord { sharing, ..pool("a", &[VIP]) }
}

fn put(record: PoolRecord) -> Event {
    Event::Pool(Box::new(record))
}

fn asks(name: &str, request: Request) -> Event {
    Event::Request(service(name), Box::new(request))
}

fn gone(name: &str) -> Event {
    Event::Withdrawn(service(name))
}

fn on(node: &str, net: &str) -> Event {
    let interface = NodeInterface {
        name: "eth0".into(),
        altnames: Vec::new(),
        mac: vipward_common::MacAddr([2, 0, 0, 0, 0, 1]),
        subnets: vec![net.parse().expect("a network")],
        bound: Vec::new(),
        gateways: Vec::new(),
        carrier: true,
        last_for: Vec::new(),
        unreached: Vec::new(),
    };
    Event::Announcing(Announcing::Interfaces(node.into(), vec![interface]))
}

fn labelled(node: &str, labels: &[(&str, &str)]) -> Event {
    Event::Announcing(Announcing::Labels(node.into(), texts(labels)))
}

fn texts(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn with_most(most: usize, pools: impl IntoIterator<Item = PoolRecord>) -> World {
    let mut world = World { allocator: Allocator::start(Some(most), false), ..World::default() };
    world.notify(namespace("default", BTreeMap::new()));
    pools.into_iter().for_each(|record| world.notify(put(record)));
    world.notify(Event::Synced);
    world
}

/// A way to end a wait, and what ends it.
type End = (&'static str, fn(&mut World));
/// A reason to wait: how the Service `default/waits` comes to it, and what ends it.
type Reason = (&'static str, fn() -> World, Vec<End>);

#[expect(clippy::too_many_lines, reason = "it is one table")]
fn reasons() -> Vec<Reason> {
    vec![
        (
            "no address is free",
            || {
                let mut world = World::new([PoolRecord { keep: Some("1h".into()), ..one(Sharing::Key) }]);
                world.notify(Event::Time(1_000));
                world.ask("owner", any());
                world.ask("waits", any());
                world
            },
            vec![
                ("the owner goes, and its time is over", |world| {
                    world.notify(gone("owner"));
                    world.notify(Event::Time(4_600));
                }),
                ("the owner goes, and an admin has the address released", |world| {
                    world.notify(gone("owner"));
                    world.release(ip(VIP));
                }),
                ("the owner asks for another address", |world| {
                    world.ask("owner", Request { addresses: vec![ip("198.51.100.1")], ..any() });
                }),
                ("the pool grows", |world| world.notify(put(pool("a", &["192.0.2.1-192.0.2.2"])))),
                ("there is another pool", |world| world.notify(put(pool("b", &["192.0.2.9"])))),
            ],
        ),
        (
            "something else needs the only address",
            || {
                let mut world = World {
                    around: Around { refused: [ip(VIP)].into(), ..Around::default() },
                    ..World::default()
                };
                world.notify(put(one(Sharing::Key)));
                world.notify(Event::Synced);
                world.ask("waits", any());
                world
            },
            vec![
                ("nothing needs it any more", |world| {
                    world.around.refused.clear();
                    world.notify(Event::Needs("192.0.2.0/24".parse().expect("a network")));
                }),
                ("a Service may have it now", |world| {
                    world.around.refused.clear();
                    world.notify(Event::Permitted(ip(VIP)));
                }),
            ],
        ),
        (
            "the address that it names is another's",
            || {
                let mut world = World::new([PoolRecord { keep: Some("1h".into()), ..one(Sharing::Never) }]);
                world.notify(Event::Time(1_000));
                world.ask("owner", any());
                world.ask("waits", named());
                world
            },
            vec![
                ("the owner goes, and its time is over", |world| {
                    world.notify(gone("owner"));
                    world.notify(Event::Time(4_600));
                }),
                ("the pool lets Services share", |world| world.notify(put(one(Sharing::Namespace)))),
                ("the pool goes", |world| world.notify(Event::PoolGone("a".into()))),
            ],
        ),
        (
            "the address that it names is kept for another",
            || {
                let mut world =
                    World::new([PoolRecord { keep: Some("1h".into()), ..one(Sharing::Namespace) }]);
                world.notify(Event::Time(1_000));
                world.ask("owner", any());
                world.notify(gone("owner"));
                world.ask("waits", named());
                world
            },
            vec![
                ("its Service is back, and shares it", |world| _ = world.ask("owner", any())),
                ("its time is over", |world| world.notify(Event::Time(4_600))),
                ("another controller gives it to one of the namespace", |world| {
                    let reservation = Reservation { service: service("other"), pool: None, kept: None };
                    world.store.objects.insert(ip(VIP), Some(reservation));
                    world.notify(world.store.event(ip(VIP)));
                }),
            ],
        ),
        (
            "the address that it names is refused",
            || {
                let mut world = World {
                    around: Around { refused: [ip(VIP)].into(), ..Around::default() },
                    ..World::default()
                };
                world.notify(Event::Synced);
                world.ask("waits", named());
                world
            },
            vec![
                ("nothing needs it any more", |world| {
                    world.around.refused.clear();
                    world.notify(Event::Needs("192.0.2.1/32".parse().expect("a network")));
                }),
                ("a Service may have it now", |world| {
                    world.around.refused.clear();
                    world.notify(Event::Permitted(ip(VIP)));
                }),
            ],
        ),
        (
            "the claim of the address names another Service",
            || {
                let mut world = World::new([]);
                let (vip, services) = (ip(VIP), vec![service("former")]);
                world.store.objects.insert(vip, None);
                world.notify(Event::Object { vip, reservation: None, release: false, services });
                world.ask("waits", named());
                world
            },
            vec![
                ("the claim goes", |world| {
                    world.store.objects.clear();
                    world.notify(Event::ObjectGone(ip(VIP)));
                }),
                ("the claim names it", |world| {
                    let (vip, services) = (ip(VIP), vec![service("waits")]);
                    world.notify(Event::Object { vip, reservation: None, release: false, services });
                }),
            ],
        ),
        (
            "no pool is for it",
            || {
                let mut world =
                    World::new([PoolRecord { namespaces: ["shop".into()].into(), ..one(Sharing::Key) }]);
                world.ask("waits", any());
                world
            },
            vec![
                ("the pool serves all", |world| world.notify(put(one(Sharing::Key)))),
                ("the pool serves its namespace by label", |world| {
                    let selectors = vec!["team=a".into()];
                    world.notify(put(PoolRecord { namespace_selectors: selectors, ..one(Sharing::Key) }));
                    world.notify(namespace("default", texts(&[("team", "a")])));
                }),
                ("its labels are what a pool serves", |world| {
                    let selectors = vec!["public".into()];
                    world.notify(put(PoolRecord {
                        service_selectors: selectors,
                        ..pool("b", &["192.0.2.9"])
                    }));
                    let labels = (&texts(&[("public", "")])).into();
                    world.ask("waits", Request { labels, ..any() });
                }),
            ],
        ),
        (
            "its namespace has as many addresses as it may",
            || {
                let mut world = with_most(1, [pool("a", &["192.0.2.1-192.0.2.9"])]);
                world.ask("owner", any());
                world.ask("waits", any());
                world
            },
            vec![
                ("another Service goes", |world| world.notify(gone("owner"))),
                ("another Service's address goes to one of another namespace", |world| {
                    let reservation = Reservation { service: service("shop/web"), pool: None, kept: None };
                    world.store.objects.insert(ip(VIP), Some(reservation));
                    world.notify(world.store.event(ip(VIP)));
                }),
            ],
        ),
        (
            "its namespace has as many addresses as it may, and it names one",
            || {
                let mut world = with_most(1, []);
                world.ask("owner", Request { addresses: vec![ip("192.0.2.9")], ..any() });
                world.ask("waits", named());
                world
            },
            vec![
                ("another Service goes", |world| world.notify(gone("owner"))),
                ("another one of the namespace has reserved it, and shares it", |world| {
                    let reservation = Reservation { service: service("other"), pool: None, kept: None };
                    world.store.objects.insert(ip(VIP), Some(reservation));
                    world.notify(world.store.event(ip(VIP)));
                }),
            ],
        ),
        (
            "no node can announce an address of the pool",
            || {
                let mut world = World::new([one(Sharing::Key)]);
                world.notify(on("n1", "198.51.100.0/24"));
                world.notify(labelled("n1", &[]));
                world.ask("waits", any());
                world
            },
            vec![
                ("a node has an interface there", |world| world.notify(on("n2", "192.0.2.0/24"))),
                ("the node's interface is another", |world| world.notify(on("n1", "192.0.2.0/24"))),
                ("no node is known any more", |world| {
                    world.notify(Event::Announcing(Announcing::NodeGone("n1".into())));
                }),
                ("the pool has addresses of the segment", |world| {
                    world.notify(put(pool("a", &["198.51.100.9"])));
                }),
            ],
        ),
        (
            "no node that the pool selects can announce its addresses",
            || {
                let announce = AnnounceRecord { nodes: Some("rack=1".into()), ..AnnounceRecord::default() };
                let mut world = World::new([PoolRecord { announce, ..one(Sharing::Key) }]);
                world.notify(on("n1", "192.0.2.0/24"));
                world.notify(labelled("n1", &[]));
                world.ask("waits", any());
                world
            },
            vec![
                ("the node gets the label", |world| world.notify(labelled("n1", &[("rack", "1")]))),
                ("the pool selects all nodes", |world| world.notify(put(one(Sharing::Key)))),
                ("another node has the label", |world| {
                    world.notify(labelled("n2", &[("rack", "1")]));
                    world.notify(on("n2", "192.0.2.0/24"));
                }),
            ],
        ),
        (
            "no node with its endpoints can announce an address",
            || {
                let mut world = World::new([one(Sharing::Key)]);
                world.notify(on("n1", "192.0.2.0/24"));
                world.notify(on("n2", "198.51.100.0/24"));
                world.ask("waits", local("n2"));
                world
            },
            vec![
                ("an endpoint is on another node", |world| _ = world.ask("waits", local("n1"))),
                ("its node has an interface there", |world| world.notify(on("n2", "192.0.2.0/24"))),
                ("there is a pool for its node", |world| world.notify(put(pool("b", &["198.51.100.9"])))),
            ],
        ),
        (
            "its endpoints are not known",
            || {
                let mut world = World::new([one(Sharing::Key)]);
                world.ask("waits", Request { awaits_endpoints: true, ..any() });
                world
            },
            vec![("they are", |world| _ = world.ask("waits", local("n1")))],
        ),
        (
            "no address is free, and it has a key",
            || {
                let mut world = World::new([one(Sharing::Key)]);
                world.ask("owner", keyed("web", 80));
                world.ask("waits", keyed("dns", 53));
                world
            },
            vec![
                ("the owner goes", |world| world.notify(gone("owner"))),
                ("the owner has its key", |world| _ = world.ask("owner", keyed("dns", 80))),
                ("it has the owner's key", |world| _ = world.ask("waits", keyed("web", 53))),
            ],
        ),
        (
            "no address is free, and its key is that of a namespace without consent",
            || {
                let mut world = World::new([one(Sharing::Key)]);
                world.ask("shop/owner", keyed("web", 80));
                world.ask("waits", keyed("web", 53));
                world
            },
            vec![("the namespace consents", |world| {
                let share_with = ["default".into()].into();
                world.notify(Event::Namespace { name: "shop".into(), labels: BTreeMap::new(), share_with });
            })],
        ),
        (
            "no address is free, and another one of its key has its port",
            || {
                let mut world = World::new([one(Sharing::Key)]);
                world.ask("owner", keyed("web", 80));
                world.ask("waits", keyed("web", 80));
                world
            },
            vec![
                ("the other one has another port", |world| _ = world.ask("owner", keyed("web", 81))),
                ("the other one goes", |world| world.notify(gone("owner"))),
                ("it has another port", |world| _ = world.ask("waits", keyed("web", 53))),
            ],
        ),
    ]
}

fn local(node: &str) -> Request {
    let endpoints = [(Family::V4, [node.into()].into())].into();
    Request { is_local: true, limits: Some(Box::new(Limits { endpoints, ..Limits::default() })), ..any() }
}

fn keyed(key: &str, port: u16) -> Request {
    let ports = [Port { port, protocol: Protocol::Tcp }].into();
    Request { keys: vec![ShareKey::Own(key.into())], ports, ..any() }
}

#[test]
fn whatever_ends_the_reason_for_which_a_service_waits_gives_it_an_address() {
    for (reason, begin, ends) in reasons() {
        for (what, end) in ends {
            let mut world = begin();
            let has = |world: &World| {
                let shared = world.has("waits");
                shared
                    .into_iter()
                    .filter(|vip| world.store.objects.get(vip).is_some_and(Option::is_some))
                    .count()
            };
            assert_eq!(has(&world), 0, "{reason}: {:?}", world.has("waits"));
            end(&mut world);
            assert_eq!(has(&world), 1, "{reason}: {what}: {:?}", world.lacks("waits"));
            assert_eq!(world.lacks("waits"), Vec::<String>::new(), "{reason}: {what}");
        }
    }
}

#[test]
fn the_service_that_has_waited_longest_is_first() {
    let names = ["z", "m", "a"];
    let rows: [End; 4] = [
        ("an address is freed", |world| world.notify(gone("owner"))),
        ("a pool comes", |world| world.notify(put(pool("b", &["192.0.2.9"])))),
        ("an admin has one released", |world| {
            world.notify(put(PoolRecord { keep: Some("forever".into()), ..one(Sharing::Key) }));
            world.notify(gone("owner"));
            world.release(ip(VIP));
        }),
        ("a node has an interface there", |world| {
            world.notify(put(pool("far", &["198.51.100.9"])));
            world.notify(on("n2", "198.51.100.0/24"));
        }),
    ];
    for (what, end) in rows {
        let mut world = World::new([one(Sharing::Key)]);
        world.notify(on("n1", "192.0.2.0/24"));
        world.ask("owner", any());
        for name in names {
            world.ask(name, any());
        }
        // A change of its own costs no Service its place, and a Service that has left has none.
        world.ask("z", Request { ports: keyed("", 80).ports, ..any() });
        world.notify(gone("m"));
        world.ask("m", any());
        end(&mut world);
        let having: Vec<_> = names.into_iter().filter(|name| !world.has(name).is_empty()).collect();
        assert_eq!(having, ["z"], "{what}");
        world.notify(gone("z"));
        world.notify(Event::Time(0));
        if world.has("a").is_empty() {
            world.release(world.store.objects.keys().next().copied().expect("it is kept"));
        }
        assert!(!world.has("a").is_empty() && world.has("m").is_empty(), "{what}: a, and then m");
    }
}

#[test]
fn a_leader_that_begins_has_the_oldest_service_first() {
    let mut world = World::default();
    for (name, created) in [("a", 3), ("b", 1), ("c", 2)] {
        world.notify(asks(name, Request { created, ..any() }));
    }
    world.notify(put(pool("a", &["192.0.2.1-192.0.2.2"])));
    world.notify(Event::Synced);
    assert_eq!(["a", "b", "c"].map(|name| world.has(name)), [vec![], vec![ip(VIP)], vec![ip("192.0.2.2")]]);
}

#[test]
fn a_service_that_is_created_again_finds_the_address_that_its_claim_still_has() {
    let rows: [(&str, Request, &[&str], Option<&str>); 5] = [
        ("it asks as before", any(), &["waits"], Some(VIP)),
        ("the claim names another one too", any(), &["other", "waits"], Some(VIP)),
        ("the claim names others", any(), &["other"], Some("192.0.2.2")),
        (
            "it asks for another pool",
            Request { pool: Some("b".into()), ..any() },
            &["waits"],
            Some("192.0.2.9"),
        ),
        ("it is not for its pool any more", Request { pool: Some("c".into()), ..any() }, &["waits"], None),
    ];
    for (what, request, claimed, expected) in rows {
        let b = PoolRecord { auto_assign: false, ..pool("b", &["192.0.2.9"]) };
        let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.4"]), b]);
        world.ask("waits", any());
        let commands = world.allocator.on_event(gone("waits"), &world.around);
        let [Command::Write(free)] = &commands[..] else { panic!("{what}: {commands:?}") };
        let vip = free.vip;
        // The Service is back while its reservation is being given up, and the VIP has not gone yet.
        let is_soon = claimed.len() % 2 == 1;
        if is_soon {
            world.notify(asks("waits", request.clone()));
        }
        world.store.objects.insert(vip, None);
        let services = claimed.iter().map(|name| service(name)).collect();
        world.notify(Event::Object { vip, reservation: None, release: false, services });
        world.notify(Event::Answered(vip));
        world.ask("other-one", any());
        world.ask("waits", request);
        assert_eq!(world.has("waits"), expected.iter().map(|vip| ip(vip)).collect::<Vec<_>>(), "{what}");
    }
}
