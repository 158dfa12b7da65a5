use super::*;

/// Returns the Services that name the address, and the fields. True for a Service that is served.
fn mentions(world: &World, address: &str) -> Vec<(String, Option<Place>, bool)> {
    let account = world.index().account(ip(address));
    account
        .mentions
        .into_iter()
        .map(|mention| (mention.service.to_string(), mention.place, mention.unserved.is_none()))
        .collect()
}

#[test]
fn an_address_is_explained_by_the_services_that_name_it_in_any_field() {
    let mut world = World::new();
    world.put(service("a/annotated").addressed("192.0.2.10,192.0.2.11"));
    world.put(service("b/written").status("other", &["192.0.2.10"]));
    world.put(service("c/elsewhere").addressed("192.0.2.12"));
    assert_eq!(
        mentions(&world, "192.0.2.10"),
        [
            ("a/annotated".into(), Some(Place::Addresses), true),
            ("b/written".into(), Some(Place::Status), true)
        ]
    );
    assert_eq!(mentions(&world, "192.0.2.11"), [("a/annotated".into(), Some(Place::Addresses), true)]);
    assert_eq!(mentions(&world, "192.0.2.13"), []);
    let account = world.index().account(ip("192.0.2.10"));
    assert_eq!(account.demand.as_ref(), Some(world.demand("192.0.2.10")));
    assert_eq!(account.refusal, None);
}

#[test]
fn a_service_that_is_not_served_says_why_and_what_to_do() {
    let class_only = Settings { class_only: true, ..Settings::default() };
    let in_namespace = Settings { namespaces: BTreeSet::from(["b".into()]), ..Settings::default() };
    let labelled =
        Settings { service_selector: Some("a=b".parse().expect("a selector")), ..Settings::default() };
    let plain = || service("a/web").addressed("192.0.2.10");
    let other_class = ServiceRecord { class: Some("other".into()), ..plain() };
    let deleting = ServiceRecord { deleting: true, ..plain() };
    let held = ServiceRecord { finalizers: Some("example.com/lb".into()), ..deleting.clone() };
    let ignored =
        service("a/web").annotated(&[("vipward.io/addresses", "192.0.2.10"), ("vipward.io/ignore", "true")]);
    for (settings, record, why, remedy) in [
        (Settings::default(), other_class, "\"other\", and \"vipward.io/l2\" is served", "create it anew"),
        (class_only, plain(), "(--class-only)", "set spec.loadBalancerClass to \"vipward.io/l2\""),
        (in_namespace, plain(), "namespace a is not served", "move it"),
        (labelled, plain(), "labels are not those", "label it"),
        (Settings::default(), deleting, "being deleted", "another"),
        (Settings::default(), held, "being deleted, and kept by example.com/lb", "remove the finalizer"),
        (Settings::default(), ignored, "excludes it", "remove that annotation"),
    ] {
        let mut world = World::with(settings);
        world.put(record);
        let account = world.index().account(ip("192.0.2.10"));
        assert_eq!(account.demand, None, "{why}");
        let [mention] = &account.mentions[..] else { panic!("{why}: {account:?}") };
        let unserved = mention.unserved.as_ref().expect("it is not served");
        assert!(unserved.why.contains(why), "{why:?} in {:?}", unserved.why);
        assert!(unserved.remedy.contains(remedy), "{remedy:?} in {:?}", unserved.remedy);
    }
}

#[test]
fn a_fault_of_an_address_is_shown_with_it_and_with_no_other() {
    let mut world = World::new();
    world.put(service("a/typo").addressed("192.0.2.10/24"));
    world.put(service("b/clash").addressed("192.0.2.11"));
    world.put(service("b/other").addressed("192.0.2.11"));
    world.node("n1", &["192.0.2.12"]);
    world.put(service("d/node").addressed("192.0.2.12"));
    world.put(service("e/elsewhere").addressed("1.1.1.1"));
    let problems = |address: &str| -> Vec<Problem> {
        let account = world.index().account(ip(address));
        account.mentions.into_iter().flat_map(|mention| mention.problems).collect()
    };
    assert!(matches!(problems("192.0.2.10")[..], [Problem::Malformed { .. }]));
    assert!(matches!(problems("192.0.2.11")[..], [Problem::Clash { .. }]));
    let [Problem::Refused { why: Refusal::NoSegment, .. }] = problems("1.1.1.1")[..] else {
        panic!("{:?}", problems("1.1.1.1"))
    };
    let refused = world.index().account(ip("192.0.2.12"));
    assert!(matches!(refused.refusal, Some(Refusal::Node { .. })), "{refused:?}");
    assert_eq!((refused.demand, refused.mentions[0].problems.len()), (None, 0));
}
