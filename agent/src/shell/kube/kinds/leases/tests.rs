use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use proptest::prelude::*;
use vipward_common::{MacAddr, VipFault};
use vipward_core::{
    ownership::Expected,
    records::{Delivers, Epoch, HealthPort, Unreached},
};

use super::{offer::tests::any_offer, *};
use crate::shell::kube::testing::merge;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).expect("in range")
}

fn session(number: u64) -> Session {
    Session::from_number(number).expect("not zero")
}

fn write(number: Option<u64>) -> LeaseWrite {
    LeaseWrite {
        node: "node-a".into(),
        expected: Expected::Absent,
        session: number.map(session),
        ended: Vec::new(),
        duration: Duration::from_millis(4_500),
        interfaces: vec![NodeInterface {
            name: "eth0".into(),
            altnames: Vec::new(),
            mac: MacAddr([2, 0, 0, 0, 1, 1]),
            subnets: vec!["192.0.2.0/24".parse().expect("a subnet")],
            bound: Vec::new(),
            gateways: Vec::new(),
            carrier: true,
            last_for: Vec::new(),
            unreached: Vec::new(),
        }],
        leaving: false,
        wire: None,
        proxy: None,
    }
}

fn created(write: &LeaseWrite) -> Value {
    let mut object = creation(write, Some("u-7"), at(0));
    object["metadata"]["resourceVersion"] = "1".into();
    object
}

fn parsed(object: &Value) -> Read {
    read(&object.to_string()).expect("a Lease")
}

#[test]
fn a_lease_is_what_other_tools_expect_of_one() {
    let object = created(&write(Some(0x1d)));
    assert_eq!(object["metadata"]["name"], "node-a");
    assert_eq!(object["spec"]["holderIdentity"], "node-a/000000000000001d");
    assert_eq!(object["spec"]["leaseDurationSeconds"], 5, "4.5 s, rounded up");
    assert_eq!(object["spec"]["leaseTransitions"], 0);
    assert_eq!(object["spec"]["renewTime"], text::micro_time(at(0)));
    assert_eq!(object["spec"]["acquireTime"], text::micro_time(at(0)));
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "u-7");
    let typed: k8s_openapi::api::coordination::v1::Lease =
        serde_json::from_value(object).expect("it is a Lease");
    assert_eq!(typed.metadata.labels.expect("labels")["app.kubernetes.io/managed-by"], "vipward");
}

#[test]
fn a_renewal_changes_the_time_and_nothing_else() {
    let mut object = created(&write(Some(0x1d)));
    let before = object.clone();
    let known = parsed(&object).known;
    merge(&mut object, &patch(&write(Some(0x1d)), &"1".into(), Some(&known), at(9)));
    assert_eq!(object["spec"]["renewTime"], text::micro_time(at(9)));
    object["spec"]["renewTime"] = before["spec"]["renewTime"].clone();
    assert_eq!(object, before);
}

#[test]
fn a_new_session_is_a_transition_and_so_is_the_end_of_one() {
    let mut object = created(&write(Some(1)));
    let known = parsed(&object).known;
    merge(&mut object, &patch(&write(None), &"1".into(), Some(&known), at(5)));
    assert_eq!(object["spec"]["holderIdentity"], Value::Null);
    assert_eq!(object["spec"]["leaseTransitions"], 1);
    assert_eq!(object["spec"]["renewTime"], text::micro_time(at(0)), "the last write renews nothing");

    let known = parsed(&object).known;
    merge(&mut object, &patch(&write(Some(2)), &"1".into(), Some(&known), at(9)));
    assert_eq!(object["spec"]["leaseTransitions"], 2);
    assert_eq!(object["spec"]["acquireTime"], text::micro_time(at(9)));
}

/// The annotations may be those of another version of the agent, or of a person.
#[test]
fn who_ends_a_session_of_another_node_changes_nothing_else_there() {
    let ended = |kept: Option<u64>| LeaseWrite { ended: vec![session(7), session(1)], ..write(kept) };
    for (kept, holder, description) in [
        (None, Value::Null, "the node is silent"),
        (Some(2), "node-a/0000000000000002".into(), "it lives in another session"),
    ] {
        let mut object = created(&write(Some(2)));
        object["metadata"]["annotations"]["vipward.io/interfaces"] = "unreadable".into();
        let mut expected = object.clone();
        merge(&mut object, &patch_ended(&ended(kept), &"1".into()));
        expected["metadata"]["annotations"]["vipward.io/ended"] = "0000000000000007,0000000000000001".into();
        merge(&mut expected, &serde_json::json!({"spec": {"renewTime": null, "holderIdentity": holder}}));
        assert_eq!(object, expected, "{description}");
        let read = parsed(&object);
        assert_eq!((read.record.session, read.is_ours), (kept.map(session), true), "{description}");
    }
}

#[test]
fn the_missing_lease_of_another_node_is_created_with_ended_sessions_only() {
    let object = creation_ended(&LeaseWrite { ended: vec![session(7)], ..write(None) });
    let expected = serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "node-a",
            "labels": {"app.kubernetes.io/managed-by": "vipward"},
            "annotations": {"vipward.io/ended": "0000000000000007"},
        },
    });
    assert_eq!(object, expected);
    let read = parsed(&object);
    assert_eq!((read.record.session, read.record.ended, read.is_ours), (None, vec![session(7)], true));
}

/// The API server refuses larger numbers, and the Lease could never be written again.
#[test]
fn however_transitions_were_edited_they_stay_numbers_of_32_bits() {
    let rows = [(i64::from(i32::MAX), i32::MAX), (i64::MAX, i32::MAX), (-9, 0), (7, 8)];
    for (edited, expected) in rows {
        let mut object = created(&write(Some(1)));
        object["spec"]["leaseTransitions"] = edited.into();
        let known = parsed(&object).known;
        let patch = patch(&write(None), &"1".into(), Some(&known), at(5));
        assert_eq!(patch["spec"]["leaseTransitions"], expected, "after {edited}");
    }
}

#[test]
fn every_patch_is_a_compare_and_swap() {
    for patch in [patch(&write(Some(1)), &"41".into(), None, at(0)), patch_ended(&write(None), &"41".into())]
    {
        assert_eq!(patch["metadata"]["resourceVersion"], "41");
    }
}

#[test]
fn what_names_no_session_or_no_duration_is_blank() {
    let rows = [
        ("/spec/holderIdentity", Value::Null, "blanked"),
        ("/spec/holderIdentity", "".into(), "empty"),
        ("/spec/holderIdentity", "node-a".into(), "no session"),
        ("/spec/holderIdentity", "node-b/000000000000001d".into(), "another node's"),
        ("/spec/holderIdentity", "node-a/0000000000000000".into(), "session zero"),
        ("/spec/holderIdentity", "node-a/x".into(), "no number"),
        ("/spec/holderIdentity", 5.into(), "a number"),
        ("/spec/leaseDurationSeconds", 60.into(), "another duration than the exact one"),
        ("/spec/leaseDurationSeconds", Value::Null, "no duration"),
        ("/metadata/annotations/vipward.io~1duration", "1m".into(), "another exact duration"),
        ("/metadata/annotations/vipward.io~1duration", "soon".into(), "no duration in words"),
        ("/metadata/annotations", Value::Null, "no annotations"),
        ("/spec", Value::Null, "nothing at all"),
    ];
    assert_eq!(parsed(&created(&write(Some(0x1d)))).record.session, Some(session(0x1d)));
    for (path, value, description) in rows {
        let mut object = created(&write(Some(0x1d)));
        *object.pointer_mut(path).expect("there is such a field") = value;
        assert_eq!(parsed(&object).record.session, None, "{description}");
        assert_eq!(parsed(&object).record.node, "node-a".into(), "{description}");
    }
}

#[test]
fn leases_of_agents_are_recognised_by_their_contents() {
    let other = serde_json::json!({
        "metadata": {"name": "some-controller", "resourceVersion": "3"},
        "spec": {"holderIdentity": "some-controller-7f/1", "leaseDurationSeconds": 15},
    });
    assert!(!parsed(&other).is_ours);
    let ours = created(&write(None));
    assert!(parsed(&ours).is_ours);
    for path in ["/metadata/labels", "/metadata/annotations", "/spec"] {
        let mut edited = ours.clone();
        *edited.pointer_mut(path).expect("there is such a field") = Value::Null;
        assert!(parsed(&edited).is_ours, "without {path}");
    }
}

#[test]
fn interfaces_that_make_no_sense_are_left_out() {
    let mut object = created(&write(Some(1)));
    let interfaces = r#"[{"name":"eth0","mac":"zz","subnets":[],"carrier":true},
        {"name":"eth0\n","mac":"02:00:00:00:01:03","subnets":[],"carrier":true},
        {"name":"sixteenbytesname","mac":"02:00:00:00:01:04","subnets":[],"carrier":true},
        {"name":"eth1","mac":"02:00:00:00:01:02","subnets":["192.0.2.0/24","?"],"carrier":false}]"#;
    object["metadata"]["annotations"]["vipward.io/interfaces"] = interfaces.into();
    let record = parsed(&object).record;
    assert_eq!(record.interfaces.len(), 1);
    assert_eq!(*record.interfaces[0].name, *"eth1");
    assert_eq!(record.interfaces[0].subnets, ["192.0.2.0/24".parse::<IpNet>().expect("a subnet")]);

    object["metadata"]["annotations"]["vipward.io/interfaces"] = "{".into();
    assert_eq!(parsed(&object).record.interfaces, []);
    assert_eq!(parsed(&object).record.session, Some(session(1)));
}

#[test]
fn the_last_eight_ended_sessions_are_kept() {
    let mut lease = write(None);
    lease.ended = (1..=10).map(session).collect();
    assert_eq!(parsed(&created(&lease)).record.ended, (3..=10).map(session).collect::<Vec<_>>());

    let mut object = created(&lease);
    object["metadata"]["annotations"]["vipward.io/ended"] = "x,0000000000000009, 000000000000000a,".into();
    assert_eq!(parsed(&object).record.ended, [session(9), session(10)]);
}

fn any_interface() -> impl Strategy<Value = NodeInterface> {
    let subnet = (any::<[u8; 4]>(), 0..=32_u8)
        .prop_map(|(address, len)| IpNet::new(address.into(), len).expect("at most 32"));
    let addresses = || proptest::collection::vec(any::<[u8; 4]>().prop_map(IpAddr::from), 0..3);
    let fault = proptest::sample::select(VipFault::ALL.to_vec());
    let unreached = (any::<[u8; 4]>(), any::<u64>(), fault).prop_map(|(vip, epoch, fault)| Unreached {
        vip: vip.into(),
        epoch: Epoch(epoch),
        fault,
    });
    let unreached = proptest::collection::vec(unreached, 0..3);
    let nets = (proptest::collection::vec(subnet, 0..3), addresses(), addresses(), addresses(), unreached);
    let altnames = proptest::collection::vec("[a-z][a-z0-9.]{0,126}".prop_map(Arc::from), 0..3);
    ("[a-z][a-z0-9.]{0,14}", altnames, any::<[u8; 5]>(), nets, any::<bool>()).prop_map(
        |(name, altnames, [b, c, d, e, f], (subnets, bound, gateways, last_for, unreached), carrier)| {
            NodeInterface {
                name: name.into(),
                altnames,
                mac: MacAddr([2, b, c, d, e, f]),
                subnets,
                bound,
                gateways,
                carrier,
                last_for,
                unreached,
            }
        },
    )
}

#[test]
fn a_lease_that_lists_thousands_of_addresses_reserves_a_bounded_number() {
    let many = |from: u32| (from..from + 3_000).map(|number| Ipv4Addr::from(number).to_string());
    let interface = |name: &str, from| {
        let subnets: Vec<_> = many(from).map(|address| format!("{address}/24")).collect();
        let (bound, gateways) =
            (many(from + 10_000).collect::<Vec<_>>(), many(from + 20_000).collect::<Vec<_>>());
        serde_json::json!({"name": name, "mac": "02:00:00:00:01:02", "subnets": subnets, "bound": bound,
            "gateways": gateways, "carrier": true})
    };
    let mut object = created(&write(Some(1)));
    let interfaces = serde_json::json!([interface("eth0", 0x0a00_0000), interface("eth1", 0x0b00_0000)]);
    object["metadata"]["annotations"]["vipward.io/interfaces"] = interfaces.to_string().into();
    let interfaces = parsed(&object).record.interfaces;
    let count = |of: fn(&NodeInterface) -> usize| interfaces.iter().map(of).sum::<usize>();
    assert_eq!(count(|interface| interface.subnets.len()), 256);
    assert_eq!(count(|interface| interface.bound.len()), 64);
    assert_eq!(count(|interface| interface.gateways.len()), 64);
}

fn any_write() -> impl Strategy<Value = LeaseWrite> {
    (
        proptest::option::of(1..=u64::MAX),
        proptest::collection::vec(1..=u64::MAX, 0..=8),
        1..=100_000_u64,
        proptest::collection::vec(any_interface(), 0..4),
        proptest::bool::ANY,
        proptest::option::of(any_offer()),
        proptest::option::of(any_proxy()),
    )
        .prop_map(|(number, ended, millis, interfaces, leaving, wire, proxy)| LeaseWrite {
            node: "node-a".into(),
            expected: Expected::Absent,
            session: number.map(session),
            ended: ended.into_iter().map(session).collect(),
            duration: Duration::from_millis(millis),
            interfaces,
            leaving,
            wire,
            proxy,
        })
}

fn any_proxy() -> impl Strategy<Value = Proxy> {
    let port = (proptest::num::u16::ANY, proptest::bool::ANY)
        .prop_map(|(number, is_ipv6)| HealthPort { number, is_ipv6 });
    let delivers = proptest::sample::select(vec![Delivers::Yes, Delivers::Unreached]);
    prop_oneof![
        Just(Proxy::Starting),
        Just(Proxy::Silent),
        proptest::collection::btree_map(port, delivers, 0..4).prop_map(Proxy::Delivers),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_whatever_stood_there(first in any_write(), second in any_write()) {
        let as_read = |write: &LeaseWrite, version: &str| LeaseRecord {
            node: write.node.clone(),
            version: version.into(),
            session: write.session,
            ended: write.ended.clone(),
            duration: write.duration,
            interfaces: write.interfaces.clone(),
            leaving: write.leaving,
            wire: write.wire.clone(),
            proxy: write.proxy.clone(),
        };
        let mut object = created(&first);
        let Read { record, known, .. } = parsed(&object);
        prop_assert_eq!(record, as_read(&first, "1"));

        merge(&mut object, &patch(&second, &"1".into(), Some(&known), at(1)));
        prop_assert_eq!(parsed(&object).record, as_read(&second, "1"));
    }

    #[test]
    fn any_bytes_can_be_read(text in ".{0,200}") {
        prop_assert!(read(&text).is_err());
    }

    #[test]
    fn any_holder_and_annotation_can_be_read(holder in ".{0,40}", annotation in ".{0,60}") {
        let mut object = created(&write(Some(1)));
        object["spec"]["holderIdentity"] = holder.into();
        for name in ["duration", "ended", "interfaces", "wire"] {
            object["metadata"]["annotations"][format!("vipward.io/{name}")] = annotation.clone().into();
        }
        let _ = parsed(&object);
    }
}
