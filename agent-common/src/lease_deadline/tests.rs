use super::*;

const NEVER: u64 = u64::MAX;

fn lease_deadline(policy: Policy, deadline_ns: u64, grace_until_ns: u64) -> LeaseDeadline {
    LeaseDeadline {
        deadline_ns,
        grace_until_ns,
        yields_settled: 0,
        session: 0,
        notices_settled: 0,
        policy,
        defence: Defence::Off,
    }
}

#[test]
fn the_lease_deadline_is_valid_then_grace_period_then_over() {
    use DeadlineState::{Grace, Over, Valid};

    let (stop, hold) = (lease_deadline(Policy::Stop, 100, 200), lease_deadline(Policy::Hold, 100, 200));
    let rows = [
        ("stop: long before the deadline", stop, 0, Valid),
        ("stop: just before the deadline", stop, 99, Valid),
        ("stop: at the deadline", stop, 100, Over),
        ("stop: never grace period", stop, 150, Over),
        ("hold: just before the deadline", hold, 99, Valid),
        ("hold: at the deadline", hold, 100, Grace),
        ("hold: just before its end", hold, 199, Grace),
        ("hold: at its end", hold, 200, Over),
        ("hold: long after", hold, NEVER, Over),
        ("a new map", lease_deadline(Policy::Stop, 0, 0), 0, Over),
        ("hold that ends before the deadline", lease_deadline(Policy::Hold, 100, 50), 75, Valid),
        ("hold that ended before the deadline", lease_deadline(Policy::Hold, 100, 50), 100, Over),
    ];
    for (what, lease_deadline, now_ns, state) in rows {
        assert_eq!(lease_deadline.state(now_ns, WireState::default()), state, "{what}");
        assert_eq!(now_ns >= lease_deadline.answers_until_ns(), state == Over, "{what}");
    }
}

#[test]
fn the_lease_deadline_of_a_session_that_has_ended_has_lapsed() {
    use DeadlineState::{Grace, Over, Valid};

    let of = |session, policy| LeaseDeadline { session, ..lease_deadline(policy, 100, 200) };
    let settled = |notices_settled, policy| LeaseDeadline { notices_settled, ..of(7, policy) };
    let notified = |ended, notices| WireState { ended, notices };
    let rows = [
        ("hold", of(7, Policy::Hold), notified(7, 1), Grace),
        ("stop", of(7, Policy::Stop), notified(7, 1), Over),
        ("notified before notices were counted", of(7, Policy::Hold), notified(7, 0), Grace),
        ("another session has ended", of(7, Policy::Hold), notified(6, 1), Valid),
        ("none has ended", of(7, Policy::Hold), notified(0, 0), Valid),
        ("without a cluster", of(0, Policy::Hold), notified(0, 0), Valid),
        ("the word is settled", settled(4, Policy::Hold), notified(7, 3), Valid),
        ("it is settled under stop", settled(4, Policy::Stop), notified(7, 3), Valid),
        ("it is settled, and was not counted", settled(1, Policy::Hold), notified(7, 0), Valid),
        ("a later word has come", settled(4, Policy::Hold), notified(7, 4), Grace),
        ("the count has begun anew", settled(4, Policy::Hold), notified(7, 1), Grace),
    ];
    for (what, lease_deadline, notified, state) in rows {
        assert_eq!(lease_deadline.state(50, notified), state, "{what}");
    }
    assert_eq!(of(7, Policy::Hold).state(200, notified(7, 1)), Over, "the grace period has its end");
}

#[test]
fn a_policy_is_read_only_from_its_number() {
    use bytemuck::checked::try_from_bytes;

    let number = |n: u32| n.to_ne_bytes();
    assert_eq!(try_from_bytes(&number(1)), Ok(&Policy::Hold));
    assert!(try_from_bytes::<Policy>(&number(2)).is_err());
}
