use proptest::prelude::*;
use vipward_common::MacAddr;

use super::*;
use crate::{
    core::{cluster::ServiceName, ownership::Expected},
    shell::kube::testing::merge,
};

const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

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

/// What the API server makes of a creation or a patch.
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
        (&[("mac", "ff:ff:ff:ff:ff:ff".into())], "a MAC that nobody can have"),
        (&[("interface", Value::Null)], "no interface"),
        (&[("released", true.into())], "released, and still held"),
        (&[("address", "192.0.2.11".into())], "another address"),
        (&[("address", Value::Null)], "no address"),
        (&[("offeredBy", serde_json::json!({"node": "b"}))], "offered without a session"),
        (
            &[("offeredBy", serde_json::json!({"node": "", "session": "000000000000001d"}))],
            "offered by nobody",
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
    assert_eq!(read_spec(&serde_json::json!({"address": "192.0.2.10"})).state, ClaimState::Blank, "nobody");
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
    for name in ["web", "2001:db8::1", "192.0.2", "192.0.2.010", ""] {
        let object = serde_json::json!({"metadata": {"name": name}, "spec": spec()});
        assert!(matches!(read(&object.to_string()), Err(ClaimError::Name { .. })), "{name}");
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
fn a_conflict_is_shown_until_it_is_over_or_the_vip_moves() {
    let held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
    let mut object = created(&held, at(0));
    let (_, known) = read(&object.to_string()).expect("a claim");
    let told =
        conflict(&known, &object.to_string(), Some("02:00:00:00:00:66 claims it"), at(5)).expect("a claim");
    merge(&mut object, &told);
    assert_eq!(object["status"]["conflict"], "02:00:00:00:00:66 claims it");
    assert_eq!(condition_of(&object, "Conflict")["status"], "True");
    assert_eq!(condition_of(&object, "Held")["status"], "True");

    let (record, known) = read(&object.to_string()).expect("a claim");
    assert_eq!(record.state, ClaimState::Held(holder("a")));
    merge(&mut object, &patch(&held, &known, at(10)));
    assert_eq!(object["status"]["conflict"], "02:00:00:00:00:66 claims it", "a write that moves nothing");
    assert_eq!(condition_of(&object, "Conflict")["lastTransitionTime"], text::time(at(5)));

    let mut over = object.clone();
    let (_, known) = read(&over.to_string()).expect("a claim");
    merge(&mut over, &conflict(&known, &object.to_string(), None, at(20)).expect("a claim"));
    assert_eq!(over["status"]["conflict"], Value::Null);
    assert_eq!(condition_of(&over, "Conflict")["status"], "False");
    assert_eq!(condition_of(&over, "Conflict")["lastTransitionTime"], text::time(at(20)));

    let held_by_another = write(Expected::Absent, 2, ClaimState::Held(holder("b")));
    let released = write(Expected::Absent, 1, ClaimState::Released);
    for next in [held_by_another, released] {
        let mut object = object.clone();
        merge(&mut object, &patch(&next, &known, at(30)));
        assert_eq!(object["status"]["conflict"], Value::Null, "{next:?}");
        assert_eq!(condition_of(&object, "Conflict")["status"], "False", "{next:?}");
    }
}

#[test]
fn of_an_address_in_use_the_conflict_stays_while_nobody_has_the_vip() {
    let released = write(Expected::Absent, 0, ClaimState::Released);
    let mut object = created(&released, at(0));
    let (_, known) = read(&object.to_string()).expect("a claim");
    let told = conflict(&known, &object.to_string(), Some("in use"), at(5)).expect("a claim");
    merge(&mut object, &told);
    let (_, known) = read(&object.to_string()).expect("a claim");
    merge(&mut object, &patch(&released, &known, at(10)));
    assert_eq!(object["status"]["conflict"], "in use");
}

#[test]
fn finalizers_of_others_stay_and_ours_is_put_back() {
    let held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
    let rows = [
        (vec![FINALIZER], vec![FINALIZER], "just ours"),
        (vec![], vec![FINALIZER], "none"),
        (vec!["example.com/x"], vec!["example.com/x", FINALIZER], "another's only"),
        (vec![FINALIZER, "example.com/x"], vec![FINALIZER, "example.com/x"], "both"),
    ];
    for (before, after, description) in rows {
        let mut object = created(&held, at(0));
        object["metadata"]["finalizers"] = serde_json::json!(before);
        let (_, known) = read(&object.to_string()).expect("a claim");
        let mut gone = object.clone();
        merge(&mut object, &patch(&held, &known, at(1)));
        assert_eq!(object["metadata"]["finalizers"], serde_json::json!(after), "{description}");

        merge(&mut gone, &letting_go(&known));
        let others: Vec<_> = before.iter().filter(|finalizer| **finalizer != FINALIZER).collect();
        assert_eq!(
            gone["metadata"]["finalizers"],
            serde_json::json!(others),
            "letting go with {description}"
        );
        assert_eq!(is_kept_by_others(&known), !others.is_empty(), "{description}");
    }
}

#[test]
fn every_patch_is_a_compare_and_swap() {
    let held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
    let object = stored(&creation(&held, at(0)), "41");
    let (_, known) = read(&object).expect("a claim");
    for patch in [
        patch(&held, &known, at(1)),
        letting_go(&known),
        conflict(&known, &object, None, at(1)).expect("a claim"),
    ] {
        assert_eq!(patch["metadata"]["resourceVersion"], "41");
    }
}

#[test]
fn what_is_older_does_not_replace_what_is_known() {
    let known = |version: &str| {
        let held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
        read(&stored(&creation(&held, at(0)), version)).expect("a claim").1
    };
    let all = KnownClaims::default();
    all.learn(VIP, known("9"));
    all.learn(VIP, known("10"));
    all.learn(VIP, known("9"));
    assert_eq!(all.latest(VIP).map(|known| known.version), Some("10".into()));
    // A server may have other versions than numbers.
    all.learn(VIP, known("x"));
    assert_eq!(all.latest(VIP).map(|known| known.version), Some("x".into()));
    all.forget(VIP);
    assert!(all.latest(VIP).is_none());
}

#[test]
fn a_creation_has_our_finalizer_and_no_nulls() {
    let object = creation(&write(Expected::Absent, 0, ClaimState::Released), at(0));
    assert_eq!(object["metadata"]["name"], "192.0.2.10");
    assert_eq!(object["metadata"]["finalizers"], serde_json::json!([FINALIZER]));
    assert!(!object.to_string().contains("null"), "{object}");
    let typed: crate::shell::kube::VirtualIP = serde_json::from_value(object).expect("it is a VirtualIP");
    assert_eq!(typed.spec.released, Some(true));
}

fn any_holder() -> impl Strategy<Value = Holder> {
    ("[a-z][a-z0-9.-]{0,20}", 1..=u64::MAX, any::<[u8; 5]>(), "[a-z][a-z0-9.]{0,14}").prop_map(
        |(node, number, [b, c, d, e, f], interface)| Holder {
            node: node.as_str().into(),
            session: session(number),
            mac: MacAddr([2, b, c, d, e, f]),
            interface: interface.into(),
        },
    )
}

fn any_state() -> impl Strategy<Value = ClaimState> {
    prop_oneof![
        any_holder().prop_map(ClaimState::Held),
        (any_holder(), "[a-z]{1,8}", 1..=u64::MAX).prop_map(|(to, node, number)| ClaimState::Offered {
            to,
            from: (node.as_str().into(), session(number))
        }),
        Just(ClaimState::Released),
        Just(ClaimState::Blank),
    ]
}

fn any_note() -> impl Strategy<Value = ClaimNote> {
    let name = ("[a-z]{1,6}", "[a-z0-9-]{1,6}")
        .prop_map(|(namespace, name)| ServiceName { namespace: namespace.into(), name: name.into() });
    (proptest::collection::vec(name, 0..4), ".{0,40}", proptest::option::of(".{0,40}"))
        .prop_map(|(services, cause, trouble)| ClaimNote { services, cause, trouble })
}

fn any_write() -> impl Strategy<Value = ClaimWrite> {
    (any::<[u8; 4]>(), 0..=i64::MAX.unsigned_abs(), any_state(), any_note()).prop_map(
        |(vip, epoch, state, note)| ClaimWrite {
            vip: vip.into(),
            expected: Expected::Absent,
            epoch: Epoch(epoch),
            state,
            note,
            can_wait: false,
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_whatever_stood_there(first in any_write(), mut second in any_write()) {
        second.vip = first.vip;
        let mut object = created(&first, at(0));
        let (record, known) = read(&object.to_string()).expect("a claim");
        prop_assert_eq!((record.vip, record.epoch, &record.state, &record.note),
            (first.vip, first.epoch, &first.state, &first.note));

        merge(&mut object, &patch(&second, &known, at(1)));
        let (record, _) = read(&object.to_string()).expect("a claim");
        prop_assert_eq!((record.vip, record.epoch, &record.state, &record.note),
            (second.vip, second.epoch, &second.state, &second.note));
    }

    #[test]
    fn a_claim_that_is_cut_short_is_never_read_as_held(first in any_write(), part in 0.0..1.0) {
        let whole = created(&first, at(0)).to_string();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "some place in the text")]
        let cut = (whole.len() as f64 * part) as usize;
        prop_assert!(whole.get(..cut).is_none_or(|text| read(text).is_err()));
    }

    #[test]
    fn any_bytes_can_be_read(text in ".{0,200}") {
        prop_assert!(read(&text).is_err());
    }

    #[test]
    fn any_spec_can_be_read(field in "(address|epoch|holder|session|mac|interface|released|offeredBy|since|services|cause)", value in ".{0,20}") {
        let mut edited = spec();
        edited[&*field] = value.into();
        let _ = read_spec(&edited);
    }
}
