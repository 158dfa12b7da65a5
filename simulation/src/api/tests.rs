use std::time::Duration;

use vipward_core::{
    agent::{Request, cluster::Reply},
    ownership::{ClaimWrite, Event, Expected, LeaseWrite, Outcome},
    records::{ClaimNote, ClaimRecord, ClaimState, Epoch, LeaseRecord, Version},
};

use super::{Api, Key};
use crate::schedule::{Kind, Sabotage, names};

fn lease(node: usize, expected: Expected) -> Request {
    Request::WriteLease(LeaseWrite {
        node: names::node(node),
        expected,
        session: None,
        ended: Vec::new(),
        duration: Duration::from_secs(4),
        interfaces: Vec::new(),
        leaving: false,
        wire: None,
        proxy: None,
    })
}

fn written(reply: Reply) -> Outcome<LeaseRecord> {
    match reply {
        Reply::Owned(Event::LeaseWritten { outcome, .. }) => outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_a_writer_that_knows_the_version_writes() {
    let mut api = Api::default();
    assert_eq!(written(api.carry_out(0, &lease(0, Expected::At(Version::from("1"))))), Outcome::Missing);
    let Outcome::Done(first) = written(api.carry_out(0, &lease(0, Expected::Absent))) else { panic!() };
    assert_eq!(written(api.carry_out(1, &lease(0, Expected::Absent))), Outcome::Conflict);
    let Outcome::Done(second) = written(api.carry_out(1, &lease(0, Expected::At(first.version.clone()))))
    else {
        panic!()
    };
    assert_ne!(first.version, second.version);
    assert_eq!(written(api.carry_out(0, &lease(0, Expected::At(first.version)))), Outcome::Conflict);
    assert_eq!(api.changes(Kind::Lease).len(), 2);
}

#[test]
fn a_claim_that_is_being_deleted_stays_so_when_it_is_written() {
    let mut api = Api::default();
    let vip = names::vip(0);
    let write = |expected| {
        let state = ClaimState::Released;
        Request::WriteClaim(ClaimWrite {
            vip,
            expected,
            epoch: Epoch(1),
            state,
            note: ClaimNote::default(),
            can_wait: false,
        })
    };
    api.carry_out(0, &write(Expected::Absent));
    let mut record = api.claims[&vip].clone();
    record.deleting = true;
    let record = api.put_claim(record);
    api.carry_out(0, &write(Expected::At(record.version)));
    assert!(api.claims[&vip].deleting);
    let expected = api.claims[&vip].version.clone();
    let answer = api.carry_out(0, &Request::DeleteClaim(vip, expected));
    assert_eq!(answer, Reply::Owned(Event::ClaimDeleted { vip, outcome: Outcome::Done(()) }));
    let last = api.changes(Kind::Claim).last();
    assert!(last.is_some_and(|last| last.key == Key::Vip(vip) && !last.exists), "{last:?}");
}

#[test]
fn a_sabotage_breaks_only_the_write_that_it_names() {
    for (sabotage, writer, is_stored) in [
        (Sabotage::NoExpiring, 0, true),
        (Sabotage::NoExpiring, 1, false),
        (Sabotage::NoSessionCheck, 1, true),
    ] {
        let mut api = Api::new(Some(sabotage), false);
        let outcome = written(api.carry_out(writer, &lease(0, Expected::Absent)));
        assert!(matches!(outcome, Outcome::Done(_)), "{sabotage:?} by {writer}");
        assert_eq!(api.leases.contains_key(&names::node(0)), is_stored, "{sabotage:?} by {writer}");
    }
}

#[test]
fn a_restored_store_has_its_earlier_contents_and_uses_no_version_twice() {
    let mut api = Api::new(None, false);
    let before = api.put_claim(ClaimRecord {
        epoch: Epoch(1),
        state: ClaimState::Released,
        ..ClaimRecord::blank(names::vip(0), "0".into())
    });
    let saved = api.save();
    let lost = api.put_claim(ClaimRecord { epoch: Epoch(2), ..before.clone() });
    api.restore(saved);
    assert_eq!(api.claims.get(&before.vip), Some(&before));
    let written = api.put_claim(before.clone());
    assert!(before.version.is_older_than(&written.version));
    assert_ne!(written.version, lost.version);
}
