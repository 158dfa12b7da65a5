use super::*;
use crate::records::Selector;

#[test]
fn the_first_place_that_has_addresses_is_the_one() {
    let annotated = |names: &[&str]| {
        let known = [
            ("vipward.io/addresses", "192.0.2.1, 192.0.2.2"),
            ("kube-vip.io/loadbalancerIPs", "192.0.2.3"),
            ("metallb.io/loadBalancerIPs", "192.0.2.4,192.0.2.4"),
        ];
        let chosen: Vec<_> = known.into_iter().filter(|(name, _)| names.contains(name)).collect();
        let mut record = service("default/web").annotated(&chosen);
        record.load_balancer_ip = Some("192.0.2.5".into());
        record.external_ips = vec![ip("192.0.2.6")];
        record
    };
    let all = ["vipward.io/addresses", "kube-vip.io/loadbalancerIPs", "metallb.io/loadBalancerIPs"];
    let mut proxied = annotated(&all[1..]).status("cloud", &["192.0.2.9"]);
    proxied.ingress[0].mode = IpMode::Proxy;
    let mut host_name = service("default/web").status("cloud", &["192.0.2.9"]);
    host_name.ingress.insert(0, Ingress { ip: None, mode: IpMode::Vip });
    let blank = service("default/web")
        .annotated(&[("vipward.io/addresses", " "), ("metallb.io/loadBalancerIPs", "192.0.2.4")]);
    let table: [(&str, ServiceRecord, &[&str]); 11] = [
        (
            "our annotation, whatever another controller has written",
            annotated(&all).status("controller", &["192.0.2.9"]),
            &["192.0.2.1", "192.0.2.2"],
        ),
        (
            "another controller's status",
            annotated(&all[1..]).status("controller", &["192.0.2.9"]),
            &["192.0.2.9"],
        ),
        ("its addresses elsewhere are not Vipward's", proxied, &[]),
        ("its host names are none", host_name, &["192.0.2.9"]),
        (
            "our own status is no source",
            annotated(&all).status("vipward", &["192.0.2.9"]),
            &["192.0.2.1", "192.0.2.2"],
        ),
        ("our annotation", annotated(&all), &["192.0.2.1", "192.0.2.2"]),
        ("kube-vip's", annotated(&all[1..]), &["192.0.2.3"]),
        ("MetalLB's, which repeats itself", annotated(&all[2..]), &["192.0.2.4"]),
        ("the spec's", annotated(&[]), &["192.0.2.5"]),
        ("a blank one is none", blank, &["192.0.2.4"]),
        ("nothing", service("default/web"), &[]),
    ];
    for (description, record, vips) in table {
        let mut world = World::new();
        world.put(record.clone());
        assert_eq!(world.vips(), vips, "{description}");
        let mut world = World::with(Settings { external_ips: true, ..Settings::default() });
        world.put(record.clone());
        let mut both = vips.to_vec();
        both.extend((!record.external_ips.is_empty()).then_some("192.0.2.6"));
        both.sort_unstable();
        assert_eq!(world.vips(), both, "{description}, and external addresses");
    }
}

#[test]
fn what_cannot_be_read_is_named_and_what_was_there_stays() {
    let table = [
        (
            "not an address",
            ("vipward.io/addresses", "192.0.2.1,web"),
            "annotation vipward.io/addresses is \"192.0.2.1,web\": \"web\" is no IP address; write addresses as \
             192.0.2.10, with commas between them.",
        ),
        (
            "a comma too many",
            ("vipward.io/addresses", "192.0.2.1,"),
            "annotation vipward.io/addresses is \"192.0.2.1,\": \"\" is no IP address;",
        ),
        (
            "a prefix length",
            ("kube-vip.io/loadbalancerIPs", "192.0.2.1/24"),
            "annotation kube-vip.io/loadbalancerIPs is \"192.0.2.1/24\": \"192.0.2.1/24\" has a prefix \
             length; a VIP is one address: leave `/…` out.",
        ),
        (
            "not a selector",
            ("vipward.io/nodes", "zone in a"),
            "annotation vipward.io/nodes is \"zone in a\": \"zone in a\" is no requirement on labels; write key=value,",
        ),
        (
            "not a selector either",
            ("vipward.io/preferred-nodes", "zone in (a"),
            "annotation vipward.io/preferred-nodes is \"zone in (a\": the parentheses of \"zone in (a\" do not match.",
        ),
        (
            "not a glob",
            ("vipward.io/interface", "eth0,eth["),
            "annotation vipward.io/interface is \"eth0,eth[\":",
        ),
        (
            "neither yes nor no",
            ("vipward.io/ignore", "yes"),
            "annotation vipward.io/ignore is \"yes\": it must be \"true\" or \"false\".",
        ),
    ];
    let good = [
        ("vipward.io/addresses", "192.0.2.7"),
        ("vipward.io/nodes", "zone=a"),
        ("vipward.io/preferred-nodes", "rack=1"),
        ("vipward.io/interface", "eth0,ens*"),
    ];
    for (description, bad, words) in table {
        let mut world = World::new();
        world.put(service("default/web").annotated(&good));
        let before = world.demand("192.0.2.7").clone();
        assert_eq!(before.nodes.as_ref().map(Selector::as_str), Some("zone=a"));
        assert_eq!(before.preferred.as_ref().map(Selector::as_str), Some("rack=1"));
        assert!(before.interfaces[1].matches("ens3"));
        let mut annotations: Vec<_> = good.into_iter().filter(|(name, _)| *name != bad.0).collect();
        if bad.0.ends_with("IPs") {
            annotations.retain(|(name, _)| *name != "vipward.io/addresses");
        }
        annotations.push(bad);
        world.put(service("default/web").annotated(&annotations));
        let [notified] = &world.words()[..] else { panic!("{description}: {:?}", world.words()) };
        assert!(notified.starts_with(&format!("default/web: {words}")), "{description}: {notified}");
        assert_eq!(world.demand("192.0.2.7"), &before, "{description}");
        world.put(service("default/web").annotated(&good));
        assert_eq!(world.problems, [], "{description}: over when it is put right");
    }
}

#[test]
fn a_flag_that_cannot_be_read_is_still_what_it_was() {
    let mut world = World::new();
    let with = |value| {
        service("default/web")
            .annotated(&[("vipward.io/addresses", "192.0.2.7"), ("vipward.io/ignore", value)])
    };
    world.put(with("true"));
    world.put(with("ture"));
    assert!(world.demands.is_empty());
    world.put(with("false"));
    assert_eq!(world.vips(), ["192.0.2.7"]);
}

#[test]
fn a_process_that_finds_an_unreadable_annotation_goes_on_with_the_status_that_an_agent_wrote() {
    let mut world = World::new();
    world.put(service("default/web").addressed("192.0.2.7.").status("vipward", &["192.0.2.7"]));
    assert_eq!(world.vips(), ["192.0.2.7"]);
    assert_eq!(world.problems.len(), 1);
    world.put(service("default/web").addressed("192.0.2.8").status("vipward", &["192.0.2.7"]));
    assert_eq!((world.vips(), world.problems.len()), (vec!["192.0.2.8".to_owned()], 0));
}

#[test]
fn another_service_of_the_same_name_inherits_nothing() {
    let mut world = World::new();
    world.put(service("default/web").addressed("192.0.2.7"));
    let mut other = service("default/web").addressed("web");
    other.uid = "2".into();
    world.put(other);
    assert!(world.demands.is_empty());
    assert_eq!(world.index().uid(&named("default/web")).map(|uid| &**uid), Some("2"));
}

#[test]
fn a_service_has_addresses_of_both_families() {
    let mut world = World::new();
    world.put(service("default/web").addressed("2001:DB8:0::7, 192.0.2.7"));
    assert_eq!(
        (world.vips(), world.words()),
        (vec!["192.0.2.7".to_owned(), "2001:db8::7".to_owned()], Vec::new())
    );
    let mut world = World::new();
    world.put(service("default/web").status("controller", &["192.0.2.7", "2001:db8::7"]));
    assert_eq!(world.vips(), ["192.0.2.7", "2001:db8::7"]);
}

#[test]
fn the_addresses_of_one_service_stay_together_unless_it_says_otherwise() {
    let both = [ip("192.0.2.7"), ip("2001:db8::7")];
    let mut world = World::new();
    world.put(service("default/web").addressed("2001:db8::7,192.0.2.7"));
    assert_eq!([&world.demand("192.0.2.7").together, &world.demand("2001:db8::7").together], [&both, &both]);
    world.put(service("default/web").addressed("192.0.2.7"));
    assert_eq!(world.demand("192.0.2.7").together.len(), 0, "alone");
    let addresses = ("vipward.io/addresses", "192.0.2.7,2001:db8::7");
    let annotated = |value| service("default/web").annotated(&[addresses, ("vipward.io/together", value)]);
    world.put(annotated("true"));
    assert_eq!(world.demand("192.0.2.7").together, both);
    world.put(annotated("false"));
    assert_eq!(world.demand("192.0.2.7").together.len(), 0);
    world.put(annotated("maybe"));
    assert_eq!(world.demand("192.0.2.7").together.len(), 0, "the last good value counts");
    assert!(world.words()[0].contains("annotation vipward.io/together"), "{:?}", world.words());
}

#[test]
fn a_vip_leaves_with_its_last_service() {
    let mut world = World::new();
    world.put(service("a/web").addressed("192.0.2.7").ports(&[80]));
    world.put(service("a/other").addressed("192.0.2.7,192.0.2.8").ports(&[81]));
    assert_eq!(world.demand("192.0.2.7").services, [named("a/web"), named("a/other")]);
    world.notify(Event::ServiceGone(named("a/web")));
    assert_eq!(world.demand("192.0.2.7").services, [named("a/other")]);
    world.put(service("a/other").addressed("192.0.2.8").ports(&[81]));
    assert_eq!(world.vips(), ["192.0.2.8"]);
    let mut cluster_ip = service("a/other").addressed("192.0.2.8");
    cluster_ip.load_balancer = false;
    world.put(cluster_ip);
    assert!(world.demands.is_empty());
    assert!(world.index().entries.is_empty() && world.index().vips.is_empty(), "nothing is kept of them");
}

#[test]
fn nothing_is_commanded_before_everything_is_listed() {
    let mut world = World::unsynced(Role::Alone, Settings::default());
    world.put(service("a/web").addressed("192.0.2.7").local());
    world.put(service("a/web").addressed("192.0.2.8").local());
    assert_eq!(world.notify(Event::Slice(slice("a/web", "web-1", &["node-a"], &[]))), []);
    world.put(service("a/gone").addressed("192.0.2.9"));
    assert_eq!(world.notify(Event::ServiceGone(named("a/gone"))), []);
    world.notify(Event::Synced);
    assert_eq!(world.vips(), ["192.0.2.8"]);
    assert_eq!(world.local("192.0.2.8"), Some(vec!["node-a"]));
    assert_eq!(world.notify(Event::Synced), [], "again, without news");
    assert_eq!(world.put(service("a/web").addressed("192.0.2.8").local()), [], "listed again");
}
