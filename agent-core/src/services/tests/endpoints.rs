use super::{
    sharing::{VIP, held_on, on_vip},
    *,
};

const A: &str = "node-a";
const B: &str = "node-b";
const C: &str = "node-c";

fn web(name: &str, ready: &[&str], terminating: &[&str]) -> EndpointsRecord {
    slice("a/web", name, ready, terminating)
}

#[test]
fn local_traffic_goes_to_nodes_with_endpoints() {
    type Row = (&'static str, bool, bool, Vec<EndpointsRecord>, Option<Vec<&'static str>>);
    let elsewhere = EndpointsRecord { ready_elsewhere: true, ..web("1", &[], &[C]) };
    let table: [Row; 12] = [
        ("policy Cluster", false, false, vec![web("1", &[A], &[])], None),
        ("policy Cluster, no endpoint", false, false, vec![], None),
        ("policy Cluster, no endpoint, withdrawn", false, true, vec![], Some(vec![])),
        ("policy Cluster, an empty slice, withdrawn", false, true, vec![web("1", &[], &[])], Some(vec![])),
        ("policy Cluster, one that ends", false, true, vec![web("1", &[], &[A])], None),
        ("policy Cluster, one on no node", false, true, vec![elsewhere.clone()], None),
        (
            "ready ones of all slices",
            true,
            false,
            vec![web("1", &[B], &[]), web("2", &[A], &[C])],
            Some(vec![A, B]),
        ),
        ("none", true, false, vec![], Some(vec![])),
        (
            "those that end while no other is ready",
            true,
            false,
            vec![web("1", &[], &[C]), web("2", &[], &[A])],
            Some(vec![A, C]),
        ),
        ("but not while one is ready, be it on no node", true, false, vec![elsewhere], None),
        ("another Service's", true, false, vec![slice("a/other", "1", &[A], &[])], Some(vec![])),
        ("one of the same name elsewhere", true, false, vec![slice("b/web", "1", &[A], &[])], Some(vec![])),
    ];
    for (description, local, withdraw_without_endpoints, slices, nodes) in table {
        let settings = Settings { withdraw_without_endpoints, ..Settings::default() };
        let record = ServiceRecord { local, ..on_vip("a/web") };
        let mut slices_first = World::with(settings.clone());
        let mut service_first = World::with(settings);
        service_first.put(record.clone());
        for slice in slices {
            slices_first.notify(Event::Slice(slice.clone()));
            service_first.notify(Event::Slice(slice));
        }
        slices_first.put(record);
        assert_eq!(slices_first.local(VIP), nodes, "{description}");
        assert_eq!(service_first.local(VIP), nodes, "{description}, the Service first");
    }
}

/// Returns the slice that a Gateway makes for its Service. Its
/// only endpoint is ready, and names no node.
fn placeholder(service: &str, name: &str) -> EndpointsRecord {
    EndpointsRecord { ready_elsewhere: true, ..slice(service, name, &[], &[]) }
}

#[test]
fn ready_endpoints_that_name_no_node_limit_a_local_vip_to_no_nodes() {
    type Row = (&'static str, Vec<EndpointsRecord>, Option<Vec<&'static str>>);
    let mixed = EndpointsRecord { ready_elsewhere: true, ..web("1", &[A], &[C]) };
    let table: [Row; 7] = [
        ("a placeholder alone", vec![placeholder("a/web", "1")], None),
        ("two placeholders", vec![placeholder("a/web", "1"), placeholder("a/web", "2")], None),
        ("a placeholder beside an empty slice", vec![placeholder("a/web", "1"), web("2", &[], &[])], None),
        ("a ready one on a node in the same slice", vec![mixed], Some(vec![A])),
        (
            "a ready one on a node in another slice",
            vec![placeholder("a/web", "1"), web("2", &[B], &[C])],
            Some(vec![B]),
        ),
        (
            "one that ends on a node in another slice",
            vec![placeholder("a/web", "1"), web("2", &[], &[C])],
            None,
        ),
        ("a placeholder of another Service", vec![placeholder("a/other", "1")], Some(vec![])),
    ];
    for (description, slices, nodes) in table {
        // The setting concerns Services without an endpoint, and these Services have one.
        for withdraw_without_endpoints in [false, true] {
            let mut world = World::with(Settings { withdraw_without_endpoints, ..Settings::default() });
            world.put(on_vip("a/web").local());
            for slice in &slices {
                world.notify(Event::Slice(slice.clone()));
            }
            assert_eq!(world.local(VIP), nodes, "{description}");
        }
    }
}

#[test]
fn a_local_vip_follows_its_endpoints_from_a_placeholder_to_nodes_and_back() {
    let mut world = World::new();
    world.put(on_vip("a/web").local());
    assert_eq!(world.local(VIP), Some(vec![]), "no endpoint yet");
    world.notify(Event::Slice(placeholder("a/web", "1")));
    assert_eq!(world.local(VIP), None);
    world.notify(Event::Slice(web("2", &[B], &[])));
    assert_eq!(world.local(VIP), Some(vec![B]));
    world.notify(Event::SliceGone { namespace: "a".into(), slice: "2".into() });
    assert_eq!(world.local(VIP), None);
    world.notify(Event::Slice(web("1", &[], &[])));
    assert_eq!(world.local(VIP), Some(vec![]), "the placeholder is not ready any more");
}

#[test]
fn an_owner_with_a_placeholder_limits_a_shared_vip_to_no_nodes() {
    type Row = (&'static str, &'static [&'static str], bool, bool);
    let table: [Row; 4] = [
        ("the other has endpoints on nodes", &[B], true, true),
        ("the other has no endpoint", &[], true, false),
        ("the other has no endpoint, and its policy is Cluster", &[], false, false),
        ("the other has endpoints on nodes, and its policy is Cluster", &[B], false, false),
    ];
    for (description, ready, local, is_partial) in table {
        let mut world = World::new();
        world.put(on_vip("x/gateway").local().ports(&[1]));
        world.put(ServiceRecord { local, ..on_vip("x/other").ports(&[2]) });
        world.notify(Event::Slice(placeholder("x/gateway", "gateway-1")));
        world.notify(Event::Slice(slice("x/other", "other-1", ready, &[])));
        assert_eq!(world.local(VIP), None, "{description}");
        world.notify(held_on("node-a", &[]));
        let is_partial_problem = |(_, problem): &_| matches!(problem, Problem::Partial { .. });
        assert_eq!(world.problems.iter().any(is_partial_problem), is_partial, "{description}");
    }
}

#[test]
fn endpoints_come_and_go_and_slices_change_hands() {
    let mut world = World::new();
    world.put(on_vip("a/web").local());
    world.notify(Event::Slice(web("1", &[A], &[])));
    world.notify(Event::Slice(web("2", &[B], &[])));
    world.notify(Event::Slice(web("1", &[C], &[])));
    assert_eq!(world.local(VIP), Some(vec![B, C]));
    assert_eq!(world.notify(Event::Slice(web("1", &[C], &[]))), [], "no news");
    world.notify(Event::SliceGone { namespace: "a".into(), slice: "2".into() });
    assert_eq!(world.local(VIP), Some(vec![C]));
    world.notify(Event::Slice(slice("a/other", "1", &[C], &[])));
    assert_eq!(world.local(VIP), Some(vec![]));
    world.put(on_vip("a/web"));
    assert_eq!(world.local(VIP), None);
    assert_eq!(world.notify(Event::SliceGone { namespace: "a".into(), slice: "9".into() }), []);
}

#[test]
fn the_endpoints_of_a_vips_family_decide_about_it() {
    let mut world = World::new();
    world.put(service("a/web").addressed("192.0.2.7,2001:db8::7").local());
    world.notify(Event::Slice(web("web-4", &[A, B], &[])));
    let of_ipv6 = web("web-6", &[B], &[]);
    world.notify(Event::Slice(EndpointsRecord { is_ipv6: true, ..of_ipv6 }));
    assert_eq!(world.local("192.0.2.7"), Some(vec![A, B]));
    assert_eq!(world.local("2001:db8::7"), Some(vec![B]));
    world.notify(Event::SliceGone { namespace: "a".into(), slice: "web-6".into() });
    assert_eq!(world.local("2001:db8::7"), Some(vec![]), "no node can deliver it");
}

fn with_all_but_slices(settings: Settings) -> World {
    let mut world = World::without_slices(Role::Alone, settings);
    world.notify(Event::Synced);
    world
}

#[test]
fn slices_are_listed_once_a_service_needs_them() {
    type Row = (&'static str, ServiceRecord, bool, bool);
    let local = || on_vip("a/web").local();
    let table: [Row; 6] = [
        ("policy Local", local(), false, true),
        ("policy Cluster", on_vip("a/web"), false, false),
        ("policy Cluster, withdrawn without endpoints", on_vip("a/web"), true, true),
        ("another type", ServiceRecord { load_balancer: false, ..local() }, false, false),
        ("another type, withdrawn", ServiceRecord { load_balancer: false, ..local() }, true, false),
        ("one that is being deleted", ServiceRecord { deleting: true, ..local() }, false, false),
    ];
    for (description, record, withdraw_without_endpoints, is_needed) in table {
        let mut world = World::without_slices(
            Role::Alone,
            Settings { withdraw_without_endpoints, ..Settings::default() },
        );
        world.put(record.clone());
        assert_eq!(world.lists_slices, is_needed, "{description}, before everything is listed");
        world.put(ServiceRecord { created: record.created + 1, ..record });
        world.notify(Event::Synced);
        assert_eq!(world.lists_slices, is_needed, "{description}");
    }
}

#[test]
fn no_slice_decides_before_all_are_listed() {
    for withdraw_without_endpoints in [false, true] {
        let mut world = with_all_but_slices(Settings { withdraw_without_endpoints, ..Settings::default() });
        world.put(on_vip("a/web").local());
        world.put(service("a/other").addressed("192.0.2.70"));
        world.notify(Event::Slice(web("1", &[B], &[])));
        assert_eq!(world.demand(VIP).reach, Reach::Unknown, "another slice of it may follow");
        let other = &world.demand("192.0.2.70").reach;
        assert_eq!(*other, if withdraw_without_endpoints { Reach::Unknown } else { Reach::Anywhere });
        world.notify(Event::SlicesListed);
        assert_eq!(world.local(VIP), Some(vec![B]));
        assert_eq!(world.local("192.0.2.70"), withdraw_without_endpoints.then(Vec::new));
        assert_eq!(world.notify(Event::SlicesListed), [], "listed again");
    }
}

#[test]
fn a_service_whose_policy_changes_needs_the_slices_only_under_local() {
    let mut world = with_all_but_slices(Settings::default());
    world.put(on_vip("a/web"));
    let service = named("a/web");
    let listed = world.put(on_vip("a/web").local());
    assert_eq!(listed[0], Command::ListSlices { service });
    assert_eq!(world.demand(VIP).reach, Reach::Unknown);
    world.put(on_vip("a/web"));
    assert_eq!(world.local(VIP), None);
    world.put(on_vip("a/web").local());
    assert_eq!(world.demand(VIP).reach, Reach::Unknown);
    world.notify(Event::SlicesListed);
    assert_eq!(world.local(VIP), Some(vec![]));
}

#[test]
fn the_owner_of_a_shared_vip_decides_although_its_slices_are_not_known_yet() {
    type Row = (bool, bool, Reach);
    let table: [Row; 4] = [
        (true, false, Reach::Unknown),
        (true, true, Reach::Unknown),
        (false, true, Reach::Anywhere),
        (false, false, Reach::Anywhere),
    ];
    for (owner, other, reach) in table {
        let mut world = with_all_but_slices(Settings::default());
        let mail = vec![Port { port: 25, protocol: Protocol::Tcp }];
        world.put(ServiceRecord { local: owner, ..on_vip("a/web").created(1) });
        world.put(ServiceRecord { local: other, ports: mail, ..on_vip("a/mail").created(2) });
        let demand = world.demand(VIP);
        assert_eq!(demand.services, [named("a/web"), named("a/mail")]);
        assert_eq!(demand.reach, reach, "owner Local: {owner}, the other one: {other}");
        assert_eq!(world.problems, [], "nothing is lost as far as is known");
        let besides = if other { vec![(named("a/mail"), Reach::Unknown)] } else { Vec::new() };
        assert_eq!(demand.besides, besides, "owner Local: {owner}, the other one: {other}");
        world.notify(held_on(A, &[]));
        world.notify(Event::SlicesListed);
        world.notify(Event::Slice(web("1", &[A], &[])));
        world.notify(Event::Slice(slice("a/mail", "2", &[B], &[])));
        assert_eq!(world.local(VIP), owner.then(|| vec![A]));
        assert_eq!(world.problems.len(), usize::from(other), "{:?}", world.words());
    }
}
