use super::{
    super::{range::LOOKS, *},
    *,
};

const NONE: [IpAddr; 0] = [];

fn dual(needs_all: bool) -> Request {
    Request { families: vec![Family::V4, Family::V6], needs_all, ..Request::default() }
}

fn from_pool(name: &str) -> Request {
    Request { pool: Some(name.into()), ..v4() }
}

#[test]
fn the_first_free_address_of_the_pool_is_given() {
    let mut world = World::new([pool("a", &["192.0.2.0/29"])]);
    world.around.refused.insert(ip("192.0.2.2"));
    world.around.wanted.insert(ip("192.0.2.3"));
    assert_eq!(world.ask("one", v4()), [ip("192.0.2.1")]);
    assert_eq!(world.ask("two", v4()), [ip("192.0.2.4")]);
    world.notify(Event::Withdrawn(service("one")));
    assert_eq!(world.ask("three", v4()), [ip("192.0.2.1")]);
}

#[test]
fn each_pool_says_what_it_is_to_a_service() {
    let by_name = PoolRecord { auto_assign: false, ..pool("by-name", &["192.0.2.41"]) };
    let elsewhere = PoolRecord { namespaces: ["shop".into()].into(), ..pool("elsewhere", &["192.0.2.51"]) };
    let second = PoolRecord { priority: 3, ..pool("second", &["192.0.2.61"]) };
    let younger = PoolRecord { created: 1, ..pool("younger", &["192.0.2.1"]) };
    let first = pool("the-first", &["192.0.2.1-192.0.2.4"]);
    let mut world = World::new([by_name, elsewhere, second, younger, first]);
    world.ask("web", v4());
    let fits = |name: &str| {
        let prospects = world.allocator.prospects(&service(name));
        prospects.iter().map(|one| (one.pool.to_string(), one.fit)).collect::<Vec<_>>()
    };
    let rows =
        |rows: &[(&str, Fit)]| rows.iter().map(|(name, fit)| ((*name).to_owned(), *fit)).collect::<Vec<_>>();
    assert_eq!(
        fits("web"),
        rows(&[
            ("the-first", Fit::Serves),
            ("second", Fit::Serves),
            ("by-name", Fit::NotAutomatic),
            ("elsewhere", Fit::NotFor),
            ("younger", Fit::Overlaps),
        ])
    );
    assert_eq!(fits("unknown"), []);
    let text = world.allocator.prospects(&service("web"))[0].to_string();
    assert_eq!(text, "VIPPool the-first: serves it with priority 0, 3 of 4 IPv4 addresses are free");
    world.ask("api", from_pool("by-name"));
    let named: Vec<_> = world.allocator.prospects(&service("api")).into_iter().map(|one| one.fit).collect();
    assert_eq!(named, [Fit::Serves, Fit::OtherNamed, Fit::OtherNamed, Fit::OtherNamed, Fit::Overlaps]);
}

#[test]
fn a_spread_pool_gives_a_service_the_same_address_again() {
    let spread = PoolRecord { choice: Choice::Spread, ..pool("a", &["192.0.2.0/24"]) };
    let given = |names: &[&str]| {
        let mut world = World::new([spread.clone()]);
        names.iter().map(|name| world.ask(name, v4())).collect::<Vec<_>>()
    };
    let (one, again) = (given(&["web", "api"]), given(&["web"]));
    assert_eq!(one[0], again[0]);
    assert_ne!(one[0], one[1]);
    let full = PoolRecord { choice: Choice::Spread, ..pool("a", &["192.0.2.1-192.0.2.4"]) };
    let mut world = World::new([full]);
    let mut all: Vec<_> = ["a", "b", "c", "d"].iter().flat_map(|name| world.ask(name, v4())).collect();
    all.sort_unstable();
    assert_eq!(all, ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"].map(ip));
    assert_eq!(world.ask("e", v4()), NONE);
}

#[test]
fn the_lowest_number_comes_first_and_then_the_least_used_part() {
    let small = PoolRecord { priority: 5, ..pool("small", &["192.0.2.1-192.0.2.2"]) };
    let large = PoolRecord { priority: 5, ..pool("large", &["192.0.2.11-192.0.2.18"]) };
    let last = PoolRecord { priority: 9, ..pool("last", &["192.0.2.31-192.0.2.38"]) };
    let by_name = PoolRecord { auto_assign: false, ..pool("by-name", &["192.0.2.41"]) };
    let mut world = World::new([small, large, last, by_name]);
    let given: Vec<_> = (0..12).flat_map(|number| world.ask(&format!("s{number:02}"), v4())).collect();
    // 0/8 = 0/2: by name; then 0/2; then 1/8 < 1/2, up to 4/8 = 1/2; and so on.
    let expected = [11, 1, 12, 13, 14, 15, 2, 16, 17, 18, 31, 32].map(|last| IpAddr::from([192, 0, 2, last]));
    assert_eq!(given, expected);
    assert_eq!(world.ask("named", from_pool("by-name")), [ip("192.0.2.41")]);
    assert_eq!(world.ask("late", from_pool("by-name")), NONE);
    let lack = "no IPv4 address is free in VIPPool by-name; add addresses to one of them, or release some \
                (vipward pools)";
    assert_eq!(world.lacks("late"), [lack]);
    world.notify(Event::Withdrawn(service("named")));
    assert_eq!(world.has("late"), [ip("192.0.2.41")]);
}

#[test]
fn each_family_has_an_address_and_one_will_do_where_it_may() {
    let mut world = World::new([pool("four", &["192.0.2.1"]), pool("six", &["2001:db8::1-2001:db8::2"])]);
    assert_eq!(world.ask("one", dual(true)), [ip("192.0.2.1"), ip("2001:db8::1")]);
    assert_eq!(world.ask("two", dual(false)), [ip("2001:db8::2")]);
    assert_eq!(world.ask("three", dual(true)), NONE);
    assert_eq!(world.lacks("three").len(), 2);
}

#[test]
fn a_pool_serves_only_the_namespaces_and_labels_that_it_selects() {
    let labels = |text: &str| BTreeMap::from([("team".to_owned(), text.to_owned())]);
    let team = PoolRecord {
        namespace_selectors: vec!["team=a".into()],
        namespaces: BTreeSet::from(["extra".into()]),
        service_selectors: vec!["public".into()],
        ..pool("team", &["192.0.2.0/28"])
    };
    let mut world = World::new([team]);
    world.notify(namespace("one", labels("a")));
    world.notify(namespace("two", labels("b")));
    let public =
        || Request { labels: (&BTreeMap::from([("public".to_owned(), String::new())])).into(), ..v4() };
    assert_eq!(world.ask("one/web", public()), [ip("192.0.2.1")]);
    assert_eq!(world.ask("extra/web", public()), [ip("192.0.2.2")]);
    assert_eq!(world.ask("one/private", v4()), NONE);
    assert_eq!(world.ask("two/web", public()), NONE);
    assert_eq!(world.ask("two/named", Request { pool: Some("team".into()), ..public() }), NONE);
    assert!(world.lacks("two/named")[0].starts_with("VIPPool team is not for this Service"));
    let asked = Request { addresses: vec![ip("192.0.2.9")], ..public() };
    assert_eq!(world.ask("two/asks", asked), NONE);
    assert!(world.lacks("two/asks")[0].starts_with("192.0.2.9 belongs to VIPPool team"));
    world.notify(namespace("two", labels("a")));
    assert_eq!(world.has("two/asks"), [ip("192.0.2.9")]);
}

#[test]
fn a_pool_that_shrinks_or_goes_takes_no_address_from_a_service() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.4"])]);
    assert_eq!(world.ask("web", v4()), [ip("192.0.2.1")]);
    world.notify(Event::Pool(Box::new(pool("a", &["192.0.2.3-192.0.2.4"]))));
    assert_eq!(world.has("web"), [ip("192.0.2.1")]);
    assert_eq!(
        world.lacks("web"),
        ["it keeps 192.0.2.1, which VIPPool a would not give it any more; to get another one: vipward \
          release 192.0.2.1"]
    );
    world.notify(Event::PoolGone("a".into()));
    assert_eq!(world.has("web"), [ip("192.0.2.1")]);
    world.notify(Event::Pool(Box::new(pool("b", &["192.0.2.21"]))));
    // The Service requests another pool, and moves.
    assert_eq!(world.ask("web", from_pool("b")), [ip("192.0.2.21")]);
    assert_eq!(world.store.objects.len(), 1);
}

#[test]
fn a_later_pool_with_addresses_of_an_earlier_one_gives_out_nothing() {
    let at = |created, record: PoolRecord| PoolRecord { created, ..record };
    let mut world =
        World::new([at(2, pool("a-late", &["192.0.2.4-192.0.2.6"])), at(1, pool("b-early", &["192.0.2.4"]))]);
    assert_eq!(world.ask("one", v4()), [ip("192.0.2.4")]);
    assert_eq!(world.ask("two", v4()), NONE);
    let overlaps: Vec<_> =
        world.allocator.pools().map(|(pool, state)| (pool.record.name.to_string(), state.overlap)).collect();
    assert_eq!(overlaps[0].1.as_ref().expect("they overlap").0.as_ref(), "b-early");
    assert_eq!(overlaps[1].1, None);
    world.notify(Event::PoolGone("b-early".into()));
    assert_eq!(world.has("two"), [ip("192.0.2.5")]);
}

#[test]
fn an_address_is_kept_for_a_service_of_the_same_name() {
    let keeping = |keep: &str| PoolRecord { keep: Some(keep.into()), ..pool("a", &["192.0.2.1-192.0.2.2"]) };
    let mut world = World::new([keeping("1h")]);
    world.notify(Event::Time(1_000));
    assert_eq!(world.ask("web", v4()), [ip("192.0.2.1")]);
    world.notify(Event::Withdrawn(service("web")));
    assert_eq!(world.allocator.next_expiry(), Some(4_600));
    assert_eq!(world.ask("api", v4()), [ip("192.0.2.2")]);
    assert_eq!(world.ask("other", v4()), NONE);
    assert_eq!(world.ask("wants", for_addresses(&["192.0.2.1"])), NONE);
    assert!(world.lacks("wants")[0].contains("reserved for Service default/web, which was deleted"));
    assert_eq!(world.ask("web", v4()), [ip("192.0.2.1")]);
    assert_eq!(world.allocator.next_expiry(), None);
    world.notify(Event::Withdrawn(service("wants")));
    world.notify(Event::Withdrawn(service("web")));
    world.notify(Event::Time(4_599));
    assert_eq!(world.has("other"), NONE);
    world.notify(Event::Time(4_600));
    assert_eq!(world.has("other"), [ip("192.0.2.1")]);
    world.notify(Event::Pool(Box::new(keeping("forever"))));
    world.notify(Event::Withdrawn(service("other")));
    world.notify(Event::Time(i64::MAX));
    assert_eq!(world.ask("late", v4()), NONE);
    // The pool changes its `keep`.
    world.notify(Event::Pool(Box::new(keeping("0s"))));
    assert_eq!(world.has("late"), [ip("192.0.2.1")]);
}

#[test]
fn a_pool_keeps_no_more_addresses_for_a_namespace_than_it_may() {
    let keeping = |most| PoolRecord {
        keep: Some("forever".into()),
        keep_at_most: most,
        ..pool("a", &["192.0.2.1-192.0.2.6"])
    };
    let second = PoolRecord { auto_assign: false, ..keeping(Some(2)) };
    let second = PoolRecord { name: "b".into(), addresses: vec!["192.0.2.11-192.0.2.16".into()], ..second };
    let mut world = World::new([keeping(Some(2)), second]);
    let kept = |world: &World| {
        let reservations = world.allocator.reservations();
        reservations.filter(|(_, it)| it.kept.is_some()).map(|(vip, _)| vip.to_string()).collect::<Vec<_>>()
    };
    // One after the other, and several at once.
    for number in 0..8 {
        world.ask(&format!("one-{number}"), v4());
        world.notify(Event::Withdrawn(service(&format!("one-{number}"))));
    }
    assert_eq!(kept(&world), ["192.0.2.1", "192.0.2.2"]);
    let many = ["many-1", "many-2", "many-3", "many-4"];
    let given = many.map(|name| world.ask(name, from_pool("b")));
    assert_eq!(given[3], [ip("192.0.2.14")]);
    many.iter().rev().for_each(|name| world.notify(Event::Withdrawn(service(name))));
    assert_eq!(kept(&world), ["192.0.2.1", "192.0.2.2", "192.0.2.13", "192.0.2.14"], "each pool has its own");
    // Another namespace has its own number, and finds addresses.
    world.notify(namespace("other", BTreeMap::new()));
    assert_eq!(world.ask("other/web", v4()), [ip("192.0.2.3")]);
    world.notify(Event::Withdrawn(service("other/web")));
    assert_eq!(kept(&world), ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.13", "192.0.2.14"]);
    // A Service that is back makes room for another.
    assert_eq!(world.ask("one-0", v4()), [ip("192.0.2.1")]);
    assert_eq!(world.ask("one-9", v4()), [ip("192.0.2.4")]);
    world.notify(Event::Withdrawn(service("one-9")));
    assert_eq!(kept(&world), ["192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.13", "192.0.2.14"]);
    for (most, left) in [(None, 3), (Some(1), 2), (Some(0), 0)] {
        world.notify(Event::Pool(Box::new(keeping(most))));
        assert_eq!(kept(&world).len(), left + 2, "{most:?}: {:?}", kept(&world));
    }
}

#[test]
fn what_is_kept_for_a_namespace_that_is_gone_is_free_after_an_hour() {
    let keeping = |keep: &str| PoolRecord { keep: Some(keep.into()), ..pool("a", &["192.0.2.1"]) };
    let gone = || Event::NamespaceGone("default".into());
    let kept = |world: &World| world.store.objects[&ip("192.0.2.1")].clone().and_then(|it| it.kept);
    for (keep, before, after) in [
        ("forever", Some(None), Some(Some(4_600))),
        ("24h", Some(Some(87_400)), Some(Some(4_600))),
        ("10m", Some(Some(1_600)), Some(Some(1_600))),
    ] {
        let mut world = World::new([keeping(keep)]);
        world.notify(Event::Time(1_000));
        world.ask("web", v4());
        world.notify(Event::Withdrawn(service("web")));
        assert_eq!(kept(&world), before, "{keep}");
        world.notify(gone());
        assert_eq!(kept(&world), after, "{keep}");
        // It does not begin anew.
        world.notify(Event::Time(1_500));
        world.notify(Event::Synced);
        assert_eq!(kept(&world), after, "{keep}");
        // A Service of that name comes back with its namespace, in time.
        world.notify(namespace("default", BTreeMap::new()));
        assert_eq!(world.ask("web", v4()), [ip("192.0.2.1")], "{keep}");
        world.notify(Event::Withdrawn(service("web")));
        world.notify(gone());
        world.ask("other/waits", v4());
        world.notify(Event::Time(5_099));
        world.notify(Event::Time(5_100));
        assert_eq!(world.has("other/waits"), [ip("192.0.2.1")], "{keep}");
    }
    // A controller that begins finds the namespace gone.
    let mut world = World::default();
    let reservation = Reservation { service: service("web"), pool: Some("a".into()), kept: Some(None) };
    world.store.objects.insert(ip("192.0.2.1"), Some(reservation));
    world.notify(Event::Pool(Box::new(keeping("forever"))));
    world.notify(world.store.event(ip("192.0.2.1")));
    world.notify(Event::Time(1_000));
    assert_eq!(kept(&world), Some(None), "not everything is listed yet");
    world.notify(Event::Synced);
    assert_eq!(kept(&world), Some(Some(4_600)));
}

#[test]
fn a_requested_address_is_reserved_and_goes_first() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.4"])]);
    assert_eq!(
        world.ask("web", for_addresses(&["192.0.2.1", "198.51.100.7"])),
        [ip("192.0.2.1"), ip("198.51.100.7")]
    );
    assert_eq!(world.ask("api", v4()), [ip("192.0.2.2")]);
    assert_eq!(world.ask("web", for_addresses(&["198.51.100.7"])), [ip("198.51.100.7")]);
    assert_eq!(world.ask("more", v4()), [ip("192.0.2.1")]);
    let pools: Vec<_> =
        world.allocator.reservations().map(|(vip, reservation)| (vip, reservation.pool.is_some())).collect();
    assert_eq!(pools, [(ip("192.0.2.1"), true), (ip("192.0.2.2"), true), (ip("198.51.100.7"), false)]);
}

#[test]
fn a_service_gives_nothing_up_for_an_address_that_it_does_not_get() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.3"])]);
    assert_eq!(world.ask("web", v4()), [ip("192.0.2.1")]);
    let never = PoolRecord { sharing: Sharing::Never, ..pool("a", &["192.0.2.1-192.0.2.3"]) };
    world.notify(Event::Pool(Box::new(never)));
    assert_eq!(world.ask("other", v4()), [ip("192.0.2.2")]);
    assert_eq!(world.ask("web", for_addresses(&["192.0.2.2"])), [ip("192.0.2.1")]);
    assert_eq!(world.lacks("web").len(), 1);
    world.notify(Event::Withdrawn(service("other")));
    assert_eq!(world.has("web"), [ip("192.0.2.2")]);
    assert_eq!(world.store.objects.len(), 1);
}

#[test]
fn an_address_that_is_being_freed_is_reserved_again_for_a_service_that_names_it() {
    let vip = ip("192.0.2.1");
    let mut world = World::new([]);
    assert_eq!(world.ask("web", for_addresses(&["192.0.2.1"])), [vip]);
    let freeing = world.allocator.on_event(Event::Withdrawn(service("web")), &world.around);
    let [Command::Write(free)] = &freeing[..] else { panic!("{freeing:?}") };
    // The write is under way, and its Service was created again.
    assert_eq!(world.ask("web", for_addresses(&["192.0.2.1"])), NONE);
    assert!(world.store.carry_out(free));
    world.notify(world.store.event(vip));
    world.notify(Event::Answered(vip));
    assert_eq!(world.has("web"), [vip]);
    assert!(world.store.objects.contains_key(&vip));
}

#[test]
fn a_service_that_asks_for_another_address_does_not_have_the_one_that_is_kept_for_it() {
    let vip = ip("192.0.2.1");
    let keeping = PoolRecord { keep: Some("1h".into()), ..pool("a", &["192.0.2.1-192.0.2.2"]) };
    for (what, status, has, kept) in [
        ("its status does not name it", vec![], vec![], Some(Some(3_600))),
        ("its status names it", vec![vip], vec![vip], None),
    ] {
        let never = PoolRecord { sharing: Sharing::Never, ..keeping.clone() };
        let mut world = World::new([never]);
        assert_eq!(world.ask("web", v4()), [vip]);
        assert_eq!(world.ask("other", v4()), [ip("192.0.2.2")]);
        world.notify(Event::Withdrawn(service("web")));
        let request = Request { status, ..for_addresses(&["192.0.2.2"]) };
        assert_eq!(world.ask("web", request), has, "{what}");
        let reservation = world.store.objects[&vip].clone().expect("it is reserved");
        assert_eq!((reservation.service, reservation.kept), (service("web"), kept), "{what}");
    }
    let mut world = World::new([PoolRecord { sharing: Sharing::Never, ..keeping }]);
    world.ask("web", v4());
    world.ask("other", v4());
    world.notify(Event::Withdrawn(service("web")));
    world.ask("web", for_addresses(&["192.0.2.2"]));
    world.notify(Event::Time(3_600));
    assert!(!world.store.objects.contains_key(&ip("192.0.2.1")), "its time has ended");
}

#[test]
fn an_address_whose_claim_names_another_service_is_given_when_the_claim_is_gone() {
    let vip = ip("192.0.2.1");
    let mut world = World::new([]);
    let services = vec![service("other/former")];
    world.notify(Event::Object { vip, reservation: None, release: false, services });
    world.ask("web", for_addresses(&["192.0.2.1"]));
    assert!(world.store.objects.is_empty());
    world.notify(Event::ObjectGone(vip));
    assert!(world.store.objects.contains_key(&vip));
}

#[test]
fn a_service_beyond_the_limit_of_its_namespace_has_an_address_when_another_gives_its_own_up() {
    let mut world = World { allocator: Allocator::start(Some(1), false), ..World::default() };
    world.notify(Event::Pool(Box::new(pool("a", &["192.0.2.1-192.0.2.9"]))));
    world.notify(Event::Synced);
    assert_eq!(world.ask("one", v4()), [ip("192.0.2.1")]);
    assert_eq!(world.ask("two", v4()), NONE);
    assert_eq!(world.ask("three", for_addresses(&["192.0.2.5"])), NONE);
    assert_eq!(world.ask("other/web", v4()), [ip("192.0.2.2")]);
    world.notify(Event::Withdrawn(service("one")));
    assert_eq!(world.has("two"), [ip("192.0.2.1")], "it has waited longer");
    world.notify(Event::Withdrawn(service("two")));
    assert_eq!(world.has("three"), [ip("192.0.2.5")]);
}

#[test]
fn an_address_that_vipward_wrote_into_the_status_is_adopted() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.9"])]);
    let served = Request { status: vec![ip("192.0.2.7")], ..v4() };
    assert_eq!(world.ask("old", served), [ip("192.0.2.7")]);
    // Another Service has it by now.
    let served = Request { status: vec![ip("192.0.2.7")], ..v4() };
    assert_eq!(world.ask("late", served), [ip("192.0.2.1")]);
}

#[test]
fn a_service_of_another_controller_keeps_its_reservation_and_gets_no_other() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.9"])]);
    assert_eq!(world.ask("web", v4()), [ip("192.0.2.1")]);
    let elsewhere = || Request { is_elsewhere: true, ..v4() };
    assert_eq!(world.ask("web", elsewhere()), [ip("192.0.2.1")]);
    assert_eq!(world.ask("new", elsewhere()), NONE);
    assert_eq!(world.store.objects.len(), 1);
}

#[test]
fn a_claim_without_a_reservation_is_not_given_to_others() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.2"])]);
    world.store.objects.insert(ip("192.0.2.1"), None);
    world.notify(Event::Object {
        vip: ip("192.0.2.1"),
        reservation: None,
        release: false,
        services: vec![service("web")],
    });
    assert_eq!(world.ask("api", v4()), [ip("192.0.2.2")]);
    assert_eq!(world.ask("web", for_addresses(&["192.0.2.1"])), [ip("192.0.2.1")]);
    assert!(world.allocator.reservations().any(|(vip, _)| vip == ip("192.0.2.1")));
}

#[test]
fn a_released_address_goes_once_its_service_has_another_one() {
    /// The Service's request, the pool's addresses after the change, and what it has then.
    type Row<'a> = (&'a str, Request, &'a [&'a str], &'a [&'a str], &'a str);
    let named = for_addresses(&["192.0.2.1"]);
    let elsewhere = Request { is_elsewhere: true, ..v4() };
    let rows: [Row; 6] = [
        ("the pool has another one", v4(), &["192.0.2.1-192.0.2.2"], &["192.0.2.2"], ""),
        ("the pool has shrunk", v4(), &["192.0.2.7"], &["192.0.2.7"], ""),
        ("the pool is used up", v4(), &["192.0.2.1"], &["192.0.2.1"], "no IPv4 address is free in VIPPool a"),
        ("it asks for the pool by name", from_pool("a"), &["192.0.2.1-192.0.2.2"], &["192.0.2.2"], ""),
        (
            "it asks for the address by name",
            named,
            &["192.0.2.1-192.0.2.2"],
            &["192.0.2.1"],
            "it keeps 192.0.2.1, which an admin wants released, since it requests that address by name",
        ),
        ("another controller gives it addresses", elsewhere, &["192.0.2.1-192.0.2.2"], &[], ""),
    ];
    for (what, request, addresses, has, lack) in rows {
        let mut world = World::new([pool("a", &["192.0.2.1"])]);
        assert_eq!(world.ask("web", v4()), [ip("192.0.2.1")], "{what}");
        world.ask("web", request);
        world.notify(Event::Pool(Box::new(pool("a", addresses))));
        world.release(ip("192.0.2.1"));
        let has: Vec<_> = has.iter().map(|text| ip(text)).collect();
        assert_eq!(world.store.objects.keys().copied().collect::<Vec<_>>(), has, "{what}");
        if !has.is_empty() {
            assert_eq!(world.has("web"), has, "{what}");
        }
        let lacks = world.lacks("web");
        assert!(lacks.len() <= 1 && lacks.concat().starts_with(lack), "{what}: {lacks:?}");
        assert_eq!(lacks.is_empty(), lack.is_empty(), "{what}: {lacks:?}");
    }
}

#[test]
fn a_service_whose_address_is_to_be_released_waits_for_a_free_one() {
    let mut world = World::new([pool("a", &["192.0.2.1-192.0.2.2"])]);
    assert_eq!(world.ask("web", v4()), [ip("192.0.2.1")]);
    assert_eq!(world.ask("api", v4()), [ip("192.0.2.2")]);
    world.release(ip("192.0.2.1"));
    assert_eq!(world.has("web"), [ip("192.0.2.1")]);
    world.notify(Event::Withdrawn(service("api")));
    assert_eq!(world.has("web"), [ip("192.0.2.2")]);
    assert_eq!(world.store.objects.len(), 1);
    assert_eq!(world.lacks("web"), Vec::<String>::new());
}

#[test]
fn a_kept_address_that_is_released_is_free_and_goes_to_one_that_waits() {
    let mut world = World::new([PoolRecord { keep: Some("forever".into()), ..pool("a", &["192.0.2.1"]) }]);
    assert_eq!(world.ask("web", v4()), [ip("192.0.2.1")]);
    world.notify(Event::Withdrawn(service("web")));
    assert_eq!(world.ask("api", v4()), NONE);
    world.release(ip("192.0.2.1"));
    assert_eq!(world.has("api"), [ip("192.0.2.1")]);
    assert_eq!(world.store.wishes, BTreeSet::new());
    // A Service that goes while its address is to be released keeps none.
    world.release(ip("192.0.2.1"));
    world.notify(Event::Withdrawn(service("api")));
    assert_eq!(world.store.objects.len(), 0);
}

#[test]
fn the_looks_at_ranges_grow_with_their_number_and_not_with_its_square() {
    const POOLS: u8 = 60;
    const RANGES: u8 = 20;
    let record = |number: u8| {
        let range = |part: u8| format!("10.{number}.{part}.1-10.{number}.{part}.99");
        let ranges: Vec<_> = (0..RANGES).map(range).collect();
        pool(&format!("p{number}"), &ranges.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let (mut world, mut policies) = (World::default(), Policies::default());
    let reserved = (0..POOLS).flat_map(|number| (0..10).map(move |last| [10, number, 1, last]));
    let looks = |what: &mut dyn FnMut()| {
        // A pool compares its own ranges, of which it has 256 at most, when it is read: for its addresses, and
        // for where they are announced.
        let before = LOOKS.get();
        what();
        LOOKS.get() - before
    };
    let read = looks(&mut || (0..POOLS).for_each(|number| _ = Pool::read(record(number))));
    for vip in reserved.map(IpAddr::from) {
        let reservation = Reservation { service: service("web"), pool: None, kept: None };
        world.store.objects.insert(vip, Some(reservation));
        world.notify(world.store.event(vip));
    }
    let listed = looks(&mut || {
        (0..POOLS).for_each(|number| world.notify(Event::Pool(Box::new(record(number)))));
        world.notify(Event::Synced);
    });
    let divided = looks(&mut || {
        (0..POOLS).for_each(|number| _ = policies.on_change(&Change::Pool(Box::new(record(number)))));
        policies.of(ip("10.1.1.1"), &[]);
    });
    let changed = looks(&mut || world.notify(Event::PoolGone("p7".into())));
    let all = usize::from(POOLS) * (usize::from(RANGES) + 10);
    for (what, looks) in [("list", listed - 2 * read), ("division", divided - read), ("change", changed)] {
        assert!(looks <= 4 * all, "{what}: {looks} looks at {all} ranges and reservations");
    }
}

#[test]
fn services_that_are_created_again_do_not_exceed_the_limit_of_their_namespace() {
    let mut world = World { allocator: Allocator::start(Some(1), false), ..World::default() };
    world.notify(Event::Pool(Box::new(pool("a", &["192.0.2.1-192.0.2.9"]))));
    world.notify(Event::Synced);
    assert_eq!(world.ask("one", v4()), [ip("192.0.2.1")]);
    assert_eq!(world.ask("two", v4()), NONE);
    let vip = ip("192.0.2.1");
    let commands = world.allocator.on_event(Event::Withdrawn(service("one")), &world.around);
    let [Command::Write(free)] = &commands[..] else { panic!("{commands:?}") };
    world.store.objects.insert(free.vip, None);
    world.notify(Event::Object { vip, reservation: None, release: false, services: vec![service("one")] });
    world.notify(Event::Answered(vip));
    assert_eq!(world.has("two"), NONE, "the address of the one that may come back counts");
    assert_eq!(world.ask("one", v4()), [vip]);
    world.notify(Event::Withdrawn(service("one")));
    world.store.objects.clear();
    world.notify(Event::ObjectGone(vip));
    assert_eq!(world.has("two"), [vip], "its claim is gone");
}
