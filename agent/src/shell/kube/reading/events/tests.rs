use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};
use vipward_core::records::{LeaseRecord, NodeInterface, NodeName, NodeRecord, Session, Version};

use super::*;
use crate::shell::kube::Resource;

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));

fn node() -> NodeName {
    NodeName::from("n1")
}

#[test]
fn a_lease_tells_services_all_its_interfaces() {
    let subnets = ["192.0.2.0/24", "198.51.100.0/24"].map(|net| net.parse().expect("a subnet"));
    let interface = |name: &str, subnet| NodeInterface {
        name: name.into(),
        altnames: Vec::new(),
        mac: vipward_common::MacAddr([2, 0, 0, 0, 1, 1]),
        subnets: vec![subnet],
        bound: vec![VIP],
        gateways: Vec::new(),
        carrier: true,
        last_for: Vec::new(),
        unreached: Vec::new(),
    };
    let record = LeaseRecord {
        node: node(),
        version: Version::from("1"),
        session: Session::from_number(7),
        ended: Vec::new(),
        duration: Duration::from_secs(4),
        interfaces: vec![interface("eth0", subnets[0]), interface("eth1", subnets[1])],
        leaving: false,
        wire: None,
        proxy: None,
    };
    let read = Seen::Lease(record.clone()).into_read();
    let interfaces = record.interfaces.clone();
    let served = Served::NodeInterfaces { node: node(), interfaces, session: Session::from_number(7) };
    assert_eq!(read, Some(Read::Object(Some(Owned::Lease(record)), Some(served))));
}

#[test]
fn a_node_is_reported_to_both_and_an_object_of_one_to_it_alone() {
    let record = NodeRecord {
        name: node(),
        labels: BTreeMap::new(),
        cordoned: false,
        ready: true,
        network_unavailable: false,
        out_of_service: false,
    };
    let addresses = vec![VIP];
    let pod_cidrs: Vec<_> = vec!["10.244.0.0/24".parse().expect("a network")];
    let served = Served::NodeAddresses {
        node: node(),
        labels: BTreeMap::new(),
        addresses: addresses.clone(),
        pod_cidrs: pod_cidrs.clone(),
    };
    let table = [
        (
            "a Node",
            Seen::Node { record: record.clone(), addresses, pod_cidrs },
            (Some(Owned::Node(record)), Some(served)),
        ),
        ("no Node", Seen::NodeGone(node()), (Some(Owned::NodeGone(node())), Some(Served::NodeGone(node())))),
        (
            "no Lease",
            Seen::LeaseGone(node()),
            (Some(Owned::LeaseGone(node())), Some(Served::LeaseGone(node()))),
        ),
        ("no controller leads", Seen::Leader(None), (None, Some(Served::Leader(None)))),
        ("no claim", Seen::ClaimGone(VIP), (Some(Owned::ClaimGone(VIP)), Some(Served::ClaimGone(VIP)))),
        ("no Namespace", Seen::NamespaceGone("a".into()), (None, Some(Served::NamespaceGone("a".into())))),
        (
            "an API server",
            Seen::ApiServers { slice: "kubernetes".into(), addresses: vec![VIP] },
            (None, Some(Served::ApiServers { slice: Some("kubernetes".into()), addresses: vec![VIP] })),
        ),
        ("listed", Seen::Synced(Resource::Services), (None, None)),
        ("read again", Seen::Readable { resource: Resource::Services }, (None, None)),
    ];
    for (what, seen, expected) in table {
        let expected = (expected != (None, None)).then(|| Read::Object(expected.0, expected.1));
        assert_eq!(seen.into_read(), expected, "{what}");
    }
}
