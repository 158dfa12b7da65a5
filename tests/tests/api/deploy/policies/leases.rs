//! Writes of Leases by the agent of node `a`.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    Row, check,
    engine::{CONTROLLER, Policies, Write},
    patched,
};

const SESSION: &str = "0000000000000001";
const ENDED: &str = "vipward.io/ended";
const LABEL: &str = "app.kubernetes.io/managed-by";
/// A part of the message about labels.
const LABELS: Option<&str> = Some("agents change no other label");

fn lease(node: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": node, "namespace": "vipward-system",
            "labels": {"app.kubernetes.io/managed-by": "vipward"},
            "annotations": {
                "vipward.io/duration": "4s", (ENDED): "00000000000000e1", "vipward.io/interfaces": "[]",
                "vipward.io/leaving": "false",
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": "u-1"}],
        },
        "spec": {
            "holderIdentity": format!("{node}/{SESSION}"), "leaseDurationSeconds": 4, "leaseTransitions": 2,
            "acquireTime": "2026-11-23T10:00:00.000000Z", "renewTime": "2026-11-23T11:00:00.000000Z",
        },
    })
}

fn unlabelled(node: &str) -> Value {
    patched(&lease(node), &json!({"metadata": {"labels": null}}))
}

fn write(before: Option<Value>, after: Value) -> Write {
    Write::new("coordination.k8s.io", "leases", before, Some(after))
}

/// Returns a change of the Lease of node `b` from what an earlier change has left.
fn change_of(before: &Value, patch: &Value) -> Write {
    write(Some(before.clone()), patched(before, patch))
}

fn change(patch: &Value) -> Write {
    change_of(&lease("b"), patch)
}

/// Returns the patch by which an agent ends the session that the Lease carries.
fn expiring() -> Value {
    json!({
        "metadata": {"annotations": {(ENDED): format!("00000000000000e1,{SESSION}")}},
        "spec": {"holderIdentity": null, "renewTime": null},
    })
}

fn sessions(count: usize) -> String {
    (0..count).map(|number| format!("{:016x}", 0xa0 + number)).collect::<Vec<_>>().join(",")
}

#[test]
fn a_node_writes_its_own_lease_in_its_own_sessions_only() -> Result<()> {
    let own_of = |before: &Value, patch: &Value| write(Some(before.clone()), patched(before, patch));
    let own = |patch: Value| own_of(&lease("a"), &patch);
    let rows: [Row; 18] = [
        ("many ended sessions", own(json!({"metadata": {"annotations": {(ENDED): sessions(60)}}})), None),
        (
            "more ended sessions than others could read",
            own(json!({"metadata": {"annotations": {(ENDED): sessions(61)}}})),
            Some("at most 1024 characters"),
        ),
        ("it creates its Lease", write(None, lease("a")), None),
        ("it renews it", own(json!({"spec": {"renewTime": "2026-11-23T11:00:01.000000Z"}})), None),
        ("it begins a session", own(json!({"spec": {"holderIdentity": "a/00000000000000ff"}})), None),
        ("it ends its session", own(json!({"spec": {"holderIdentity": null}})), None),
        (
            "its interfaces and durations change, and it leaves",
            own(json!({
                "metadata": {"annotations": {"vipward.io/interfaces": "[{}]", "vipward.io/leaving": "true"}},
                "spec": {"leaseDurationSeconds": 60},
            })),
            None,
        ),
        ("it forgets old ended sessions", own(json!({"metadata": {"annotations": {(ENDED): ""}}})), None),
        (
            "another's session",
            own(json!({"spec": {"holderIdentity": format!("b/{SESSION}")}})),
            Some("of that node only"),
        ),
        (
            "the Lease of a node whose name begins alike",
            own(json!({"spec": {"holderIdentity": "ab/1"}})),
            Some("of that node only"),
        ),
        ("no session's form", own(json!({"spec": {"holderIdentity": "me"}})), Some("of that node only")),
        (
            "no session's form after its name, which others could not end",
            own(json!({"spec": {"holderIdentity": "a/for ever"}})),
            Some("of that node only"),
        ),
        (
            "more than a session",
            own(json!({"spec": {"holderIdentity": format!("a/b/{SESSION}")}})),
            Some("of that node only"),
        ),
        (
            "it puts its label back",
            own_of(&unlabelled("a"), &json!({"metadata": {"labels": {(LABEL): "vipward"}}})),
            None,
        ),
        ("it takes its label away", own(json!({"metadata": {"labels": {(LABEL): null}}})), LABELS),
        ("it changes its label", own(json!({"metadata": {"labels": {(LABEL): "other"}}})), LABELS),
        ("it adds a label", own(json!({"metadata": {"labels": {"x": "y"}}})), LABELS),
        ("it creates its Lease without one", write(None, unlabelled("a")), LABELS),
    ];
    check(&rows)
}

#[test]
fn sessions_of_another_node_are_ended_and_nothing_else_happens_to_its_lease() -> Result<()> {
    let with = |patch: Value| {
        let expired = patched(&lease("b"), &expiring());
        write(Some(lease("b")), patched(&expired, &patch))
    };
    let annotation = |name: &str, value: Value| with(json!({"metadata": {"annotations": {name: value}}}));
    let only_itself = "only a node itself";
    let rows: [Row; 25] = [
        ("it is silent", change(&expiring()), None),
        (
            "it is silent, and an older session is claimed",
            annotation(ENDED, json!(format!("00000000000000e1,00000000000000e2,{SESSION}"))),
            None,
        ),
        (
            "a label is put back",
            change_of(
                &unlabelled("b"),
                &patched(&expiring(), &json!({"metadata": {"labels": {(LABEL): "vipward"}}})),
            ),
            None,
        ),
        ("its label is taken away", with(json!({"metadata": {"labels": {(LABEL): null}}})), LABELS),
        ("its label is changed", with(json!({"metadata": {"labels": {(LABEL): "other"}}})), LABELS),
        ("it gets another label", with(json!({"metadata": {"labels": {"x": "y"}}})), LABELS),
        (
            "it is renewed",
            change(&json!({
                "metadata": {"annotations": {(ENDED): "00000000000000e1,00000000000000e2"}},
                "spec": {"renewTime": "2026-11-23T11:00:01.000000Z"},
            })),
            Some("renews its Lease"),
        ),
        (
            "its session is ended, and it is renewed",
            with(json!({"spec": {"renewTime": "2026-11-23T11:00:01.000000Z"}})),
            Some("renews its Lease"),
        ),
        (
            "its session is ended, and renewTime stays",
            change(&json!({
                "metadata": {"annotations": {(ENDED): format!("00000000000000e1,{SESSION}")}},
                "spec": {"holderIdentity": null},
            })),
            Some("renews its Lease"),
        ),
        (
            "it gets a session",
            with(json!({"spec": {"holderIdentity": "b/00000000000000ff"}})),
            Some("begins a session"),
        ),
        (
            "it gets the writer's session",
            with(json!({"spec": {"holderIdentity": "a/00000000000000ff"}})),
            Some("begins a session"),
        ),
        (
            "its session is not listed",
            annotation(ENDED, json!("00000000000000e1,00000000000000e2")),
            Some("must be listed as ended"),
        ),
        ("an ended session is dropped", annotation(ENDED, json!(SESSION)), Some("stays on that list")),
        (
            "eight are ended at once",
            annotation(ENDED, json!(format!("00000000000000e1,{SESSION},{}", sessions(7)))),
            None,
        ),
        (
            "nine are ended at once",
            annotation(ENDED, json!(format!("00000000000000e1,{SESSION},{}", sessions(8)))),
            Some("one to eight"),
        ),
        ("it is called leaving", annotation("vipward.io/leaving", json!("true")), Some(only_itself)),
        ("its interfaces are others", annotation("vipward.io/interfaces", json!("[{}]")), Some(only_itself)),
        ("its interfaces are gone", annotation("vipward.io/interfaces", Value::Null), Some(only_itself)),
        ("its duration is longer", annotation("vipward.io/duration", json!("1h")), Some(only_itself)),
        (
            "its duration is longer by the other field",
            with(json!({"spec": {"leaseDurationSeconds": 3600}})),
            Some(only_itself),
        ),
        ("it gets another annotation", annotation("x", json!("y")), Some(only_itself)),
        (
            "it gets an owner that does not exist",
            with(json!({"metadata": {"ownerReferences": [{"uid": "u-9"}]}})),
            Some(only_itself),
        ),
        ("it gets a finalizer", with(json!({"metadata": {"finalizers": ["x"]}})), Some(only_itself)),
        ("it loses its owner", with(json!({"metadata": {"ownerReferences": null}})), Some(only_itself)),
        ("nothing is ended", change(&json!({"spec": {"renewTime": null}})), Some("to end sessions only")),
    ];
    check(&rows)
}

/// Each write to a Lease looks like a sign of life. Writes to a dead node's Lease would keep its VIPs from
/// every other node.
#[test]
fn the_lease_of_a_dead_node_cannot_be_kept_alive() -> Result<()> {
    let ended = |sessions: String| json!({"annotations": {(ENDED): sessions}});
    let lists = |sessions| json!({"metadata": ended(sessions), "spec": {"renewTime": null}});
    let grown = |before: &Value, session: &str| {
        lists(format!("{},{session}", before["metadata"]["annotations"][ENDED].as_str().unwrap_or_default()))
    };
    // It lives in another session than one that a claim names.
    let first = grown(&lease("b"), "00000000000000e2");
    let once = patched(&lease("b"), &first);
    let again = grown(&once, "00000000000000e3");
    let renewed = patched(&once, &json!({"spec": {"renewTime": "2026-11-23T11:00:05.000000Z"}}));
    let full = patched(&once, &lists(sessions(32)));
    let expired = patched(
        &full,
        &json!({
            "metadata": ended(format!("{},{SESSION}", sessions(32))),
            "spec": {"holderIdentity": null},
        }),
    );
    let almost_full = patched(&expired, &lists(sessions(31)));
    let junk = patched(&lease("b"), &json!({"metadata": {"annotations": {(ENDED): "x, 00000000000000e1,"}}}));
    let rows: [Row; 8] = [
        ("an older session of a living node is ended", change(&first), None),
        ("another is, after a renewal", change_of(&renewed, &grown(&renewed, "00000000000000e3")), None),
        ("another is, without one", change_of(&once, &again), Some("since its last renewal already")),
        ("the session is ended all the same", write(Some(full.clone()), expired.clone()), None),
        (
            "the 32nd is, when none is carried",
            change_of(&almost_full, &grown(&almost_full, "00000000000000e3")),
            None,
        ),
        (
            "the 34th is, when none is carried",
            change_of(&expired, &grown(&expired, "00000000000000e3")),
            Some("since its last renewal already"),
        ),
        ("a list that was edited by hand is tidied", change_of(&junk, &expiring()), None),
        (
            "a blank Lease gets the sessions that claims name",
            change_of(
                &patched(&lease("b"), &json!({"spec": {"holderIdentity": null, "renewTime": null}})),
                &first,
            ),
            None,
        ),
    ];
    check(&rows)
}

#[test]
fn the_missing_lease_of_another_node_is_created_with_ended_sessions_only() -> Result<()> {
    let blank = json!({
        "metadata": {
            "name": "b", "namespace": "vipward-system", "labels": {"app.kubernetes.io/managed-by": "vipward"},
            "annotations": {(ENDED): SESSION},
        },
        "spec": {},
    });
    let with = |patch: Value| write(None, patched(&blank, &patch));
    let rows: [Row; 8] = [
        ("an ended session", write(None, blank.clone()), None),
        ("no label", with(json!({"metadata": {"labels": null}})), LABELS),
        (
            "a session",
            with(json!({"spec": {"holderIdentity": "b/00000000000000ff"}})),
            Some("begins a session"),
        ),
        (
            "a renewal",
            with(json!({"spec": {"renewTime": "2026-11-23T11:00:01.000000Z"}})),
            Some("renews its Lease"),
        ),
        (
            "interfaces",
            with(json!({"metadata": {"annotations": {"vipward.io/interfaces": "[]"}}})),
            Some("describes itself"),
        ),
        ("a duration", with(json!({"spec": {"leaseDurationSeconds": 3600}})), Some("good for")),
        (
            "an owner",
            with(json!({"metadata": {"ownerReferences": [{"uid": "u-9"}]}})),
            Some("owners and finalizers"),
        ),
        ("nothing", with(json!({"metadata": {"annotations": null}})), Some("to end sessions only")),
    ];
    check(&rows)
}

#[test]
fn the_leases_of_other_programs_are_left_alone() -> Result<()> {
    const CONTROLLERS: Option<&str> = Some("is the controllers'");
    const FOREIGN: Option<&str> = Some("another program's");
    // What every end of a session does, with the label that makes it an agent's Lease.
    let ends = |before: &Value| {
        change_of(before, &patched(&expiring(), &json!({"metadata": {"labels": {(LABEL): "vipward"}}})))
    };
    let of_holder = |name: &str, holder: Value| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "vipward-system"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-11-23T11:00:00.000000Z"},
        })
    };
    let ours = |patch: Value| patched(&of_holder("b", json!("edited by hand")), &patch);
    let created = |name: &str| {
        let lease = json!({
            "metadata": {"name": name, "labels": {(LABEL): "vipward"}, "annotations": {(ENDED): SESSION}}, "spec": {},
        });
        write(None, lease)
    };
    let own = |name: &str, after: Value| Write { node: Some(name.to_owned()), ..write(None, after) };
    let rows: [Row; 13] = [
        ("the elected controller's", ends(&of_holder("vipward-controller", json!("pod-1"))), None),
        ("the controllers', in a session's form", ends(&lease("vipward-controller")), CONTROLLERS),
        (
            "the controllers', resting",
            ends(&patched(&lease("vipward-controller"), &json!({"spec": {"holderIdentity": null}}))),
            CONTROLLERS,
        ),
        ("the controllers', missing", created("vipward-controller"), CONTROLLERS),
        (
            "the controllers', by a node of that name",
            own("vipward-controller", lease("vipward-controller")),
            CONTROLLERS,
        ),
        ("another election's", ends(&of_holder("other", json!("pod-1"))), FOREIGN),
        (
            "another election's, resting",
            ends(&patched(&of_holder("other", json!("pod-1")), &json!({"spec": {"holderIdentity": null}}))),
            FOREIGN,
        ),
        (
            "one that carries a session of another name",
            ends(&of_holder("other", json!(format!("b/{SESSION}")))),
            FOREIGN,
        ),
        (
            "one without a label that carries a session of its name",
            ends(&of_holder("b", json!(format!("b/{SESSION}")))),
            None,
        ),
        (
            "one that was edited, with the label",
            ends(&ours(json!({"metadata": {"labels": {(LABEL): "vipward"}}}))),
            None,
        ),
        (
            "one that was edited, with a duration",
            ends(&ours(json!({"metadata": {"annotations": {"vipward.io/duration": "4s"}}}))),
            None,
        ),
        (
            "one with another's label",
            ends(&ours(json!({"metadata": {"labels": {(LABEL): "Helm"}}}))),
            FOREIGN,
        ),
        ("a missing one of any other name", created("other"), None),
    ];
    let (elected, rows) = rows.split_first().expect("there are rows");
    let refusals = Policies::load()?.refusals(&elected.1)?;
    assert!(refusals.iter().any(|refusal| refusal.contains("is the controllers'")), "{refusals:?}");
    check(rows)
}

#[test]
fn the_controller_writes_its_own_lease_alone() -> Result<()> {
    const REFUSED: Option<&str> = Some("the Lease vipward-controller alone");
    let election =
        |name: &str, holder: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": holder}});
    let write = |before: Option<Value>, after: Value| Write { user: CONTROLLER, ..write(before, after) };
    let change = |name: &str| write(Some(election(name, "pod-1")), election(name, "pod-2"));
    check(&[
        ("it runs for the lead", write(None, election("vipward-controller", "pod-1")), None),
        ("it takes the lead", change("vipward-controller"), None),
        ("it creates a node's", write(None, lease("b")), REFUSED),
        ("it changes a node's", write(Some(lease("b")), patched(&lease("b"), &expiring())), REFUSED),
        ("it creates another", write(None, election("other", "pod-1")), REFUSED),
    ])
}
