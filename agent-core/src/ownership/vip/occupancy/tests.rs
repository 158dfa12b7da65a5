use super::*;

const fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn every_state_meets_every_observation() {
    use Answering::{Another, Own};
    use Occupancy::{Held, Here, Left, Vacant};
    let now = at(100);
    let long_ago = at(100 - LATELY.as_secs());
    let (seen, unseen) = (Answering::NoNode { watched: true }, Answering::NoNode { watched: false });
    let table = [
        // (state, taken without a probe in it, what is seen then, next state)
        (Vacant, false, Another, Held),
        (Vacant, false, Own(at(102)), Here(at(102))),
        (Vacant, false, seen, Vacant),
        (Vacant, false, unseen, Vacant),
        (Held, true, Another, Held),
        (Held, true, Own(at(102)), Here(at(102))),
        (Held, true, seen, Left(now)),
        (Held, true, unseen, Vacant),
        (Here(at(102)), true, Another, Held),
        (Here(at(102)), true, Own(at(103)), Here(at(103))),
        (Here(at(102)), true, Own(at(0)), Here(at(102))),
        (Here(at(102)), true, seen, Left(now)),
        (Here(at(102)), true, unseen, Left(now)),
        (Here(at(91)), true, unseen, Left(at(91))),
        (Here(long_ago), false, unseen, Left(long_ago)),
        (Left(at(91)), true, Another, Held),
        (Left(at(91)), true, Own(at(102)), Here(at(102))),
        (Left(at(91)), true, seen, Left(at(91))),
        (Left(at(91)), true, unseen, Left(at(91))),
        (Left(long_ago), false, Another, Held),
        (Left(long_ago), false, seen, Vacant),
        (Left(long_ago), false, unseen, Vacant),
    ];
    for (state, is_lately, sight, expected) in table {
        let mut next = state;
        assert_eq!(next.is_lately(now), is_lately, "{state:?}");
        next.note(sight, now);
        assert_eq!(next, expected, "{state:?}, {sight:?}");
    }
}
