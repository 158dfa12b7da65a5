use std::time::Duration;

use super::Acceptance;
use crate::{
    base::samples::at,
    records::{KeyId, LeaseRecord, Mode, NodeName, Offer, Session, Wid},
};

const LEASE: Duration = Duration::from_secs(4);

fn lease(node: &str, version: &str, keys: Option<&[u8]>) -> LeaseRecord {
    LeaseRecord {
        node: node.into(),
        version: version.into(),
        session: Session::from_number(1),
        ended: Vec::new(),
        duration: LEASE,
        interfaces: Vec::new(),
        leaving: false,
        proxy: None,
        wire: keys.map(|keys| Offer {
            wid: Wid::from_number(1).expect("not zero"),
            mode: Mode::Off,
            round: 0,
            invited: Vec::new(),
            set: Vec::new(),
            need: 0,
            keys: keys.iter().copied().map(KeyId).collect(),
        }),
    }
}

fn names(of: &[NodeName]) -> Vec<&str> {
    of.iter().map(NodeName::as_str).collect()
}

#[test]
fn an_agent_that_takes_part_and_runs_is_waited_for() {
    let ended = |record: LeaseRecord| LeaseRecord { ended: record.session.into_iter().collect(), ..record };
    let blank = |record: LeaseRecord| LeaseRecord { session: None, ..record };
    let leases = vec![
        lease("accepts", "1", Some(&[1, 2])),
        lease("lacks", "2", Some(&[1])),
        lease("takes-no-part", "3", None),
        blank(lease("blank", "4", Some(&[1]))),
        ended(lease("ended", "5", Some(&[1]))),
    ];
    let mut acceptance = Acceptance::of(KeyId(2));
    acceptance.see(leases, at(0));
    assert_eq!(names(&acceptance.missing(at(0))), ["lacks"]);
    assert_eq!(acceptance.taking_part(), 2);
    acceptance.see(vec![lease("lacks", "6", Some(&[1, 2]))], at(500));
    assert!(acceptance.missing(at(500)).is_empty());
}

#[test]
fn an_agent_that_does_not_renew_is_not_waited_for_for_longer_than_its_lease() {
    let mut acceptance = Acceptance::of(KeyId(2));
    for (millis, version, missing) in
        [(0, "1", true), (4_000, "1", true), (4_001, "1", false), (4_500, "2", true), (8_500, "2", true)]
    {
        acceptance.see(vec![lease("a", version, Some(&[1]))], at(millis));
        assert_eq!(!acceptance.missing(at(millis)).is_empty(), missing, "{millis} ms");
    }
}
