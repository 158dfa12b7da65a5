//! What a Service requests in vain is reported until it is mended.

use super::{controller::pool, *};
use crate::pools::Family;

const NAMED: FamilyPolicy = FamilyPolicy { names: true, needs_all: false };

/// Reasons and parts of texts.
type Reported = &'static [(&'static str, &'static str)];
type Annotated = &'static [(&'static str, &'static str)];
type With = fn(ServiceRecord) -> ServiceRecord;
/// Families, and true if `spec.ipFamilies` has them.
type Families = (&'static [Family], bool);
type Texts = &'static [&'static str];

const ROLES: [Role; 3] = [Role::Alone, Role::Announcer, Role::Controller];

/// Returns the reasons and texts of the problems.
fn reported(world: &World) -> Vec<(&'static str, String)> {
    let mut reported: Vec<_> =
        world.problems.iter().map(|(_, problem)| (problem.reason().name(), problem.to_string())).collect();
    reported.sort();
    reported
}

/// Fails unless these problems stand, each with its reason and a part of its text.
fn assert_reported(world: &World, expected: &[(&str, &str)], about: &str) {
    let reported = reported(world);
    let is_as_expected = |((reason, text), (expected, part)): (&(&str, String), &(&str, &str))| {
        reason == expected && text.contains(part)
    };
    let is_right = reported.len() == expected.len() && reported.iter().zip(expected).all(is_as_expected);
    assert!(is_right, "{about}: {reported:#?} instead of {expected:#?}");
}

#[test]
fn a_former_annotation_with_another_value_than_the_present_one_is_a_contradiction() {
    let pair = || vec![("metallb.universe.tf/address-pool".into(), "metallb.io/address-pool".into())];
    for role in ROLES {
        let mut world = World::of(role, Settings::default());
        let mut record = service("default/web").annotated(&[("vipward.io/addresses", "192.0.2.7")]);
        record.annotations.former = pair();
        world.put(record);
        assert_reported(
            &world,
            &[("ContradictingRequests", "former name of metallb.io/address-pool")],
            &format!("{role:?}"),
        );
        world.put(service("default/web").annotated(&[("vipward.io/addresses", "192.0.2.7")]));
        assert_reported(&world, &[], &format!("corrected, {role:?}"));
    }
}

#[test]
fn an_annotation_without_effect_is_reported_until_it_is_corrected() {
    const UNKNOWN: &str = "UnknownAnnotation";
    const FOREIGN: &str = "ForeignAnnotation";
    let other_class = |record| ServiceRecord { class: Some("io.cilium/l2".into()), ..record };
    let of_other = |record: ServiceRecord| record.status("cilium-operator", &["192.0.2.9"]);
    let same = |record| record;
    let table: [(&str, With, Reported); 9] = [
        ("vipward.io/adresses", same, &[(UNKNOWN, "the nearest known one is vipward.io/addresses")]),
        ("vipward.io/Pool", same, &[(UNKNOWN, "annotation vipward.io/Pool has no effect on a Service")]),
        ("vipward.io/adresses", of_other, &[(UNKNOWN, "vipward.io/addresses")]),
        ("vipward.io/adresses", other_class, &[]),
        ("lbipam.cilium.io/ips", same, &[(FOREIGN, "Cilium's")]),
        ("lbipam.cilium.io/ips", of_other, &[]),
        ("lbipam.cilium.io/ips", other_class, &[]),
        ("metallb.universe.tf/loadBalancerIPs", same, &[(FOREIGN, "--metallb")]),
        ("metallb.universe.tf/loadBalancerIPs", |it| it.status("vipward", &["192.0.2.9"]), &[(FOREIGN, "")]),
    ];
    for role in ROLES {
        for (name, with, expected) in table {
            let mut world = World::of(role, Settings::default());
            world.put(with(service("default/web").annotated(&[(name, "192.0.2.7")])));
            assert_reported(&world, expected, &format!("{name} as {role:?}"));
            world.put(with(service("default/web")));
            assert_reported(&world, &[], &format!("without {name} as {role:?}"));
        }
    }
    let mut world = World::with(Settings { metallb: true, ..Settings::default() });
    world.put(service("default/web").annotated(&[("metallb.universe.tf/loadBalancerIPs", "192.0.2.7")]));
    assert_reported(&world, &[], "it is read with --metallb");
}

#[test]
fn of_two_places_that_request_other_addresses_the_one_that_counts_is_named() {
    const OURS: &str = "vipward.io/addresses";
    const KUBE_VIP: &str = "kube-vip.io/loadbalancerIPs";
    const METALLB: &str = "metallb.io/loadBalancerIPs";
    const COUNTS: (&str, &str) =
        ("ContradictingRequests", "annotation vipward.io/addresses comes first, and is \"192.0.2.7\"");
    let table: [(Annotated, Option<&str>, Reported); 10] = [
        (&[(OURS, "192.0.2.7"), (KUBE_VIP, "192.0.2.8")], None, &[COUNTS]),
        (&[(OURS, "192.0.2.7"), (METALLB, "192.0.2.8")], None, &[COUNTS]),
        (&[(OURS, "192.0.2.7")], Some("192.0.2.8"), &[COUNTS]),
        (&[(OURS, "192.0.2.7"), (METALLB, "192.0.2.8")], Some("192.0.2.9"), &[COUNTS, COUNTS]),
        (&[(OURS, "192.0.2.7")], Some("nonsense"), &[COUNTS]),
        (&[(OURS, "192.0.2.7, 2001:db8::7"), (METALLB, "2001:db8::7,192.0.2.7")], Some("192.0.2.7"), &[]),
        (&[(OURS, "192.0.2.7"), (KUBE_VIP, "0.0.0.0"), (METALLB, " ")], Some(""), &[]),
        (
            &[(KUBE_VIP, "192.0.2.7")],
            Some("192.0.2.8"),
            &[("ContradictingRequests", "spec.loadBalancerIP is \"192.0.2.8\", and has no effect")],
        ),
        (&[(OURS, "nonsense"), (METALLB, "192.0.2.8")], None, &[("MalformedValue", "nonsense")]),
        (
            &[("vipward.io/pool", "a"), ("metallb.io/address-pool", "b")],
            None,
            &[("ContradictingRequests", "annotation vipward.io/pool comes first")],
        ),
    ];
    for role in ROLES {
        for (annotations, spec, expected) in table {
            let record = |annotations: &[_]| ServiceRecord {
                load_balancer_ip: spec.map(Into::into),
                ..service("default/web").annotated(annotations)
            };
            let about = format!("{annotations:?} and {spec:?} as {role:?}");
            let mut world = World::of(role, Settings::default());
            world.notify(pool("a", &["192.0.2.100"]));
            world.put(record(annotations));
            assert_reported(&world, expected, &about);
            // A status binds unless the Service names addresses or a pool for Vipward.
            let binds = !annotations[0].0.starts_with("vipward.io/");
            world.put(record(annotations).status("other", &["192.0.2.50"]));
            let contradicts = reported(&world).iter().any(|(reason, _)| *reason == "ContradictingRequests");
            let is_expected = expected.iter().any(|(reason, _)| *reason == "ContradictingRequests");
            assert_eq!(contradicts, is_expected && !binds, "{about}: with another controller's status");
            world.put(service("default/web").annotated(&[annotations[0]]));
            world.put(service("default/web"));
            assert_reported(&world, &[], &about);
        }
    }
}

#[test]
fn an_address_of_another_pool_than_the_service_names_is_reported_and_counts() {
    let mut world = World::of(Role::Controller, Settings::default());
    world.notify(pool("lan", &["192.0.2.100-192.0.2.110"]));
    world.notify(pool("dmz", &["192.0.2.120-192.0.2.130"]));
    let named = |pool| {
        service("default/web")
            .annotated(&[("vipward.io/addresses", "192.0.2.100"), ("vipward.io/pool", pool)])
    };
    let text = "it requests 192.0.2.100 by name, and so gets none of VIPPool";
    for (pool, expected) in [
        ("dmz", &[("ContradictingRequests", text)][..]),
        ("lan", &[]),
        ("absent", &[("ContradictingRequests", text)]),
    ] {
        world.put(named(pool));
        world.reserve();
        assert_reported(&world, expected, pool);
        assert_eq!(world.status_of("default/web"), Some(vec!["192.0.2.100".to_owned()]), "{pool}");
        assert_eq!(world.index().lacking(), 0, "{pool}: it has its address");
    }
    world.notify(pool("absent", &["192.0.2.100"]));
    world.put(service("default/web").addressed("192.0.2.100"));
    assert_reported(&world, &[], "it names no pool");
}

/// kube-proxy ignores an address in the status of a family that the Service has no `ClusterIP` of.
#[test]
fn an_address_of_a_family_that_the_service_does_not_have_is_refused() {
    const FOUR: &str = "192.0.2.7";
    const SIX: &str = "2001:db8::7";
    let table: [(Families, &'static str, Texts, Texts); 7] = [
        ((&[Family::V6], true), FOUR, &[], &["no IPv4 address (spec.ipFamilies)"]),
        ((&[Family::V4], true), SIX, &[], &["no IPv6 address (spec.ipFamilies)"]),
        ((&[Family::V4], true), "192.0.2.7,2001:db8::7", &[FOUR], &["no IPv6 address (spec.ipFamilies)"]),
        ((&[Family::V4], true), FOUR, &[FOUR], &[]),
        ((&[Family::V4, Family::V6], true), "192.0.2.7,2001:db8::7", &[FOUR, SIX], &[]),
        ((&[Family::V4], false), SIX, &[SIX], &[]),
        ((&[Family::V6], false), FOUR, &[FOUR], &[]),
    ];
    for ((families, names_families), addresses, served, problems) in table {
        let family_policy = FamilyPolicy { names: names_families, ..FamilyPolicy::default() };
        let with = |record| ServiceRecord { families: families.to_vec(), family_policy, ..record };
        let problems: Vec<_> = problems.iter().map(|text| ("WrongFamily", *text)).collect();
        for role in ROLES {
            let about = format!("{addresses} of {families:?}, named: {names_families}, as {role:?}");
            let mut world = World::of(role, Settings { external_ips: true, ..Settings::default() });
            world.notify(pool("lan", &["192.0.2.100", "2001:db8::100"]));
            // The status says who serves it, and an agent beside a controller follows that.
            let all: Vec<_> = addresses.split(',').collect();
            let status: &[&str] = if role == Role::Announcer { &all } else { &[] };
            world.put(with(service("default/web").addressed(addresses)).status("vipward", status));
            world.reserve();
            assert_eq!(world.vips(), served, "{about}");
            assert_reported(&world, &problems, &about);
            if role != Role::Announcer {
                for vip in served {
                    world.hold(vip, true);
                }
                let status = world.status_of("default/web").unwrap_or_default();
                assert!(status.iter().all(|vip| served.contains(&&**vip)), "{about}: {status:?}");
            }
            let account = world.index().account(ip(all[0]));
            let is_explained =
                account.demand.is_some() || account.mentions.iter().any(|it| !it.problems.is_empty());
            assert!(is_explained, "{about}: {account:?}");

            let of_other = with(service("default/other")).status("other", &all);
            world.put(ServiceRecord { external_ips: Vec::new(), ..of_other });
            world.notify(Event::ServiceGone(named("default/web")));
            assert_eq!(world.vips(), served, "{about}: in the status of another controller");
            world.notify(Event::ServiceGone(named("default/other")));
            let external_ips = all.iter().map(|address| ip(address)).collect();
            world.put(with(ServiceRecord { external_ips, ..service("default/external") }));
            let mut external = world.vips();
            external.retain(|vip| all.contains(&&**vip));
            assert_eq!(external, served, "{about}: in spec.externalIPs");
        }
    }
}

#[test]
fn an_address_that_no_service_may_have_is_refused_for_that_whatever_its_family() {
    for role in [Role::Alone, Role::Controller] {
        let mut world = World::of(role, Settings::default());
        let record = service("default/web").addressed("::ffff:192.0.2.72");
        world.put(ServiceRecord { family_policy: NAMED, ..record });
        assert_reported(&world, &[("AddressRefused", "it is an IPv4 address in an IPv6 address")], "mapped");
    }
}

#[test]
fn a_wrong_family_in_a_status_that_vipward_wrote_is_removed_and_its_reservation_freed() {
    let mut world = World::of(Role::Controller, Settings::default());
    world.notify(pool("lan", &["192.0.2.7"]));
    let record = service("default/web").addressed("192.0.2.7");
    world.put(record.clone());
    world.reserve();
    let six = ServiceRecord { families: vec![Family::V6], family_policy: NAMED, ..record };
    world.put(six.clone().status("vipward", &["192.0.2.7"]));
    assert_eq!(world.status_of("default/web"), Some(Vec::new()), "it is cleared");
    world.put(six.status("vipward", &[]));
    let [write] = &world.reserving[..] else { panic!("{:?}", world.reserving) };
    assert_eq!((write.vip, &write.reservation), (ip("192.0.2.7"), &None));
    world.reserve();
    assert_reported(&world, &[("WrongFamily", "192.0.2.7")], "it gets no other instead");
}

/// Envoy Gateway writes the address of a Gateway there.
#[test]
fn external_ips_that_no_node_announces_are_reported_with_the_ways_to_have_them() {
    let with = |text: &str| ServiceRecord { external_ips: vec![ip(text)], ..service("default/web") };
    let text = "spec.externalIPs has 192.0.2.66, which Vipward does not announce";
    let unserved: &[_] = &[("ExternalIPsNotServed", text)];
    let table = [
        ("of a segment", with("192.0.2.66"), unserved),
        ("of no segment", with("198.51.100.66"), &[]),
        ("of a node", with("192.0.2.1"), &[]),
        (
            "requested too",
            ServiceRecord { external_ips: vec![ip("192.0.2.66")], ..service("default/web") }
                .addressed("192.0.2.66"),
            &[],
        ),
        ("beside another controller's status", with("192.0.2.66").status("other", &["192.0.2.9"]), &[]),
        ("of another type", ServiceRecord { load_balancer: false, ..with("192.0.2.66") }, &[]),
        ("of another class", ServiceRecord { class: Some("x".into()), ..with("192.0.2.66") }, &[]),
    ];
    for role in [Role::Alone, Role::Controller] {
        for (about, record, expected) in table.clone() {
            let mut world = World::of(role, Settings::default());
            world.node("node-a", &["192.0.2.1"]);
            world.put(record);
            world.reserve();
            assert_reported(&world, expected, &format!("{about}, as {role:?}"));
            world.put(service("default/web"));
            assert_reported(&world, &[], about);
        }
        let mut world = World::of(role, Settings { external_ips: true, ..Settings::default() });
        world.put(with("192.0.2.66"));
        assert_reported(&world, &[("ExternalIPsDeprecated", "")], "with --external-ips");

        let mut world = World::of(role, Settings::default());
        world.put(with("192.0.2.66"));
        assert_reported(&world, unserved, "of an unknown host");
        world.node("node-a", &["192.0.2.66"]);
        assert_reported(&world, &[], "a node of that address has joined");
        world.notify(Event::NodeGone("node-a".into()));
        assert_reported(&world, unserved, "and is gone");
    }
}
