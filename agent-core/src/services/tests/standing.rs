//! Statuses that another field manager has written: which bind, and which are left over.

use super::{
    controller::{pool, reserved_for},
    *,
};

const POOLS: &str = "192.0.2.100";
const NODES: &str = "192.0.2.9";

/// The class, the annotations or fields, and the status with its writer.
struct Row {
    description: &'static str,
    record: ServiceRecord,
    /// True if the status binds. Then nothing is reserved and nothing written.
    binds: bool,
    /// The address that it gets in place of the status, if it is not that of the pool.
    gets: &'static str,
}

fn row(description: &'static str, record: ServiceRecord, binds: bool) -> Row {
    Row { description, record, binds, gets: POOLS }
}

fn web() -> ServiceRecord {
    service("a/web")
}

fn ours(record: ServiceRecord) -> ServiceRecord {
    ServiceRecord { class: Some(DEFAULT_CLASS.into()), ..record }
}

fn rows() -> Vec<Row> {
    let pooled = |record: ServiceRecord| record.annotated(&[("vipward.io/pool", "lan")]);
    let lent = || web().status("k3s", &[NODES]);
    let far = || web().status("controller", &["203.0.113.5"]);
    let proxy = |mut record: ServiceRecord| {
        record.ingress[0].mode = IpMode::Proxy;
        record
    };
    let host_name = |mut record: ServiceRecord| {
        record.ingress[0].ip = None;
        record
    };
    let on_segment = |manager| web().status(manager, &["192.0.2.8"]);
    vec![
        row("usable, of nobody's class", on_segment("controller"), true),
        row(
            "usable, of a manager without a name",
            ServiceRecord { status_manager: None, ..on_segment("") },
            true,
        ),
        row("usable, of our class", ours(on_segment("controller")), false),
        row("usable, and it names our pool", pooled(on_segment("controller")), false),
        row(
            "usable, and names a pool of MetalLB's",
            on_segment("controller").annotated(&[("metallb.io/address-pool", "lan")]),
            true,
        ),
        Row {
            gets: "192.0.2.7",
            ..row(
                "usable, and it names an address for us",
                on_segment("kube-vip").addressed("192.0.2.7"),
                false,
            )
        },
        row(
            "usable, and it names an address for anybody",
            ServiceRecord { load_balancer_ip: Some("192.0.2.7".into()), ..on_segment("kube-vip") },
            true,
        ),
        row("usable, and the choice is left to others", ours(on_segment("x").addressed("0.0.0.0")), true),
        row("a person's", on_segment("kubectl-edit"), false),
        row("a person's, as kubectl patch names itself", on_segment("kubectl-patch"), false),
        row("addresses of nodes", lent(), false),
        row("addresses of nodes that forward", proxy(lent()), false),
        row("an address of a node beside a usable one", web().status("k3s", &[NODES, "192.0.2.8"]), true),
        row("a ClusterIP", web().status("x", &["10.96.0.10"]), false),
        row("on no segment", far(), false),
        row("on no segment, at a load balancer elsewhere", proxy(far()), true),
        row("a host name", host_name(far()), true),
        row(
            "on no segment, of a cloud controller",
            ServiceRecord { has_cloud_balancer: true, ..far() },
            true,
        ),
        row("of a node, of a cloud controller", ServiceRecord { has_cloud_balancer: true, ..lent() }, false),
        row(
            "on no segment, on an interface by name",
            far().annotated(&[("vipward.io/interface", "eth0")]),
            true,
        ),
        row("on another program's interface", web().status("kube-vip", &["192.0.2.33"]), true),
    ]
}

/// Returns a process that knows the cluster, and the pool if it is the controller.
fn world(role: Role) -> World {
    let mut world = World::of(role, Settings::default());
    world.node("node-z", &[NODES]);
    world.put(ServiceRecord {
        load_balancer: false,
        cluster_ips: vec![ip("10.96.0.10")],
        ..service("a/dns")
    });
    world.notify(on_node("node-y", interface(&["192.0.2.33/32"])));
    if role == Role::Controller {
        // An address of a node is not given out, even if it is left over.
        world.notify(pool("lan", &[NODES, POOLS]));
    }
    world
}

#[test]
fn what_another_manager_has_written_binds_only_where_nothing_says_that_it_is_left_over() {
    for Row { description, record, binds, gets } in rows() {
        let mut world = world(Role::Controller);
        world.put(record.clone());
        assert_eq!(world.reserving.is_empty(), binds, "{description}: {:?}", world.reserving);
        world.reserve();
        // An address of no pool is written once it is held.
        if gets != POOLS {
            let reservation = Reservation { service: named("a/web"), pool: None, kept: None };
            world.notify(claim(ip(gets), (true, true), &["a/web"], Some(reservation)));
        }
        let written = world.status_of("a/web");
        assert_eq!(written, (!binds).then(|| vec![gets.to_owned()]), "{description}: {:?}", world.words());
        let account = world.account_of(&named("a/web")).expect("it is known");
        assert_eq!((account.is_elsewhere, account.is_left), (binds, !binds), "{description}");
        if written.is_some() {
            world.put(record.status("vipward", &[gets]));
            assert_eq!((world.status_of("a/web"), world.words()), (None, Vec::new()), "{description}");
        }
    }
}

#[test]
fn what_is_left_over_is_announced_until_there_is_something_else_and_never_beside_it() {
    for Row { description, record, binds, gets } in rows() {
        let mut world = world(Role::Announcer);
        world.put(record.clone());
        let of_status: Vec<_> = world.index().vips(&named("a/web")).collect();
        let status = record.ingress.iter().filter(|it| it.mode == IpMode::Vip).filter_map(|it| it.ip);
        assert_eq!(of_status, status.collect::<Vec<_>>(), "{description}");
        let reservation = Reservation { service: named("a/web"), pool: None, kept: None };
        world.notify(reserved_for(ip(gets), reservation));
        let wanted: Vec<_> = world.index().vips(&named("a/web")).collect();
        assert_eq!(wanted, if binds { of_status } else { vec![ip(gets)] }, "{description}");
        assert_eq!(world.duties, BTreeMap::new(), "{description}: the controller writes");
    }
}

#[test]
fn agents_alone_replace_what_is_left_over_by_what_the_service_names() {
    for Row { description, record, binds, .. } in rows() {
        let names = record.annotations.addresses.is_some() || record.load_balancer_ip.is_some();
        let mut world = world(Role::Alone);
        world.put(record);
        world.hold("192.0.2.7", true);
        let expected = (names && !binds).then(|| vec!["192.0.2.7".to_owned()]);
        assert_eq!(world.status_of("a/web"), expected, "{description}");
    }
}

#[test]
fn nothing_is_replaced_before_a_segment_is_known_or_after_a_node_has_held_the_address() {
    let mut world = World::of(Role::Controller, Settings::default());
    world.notify(pool("lan", &[POOLS]));
    world.notify(Event::NodeGone("node-z".into()));
    world.put(web().status("controller", &["203.0.113.5"]));
    assert_eq!(world.reserving, [], "no segment is known");
    world.notify(on_node("node-z", interface(&["192.0.2.0/24"])));
    world.reserve();
    assert_eq!(world.status_of("a/web"), Some(vec![POOLS.to_owned()]));

    let mut world = World::of(Role::Controller, Settings::default());
    world.notify(pool("lan", &[POOLS]));
    world.notify(Event::NodeGone("node-z".into()));
    world.put(web().status("controller", &["203.0.113.5"]));
    world.claim("203.0.113.5", true, false);
    world.notify(on_node("node-z", interface(&["192.0.2.0/24"])));
    assert_eq!(world.reserving, [], "a node has held it");
    world.notify(Event::ClaimGone(ip("203.0.113.5")));
    assert_eq!(world.reserving.len(), 1);
    world.notify(on_node("node-y", interface(&["203.0.113.0/24"])));
    let account = world.account_of(&named("a/web")).expect("it is known");
    assert!(account.is_elsewhere, "a node can hold it now");
}

#[test]
fn what_is_left_over_stays_where_nothing_takes_its_place() {
    let mut world = World::unsynced(Role::Controller, Settings::default());
    world.put(ours(web().status("controller", &["192.0.2.8"])));
    world.put(service("a/edited").status("kubectl-edit", &["192.0.2.6"]));
    world.notify(Event::Synced);
    assert_eq!((world.duties.len(), world.words()), (0, Vec::new()));
    world.notify(pool("far", &["2001:db8::10"]));
    assert_eq!((world.duties.len(), world.words()), (0, Vec::new()), "they lack nothing");
    world.put(service("a/lent").status("k3s", &["192.0.2.9"]));
    world.node("node-z", &["192.0.2.9"]);
    let words = world.words();
    assert!(words.iter().any(|words| words.starts_with("a/lent: no pool gives")), "{words:?}");
    world.notify(Event::ServiceGone(named("a/lent")));
    // An address of the pool that it has already is kept, and reserved.
    world.notify(pool("lan", &["192.0.2.8", POOLS]));
    world.reserve();
    assert_eq!(world.status_of("a/web"), None, "it is right as it is");
    assert_eq!(world.status_of("a/edited"), Some(vec![POOLS.to_owned()]));
}

#[test]
fn a_writer_that_lives_is_overwritten_once_if_only_its_addresses_are_of_no_use() {
    let mut world = world(Role::Controller);
    let theirs = || ServiceRecord { status_since: Some(1_795_443_872), ..web().status("k3s", &[NODES]) };
    world.put(theirs());
    world.reserve();
    assert!(world.status_of("a/web").is_some());
    world.put(web().status("vipward", &[POOLS]));
    assert_eq!(world.words(), Vec::<String>::new());
    world.put(theirs());
    assert_eq!(world.status_of("a/web"), None, "it lives");
    let words = world.words();
    assert_eq!(words.len(), 1, "{words:?}");
    for part in [
        "it is to have 192.0.2.100 (a VIPPool), but field manager \"k3s\" (since 2026-11-23T14:24:32Z)",
        "has written 192.0.2.9 into the status",
        "kubectl -n a patch service web --subresource=status --type=merge -p \
         '{\"status\":{\"loadBalancer\":{\"ingress\":null}}}'",
    ] {
        assert!(words[0].contains(part), "{part:?} in {words:?}");
    }
    world.put(web());
    assert!(world.status_of("a/web").is_some(), "it was cleared");
    world.put(web().status("vipward", &[POOLS]));
    world.put(theirs());
    assert_eq!(world.status_of("a/web"), None);
    world.put(ServiceRecord { version: Version::from("3"), ..ours(theirs()) });
    assert!(world.status_of("a/web").is_some(), "the Service itself has changed");
}

#[test]
fn a_writer_that_lives_on_our_service_is_overwritten_until_it_is_a_contest() {
    let mut world = world(Role::Controller);
    let theirs = || ours(web().status("x", &["192.0.2.8"]));
    world.put(theirs());
    world.reserve();
    for turn in 0..3 {
        assert!(world.status_of("a/web").is_some(), "{turn}");
        world.put(ours(web().status("vipward", &[POOLS])));
        world.put(theirs());
    }
    assert_eq!(world.status_of("a/web"), None);
    assert!(world.words()[0].contains("\"vipward\" and \"x\" take turns"), "{:?}", world.words());
    world.pass(Monotonic::default());
    world.pass(Monotonic::default() + std::time::Duration::from_mins(5));
    assert_eq!(world.status_of("a/web"), None, "it is not begun again");
    let words = world.words();
    assert!(
        words[0].contains("but field manager \"x\" has written 192.0.2.8") && words.len() == 1,
        "{words:?}"
    );
    assert_eq!(
        world.index().vips(&named("a/web")).collect::<Vec<_>>(),
        [ip(POOLS)],
        "and it stays announced"
    );
}

#[test]
fn what_a_person_writes_over_vipwards_is_repaired_each_time() {
    let mut world = world(Role::Controller);
    world.put(web());
    world.reserve();
    for minutes in 0..5 {
        world.put(web().status("vipward", &[POOLS]));
        world.put(web().status("kubectl-edit", &["192.0.2.67"]));
        assert_eq!(world.status_of("a/web"), Some(vec![POOLS.to_owned()]));
        for minute in [10 * minutes, 10 * minutes + 5] {
            world.pass(Monotonic::default() + std::time::Duration::from_mins(minute));
        }
    }
    assert_eq!(world.words(), Vec::<String>::new());
}
