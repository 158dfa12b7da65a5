use proptest::prelude::*;

use super::{index::Vip, *};

const NAMES: [&str; 4] = ["x/a", "x/b", "y/a", "y/c"];
const NODES: [&str; 3] = ["node-a", "node-b", "node-c"];

#[derive(Clone, Debug, Default)]
struct Cluster {
    services: BTreeMap<ServiceName, ServiceRecord>,
    others: BTreeMap<String, Event>,
}

impl Cluster {
    fn note(&mut self, event: &Event) {
        let key = match event {
            Event::Service(record) => {
                self.services.insert(record.name.clone(), (**record).clone());
                return;
            }
            Event::ServiceGone(name) => {
                self.services.remove(name);
                return;
            }
            Event::SlicesListed | Event::Synced => return,
            Event::Pool(pools::Change::Pool(record)) => format!("pool {}", record.name),
            Event::Pool(pools::Change::PoolGone(name)) => format!("pool {name}"),
            Event::Pool(other) => panic!("no event of an agent: {other:?}"),
            Event::NodeGone(node) => {
                self.others.remove(&format!("node {node}"));
                self.others.remove(&format!("interfaces {node}"));
                return;
            }
            Event::LeaseGone(node) => {
                if !self.others.contains_key(&format!("node {node}")) {
                    self.others.remove(&format!("interfaces {node}"));
                }
                return;
            }
            Event::Slice(record) => format!("slice {} {}", record.service.namespace, record.slice),
            Event::SliceGone { namespace, slice } => format!("slice {namespace} {slice}"),
            Event::Namespace { name, .. } | Event::NamespaceGone(name) => format!("namespace {name}"),
            Event::NodeAddresses { node, .. } => format!("node {node}"),
            Event::ServiceCidr { name, .. } => format!("service cidr {name}"),
            Event::NodeInterfaces { node, .. } => format!("interfaces {node}"),
            Event::HostNetwork(_) => "host".to_owned(),
            Event::ApiServers { slice, .. } => format!("api servers {slice:?}"),
            Event::Claim { vip, .. } | Event::ClaimGone(vip) => format!("claim {vip}"),
            Event::Held { vip, .. } => format!("held {vip}"),
            Event::Found(_) => "found".to_owned(),
            Event::Behind(_) => "behind".to_owned(),
            Event::Leader(_) => "leader".to_owned(),
        };
        self.others.insert(key, event.clone());
    }

    fn start_now(&self, settings: &Settings) -> World {
        let mut world = World::unsynced(Role::Alone, settings.clone());
        for event in self.others.values() {
            world.notify(event.clone());
        }
        for record in self.services.values().rev() {
            world.put(record.clone());
        }
        world.notify(Event::Synced);
        world
    }
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn vip() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"][..])
}

/// Returns Services whose lists and limits can be parsed.
fn good() -> impl Strategy<Value = ServiceRecord> {
    const ADDRESSES: &[&str] =
        &["", "192.0.2.1", "192.0.2.2,192.0.2.1", "192.0.2.3,192.0.2.4,192.0.2.1", "2001:db8::1,192.0.2.2"];
    let addresses = prop::sample::select(ADDRESSES);
    let limit = || prop::sample::select(&["", "zone=a", "zone=b"][..]);
    let manager = prop::sample::select(&["vipward", "controller"][..]);
    let status = prop::collection::vec(vip(), 0..3);
    let flags = prop::array::uniform5(any::<bool>());
    let share = prop::sample::select(&["", "key"][..]);
    let rights = (0_i64..3, share, any::<bool>());
    (prop::sample::select(&NAMES[..]), addresses, limit(), limit(), manager, status, flags, 1_u16..4, rights)
        .prop_map(|(name, addresses, nodes, preferred, manager, status, flags, port, rights)| {
            let [local, foreign, ignore, other_type, spec] = flags;
            let (created, share, has_cluster_ip) = rights;
            // The API server gives no address to two Services.
            let position = NAMES.iter().position(|known| *known == name).expect("it is one of them");
            let cluster_ip = IpAddr::from([192, 0, 2, 1 + u8::try_from(position).expect("there are four")]);
            let record = service(name).status(manager, &status).ports(&[port, 443]).annotated(&[
                (if spec { "metallb.io/loadBalancerIPs" } else { "vipward.io/addresses" }, addresses),
                ("vipward.io/nodes", nodes),
                ("vipward.io/preferred-nodes", preferred),
                ("vipward.io/share", share),
                ("vipward.io/ignore", if ignore && foreign { "true" } else { "false" }),
            ]);
            ServiceRecord {
                local,
                created,
                cluster_ips: (has_cluster_ip && other_type && spec)
                    .then_some(cluster_ip)
                    .into_iter()
                    .collect(),
                class: (foreign && spec).then(|| "f5".into()),
                load_balancer: !(other_type && ignore),
                ..record
            }
        })
}

fn any_service() -> impl Strategy<Value = ServiceRecord> {
    (good(), prop::bool::weighted(0.2)).prop_map(|(mut record, broken)| {
        if broken {
            record.annotations.addresses = Some("192.0.2.".into());
            record.annotations.nodes = Some("in in in".into());
        }
        record
    })
}

fn event() -> impl Strategy<Value = Event> {
    let node = || prop::sample::select(&NODES[..]);
    let nodes = || prop::collection::btree_set(node().prop_map(NodeName::from), 0..3);
    let namespace = || prop::sample::select(&["x", "y"][..]);
    let slice_name = || prop::sample::select(&["1", "2", "3"][..]);
    let slice = (name(), slice_name(), nodes(), nodes(), any::<bool>()).prop_map(
        |(service, slice, ready, serving_terminating, ready_elsewhere)| {
            Event::Slice(EndpointsRecord {
                slice: slice.into(),
                service: named(service),
                ready,
                serving_terminating,
                ready_elsewhere,
                is_ipv6: false,
            })
        },
    );
    let bound = (vip(), prop::sample::select(&["24", "30", "32"][..]), any::<bool>()).prop_map(
        |(address, length, segment)| HostAddress {
            interface: if segment { "eth0".into() } else { "lo".into() },
            segment,
            net: format!("{address}/{length}").parse().expect("an address with a prefix length"),
            owner: Owner::Program,
        },
    );
    let network = (prop::collection::vec(bound, 0..3), prop::option::of(vip()))
        .prop_map(|(addresses, hop)| Event::HostNetwork(network(addresses, hop.as_slice())));
    let interfaces = (node(), vip(), 24_u8..32, prop::option::of(vip()), prop::option::of(vip())).prop_map(
        |(node, address, length, bound, gateway)| {
            let interface = NodeInterface {
                bound: bound.map(ip).into_iter().collect(),
                gateways: gateway.map(ip).into_iter().collect(),
                ..interface(&[&format!("{address}/{length}")])
            };
            Event::NodeInterfaces { node: node.into(), interfaces: vec![interface], session: None }
        },
    );
    prop_oneof![
        6 => any_service().prop_map(|record| Event::Service(Box::new(record))),
        2 => name().prop_map(|name| Event::ServiceGone(named(name))),
        4 => slice,
        1 => (namespace(), slice_name()).prop_map(|(namespace, slice)| Event::SliceGone {
            namespace: namespace.into(),
            slice: slice.into(),
        }),
        1 => (namespace(), any::<bool>(), any::<bool>()).prop_map(|(name, edge, shares)| Event::Namespace {
            name: name.into(),
            labels: labels(if edge { &[("team", "edge")] } else { &[] }),
            share_with: if shares { ["x".into(), "y".into()].into() } else { BTreeSet::new() },
        }),
        1 => namespace().prop_map(|name| Event::NamespaceGone(name.into())),
        1 => (node(), vip(), 30_u8..=32).prop_map(|(node, vip, length)| Event::NodeAddresses {
            node: node.into(), labels: BTreeMap::new(),
            addresses: vec![ip(vip)],
            pod_cidrs: vec![format!("{vip}/{length}").parse().expect("a network")],
        }),
        1 => prop::option::of(vip()).prop_map(|vip| Event::ServiceCidr {
            name: "kubernetes".into(),
            nets: vip.map(|vip| format!("{vip}/31").parse().expect("a network")).into_iter().collect(),
        }),
        1 => node().prop_map(|node| Event::NodeGone(node.into())),
        1 => node().prop_map(|node| Event::LeaseGone(node.into())),
        1 => network,
        1 => interfaces,
        1 => (any::<bool>(), prop::option::of(vip())).prop_map(|(is_slice, vip)| Event::ApiServers {
            slice: is_slice.then(|| "kubernetes".into()),
            addresses: vip.map(ip).into_iter().collect(),
        }),
        1 => Just(Event::SlicesListed),
        2 => (vip(), any::<bool>()).prop_map(|(vip, here)| Event::Held { vip: ip(vip), here }),
        2 => claim(),
        1 => vip().prop_map(|vip| Event::ClaimGone(ip(vip))),
        1 => pool(),
        1 => Just(Event::Synced),
    ]
}

fn claim() -> impl Strategy<Value = Event> {
    let services = prop::collection::vec(name(), 0..3);
    let reservation =
        (prop::option::of(name()), prop::option::of(Just(None))).prop_map(|(reserved, kept)| {
            reserved.map(|name| Box::new(Reservation { service: named(name), pool: None, kept }))
        });
    (vip(), any::<(bool, bool, bool)>(), services, reservation).prop_map(
        |(vip, (was_held, is_held, force), services, reservation)| Event::Claim {
            vip: ip(vip),
            was_held: was_held || is_held,
            sessions: held_by_z(is_held),
            force,
            services: services.into_iter().map(named).collect(),
            reservation,
            release: false,
        },
    )
}

fn pool() -> impl Strategy<Value = Event> {
    let ranges = prop::sample::select(&["192.0.2.1-192.0.2.2", "192.0.2.2-192.0.2.4", "2001:db8::/64"][..]);
    let nodes = prop::sample::select(&["zone=a", "zone=b"][..]);
    let record = prop::option::weighted(0.7, (ranges, 0_i64..3, nodes));
    (prop::sample::select(&["p", "q"][..]), record).prop_map(|(name, record)| {
        Event::Pool(match record {
            Some((range, created, nodes)) => {
                pools::Change::Pool(Box::new(announcing::pool(name, created, &[range], nodes)))
            }
            None => pools::Change::PoolGone(name.into()),
        })
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let limit = prop::option::of(0_usize..3);
    (any::<bool>(), any::<bool>(), any::<bool>(), limit).prop_map(|(by_namespace, withdraw, allow, limit)| {
        Settings {
            most_vips: limit,
            namespace_selector: by_namespace.then(|| "team=edge".parse().expect("a selector")),
            withdraw_without_endpoints: withdraw,
            allow: if allow { vec!["192.0.2.0/30".parse().expect("a network")] } else { Vec::new() },
            ..Settings::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Checks on the way, by `World::notify`, that no command is
    /// repeated and that no unreported problem ends.
    #[test]
    fn whatever_came_before_the_demands_are_those_of_an_agent_that_starts_now(
        settings in settings(),
        events in prop::collection::vec(event(), 0..60),
        last in prop::collection::vec(good(), 0..3),
    ) {
        let mut cluster = Cluster::default();
        let mut world = World::without_slices(Role::Alone, settings.clone());
        // A value that cannot be parsed makes the past matter. In
        // the end, all values can be parsed.
        let broken = |record: &&ServiceRecord| record.annotations.nodes.as_deref() == Some("in in in");
        let mut all = events;
        all.extend([Event::SlicesListed, Event::Synced]);
        all.extend(last.into_iter().map(|record| Event::Service(Box::new(record))));
        for event in all {
            cluster.note(&event);
            world.notify(event);
        }
        let left = cluster.services.values().filter(broken).map(|record| record.name.clone());
        for name in left.collect::<Vec<_>>() {
            cluster.note(&Event::ServiceGone(name.clone()));
            world.notify(Event::ServiceGone(name));
        }
        // Turns at statuses belong to the past too, until they are forgotten.
        world.pass(Monotonic::default());
        world.pass(Monotonic::default() + std::time::Duration::from_mins(5));
        // So do the former holder and the former Services of a VIP whose claim was deleted by hand.
        let has_past = |known: &Vip| known.was_held || !known.former.is_empty();
        let claim = |(vip, known): (&IpAddr, &Vip)| {
            let force = world.index().claims.get(vip).is_some_and(|summary| summary.is_forced);
            let (was_held, services) = (known.was_held, known.former.to_vec());
            // A process that begins finds no VIP held that came last.
            let sessions = held_by_z(known.order.came_first && known.order.is_held);
            Event::Claim { vip: *vip, was_held, sessions, force, services, reservation: None, release: false }
        };
        let vips = world.index().vips.iter().map(|(vip, known)| (vip, &**known));
        let with_past = vips.filter(|(_, known)| has_past(known));
        for event in with_past.map(claim).collect::<Vec<_>>() {
            cluster.note(&event);
            world.notify(event);
        }
        let guarded = world.index().vips.iter().filter(|(_, known)| known.order.came_first);
        cluster.note(&Event::Found(guarded.map(|(vip, _)| (*vip, false)).collect()));
        let fresh = cluster.start_now(&settings);
        // The former class of a Service belongs to the past too.
        world.problems.retain(|(_, problem)| !matches!(problem, Problem::HandedOver { .. }));
        prop_assert_eq!(&world.demands, &fresh.demands);
        prop_assert_eq!(world.words(), fresh.words());
        // After everything is listed again, the tasks equal the tasks of an agent that starts now.
        // An agent that held VIPs in the past may have more.
        world.notify(Event::Synced);
        for (service, due) in &fresh.duties {
            prop_assert_eq!(world.duties.get(service), Some(due));
        }
    }

    #[test]
    fn demands_are_for_addresses_that_are_wanted_and_name_those_that_want_them(
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mut cluster = Cluster::default();
        let mut world = World::new();
        for event in events {
            cluster.note(&event);
            world.notify(event);
        }
        for (vip, demand) in &world.demands {
            prop_assert!(!demand.services.is_empty());
            for service in &demand.services {
                let record = &cluster.services[service];
                prop_assert!(record.load_balancer && record.class.is_none(), "{}: {:?}", vip, record);
            }
        }
        for duty in world.duties.values() {
            match duty {
                Command::WriteIngress { service, .. } | Command::ClearIngress { service } => {
                    let account = world.account_of(service).expect("it is known");
                    prop_assert!(!account.is_elsewhere, "another controller's status would be overwritten");
                }
                Command::ListSlices { .. }
                | Command::Demand(..)
                | Command::LeaveIngress { .. }
                | Command::Report { .. }
                | Command::ProblemOver { .. } => prop_assert!(false, "no duty: {:?}", duty),
            }
        }
    }
}
