//! Tests of facts that were not read, or not inspected.

use super::*;
use crate::diagnosis::fact::{Cause, Unread};

#[test]
fn what_could_not_be_looked_at_is_said_and_breaks_nothing() {
    let facts = Facts {
        cluster: Fact::skipped("no kubeconfig"),
        pins: Fact::failed("permission denied"),
        segment: Fact::skipped("it needs CAP_NET_RAW"),
        ..elsewhere()
    };
    let explanation = explain(&facts);
    assert_eq!(explanation.broken, None);
    let seen: Vec<_> =
        explanation.steps.iter().map(|step| (step.subject, step.state, &*step.found)).collect();
    assert_eq!(
        seen,
        [
            (link::CLUSTER, Unknown, "no kubeconfig"),
            (link::ENTRY, Unknown, "what is pinned here cannot be read: permission denied"),
            (link::SEGMENT, Unknown, "it needs CAP_NET_RAW"),
        ]
    );
}

#[test]
fn where_nothing_was_inspected_no_step_is_broken() {
    let unread = |cluster: Fact<Cluster>| Facts { cluster, pins: denied(), segment: denied(), ..elsewhere() };
    for (description, facts, expected) in [
        ("no server", unread(Fact::failed("no connection")), Outcome::Nothing { needs_root: false }),
        ("no kubeconfig", unread(Fact::skipped("no kubeconfig")), Outcome::Nothing { needs_root: true }),
        (
            "no server, and the pins are read",
            Facts { cluster: Fact::failed("no connection"), ..elsewhere() },
            Outcome::Broken,
        ),
    ] {
        assert_eq!(explain(&facts).outcome(), expected, "{description}");
    }
}

fn denied<T>() -> Fact<T> {
    Fact::Unread(Unread { reason: "not root".to_owned(), cause: Cause::Denied })
}

/// Description, facts before the change, the change, the step, its state, a part of its text, and
/// true if it has a remedy.
type Case = (&'static str, fn() -> Facts, fn(&mut Facts), &'static str, finding::State, &'static str, bool);
const TAKES: &str = "whether n2, this host, takes it is unknown: refused";
const CASES: &[Case] = &[
    (
        "the segments of this host, which may refuse it",
        at_the_holder,
        |facts| in_cluster(facts).segments = denied(),
        link::ADDRESS,
        Unknown,
        "; whether this host refuses it is unknown: not root",
        true,
    ),
    (
        "the segments of this host, for another reason",
        at_the_holder,
        |facts| in_cluster(facts).segments = Fact::failed("no map"),
        link::ADDRESS,
        Unknown,
        "; whether this host refuses it is unknown: no map",
        false,
    ),
    (
        "the pins",
        elsewhere,
        |facts| facts.pins = denied(),
        link::ENTRY,
        Unknown,
        "cannot be read: not root",
        true,
    ),
    ("the segment", elsewhere, |facts| facts.segment = denied(), link::SEGMENT, Unknown, "not root", true),
    ("the file", standalone, |facts| facts.config = denied(), link::CONFIG, Unknown, "not root", true),
    (
        "the segment, where a claim waits until the address is free",
        elsewhere,
        |facts| {
            in_cluster(facts).claim = None;
            facts.segment = Fact::skipped("not asked");
        },
        link::CLAIM,
        Red,
        "whether another host uses it is unknown: not asked",
        true,
    ),
    (
        "the segment, where the claim is released and new",
        elsewhere,
        |facts| {
            (claim(facts).state, claim(facts).epoch) = (ClaimState::Released, Epoch(0));
            facts.segment = Fact::skipped("not asked");
        },
        link::CLAIM,
        Red,
        "whether another host uses it is unknown: not asked",
        true,
    ),
    (
        "the segment, where the address is held",
        elsewhere,
        |facts| facts.segment = Fact::skipped("not asked"),
        link::CLAIM,
        Green,
        "held by n1",
        false,
    ),
    (
        "the contact of this host, of a candidate",
        elsewhere,
        |facts| facts.without_contact = Fact::failed("refused"),
        link::CANDIDATES,
        Green,
        "n2: can hold it, but whether it has contact is unknown: refused",
        false,
    ),
    (
        "the contact of this host, where a claim is missing",
        elsewhere,
        |facts| {
            in_cluster(facts).claim = None;
            facts.without_contact = Fact::failed("refused");
        },
        link::CLAIM,
        Red,
        TAKES,
        true,
    ),
    (
        "the contact of this host, where the holder has died",
        elsewhere,
        |facts| {
            lease_of(facts, "n1").record.ended.push(session(7));
            facts.without_contact = Fact::failed("refused");
        },
        link::SESSION,
        Red,
        TAKES,
        true,
    ),
    (
        "a cluster, which was not looked for",
        elsewhere,
        |facts| facts.cluster = Fact::skipped("no kubeconfig"),
        link::CLUSTER,
        Unknown,
        "no kubeconfig",
        false,
    ),
    (
        "the user of the pins, which the lease deadline is not judged by",
        at_the_holder,
        |facts| facts.agent = denied(),
        link::LEASE_DEADLINE,
        Green,
        "valid for another",
        false,
    ),
];

#[test]
fn what_was_not_read_is_said_where_it_matters_and_root_is_the_remedy_if_it_was_denied() {
    for (what, facts, change, link, state, says, has_remedy) in CASES {
        let mut facts = facts();
        change(&mut facts);
        let explanation = explain(&facts);
        let step = explanation.steps.iter().find(|step| step.subject == *link).expect("the step");
        assert_eq!((step.state, step.remedy.is_some()), (*state, *has_remedy), "{what}: {step:?}");
        let is_root = step.remedy.as_ref().is_some_and(|remedy| remedy.contains("as root"));
        assert_eq!(is_root, *state == Unknown && *has_remedy, "{what}: {step:?}");
        let mut said = step.details.iter().chain([&step.found]);
        assert!(said.any(|said| said.contains(says)), "{what}: {step:?}");
        assert!(explanation.broken.is_none() || *state == Red, "{what}: {explanation:#?}");
    }
}
