use super::*;

fn service(name: &str) -> ServiceName {
    ServiceName { namespace: "default".into(), name: name.into() }
}

fn held(services: &[&str], interface: &str) -> HeldVip {
    let services = services.iter().map(|name| service(name)).collect();
    HeldVip { services, interface: interface.into(), uid: Some(format!("u-{interface}").into()) }
}

fn vip(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

/// Returns the jobs that were sent: Service and node, and the interfaces or `-`.
fn jobs(receiver: &mut mpsc::UnboundedReceiver<(Key, Option<Status>)>) -> Vec<String> {
    let said = |status: Status| status.interfaces.iter().map(|it| &**it).collect::<Vec<_>>().join("+");
    let next = || receiver.try_recv().ok();
    std::iter::from_fn(next)
        .map(|((service, node), status)| {
            format!("{} of {node}: {}", service.name, status.map_or("-".to_owned(), said))
        })
        .collect()
}

#[test]
fn a_service_has_one_object_for_all_its_addresses_and_none_after_the_last() {
    let (jobs_of, mut sent) = mpsc::unbounded_channel();
    let mut statuses = L2Statuses {
        node: "a".into(),
        held: BTreeMap::new(),
        shown: BTreeMap::new(),
        jobs: jobs_of,
        _tasks: JoinSet::new(),
    };
    let rows: [(_, _, _, &[&str]); 8] = [
        ("the first address", 1, Some(held(&["web"], "eth0")), &["web of a: eth0"]),
        ("the same again", 1, Some(held(&["web"], "eth0")), &[]),
        ("another interface", 2, Some(held(&["web"], "eth1")), &["web of a: eth0+eth1"]),
        ("a Service that shares it", 1, Some(held(&["web", "dns"], "eth0")), &["dns of a: eth0"]),
        ("an address moves", 2, None, &["web of a: eth0"]),
        ("an address that was not held", 3, None, &[]),
        ("a Service leaves it", 1, Some(held(&["dns"], "eth0")), &["web of a: -"]),
        ("the last one", 1, None, &["dns of a: -"]),
    ];
    for (what, last, held, expected) in rows {
        statuses.show(vip(last), held);
        assert_eq!(jobs(&mut sent), expected, "{what}");
    }
    statuses.forget(&[service("web")], &"b".into());
    assert_eq!(jobs(&mut sent), ["web of b: -"]);
}

#[test]
fn an_object_has_the_labels_of_metallbs_and_goes_with_the_address() {
    let status = Status { interfaces: ["eth0".into()].into(), owner: Some((vip(7), "u-7".into())) };
    let object = object(&service("web"), &"a".into(), &status);
    assert_eq!(object["metadata"]["labels"]["metallb.io/node"], "a");
    assert_eq!(object["metadata"]["ownerReferences"][0]["kind"], "VirtualIP");
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "u-7");
    let expected = json!({
        "node": "a", "serviceName": "web", "serviceNamespace": "default", "interfaces": [{"name": "eth0"}],
    });
    assert_eq!(object["status"], expected);
    assert_ne!(name(&service("web"), &"a".into()), name(&service("web"), &"b".into()));
}
