use super::*;
use crate::ownership::tests::records::{CLOCK_LATE, HOLD_FOR, LEASE, MARGIN, at, session, settings};

#[test]
fn a_renewal_is_good_for_the_lease_less_the_margin_from_the_time_it_was_sent() {
    let settings = settings("a");
    assert_eq!(
        LeaseDeadline::good_until(&settings, at(500), LEASE),
        at(500) + LEASE.saturating_sub(MARGIN + CLOCK_LATE)
    );
    // The margin of a long lease is a twentieth of it.
    let long = Duration::from_mins(1);
    assert_eq!(LeaseDeadline::good_until(&settings, at(0), long), at(57_000 - 4));
}

#[test]
fn a_lease_deadline_that_was_found_is_not_valid_before_this_process_has_renewed() {
    let mut lease_deadline = LeaseDeadline::found(at(1_000), 0, at(0));
    assert!(!lease_deadline.has_lapsed(at(999)) && !lease_deadline.is_valid(at(999)));
    lease_deadline.renew(at(500), at(3_000), at(600));
    assert_eq!(lease_deadline.valid_since(at(700)), Some(at(600)));
    lease_deadline.renew(at(1_500), at(4_000), at(1_600));
    assert_eq!(lease_deadline.valid_since(at(1_700)), Some(at(600)), "no break between two renewals");
    assert_eq!(lease_deadline.renewed_at(), Some(at(1_500)));
}

#[test]
fn a_lease_deadline_that_lapsed_is_valid_from_the_next_renewal_on() {
    let mut lease_deadline = LeaseDeadline::found(at(0), 0, at(0));
    lease_deadline.renew(at(0), at(1_000), at(10));
    assert!(lease_deadline.has_lapsed(at(1_000)) && !lease_deadline.is_valid(at(1_000)));
    lease_deadline.renew(at(2_000), at(3_000), at(2_010));
    assert_eq!(lease_deadline.valid_since(at(2_500)), Some(at(2_010)));
    lease_deadline.reset();
    assert!(!lease_deadline.is_valid(at(2_500)) && lease_deadline.renewed_at().is_none());
}

#[test]
fn the_program_learns_a_shorter_deadline_at_once_and_a_longer_one_only_without_doubt() {
    let settings = settings("a");
    let mut lease_deadline = LeaseDeadline::found(at(1_000), 0, at(0));
    lease_deadline.renew(at(0), at(3_000), at(10));
    let deadline = |lease_deadline: &mut LeaseDeadline, may_move| {
        lease_deadline.command(&settings, session("a", 1), may_move, at(20)).deadline
    };
    assert_eq!(deadline(&mut lease_deadline, false), at(1_000));
    assert_eq!(deadline(&mut lease_deadline, true), at(3_000));
    assert!(!lease_deadline.shorten(at(4_000)), "this is longer");
    assert!(lease_deadline.shorten(at(2_000)));
    assert_eq!(deadline(&mut lease_deadline, false), at(2_000));
}

#[test]
fn the_grace_period_ends_a_fixed_time_after_the_deadline_or_after_now() {
    let settings = settings("a");
    let mut lease_deadline = LeaseDeadline::found(at(1_000), 0, at(0));
    for (now, expected) in [(at(500), at(1_000) + HOLD_FOR), (at(2_000), at(2_000) + HOLD_FOR)] {
        assert_eq!(lease_deadline.command(&settings, session("a", 1), true, now).grace_until, expected);
    }
}
