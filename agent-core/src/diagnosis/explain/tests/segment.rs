//! Tests of the answers on the segment.

use super::*;
use crate::{diagnosis::finding::State::Green, segment::confirming::Answerer};

const BROKEN: &[Broken] = &[
    (
        "no host on the segment answers",
        elsewhere,
        |facts| facts.segment = Fact::Read(report(Vec::new())),
        link::SEGMENT,
        "no host on eth0 answers",
        "explain it on the host with 02:00:00:00:01:01",
    ),
    (
        "the wrong host answers",
        elsewhere,
        |facts| facts.segment = Fact::Read(report(vec![row(ROGUE, Relation::UnknownHost, Seen::Wire)])),
        link::SEGMENT,
        "02:00:00:00:00:03 (locally administered; unknown host) answers, and 02:00:00:00:01:01 should",
        "give that host, or the VIP, another address",
    ),
    (
        "two hosts answer",
        elsewhere,
        |facts| {
            let rows =
                [row(N1, Relation::Holder, Seen::Wire), row(ROGUE, Relation::UnknownHost, Seen::Dropped)];
            facts.segment = Fact::Read(report(rows.into()));
        },
        link::SEGMENT,
        "CONFLICT: 2 MACs",
        "give 02:00:00:00:00:03",
    ),
];

/// Has the agent here wait for an unknown host of this sort.
fn waits_for(facts: &mut Facts, answerer: Answerer) {
    *entries(facts) = vec![entry(Role::Foreign, MacAddr::ZERO)];
    facts.segment = Fact::Read(report(vec![row(ROGUE, Relation::Unknown, Seen::Wire)]));
    facts.answerers = [(ROGUE.to_string(), answerer)].into();
}

/// The sort, and parts of the report and of the remedy.
const SORTS: [(Answerer, &str, &str); 3] = [
    (Answerer::Host, "a host has the address", "give that host another address"),
    (Answerer::Proxy, "a proxy answers for a host that does not answer itself", "`probe: {proxied: take}`"),
    (Answerer::Router, "a router answers for it by proxy ARP", "remove that route, or proxy ARP"),
];

#[test]
fn the_sort_of_the_host_that_a_standalone_agent_waits_for_is_named_with_what_to_do() {
    for (answerer, says, does) in SORTS {
        let mut facts = standalone();
        waits_for(&mut facts, answerer);
        let explanation = explain(&facts);
        let entry = explanation.steps.iter().find(|step| step.subject == link::ENTRY).expect("an entry");
        assert!(entry.found.contains(says) && entry.found.contains(&ROGUE.to_string()), "{entry:?}");
        assert_eq!(explanation.broken, Some(link::ENTRY));
        let remedy = explanation.remedy.expect("a remedy");
        assert!(remedy.contains(does) && remedy.contains("`force: true` of the VIP"), "{remedy}");
    }
}

#[test]
fn a_proxy_that_answers_where_no_host_should_is_doubtful_and_a_host_is_not() {
    for (answerer, says, does) in SORTS {
        for (cluster, force) in [(true, "vipward.io/force=true"), (false, "`force: true` of the VIP")] {
            let mut facts = if cluster { elsewhere() } else { standalone() };
            if cluster {
                in_cluster(&mut facts).claim = None;
            }
            waits_for(&mut facts, answerer);
            let step = explain(&facts).steps.pop().expect("the segment");
            let is_host = answerer == Answerer::Host;
            assert_eq!((step.subject, step.state == Green), (link::SEGMENT, is_host), "{step:?}");
            assert_eq!(step.found.contains(says), !is_host, "{step:?}");
            let remedy = step.remedy.unwrap_or_default();
            assert_eq!(remedy.contains(does) && remedy.contains(force), !is_host, "{remedy}");
        }
    }
}

#[test]
fn a_segment_that_answers_wrongly_is_named_with_what_to_do() {
    assert_broken(BROKEN);
}
