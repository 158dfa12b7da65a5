//! Tests of faults that pass by themselves, or harm no other host.

use super::*;

#[test]
fn what_passes_by_itself_is_in_doubt_and_not_broken() {
    type Case = (&'static str, fn() -> Facts, fn(&mut Facts), &'static str);
    let cases: [Case; 6] = [
        (
            "a handover",
            elsewhere,
            |facts| {
                claim(facts).state =
                    ClaimState::Offered { to: holder("n1", N1), from: (name("n2"), session(7)) };
            },
            link::CLAIM,
        ),
        (
            "an agent that is restarted",
            elsewhere,
            |facts| {
                let lease = lease_of(facts, "n1");
                (lease.renewed, lease.watched) = (false, Duration::from_secs(10));
                lease.record.duration = Duration::from_mins(1);
            },
            link::SESSION,
        ),
        (
            "a lease deadline that is in its grace period",
            at_the_holder,
            |facts| pins(facts).contents.pass_deadline(),
            link::LEASE_DEADLINE,
        ),
        (
            "a session that has ended, as a peer says",
            at_the_holder,
            |facts| {
                let contents = &mut pins(facts).contents;
                (contents.lease_deadline.session, contents.wire.notified.ended) = (7, 7);
            },
            link::LEASE_DEADLINE,
        ),
        (
            "a host that is behind",
            elsewhere,
            |facts| *entries(facts) = vec![entry(Role::Foreign, N2)],
            link::ENTRY,
        ),
        (
            "a Service with a problem",
            elsewhere,
            |facts| {
                let problem = Problem::OtherManager {
                    by: Writer { manager: Some("other".into()), since: None },
                    status: Vec::new(),
                    place: Place::Addresses,
                    wanted: vec![VIP],
                    way_out: WayOut {
                        service: service(),
                        ours: "vipward.io/l2".into(),
                        is_set: false,
                        is_from_metallb: false,
                    },
                };
                in_cluster(facts).account.mentions[0].problems = vec![problem];
            },
            link::SERVICE,
        ),
    ];
    for (what, facts, change, link) in cases {
        let mut facts = facts();
        change(&mut facts);
        let explanation = explain(&facts);
        assert_eq!(explanation.broken, None, "{what}: {explanation:#?}");
        let step = explanation.steps.iter().find(|step| step.subject == link).expect("the step");
        assert_eq!(step.state, Yellow, "{what}: {explanation:#?}");
    }
}
