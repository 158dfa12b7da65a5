mod random;
mod showing;

use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use vipward_common::MacAddr;
use vipward_core::{
    ownership::{ClaimWrite, Expected},
    records::{
        ClaimNote, ClaimRecord, ClaimState, Epoch, Holder, Reservation, ServiceName, Session, Version,
    },
    reports::claim_findings::Finding,
};

use super::*;
use crate::shell::kube::{
    kinds::{
        text,
        virtual_ip::{FINALIZER, MOVE_TO, RELEASE},
    },
    testing::merge,
};

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).expect("in range")
}

fn session(number: u64) -> Session {
    Session::from_number(number).expect("not zero")
}

fn holder(node: &str) -> Holder {
    Holder {
        node: node.into(),
        session: session(0x1d),
        mac: MacAddr([2, 0, 0, 0, 1, 1]),
        interface: "eth0".into(),
    }
}

fn write(expected: Expected, epoch: u64, state: ClaimState) -> ClaimWrite {
    ClaimWrite { vip: VIP, expected, epoch: Epoch(epoch), state, note: ClaimNote::default(), can_wait: false }
}

/// Returns the object that the API server stores after a creation or a patch.
fn stored(object: &Value, version: &str) -> String {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = version.into();
    object.to_string()
}

fn created(write: &ClaimWrite, now: Timestamp) -> Value {
    let mut object = creation(write, now);
    object["metadata"]["uid"] = "u-1".into();
    object["metadata"]["resourceVersion"] = "1".into();
    object
}

fn condition_of(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().expect("a list");
    conditions.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or(Value::Null)
}

fn spec() -> Value {
    serde_json::json!({
        "address": "192.0.2.10", "epoch": 7, "holder": "a", "session": "000000000000001d",
        "mac": "02:00:00:00:01:01", "interface": "eth0",
    })
}

fn read_spec(spec: &Value) -> ClaimRecord {
    let object = serde_json::json!({
        "metadata": {"name": "192.0.2.10", "resourceVersion": "5", "finalizers": [FINALIZER]}, "spec": spec,
    });
    read(&object.to_string()).expect("a claim").0
}

#[test]
fn a_claim_of_the_documented_form_is_held() {
    let record = read_spec(&spec());
    assert_eq!(record.state, ClaimState::Held(holder("a")));
    assert_eq!((record.vip, record.epoch, record.version), (VIP, Epoch(7), "5".into()));
}

#[test]
fn what_does_not_say_one_thing_clearly_is_blank() {
    type Edit = (&'static str, Value);
    let rows: &[(&[Edit], &str)] = &[
        (&[("holder", Value::Null)], "no holder"),
        (&[("holder", "".into())], "an empty holder"),
        (&[("holder", 5.into())], "a holder that is a number"),
        (&[("session", Value::Null)], "no session"),
        (&[("session", "1d".into())], "a short session"),
        (&[("session", "0000000000000000".into())], "session zero"),
        (&[("session", "zz0000000000001d".into())], "a session that is no number"),
        (&[("mac", Value::Null)], "no MAC"),
        (&[("mac", "eth0".into())], "a MAC that is none"),
        (&[("mac", "ff:ff:ff:ff:ff:ff".into())], "a MAC that no host can have"),
        (&[("interface", Value::Null)], "no interface"),
        (&[("released", true.into())], "released, and still held"),
        (&[("address", "192.0.2.11".into())], "another address"),
        (&[("address", Value::Null)], "no address"),
        (&[("offeredBy", serde_json::json!({"node": "b"}))], "offered without a session"),
        (
            &[("offeredBy", serde_json::json!({"node": "", "session": "000000000000001d"}))],
            "offered by no node",
        ),
        (&[("offeredBy", serde_json::json!({"node": "b", "session": "?"}))], "offered in no session"),
        (&[("offeredBy", "b".into())], "an offer of another form"),
        (&[("released", "yes".into())], "a release of another form"),
        (&[("epoch", (-1).into()), ("session", Value::Null)], "a negative epoch, too"),
    ];
    for (edits, description) in rows {
        let mut spec = spec();
        for (field, value) in *edits {
            spec[field] = value.clone();
        }
        assert_eq!(read_spec(&spec).state, ClaimState::Blank, "{description}");
    }
    let released_and_named =
        serde_json::json!({"address": "192.0.2.10", "released": true, "mac": "02:00:00:00:01:01"});
    assert_eq!(read_spec(&released_and_named).state, ClaimState::Blank);
    assert_eq!(read_spec(&Value::Null).state, ClaimState::Blank, "no spec at all");
    assert_eq!(
        read_spec(&serde_json::json!({"address": "192.0.2.10"})).state,
        ClaimState::Blank,
        "no holder"
    );
}

#[test]
fn the_epoch_survives_when_the_rest_of_the_claim_is_garbage() {
    let mut spec = spec();
    spec["holder"] = serde_json::json!(["a"]);
    let record = read_spec(&spec);
    assert_eq!((record.epoch, record.state), (Epoch(7), ClaimState::Blank));
}

#[test]
fn an_object_that_is_named_after_no_address_is_no_claim() {
    for name in [
        "web",
        "192.0.2",
        "192.0.2.010",
        "192-0-2-10",
        "",
        "2001:db8::1",
        "2001-db8--1",
        "2001-0DB8-0000-0000-0000-0000-0000-0001",
        "2001-0db8-0000-0000-0000-0000-0001",
        "0000-0000-0000-0000-0000-ffff-192.0.2.10",
    ] {
        let object = serde_json::json!({"metadata": {"name": name}, "spec": spec()});
        assert!(matches!(read(&object.to_string()), Err(ClaimError::Name { .. })), "{name}");
    }
}

#[test]
fn an_object_of_ipv6_has_the_address_in_its_name_in_full() {
    const NAME: &str = "2001-0db8-0000-0000-0000-0000-00c0-0010";
    let vip = "2001:db8::c0:10".parse().expect("an address");
    let write = ClaimWrite { vip, ..write(Expected::Absent, 1, ClaimState::Held(holder("a"))) };
    let mut object = created(&write, at(0));
    assert_eq!(
        (&object["metadata"]["name"], &object["spec"]["address"]),
        (&NAME.into(), &"2001:db8::c0:10".into())
    );
    let (read_back, _) = read(&object.to_string()).expect("a claim");
    assert_eq!((read_back.vip, read_back.state), (vip, ClaimState::Held(holder("a"))));
    // Another address than the name's, and another spelling, are no claim.
    for address in ["2001:db8::c0:11", "2001:0db8::c0:10", "192.0.2.10"] {
        object["spec"]["address"] = address.into();
        let (read_back, _) = read(&object.to_string()).expect("an object");
        assert_eq!((read_back.vip, read_back.state), (vip, ClaimState::Blank), "{address}");
    }
}

#[test]
fn the_wish_of_an_operator_is_read_and_cleared_by_the_next_write() {
    let held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
    let mut object = created(&held, at(0));
    object["metadata"]["annotations"] = serde_json::json!({MOVE_TO: "b", "example.com/note": "stays"});
    let (record, known) = read(&object.to_string()).expect("a claim");
    assert_eq!(record.move_to, Some("b".into()));

    merge(&mut object, &patch(&held, &known, at(1)));
    assert_eq!(object["metadata"]["annotations"], serde_json::json!({"example.com/note": "stays"}));
}

#[test]
fn the_wish_to_release_goes_with_the_reservation_and_not_before() {
    let service = ServiceName { namespace: "apps".into(), name: "web".into() };
    let reserved = Reservation { service, pool: Some("lan".into()), kept: None };
    let mut object = reserving(VIP, &reserved, at(0));
    object["metadata"]["resourceVersion"] = "1".into();
    object["metadata"]["annotations"] = serde_json::json!({RELEASE: "true", "example.com/note": "stays"});
    let (record, known) = read(&object.to_string()).expect("a claim");
    assert_eq!((record.release, record.reservation.as_deref()), (true, Some(&reserved)));

    let kept = Reservation { kept: Some(Some(1_700_000_000)), ..reserved };
    merge(&mut object, &reservation(Some(&kept), &known));
    let (record, known) = read(&object.to_string()).expect("a claim");
    assert_eq!((record.release, record.reservation.as_deref()), (true, Some(&kept)));

    // An agent's write leaves it, too.
    merge(&mut object, &patch(&write(Expected::Absent, 1, ClaimState::Held(holder("a"))), &known, at(1)));
    let (record, known) = read(&object.to_string()).expect("a claim");
    assert!(record.release && record.reservation.is_some());

    merge(&mut object, &reservation(None, &known));
    let (record, _) = read(&object.to_string()).expect("a claim");
    assert_eq!((record.release, record.reservation), (false, None));
    assert_eq!(object["metadata"]["annotations"], serde_json::json!({"example.com/note": "stays"}));
}

#[test]
fn since_moves_with_the_epoch_only() {
    let held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
    let mut object = created(&held, at(0));
    let since = object["spec"]["since"].clone();

    let (_, known) = read(&object.to_string()).expect("a claim");
    let mut noted = held.clone();
    noted.note.cause = "because".to_owned();
    merge(&mut object, &patch(&noted, &known, at(10)));
    assert_eq!(object["spec"]["since"], since);
    assert_eq!(object["spec"]["cause"], "because");

    let (_, known) = read(&object.to_string()).expect("a claim");
    let moved = write(Expected::Absent, 2, ClaimState::Held(holder("b")));
    merge(&mut object, &patch(&moved, &known, at(20)));
    assert_eq!(object["spec"]["since"], text::time(at(20)));
}

#[test]
fn a_condition_keeps_its_time_while_its_status_is_the_same() {
    let held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
    let mut object = created(&held, at(0));
    assert_eq!(condition_of(&object, "Held")["status"], "True");
    assert_eq!(condition_of(&object, "Trouble")["status"], "False");

    let (_, known) = read(&object.to_string()).expect("a claim");
    let mut troubled = write(Expected::Absent, 2, ClaimState::Released);
    troubled.note.trouble = Some("a: cordoned".to_owned());
    merge(&mut object, &patch(&troubled, &known, at(10)));
    for (kind, status) in [("Held", "False"), ("Trouble", "True")] {
        let condition = condition_of(&object, kind);
        assert_eq!(condition["status"], status);
        assert_eq!(condition["message"], "a: cordoned");
        assert_eq!(condition["lastTransitionTime"], text::time(at(10)));
    }
    assert_eq!(object["status"]["trouble"], "a: cordoned");

    let (_, known) = read(&object.to_string()).expect("a claim");
    troubled.note.trouble = Some("a: not ready".to_owned());
    merge(&mut object, &patch(&troubled, &known, at(20)));
    assert_eq!(condition_of(&object, "Trouble")["message"], "a: not ready");
    assert_eq!(condition_of(&object, "Trouble")["lastTransitionTime"], text::time(at(10)));

    let (_, known) = read(&object.to_string()).expect("a claim");
    merge(&mut object, &patch(&held, &known, at(30)));
    assert_eq!(object["status"]["trouble"], Value::Null);
    assert_eq!(condition_of(&object, "Held")["lastTransitionTime"], text::time(at(30)));
}

#[test]
fn finalizers_of_others_stay_and_that_of_builds_before_goes() {
    let held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
    let rows = [
        (vec![FINALIZER], "just Vipward's"),
        (vec![], "none"),
        (vec!["example.com/x"], "another's only"),
        (vec![FINALIZER, "example.com/x"], "both"),
    ];
    for (before, description) in rows {
        let mut object = created(&held, at(0));
        object["metadata"]["finalizers"] = serde_json::json!(before);
        let (_, known) = read(&object.to_string()).expect("a claim");
        let (mut gone, held_by_a) = (object.clone(), object["spec"].clone());
        merge(&mut object, &patch(&held, &known, at(1)));
        let others: Vec<_> = before.iter().filter(|finalizer| **finalizer != FINALIZER).collect();
        assert_eq!(object["metadata"]["finalizers"], serde_json::json!(others), "{description}");

        let patch = letting_go(&known, &"a".into());
        assert_eq!(patch.is_some(), others.len() < before.len(), "{description}");
        merge(&mut gone, &patch.unwrap_or_else(|| serde_json::json!({})));
        assert_eq!(gone["spec"], held_by_a, "{description}");
        assert_eq!(
            gone["metadata"]["finalizers"],
            serde_json::json!(others),
            "letting go with {description}"
        );
        assert_eq!(is_kept_by_others(&known), !others.is_empty(), "{description}");
    }
}

#[test]
fn the_claim_of_a_dead_node_is_released_by_the_write_that_lets_go_of_it() {
    let offered =
        |to: &str, from: &str| ClaimState::Offered { to: holder(to), from: (from.into(), session(2)) };
    let rows = [
        (ClaimState::Held(holder("a")), false, "held here"),
        (ClaimState::Held(holder("b")), true, "held by another"),
        (offered("b", "a"), false, "offered by this node"),
        (offered("a", "b"), false, "offered to this node"),
        (offered("b", "c"), true, "offered by another to another"),
        (ClaimState::Released, false, "released already"),
    ];
    for (state, is_released, description) in rows {
        let mut object = created(&write(Expected::Absent, 7, state.clone()), at(0));
        let (record, known) = read(&object.to_string()).expect("a claim");
        let patch = letting_go(&known, &"a".into());
        assert_eq!(patch.is_some(), is_released, "{description}: the deletion is enough");
        merge(&mut object, &patch.unwrap_or_else(|| serde_json::json!({})));
        let (gone, _) = read(&object.to_string()).expect("a claim");
        let expected = if is_released { ClaimState::Released } else { state };
        assert_eq!((gone.state, gone.epoch), (expected, record.epoch), "{description}");
    }
}

#[test]
fn a_claim_that_names_another_node_without_its_session_is_released_too() {
    let mut object = created(&write(Expected::Absent, 7, ClaimState::Held(holder("b"))), at(0));
    object["spec"]["session"] = Value::Null;
    let (record, known) = read(&object.to_string()).expect("a claim");
    assert_eq!(record.state, ClaimState::Blank);
    let patch = letting_go(&known, &"a".into()).expect("a patch");
    assert_eq!((&patch["spec"]["holder"], &patch["spec"]["released"]), (&Value::Null, &true.into()));
}

#[test]
fn every_patch_is_a_compare_and_swap() {
    let held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
    let object = stored(&creation(&held, at(0)), "41");
    let (record, known) = read(&object).expect("a claim");
    let shown =
        |finding| showing(&record, &known, &object, &finding, at(1)).expect("a claim").expect("a patch");
    for patch in [
        patch(&held, &known, at(1)),
        letting_go(&known, &"b".into()).expect("a patch"),
        shown(Finding::Conflict(None)),
        shown(Finding::Answers(session(0x1d), None)),
    ] {
        assert_eq!(patch["metadata"]["resourceVersion"], "41");
    }
}

#[test]
fn what_was_seen_last_is_known_whatever_its_version() {
    let known = |version: &str| {
        let held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
        read(&stored(&creation(&held, at(0)), version)).expect("a claim").1
    };
    let all = KnownClaims::default();
    for version in ["9", "10", "9", "x"] {
        all.learn(VIP, known(version));
        assert_eq!(all.latest(VIP).map(|known| known.version), Some(version.into()));
    }
    all.forget(VIP);
    assert!(all.latest(VIP).is_none());
}

#[test]
fn a_response_takes_the_place_only_of_what_was_known_when_its_request_was_sent() {
    let known = |version: &str| {
        let held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
        read(&stored(&creation(&held, at(0)), version)).expect("a claim").1
    };
    let latest = |before: Option<&str>, shown: Option<&str>| {
        let all = KnownClaims::default();
        // The watch shows an object, or that it is gone, between the request and its response.
        if let Some(shown) = shown {
            all.learn(VIP, known(shown));
        }
        all.learn_since(before.map(Version::from).as_ref(), VIP, known("5"));
        all.latest(VIP).map(|known| known.version)
    };
    assert_eq!(latest(None, None), Some("5".into()), "it was created");
    assert_eq!(latest(Some("9"), Some("9")), Some("5".into()), "it was written, in a store that went back");
    assert_eq!(latest(Some("4"), Some("7")), Some("7".into()), "the watch has shown a later write");
    assert_eq!(latest(Some("4"), None), None, "the watch has shown that it is gone");
}

#[test]
fn a_creation_has_no_finalizer_and_no_nulls() {
    let object = creation(&write(Expected::Absent, 0, ClaimState::Released), at(0));
    assert_eq!(object["metadata"]["name"], "192.0.2.10");
    assert_eq!(object["metadata"]["finalizers"], Value::Null);
    assert!(!object.to_string().contains("null"), "{object}");
    let typed: crate::shell::kube::VirtualIP = serde_json::from_value(object).expect("it is a VirtualIP");
    assert_eq!(typed.spec.released, Some(true));
}
