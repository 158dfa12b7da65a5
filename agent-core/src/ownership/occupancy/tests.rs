use super::*;

const fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn every_state_meets_every_observation() {
    use Occupancy::{Held, Left, Vacant};
    let now = at(100);
    let long_ago = at(100 - LATELY.as_secs());
    let table = [
        // (state, is held, watched, next state, taken without a probe before that)
        (Vacant, true, true, Held, false),
        (Vacant, true, false, Held, false),
        (Vacant, false, true, Vacant, false),
        (Vacant, false, false, Vacant, false),
        (Held, true, true, Held, true),
        (Held, true, false, Held, true),
        (Held, false, true, Left(now), true),
        (Held, false, false, Vacant, true),
        (Left(at(91)), true, true, Held, true),
        (Left(at(91)), false, true, Left(at(91)), true),
        (Left(at(91)), false, false, Left(at(91)), true),
        (Left(long_ago), false, true, Vacant, false),
        (Left(long_ago), true, true, Held, false),
    ];
    for (state, is_held, watched, expected, is_lately) in table {
        let mut next = state;
        assert_eq!(next.is_lately(now), is_lately, "{state:?}");
        next.note(is_held, watched, now);
        assert_eq!(next, expected, "{state:?}, held: {is_held}, watched: {watched}");
    }
}
