use super::*;

const VIP: &str = "192.0.2.50";

fn is_served(settings: Settings, record: ServiceRecord) -> bool {
    let mut world = World::with(settings);
    let labels = labels(&[("team", "edge")]);
    world.notify(Event::Namespace { name: "edge".into(), labels, share_with: BTreeSet::new() });
    world.put(record);
    !world.demands.is_empty()
}

#[test]
fn a_service_is_served_by_its_class() {
    let table = [
        ("no class, none asked for", "vipward.io/l2", false, None, true),
        ("our class", "vipward.io/l2", false, Some("vipward.io/l2"), true),
        ("another class", "vipward.io/l2", false, Some("kube-vip.io/kube-vip-class"), false),
        ("no class, and --class-only", "vipward.io/l2", true, None, false),
        ("Vipward's class, and --class-only", "vipward.io/l2", true, Some("vipward.io/l2"), true),
        ("another class, and --class-only", "vipward.io/l2", true, Some("f5"), false),
        ("the class that is configured", "f5", false, Some("f5"), true),
        ("the default one when another is configured", "f5", false, Some("vipward.io/l2"), false),
    ];
    for (description, name, class_only, class, served) in table {
        let settings = Settings { class: name.into(), class_only, ..Settings::default() };
        let mut record = service("default/web").addressed(VIP);
        record.class = class.map(Into::into);
        assert_eq!(is_served(settings, record), served, "{description}");
    }
}

#[test]
fn services_are_narrowed_by_namespace_labels_and_annotations() {
    let all = Settings::default();
    let namespaces = |names: &[&str]| Settings {
        namespaces: names.iter().map(|name| (*name).into()).collect(),
        ..all.clone()
    };
    let by_namespace = |selector: &str| {
        let namespace_selector = Some(selector.parse().expect("a selector"));
        Settings { namespace_selector, ..all.clone() }
    };
    let both = Settings { namespaces: ["a".into()].into(), ..by_namespace("team=edge") };
    let by_labels = |selector: &str| Settings {
        service_selector: Some(selector.parse().expect("a selector")),
        ..all.clone()
    };
    let record = service("edge/web").addressed(VIP);
    let mut labelled = record.clone();
    labelled.labels = (&labels(&[("tier", "front")])).into();
    let annotated = |name, value| record.clone().annotated(&[("vipward.io/addresses", VIP), (name, value)]);
    let mut deleting = record.clone();
    deleting.deleting = true;
    let mut cluster_ip = record.clone();
    cluster_ip.load_balancer = false;
    let table = [
        ("everywhere", all.clone(), &record, true),
        ("one of the namespaces", namespaces(&["a", "edge"]), &record, true),
        ("another namespace", namespaces(&["a"]), &record, false),
        ("a namespace with the labels", by_namespace("team=edge"), &record, true),
        ("a namespace with others", by_namespace("team=core"), &record, false),
        ("the labels, and another namespace", both, &record, false),
        ("a namespace that was not reported", by_namespace("!team"), &service("b/web").addressed(VIP), false),
        ("the labels", by_labels("tier in (front)"), &labelled, true),
        ("other labels", by_labels("tier in (front)"), &record, false),
        ("ignored", all.clone(), &annotated("vipward.io/ignore", "true"), false),
        ("ignored as for kube-vip", all.clone(), &annotated("kube-vip.io/ignore", "true"), false),
        ("not ignored", all.clone(), &annotated("vipward.io/ignore", "false"), true),
        ("being deleted", all.clone(), &deleting, false),
        ("of another type", all.clone(), &cluster_ip, false),
    ];
    for (description, settings, record, served) in table {
        assert_eq!(is_served(settings, record.clone()), served, "{description}");
    }
}

#[test]
fn a_namespaces_services_come_and_go_with_its_labels() {
    let namespace_selector = Some("team=edge".parse().expect("a selector"));
    let mut world = World::with(Settings { namespace_selector, ..Settings::default() });
    let edge = |team| Event::Namespace {
        name: "edge".into(),
        labels: labels(&[("team", team)]),
        share_with: BTreeSet::new(),
    };
    world.put(service("edge/web").addressed(VIP));
    world.put(service("edgy/web").addressed("192.0.2.51"));
    assert!(world.demands.is_empty());
    world.notify(edge("edge"));
    assert_eq!(world.vips(), [VIP]);
    assert_eq!(world.notify(edge("edge")), [], "no news");
    world.notify(edge("core"));
    assert!(world.demands.is_empty());
    world.notify(edge("edge"));
    world.notify(Event::NamespaceGone("edge".into()));
    assert!(world.demands.is_empty());
}

#[test]
fn a_service_that_is_not_served_has_no_problems() {
    let mut world = World::new();
    let record =
        service("default/web").annotated(&[("vipward.io/addresses", "web"), ("vipward.io/nodes", "=")]);
    world.put(record.clone());
    assert_eq!(world.problems.len(), 2);
    let mut foreign = record;
    foreign.class = Some("f5".into());
    world.put(foreign);
    assert_eq!(world.problems, []);
}
