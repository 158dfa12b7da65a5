//! Tests of the answers on the segment.

use super::*;

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
        "take the address away",
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
        "take the address away from 02:00:00:00:00:03",
    ),
];

#[test]
fn a_segment_that_answers_wrongly_is_named_with_what_to_do() {
    assert_broken(BROKEN);
}
