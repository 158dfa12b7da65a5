//! Writes of claims by the agent of node `a`.

use std::net::Ipv6Addr;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    Row, check,
    engine::{CONTROLLER, Policies, Write},
    patched,
};

const FINALIZER: &str = "vipward.io/claim";
const LABEL: &str = "app.kubernetes.io/managed-by";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Released,
    /// It names no node and is not released, as after an edit.
    Blank,
    Held(&'static str),
    Offered {
        to: &'static str,
        by: &'static str,
    },
}

use State::{Blank, Held, Offered, Released};

const STATES: [State; 8] = [
    Released,
    Blank,
    Held("a"),
    Held("b"),
    Offered { to: "b", by: "a" },
    Offered { to: "a", by: "b" },
    Offered { to: "c", by: "b" },
    Offered { to: "b", by: "c" },
];

fn claim(state: State, epoch: i64) -> Value {
    let mut spec =
        json!({"address": "192.0.2.10", "epoch": epoch, "services": "apps/web", "cause": "it is new"});
    let (holder, offered_by) = match state {
        Released | Blank => (None, None),
        Held(node) => (Some(node), None),
        Offered { to, by } => (Some(to), Some(by)),
    };
    if state == Released {
        spec["released"] = json!(true);
    }
    if let Some(node) = holder {
        spec["holder"] = json!(node);
        spec["session"] = json!("0000000000000001");
        spec["mac"] = json!("02:00:00:00:01:01");
        spec["interface"] = json!("eth0");
    }
    if let Some(node) = offered_by {
        spec["offeredBy"] = json!({"node": node, "session": "0000000000000002"});
    }
    json!({
        "apiVersion": "vipward.io/v1alpha1", "kind": "VirtualIP",
        "metadata": {"name": "192.0.2.10", "labels": {(LABEL): "vipward"}, "finalizers": [FINALIZER]},
        "spec": spec,
    })
}

fn write(before: Option<Value>, after: Option<Value>) -> Write {
    Write::new("vipward.io", "virtualips", before, after)
}

/// Returns a write that changes a claim in this state, and nothing else of it.
fn change(state: State, patch: &Value) -> Write {
    let before = claim(state, 3);
    write(Some(before.clone()), Some(patched(&before, patch)))
}

const BILLION: i64 = 1_000_000_000;
const FAR: i64 = 1_000_000_000_000_000;

/// Returns true if node `a` may write that state over the other one, with the epochs before and
/// after. None stands for a claim that does not exist, whose epoch is 0.
fn is_legal(before: Option<State>, after: State, epochs: (i64, i64)) -> bool {
    let later = epochs.1 - epochs.0;
    if before.is_none() && epochs.1 > 1 {
        return false;
    }
    let is_near = epochs.1 <= FAR || later <= BILLION;
    match after {
        _ if before == Some(after) && later == 0 => true,
        // A take, an acceptance, or a repair.
        Held(node) => node == "a" && later >= 0 && is_near,
        Offered { to: _, by } => by == "a" && before == Some(Held("a")) && later >= 1 && is_near,
        // Its holder lets go of it, or no node can have it.
        Released => later == 0,
        Blank => false,
    }
}

#[test]
fn a_node_claims_for_itself_offers_what_it_holds_and_releases() -> Result<()> {
    let policies = Policies::load()?;
    let mut legal = 0;
    let mut check = |before: Option<State>, after: State, epochs: (i64, i64)| -> Result<()> {
        let expected = is_legal(before, after, epochs);
        let write = write(before.map(|state| claim(state, epochs.0)), Some(claim(after, epochs.1)));
        let refusals = policies.refusals(&write)?;
        assert_eq!(refusals.is_empty(), expected, "{before:?} to {after:?}, {epochs:?}: {refusals:?}");
        legal += usize::from(expected);
        Ok(())
    };
    for after in STATES {
        for epoch in [0, 1, 2, 7, BILLION + 1, FAR, FAR + 1, i64::MAX] {
            check(None, after, (0, epoch))?;
        }
        for before in STATES {
            for epoch in [2, 3, 4, 4 + BILLION, FAR, FAR + 1, i64::MAX] {
                check(Some(before), after, (3, epoch))?;
            }
            for later in [BILLION, BILLION + 1] {
                check(Some(before), after, (FAR, FAR + later))?;
            }
        }
    }
    assert_eq!(legal, 61);
    Ok(())
}

#[test]
fn what_is_refused_is_named() -> Result<()> {
    let over = |before: State, after: State, epoch| write(Some(claim(before, 3)), Some(claim(after, epoch)));
    let rows: [Row; 9] = [
        ("another's claim for itself", over(Released, Held("b"), 4), Some("claims VIPs for itself only")),
        ("a theft for another", over(Held("b"), Held("c"), 4), Some("claims VIPs for itself only")),
        (
            "an offer of another's VIP",
            over(Held("b"), Offered { to: "c", by: "a" }, 4),
            Some("the node that holds a VIP offers it"),
        ),
        (
            "an offer twice",
            over(Offered { to: "b", by: "a" }, Offered { to: "c", by: "a" }, 4),
            Some("the node that holds a VIP offers it"),
        ),
        (
            "an offer to itself",
            over(Held("b"), Offered { to: "a", by: "b" }, 4),
            Some("the node that holds a VIP offers it"),
        ),
        ("a blank claim", over(Held("b"), Blank, 3), Some("names no holder is released")),
        ("a release in a later epoch", over(Held("b"), Released, 4), Some("names no holder is released")),
        ("an earlier epoch", over(Held("b"), Held("a"), 2), Some("only grows")),
        (
            "the last epoch there can be",
            over(Held("b"), Held("a"), i64::MAX),
            Some("beyond 10^15 by a billion at most"),
        ),
    ];
    check(&rows)
}

#[test]
fn a_null_in_a_new_claim_counts_as_absent() -> Result<()> {
    let with = |state, spec: Value| {
        let mut claim = claim(state, 0);
        for (field, value) in spec.as_object().into_iter().flatten() {
            claim["spec"][field] = value.clone();
        }
        write(None, Some(claim))
    };
    let nameless = || Write { node: None, ..with(Held("a"), json!({})) };
    let rows: [Row; 4] = [
        ("no offer", with(Held("a"), json!({"offeredBy": null})), None),
        ("no reservation", with(Held("a"), json!({"reservation": null})), None),
        ("no holder", with(Released, json!({"holder": null})), None),
        (
            "no holder, and not released",
            with(Blank, json!({"holder": null})),
            Some("is released, in epoch 0"),
        ),
    ];
    check(&rows)?;
    let refusals = Policies::load()?.refusals(&nameless())?;
    assert!(refusals.iter().any(|refusal| refusal.contains("the token names no node")), "{refusals:?}");
    Ok(())
}

#[test]
fn findings_may_be_shown_and_notes_of_others_may_not_be_changed() -> Result<()> {
    let shown = json!({"status": {"conflict": "02:00:00:00:00:66 claims it", "conditions": []}});
    let cause = json!({"spec": {"cause": "because"}});
    let rows: [Row; 5] = [
        ("a finding about its own VIP", change(Held("a"), &shown), None),
        ("a finding about another's", change(Held("b"), &shown), None),
        ("a cause of its own", change(Held("a"), &cause), None),
        ("a reason why no node has it", change(Released, &cause), None),
        ("a cause of another's", change(Held("b"), &cause), Some("claims VIPs for itself only")),
    ];
    check(&rows)
}

#[test]
fn the_wishes_of_people_may_be_fulfilled_and_not_made() -> Result<()> {
    const REFUSED: Option<&str> = Some("agents set none of vipward.io/force, move-to and release");
    let wish = |name: &str, value: Value| json!({"metadata": {"annotations": {name: value}}});
    let wished = |name: &str, patch: &Value| {
        let before = patched(&claim(Held("a"), 3), &wish(name, json!("true")));
        write(Some(before.clone()), Some(patched(&before, patch)))
    };
    let (force, move_to) = ("vipward.io/force", "vipward.io/move-to");
    let create = |name| write(None, Some(patched(&claim(Held("a"), 1), &wish(name, json!("true")))));
    let rows: [Row; 14] = [
        ("move-to is set", change(Held("a"), &wish(move_to, json!("b"))), REFUSED),
        ("force is set", change(Held("a"), &wish(force, json!("true"))), REFUSED),
        ("release is set", change(Held("a"), &wish("vipward.io/release", json!("true"))), REFUSED),
        ("a claim is created with release", create("vipward.io/release"), REFUSED),
        ("force is set on another's", change(Held("b"), &wish(force, json!("true"))), REFUSED),
        ("a claim is created with force", create(force), REFUSED),
        ("a claim is created with move-to", create(move_to), REFUSED),
        ("move-to is changed", wished(move_to, &wish(move_to, json!("c"))), REFUSED),
        ("force is changed", wished(force, &wish(force, json!("false"))), REFUSED),
        (
            "force is removed",
            wished(force, &wish(force, Value::Null)),
            Some("do not remove vipward.io/force"),
        ),
        ("move-to is removed", wished(move_to, &wish(move_to, Value::Null)), None),
        ("move-to stays", wished(move_to, &json!({"spec": {"cause": "because"}})), None),
        ("force stays", wished(force, &json!({"spec": {"cause": "because"}})), None),
        ("another annotation is set", change(Held("a"), &wish("example.com/x", json!("y"))), None),
    ];
    check(&rows)
}

#[test]
fn a_claim_is_deleted_unless_another_node_has_it() -> Result<()> {
    /// Both steps of a deletion are refused for another's claim.
    const STATES_AND_RIGHTS: [(State, bool); 8] = [
        (Released, true),
        (Blank, true),
        (Held("a"), true),
        (Held("b"), false),
        (Offered { to: "b", by: "a" }, true),
        (Offered { to: "a", by: "b" }, true),
        (Offered { to: "c", by: "b" }, false),
        (Offered { to: "b", by: "c" }, false),
    ];
    let lets_go = json!({"metadata": {"finalizers": []}});
    let releases = json!({
        "metadata": {"finalizers": null},
        "spec": {"holder": null, "session": null, "mac": null, "interface": null, "offeredBy": null, "released": true},
    });
    for (state, may_delete) in STATES_AND_RIGHTS {
        let refusal = |part| (!may_delete).then_some(part);
        check(&[
            ("it is deleted", write(Some(claim(state, 3)), None), refusal("may not be deleted")),
            ("its finalizer is removed", change(state, &lets_go), refusal("keeps its finalizer")),
            ("it is released by the same write, as a dead node's is", change(state, &releases), None),
        ])?;
    }
    Ok(())
}

#[test]
fn no_other_finalizer_and_no_owner_is_added_or_removed() -> Result<()> {
    const FOREIGN: Option<&str> = Some("no finalizer of a claim but vipward.io/claim");
    const OWNER: Option<&str> = Some("agents give a claim no owner");
    let kept =
        patched(&claim(Held("a"), 3), &json!({"metadata": {"finalizers": [FINALIZER, "example.com/x"]}}));
    let of_kept = |finalizers: Value| {
        write(Some(kept.clone()), Some(patched(&kept, &json!({"metadata": {"finalizers": finalizers}}))))
    };
    let bare = patched(&claim(Held("a"), 3), &json!({"metadata": {"finalizers": null}}));
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "u"});
    let owner = json!({"metadata": {"ownerReferences": [owner]}});
    let shown = json!({"metadata": {"finalizers": null}, "status": {"conflict": "x"}});
    let others = patched(&claim(Held("b"), 3), &json!({"metadata": {"finalizers": null}}));
    let others_shown = write(Some(others.clone()), Some(patched(&others, &shown)));
    let rows: [Row; 9] = [
        ("a finding is shown on another's claim without it", others_shown, None),
        ("it is put back", write(Some(bare), Some(claim(Held("a"), 3))), None),
        ("it is put beside another's", of_kept(json!(["example.com/x", FINALIZER])), None),
        ("it is removed beside another's", of_kept(json!(["example.com/x"])), None),
        ("another's is removed", of_kept(json!([FINALIZER])), FOREIGN),
        (
            "another is added",
            change(Held("a"), &json!({"metadata": {"finalizers": [FINALIZER, "example.com/x"]}})),
            FOREIGN,
        ),
        (
            "a claim is created with another",
            write(None, Some(patched(&kept, &json!({"spec": {"epoch": 1}})))),
            FOREIGN,
        ),
        ("an owner is given, who does not exist", change(Held("b"), &owner), OWNER),
        ("a claim is created with an owner", write(None, Some(patched(&claim(Held("a"), 1), &owner))), OWNER),
    ];
    check(&rows)
}

#[test]
fn a_reserved_address_is_the_controllers_matter() -> Result<()> {
    const REFUSED: Option<&str> = Some("only the controller reserves addresses and frees them");
    let reservation = |service: &str| json!({"spec": {"reservation": {"service": service, "pool": "lan"}}});
    let reserved = |state| patched(&claim(state, 3), &reservation("apps/web"));
    let over = |before: State, after: &Value| write(Some(reserved(before)), Some(after.clone()));
    let with = |state, patch: Value| patched(&reserved(state), &patch);
    let lets_go = json!({"metadata": {"finalizers": null}});
    let rows: [Row; 12] = [
        ("a VIP with one is taken", over(Released, &reserved(Held("a"))), None),
        (
            "it is offered",
            over(
                Held("a"),
                &patched(&reserved(Offered { to: "b", by: "a" }), &json!({"spec": {"epoch": 4}})),
            ),
            None,
        ),
        ("it is released", over(Held("a"), &reserved(Released)), None),
        (
            "the finalizer of one that people delete is removed",
            over(Released, &with(Released, lets_go)),
            None,
        ),
        (
            "a null is none",
            change(Held("a"), &json!({"spec": {"cause": "because", "reservation": null}})),
            None,
        ),
        ("an address is reserved", change(Held("a"), &reservation("apps/web")), REFUSED),
        (
            "by the creation of its claim",
            write(None, Some(patched(&claim(Held("a"), 1), &reservation("apps/web")))),
            REFUSED,
        ),
        (
            "it is given to another Service",
            over(Held("a"), &with(Held("a"), reservation("apps/evil"))),
            REFUSED,
        ),
        (
            "it is kept for ever",
            over(Held("a"), &with(Held("a"), json!({"spec": {"reservation": {"keptUntil": "forever"}}}))),
            REFUSED,
        ),
        ("it is freed", over(Held("a"), &claim(Held("a"), 3)), REFUSED),
        ("it is freed with the VIP", over(Held("a"), &claim(Released, 3)), REFUSED),
        ("its object is deleted", write(Some(reserved(Released)), None), REFUSED),
    ];
    check(&rows)
}

#[test]
fn a_new_claim_names_no_earlier_holder() -> Result<()> {
    const LATER: Option<&str> = Some("the epoch of a new claim is 0 or 1");
    let new = |epoch| write(None, Some(claim(Held("a"), epoch)));
    check(&[
        ("the first epoch", new(1), None),
        ("the second", new(2), LATER),
        ("a far one", new(50), LATER),
        ("the last", new(i64::MAX), LATER),
        ("one before the first", new(-1), LATER),
    ])
}

#[test]
fn the_labels_of_claims_stay() -> Result<()> {
    const NEW: Option<&str> = Some("a new claim has the label");
    const CHANGED: Option<&str> = Some("agents change no label of a claim");
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    let new = |patch: &Value| write(None, Some(patched(&claim(Held("a"), 1), patch)));
    let labelled = patched(&claim(Held("a"), 3), &labels(json!({"team": "x"})));
    let kept =
        write(Some(labelled.clone()), Some(patched(&labelled, &json!({"spec": {"cause": "because"}}))));
    check(&[
        ("a new claim without it", new(&labels(Value::Null)), NEW),
        ("a new claim of another manager", new(&labels(json!({(LABEL): "other"}))), NEW),
        ("a new claim with another", new(&labels(json!({"x": "y"}))), NEW),
        ("a person's label is kept", kept, None),
        ("it is removed", change(Held("a"), &labels(json!({(LABEL): null}))), CHANGED),
        ("it is changed", change(Held("a"), &labels(json!({(LABEL): "other"}))), CHANGED),
        ("it is changed on another's", change(Held("b"), &labels(json!({(LABEL): "other"}))), CHANGED),
        ("another is added", change(Held("a"), &labels(json!({"x": "y"}))), CHANGED),
        ("all are removed", change(Held("a"), &labels(Value::Null)), CHANGED),
    ])
}

/// Each row is judged by Rust's own reading of addresses, for the agents and for the controller.
#[test]
fn the_name_of_a_claim_is_its_address() -> Result<()> {
    const OTHER: Option<&str> = Some("the name of a claim is its address");
    let named = |name: &str, address: &str| json!({"metadata": {"name": name}, "spec": {"address": address}});
    let texts = [
        "2001:db8::64",
        "2001:db8:0:0:1::64",
        "2001:db8::1:0:0:64",
        "::1",
        "::",
        "1::",
        "fd00:a:b:c:d:e:f:10",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "1:2:3::5:6:7:8",
        "2001:0db8::64",
        // These are none.
        ":::",
        "1:2:3",
        "1:2:3:4:5:6:7:8:9",
        "1::2::3",
        "1:::2",
        ":1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7:8:",
        "1:2:3:4::5:6:7:8",
        "2001:db8::10000",
        "2001:db8::g",
    ];
    let names: Vec<_> = texts
        .iter()
        .filter_map(|text| text.parse::<Ipv6Addr>().ok())
        .map(|address| address.segments().map(|group| format!("{group:04x}")).join("-"))
        .chain(["0001-0002-0003".to_owned(), "192.0.2.10".to_owned()])
        .collect();
    let released = |patch: &Value| Some(patched(&claim(Released, 0), patch));
    let mut true_ones = 0;
    for text in texts {
        let true_name = text
            .parse::<Ipv6Addr>()
            .ok()
            .map(|it| it.segments().map(|group| format!("{group:04x}")).join("-"));
        for name in &names {
            let is_true = true_name.as_ref() == Some(name);
            true_ones += usize::from(is_true);
            let expected = if is_true { None } else { OTHER };
            let write = write(None, released(&named(name, text)));
            check(&[
                ("an agent's", write.clone(), expected),
                ("the controller's", Write { user: CONTROLLER, ..write }, expected),
            ])
            .with_context(|| format!("{name} for {text}"))?;
        }
    }
    assert_eq!(true_ones, 15, "two addresses are there twice");
    let moved = |user| {
        let v6 = patched(&claim(Released, 0), &named(&names[0], texts[0]));
        let after = patched(&v6, &json!({"spec": {"address": texts[1]}}));
        Write { user, ..write(Some(v6), Some(after)) }
    };
    let agents = write(None, None).user;
    check(&[
        ("an agent changes it", moved(agents), Some("the address of a claim does not change")),
        ("the controller changes it", moved(CONTROLLER), Some("the address of a claim does not change")),
    ])
}
