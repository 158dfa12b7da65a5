use proptest::prelude::*;

use super::*;

/// The VIPs of tenant a: of one Service, of two of its namespace, and of one that shares with c.
const VIPS: [&str; 3] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
const NODES: [&str; 3] = ["node-a", "node-b", "node-c"];

/// A Service of tenant a or its guest, as its owner may change it.
#[derive(Clone, Debug)]
struct Own {
    created: i64,
    local: bool,
    nodes: &'static str,
    is_written: bool,
    ready: BTreeSet<NodeName>,
}

/// An event of the cluster that does not depend on tenant b.
#[derive(Clone, Debug)]
enum Common {
    Own(usize, Own),
    Held(&'static str, bool),
    /// The claim is seen again. It names the Services of the demand without b.
    Claim(&'static str),
    ClaimGone(&'static str),
    Listed,
}

#[derive(Clone, Debug)]
enum Step {
    Common(Common),
    Hostile(Box<Event>),
}

/// The Services of tenant a and its guest: name, VIP and port.
const OWN: [(&str, &str, u16); 5] = [
    ("a/one", VIPS[0], 80),
    ("a/two", VIPS[1], 80),
    ("a/three", VIPS[1], 81),
    ("a/host", VIPS[2], 80),
    ("c/guest", VIPS[2], 81),
];

fn nodes() -> impl Strategy<Value = BTreeSet<NodeName>> {
    prop::collection::btree_set(prop::sample::select(&NODES[..]).prop_map(NodeName::from), 0..3)
}

fn own() -> impl Strategy<Value = Own> {
    let selector = prop::sample::select(&["", "zone=a"][..]);
    (1_i64..4, any::<bool>(), selector, any::<bool>(), nodes()).prop_map(
        |(created, local, nodes, is_written, ready)| Own { created, local, nodes, is_written, ready },
    )
}

fn events_of_own(index: usize, own: &Own) -> [Event; 2] {
    let (name, vip, port) = OWN[index];
    let record = service(name).ports(&[port]).created(own.created).annotated(&[
        ("vipward.io/addresses", vip),
        ("vipward.io/share", "key"),
        ("vipward.io/nodes", own.nodes),
    ]);
    let record = if own.is_written { record.status("vipward", &[vip]) } else { record };
    let record = ServiceRecord { local: own.local, ..record };
    let slice = EndpointsRecord { ready: own.ready.clone(), ..slice(name, name, &[], &[]) };
    [Event::Service(Box::new(record)), Event::Slice(slice)]
}

fn common() -> impl Strategy<Value = Common> {
    let vip = || prop::sample::select(&VIPS[..]);
    prop_oneof![
        3 => (0..OWN.len(), own()).prop_map(|(index, own)| Common::Own(index, own)),
        2 => (vip(), any::<bool>()).prop_map(|(vip, here)| Common::Held(vip, here)),
        2 => vip().prop_map(Common::Claim),
        1 => vip().prop_map(Common::ClaimGone),
        1 => Just(Common::Listed),
    ]
}

/// Returns any Service of namespace b, older or younger than a's Services.
fn hostile_service() -> impl Strategy<Value = Event> {
    let text = || {
        prop::sample::select(
            &[
                "",
                "192.0.2.1",
                "192.0.2.3,192.0.2.2,192.0.2.1",
                "192.0.2.9",
                "192.0.2.2,192.0.2.9",
                "192.0.2.",
            ][..],
        )
    };
    let limit = || prop::sample::select(&["", "zone=b", "no in (such)", "in in"][..]);
    let share = prop::sample::select(&["", "key", " key ", "other"][..]);
    let addresses = || prop::collection::vec(prop::sample::select(&VIPS[..]), 0..3);
    let manager = prop::sample::select(&["vipward", "controller"][..]);
    let places = (
        text(),
        text(),
        addresses(),
        addresses(),
        manager,
        prop::option::of(prop::sample::select(&VIPS[..])),
    );
    let rights = (0_i64..6, share, prop::collection::vec(79_u16..83, 0..3));
    let flags = prop::array::uniform4(prop::bool::weighted(0.2));
    let uid = prop::sample::select(&["1", "2"][..]);
    let name = prop::sample::select(&["b/one", "b/two", "b/zero"][..]);
    (name, uid, places, rights, [limit(), limit()], flags, any::<bool>()).prop_map(
        |(name, uid, places, (created, share, ports), [nodes, preferred], flags, local)| {
            let (annotation, spec, external, status, manager, cluster_ip) = places;
            let [ignored, other_type, deleting, has_cluster_ip] = flags;
            let record = service(name).status(manager, &status).ports(&ports).created(created).annotated(&[
                ("vipward.io/addresses", annotation),
                ("vipward.io/share", share),
                ("vipward.io/nodes", nodes),
                ("vipward.io/preferred-nodes", preferred),
                ("vipward.io/interface", if ignored { "*" } else { "eth9" }),
                ("vipward.io/ignore", if ignored { "true" } else { "" }),
                ("vipward.io/force", "true"),
            ]);
            Event::Service(Box::new(ServiceRecord {
                uid: uid.into(),
                load_balancer: !other_type,
                load_balancer_ip: Some(spec.into()),
                external_ips: external.into_iter().map(ip).collect(),
                cluster_ips: cluster_ip.filter(|_| has_cluster_ip).map(ip).into_iter().collect(),
                local,
                deleting,
                ..record
            }))
        },
    )
}

fn hostile() -> impl Strategy<Value = Event> {
    let name = || prop::sample::select(&["b/one", "b/two", "b/zero"][..]);
    // A slice may name Services of its own namespace only. It may have the name of any other slice.
    let slice_name = || prop::sample::select(&["a/two", "a/host", "1"][..]);
    prop_oneof![
        6 => hostile_service(),
        2 => name().prop_map(|name| Event::ServiceGone(named(name))),
        2 => (name(), slice_name(), nodes(), any::<bool>()).prop_map(|(name, slice, ready, ready_elsewhere)| {
            let (slice, service) = (slice.into(), named(name));
            let (serving_terminating, is_ipv6) = (BTreeSet::new(), false);
            Event::Slice(EndpointsRecord { slice, service, ready, serving_terminating, ready_elsewhere, is_ipv6 })
        }),
        1 => slice_name().prop_map(|slice| Event::SliceGone { namespace: "b".into(), slice: slice.into() }),
        1 => Just(consent("b", &["a", "c"])),
        1 => Just(Event::NamespaceGone("b".into())),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    // Within the limit, tenant a has all of its VIPs.
    let limit = prop::option::of(3_usize..5);
    (limit, any::<bool>(), any::<bool>()).prop_map(|(most_vips, withdraw_without_endpoints, allow)| {
        Settings {
            most_vips,
            withdraw_without_endpoints,
            external_ips: true,
            allow: if allow { vec!["192.0.2.0/24".parse().expect("a network")] } else { Vec::new() },
            ..Settings::default()
        }
    })
}

/// Returns what concerns tenant a and its guest: the demands for their VIPs, the tasks about the
/// statuses of their Services, and their problems.
fn of_tenant(world: &World) -> (BTreeMap<IpAddr, Demand>, BTreeMap<ServiceName, Command>, Vec<String>) {
    let demands = world.demands.iter().filter(|(vip, _)| VIPS.iter().any(|known| ip(known) == **vip));
    let is_own = |service: &ServiceName| &*service.namespace != "b";
    let duties = world.duties.iter().filter(|(service, _)| is_own(service));
    // A ClusterIP is reported beside the held VIP that it is. The API server gives none outside of
    // its own networks.
    let is_notified = |(service, problem): &&(ServiceName, Problem)| {
        is_own(service) && !matches!(problem, Problem::Disputed { .. })
    };
    let problems = world.problems.iter().filter(is_notified);
    let mut problems: Vec<_> = problems.map(|(service, problem)| format!("{service}: {problem}")).collect();
    problems.sort();
    let (demands, duties) = (demands.map(|(vip, demand)| (*vip, demand.clone())), duties);
    (demands.collect(), duties.map(|(service, duty)| (service.clone(), duty.clone())).collect(), problems)
}

/// Returns the events of a common one, the same for all worlds.
fn events(common: &Common, alone: &World) -> Vec<Event> {
    let recorded =
        |vip| alone.demands.get(&ip(vip)).map(|demand| demand.services.clone()).unwrap_or_default();
    match common {
        Common::Own(index, own) => events_of_own(*index, own).into(),
        Common::Held(vip, here) => vec![Event::Held { vip: ip(vip), here: *here }],
        Common::Claim(vip) => {
            let mut event = claim(ip(vip), (true, true), &[], None);
            if let Event::Claim { services, .. } = &mut event {
                *services = recorded(vip);
            }
            vec![event]
        }
        Common::ClaimGone(vip) => vec![Event::ClaimGone(ip(vip))],
        Common::Listed => vec![Event::Synced],
    }
}

#[test]
fn a_held_vip_keeps_its_owner_before_its_claim_has_been_seen() {
    let wants =
        |name: &str, created| service(name).annotated(&[("vipward.io/addresses", VIPS[0])]).created(created);
    let mut world = World::new();
    world.put(wants("a/one", 2));
    // The holder has written the claim. Its watch of the claims is behind its watch of the
    // Services.
    world.hold(VIPS[0], true);
    world.put(wants("b/old", 1));
    assert_eq!(world.demand(VIPS[0]).services, [named("a/one")]);
    world.hold(VIPS[0], false);
    assert_eq!(world.demand(VIPS[0]).services, [named("a/one")]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn whatever_another_tenant_does_demands_and_statuses_stay_as_they_were(
        settings in settings(),
        owns in prop::collection::vec(own(), OWN.len()),
        before in prop::collection::vec(hostile(), 0..6),
        steps in prop::collection::vec(
            prop_oneof![
                1 => common().prop_map(Step::Common),
                2 => hostile().prop_map(|event| Step::Hostile(Box::new(event))),
            ],
            1..40,
        ),
    ) {
        // Tenant a has its VIPs, with claims that state it.
        let mut cluster = World::with(settings.clone());
        let mut given = vec![consent("a", &["c"])];
        given.extend(owns.iter().enumerate().flat_map(|(index, own)| events_of_own(index, own)));
        for event in &given {
            cluster.notify(event.clone());
        }
        prop_assert_eq!(cluster.demands.len(), VIPS.len());
        let claims: Vec<_> = VIPS.iter().flat_map(|vip| events(&Common::Claim(vip), &cluster)).collect();
        // An agent that starts lists the Services of b too, and may list them first.
        let agent = || World::unsynced(Role::Alone, settings.clone());
        let (mut alone, mut beside) = (agent(), agent());
        for event in before {
            beside.notify(event);
        }
        // Its pins show that the process before it guarded them.
        let found = Event::Found(VIPS.map(|vip| (ip(vip), false)).into());
        for event in given.into_iter().chain(claims).chain([found, Event::Synced]) {
            alone.notify(event.clone());
            beside.notify(event);
        }
        prop_assert_eq!(of_tenant(&beside), of_tenant(&alone), "at the start");
        for step in steps {
            match &step {
                Step::Common(common) => {
                    for event in events(common, &alone) {
                        alone.notify(event.clone());
                        beside.notify(event);
                    }
                }
                Step::Hostile(event) => _ = beside.notify((**event).clone()),
            }
            prop_assert_eq!(of_tenant(&beside), of_tenant(&alone), "after {:?}", step);
        }
    }
}
