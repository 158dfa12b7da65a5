//! Tests of the report of a host that is not the holder.

use super::*;

const THERE: &str = "there: kubectl -n vipward-system exec POD -- /vipward explain 192.0.2.10 (POD: the \
agent's on n1), or on n1 itself: vipward explain 192.0.2.10";

/// Returns the report and the details of the entry's step.
fn entry_step(facts: &Facts) -> (String, Vec<String>) {
    let step = explain(facts).steps.into_iter().find(|step| step.subject == link::ENTRY).expect("the step");
    (step.found, step.details)
}

#[test]
fn only_this_hosts_entry_is_looked_at_and_the_holders_is_there_with_the_command() {
    let (says, details) = entry_step(&elsewhere());
    assert_eq!(says, "this host's entry has it at 02:00:00:00:01:01, which is another host");
    let looked = "only this host's entry was read: the entry, the program and the lease deadline of n1 can only \
    be read there";
    assert_eq!(details, [looked, THERE]);
}

#[test]
fn where_nothing_is_pinned_or_readable_no_entry_was_looked_at() {
    for (what, pins, says) in [
        (
            "a laptop",
            Fact::Read(None),
            "nothing is pinned under /sys/fs/bpf/vipward: no agent has run here (another directory: --pin-dir)",
        ),
        (
            "not root",
            Fact::failed("permission denied"),
            "what is pinned here cannot be read: permission denied",
        ),
    ] {
        let looked =
            "no entry was read: the entry, the program and the lease deadline of n1 can only be read there";
        let facts = Facts { pins, ..elsewhere() };
        assert_eq!(
            entry_step(&facts),
            (says.to_owned(), vec![looked.to_owned(), THERE.to_owned()]),
            "{what}"
        );
    }
}

#[test]
fn the_holder_and_a_host_that_does_not_know_it_name_no_other_host() {
    let sent = |facts: &Facts| entry_step(facts).1.iter().any(|detail| detail.contains("read there"));
    assert!(sent(&elsewhere()));
    assert!(!sent(&at_the_holder()));
    assert!(!sent(&standalone()));
    let mut facts = elsewhere();
    claim(&mut facts).state = ClaimState::Released;
    assert!(!sent(&facts));
}

#[test]
fn what_is_guarded_for_another_host_is_looked_at_on_that_one() {
    let mut facts = standalone();
    listed_vip(&mut facts).guarded = Some(N2);
    *entries(&mut facts) = vec![entry(Role::Foreign, N2)];
    let (_, details) = entry_step(&facts);
    let expected = [
        "only this host's entry was read: the entry, the program and the lease deadline of the host that has it \
        can only be read there",
        "there: vipward explain 192.0.2.10",
    ];
    assert_eq!(details, expected);
}

#[test]
fn where_no_host_answers_the_remedy_is_to_look_at_the_holder() {
    let facts = Facts { segment: Fact::Read(report(Vec::new())), ..elsewhere() };
    let remedy = explain(&facts).remedy.expect("something to do");
    assert!(remedy.contains("explain it on the host with 02:00:00:00:01:01: kubectl"), "{remedy}");
    assert!(remedy.contains("(POD: the agent's on n1)"), "{remedy}");
}
