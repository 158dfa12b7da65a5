use super::*;
use crate::{
    ownership::tests::records::{VIP, at, claim_record, held, holder, offered},
    records::Holder,
};

fn claim(epoch: u64, state: ClaimState) -> ClaimRecord {
    ClaimRecord { epoch: Epoch(epoch), state, ..claim_record(VIP) }
}

fn known(record: ClaimRecord) -> KnownClaim {
    let mut known = KnownClaim::new(at(0));
    known.update(record, at(0));
    known
}

#[test]
fn a_claim_is_in_doubt_if_it_is_blank_edited_or_of_the_past() {
    let second_life = ClaimState::Held(Holder { ..holder("b", 2) });
    let rows = [
        ("the same", claim(3, held("b")), false),
        ("a later epoch", claim(4, held("c")), false),
        ("blank", claim(3, ClaimState::Blank), true),
        ("another holder in the same epoch", claim(3, held("c")), true),
        ("another session in the same epoch", claim(3, second_life), true),
        ("an earlier epoch", claim(2, held("b")), true),
        ("offered by its holder", claim(4, offered("b", "c")), false),
        ("released", claim(3, ClaimState::Released), false),
    ];
    for (name, next, is_unclear) in rows {
        let mut known = known(claim(3, held("b")));
        known.update(next.clone(), at(5));
        assert_eq!(known.unclear, is_unclear.then(|| at(5)), "{name}");
        let owners = if is_unclear { held("b").sessions() } else { next.state.sessions() };
        assert_eq!(known.owners, owners, "{name}: only a believed claim names owners");
    }
}

#[test]
fn what_this_process_tried_to_write_is_no_edit() {
    let mut known = known(claim(3, held("b")));
    known.attempted = true;
    known.update(claim(3, held("a")), at(5));
    assert_eq!(known.unclear, None);
}

#[test]
fn the_time_of_a_change_moves_with_the_holder_and_with_nothing_else() {
    let mut known = known(claim(3, held("b")));
    assert!(!known.update(claim(3, held("b")), at(5)));
    assert!(!known.update(claim(3, ClaimState::Released), at(6)), "no holder is named");
    assert_eq!(known.changed, at(0));
    assert!(known.update(claim(4, held("c")), at(7)));
    assert!(known.update(claim(4, offered("c", "b")), at(8)));
    assert_eq!(known.changed, at(8));
}

#[test]
fn a_claim_that_is_gone_is_in_doubt_unless_it_was_released_or_properly_deleted() {
    let deleted = |deleting, state| ClaimRecord { deleting, ..claim(3, state) };
    let rows = [
        ("released", deleted(false, ClaimState::Released), true, false),
        ("deleted without a Service", deleted(true, held("b")), false, false),
        ("deleted although wanted", deleted(true, held("b")), true, true),
        ("deleted at once", deleted(false, held("b")), false, true),
    ];
    for (name, record, is_wanted, is_unclear) in rows {
        let mut known = known(record);
        assert!(known.lose(is_wanted, at(5)), "{name}");
        assert_eq!(known.unclear, is_unclear.then(|| at(5)), "{name}");
        assert_eq!(known.owners.is_empty(), !is_unclear, "{name}");
        assert!(!known.lose(is_wanted, at(6)), "{name}: it is gone already");
    }
}

#[test]
fn the_cause_is_kept_when_a_claim_with_another_state_or_an_earlier_epoch_comes() {
    let rows = [
        ("confirmed", Some(claim(3, held("b"))), false),
        ("gone", None, true),
        ("edited", Some(claim(3, held("c"))), true),
        ("of the past", Some(claim(2, held("b"))), true),
    ];
    for (name, next, is_kept) in rows {
        let mut known = known(claim(3, held("b")));
        known.keep_cause(next.as_ref());
        assert_eq!(known.cause.as_deref(), is_kept.then_some("a test"), "{name}");
    }
}
