use super::*;

const NEVER: u64 = u64::MAX;

fn fence(policy: Policy, deadline_ns: u64, hold_until_ns: u64) -> Fence {
    Fence {
        deadline_ns,
        hold_until_ns,
        yields_settled: 0,
        session: 0,
        words_settled: 0,
        policy,
        defence: Defence::Off,
    }
}

#[test]
fn the_fence_is_valid_then_held_over_then_over() {
    use FenceState::{HeldOver, Over, Valid};

    let (stop, hold) = (fence(Policy::Stop, 100, 200), fence(Policy::Hold, 100, 200));
    let rows = [
        ("stop: long before the deadline", stop, 0, Valid),
        ("stop: just before the deadline", stop, 99, Valid),
        ("stop: at the deadline", stop, 100, Over),
        ("stop: never held over", stop, 150, Over),
        ("hold: just before the deadline", hold, 99, Valid),
        ("hold: at the deadline", hold, 100, HeldOver),
        ("hold: just before its end", hold, 199, HeldOver),
        ("hold: at its end", hold, 200, Over),
        ("hold: long after", hold, NEVER, Over),
        ("a new map", fence(Policy::Stop, 0, 0), 0, Over),
        ("hold that ends before the deadline", fence(Policy::Hold, 100, 50), 75, Valid),
        ("hold that ended before the deadline", fence(Policy::Hold, 100, 50), 100, Over),
    ];
    for (what, fence, now_ns, state) in rows {
        assert_eq!(fence.state(now_ns, WireState::default()), state, "{what}");
        assert_eq!(now_ns >= fence.answers_until_ns(), state == Over, "{what}");
    }
}

#[test]
fn the_fence_of_a_session_that_has_ended_has_lapsed() {
    use FenceState::{HeldOver, Over, Valid};

    let of = |session, policy| Fence { session, ..fence(policy, 100, 200) };
    let settled = |words_settled, policy| Fence { words_settled, ..of(7, policy) };
    let told = |ended, words| WireState { ended, words };
    let rows = [
        ("hold", of(7, Policy::Hold), told(7, 1), HeldOver),
        ("stop", of(7, Policy::Stop), told(7, 1), Over),
        ("told before words were counted", of(7, Policy::Hold), told(7, 0), HeldOver),
        ("another session has ended", of(7, Policy::Hold), told(6, 1), Valid),
        ("none has ended", of(7, Policy::Hold), told(0, 0), Valid),
        ("without a cluster", of(0, Policy::Hold), told(0, 0), Valid),
        ("the word is settled", settled(4, Policy::Hold), told(7, 3), Valid),
        ("it is settled under stop", settled(4, Policy::Stop), told(7, 3), Valid),
        ("it is settled, and was not counted", settled(1, Policy::Hold), told(7, 0), Valid),
        ("a later word has come", settled(4, Policy::Hold), told(7, 4), HeldOver),
        ("the count has begun anew", settled(4, Policy::Hold), told(7, 1), HeldOver),
    ];
    for (what, fence, told, state) in rows {
        assert_eq!(fence.state(50, told), state, "{what}");
    }
    assert_eq!(of(7, Policy::Hold).state(200, told(7, 1)), Over, "holding over has its end");
}

#[test]
fn a_policy_is_read_only_from_its_number() {
    use bytemuck::checked::try_from_bytes;

    let number = |n: u32| n.to_ne_bytes();
    assert_eq!(try_from_bytes(&number(1)), Ok(&Policy::Hold));
    assert!(try_from_bytes::<Policy>(&number(2)).is_err());
}
