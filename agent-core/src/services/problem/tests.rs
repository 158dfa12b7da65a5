use std::collections::BTreeSet;

use super::{super::Instead, *};
use crate::{pools::Family, services::Ineffective};

const MONITORING: &str = include_str!("../../../../docs/kubernetes/monitoring.md");

/// Respects the API server's limit for the reason of an Event.
#[test]
fn each_reason_is_a_short_word_of_its_own_that_the_page_about_monitoring_explains() {
    let names: BTreeSet<_> = ProblemReason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(names.len(), ProblemReason::ALL.len());
    for name in &names {
        let is_word = name.chars().all(char::is_alphanumeric) && name.starts_with(char::is_uppercase);
        assert!(is_word && name.len() <= 128, "{name}");
    }
    let (_, events) = MONITORING.split_once("\n## Events\n").expect("a section about Events");
    let (_, problems) = events.split_once("\n|reason|problem|\n").expect("a table of problems");
    let rows = problems.lines().take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1)).collect::<String>();
    let explained: BTreeSet<_> = cells.split('`').skip(1).step_by(2).collect();
    assert_eq!(explained, names);
}

#[test]
fn a_problem_has_the_reason_that_an_alert_selects() {
    let address = IpAddr::from([192, 0, 2, 10]);
    let (place, other) = (Place::Addresses, ServiceName { namespace: "shop".into(), name: "web".into() });
    let refused = |why| Problem::Refused { address, place, why };
    let ineffective = |why| Problem::Ineffective { annotation: "x".into(), why };
    let lacking = Problem::Lacking;
    let pool: Arc<str> = "lan".into();
    let table = [
        (refused(Refusal::NoSegment), "AddressRefused"),
        (refused(Refusal::WrongFamily { family: Family::V4 }), "WrongFamily"),
        (ineffective(Ineffective::Unknown { nearest: None, known: &[] }), "UnknownAnnotation"),
        (ineffective(Ineffective::Elsewhere("there")), "UnknownAnnotation"),
        (
            ineffective(Ineffective::Foreign { controller: "x", instead: Instead::Nothing }),
            "ForeignAnnotation",
        ),
        (
            Problem::Contradiction { used: place, in_effect: "a".into(), ignored: place, value: "b".into() },
            "ContradictingRequests",
        ),
        (
            lacking(Lack::NotOfNamedPool { vips: vec![address], pool: Arc::clone(&pool) }),
            "ContradictingRequests",
        ),
        (Problem::ExternalIpsUnserved { unserved: vec![address] }, "ExternalIPsNotServed"),
        (lacking(Lack::NotServed { pool: Arc::clone(&pool) }), "PoolNotForService"),
        (lacking(Lack::UsedUp { family: Family::V4, pools: vec![pool] }), "PoolExhausted"),
        (lacking(Lack::Reserved { vip: address, by: other.clone(), is_kept: false }), "AddressReserved"),
        (Problem::Partial { vip: address, with: Some(other) }, "EndpointsElsewhere"),
        (Problem::ProxyUnreachable { vip: address, port: 30_001, node: "a".into() }, "ProxyUnreachable"),
    ];
    for (problem, reason) in table {
        assert_eq!(problem.reason().name(), reason, "{problem}");
    }
}
