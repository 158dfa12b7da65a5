use super::*;
use crate::base::samples::{at, key};

/// An event at a time in milliseconds.
enum Step {
    Free,
    Taken,
    Released,
    Unheard,
    Heard,
}

/// A description, the steps, and the first time at which the hold is for good.
type Row = (&'static str, &'static [(u64, Step)], Option<u64>);

#[test]
fn a_hold_is_provisional_until_a_late_answer_would_have_come() {
    use Step::{Free, Heard, Released, Taken, Unheard};
    let rows: [Row; 6] = [
        ("a first take", &[(700, Free), (800, Taken)], Some(2_800)),
        ("a VIP that was taken without a probe", &[(800, Taken)], Some(0)),
        ("a VIP that is given up", &[(700, Free), (800, Taken), (900, Released)], Some(900)),
        ("a take in silence", &[(0, Unheard), (700, Free), (800, Taken)], None),
        (
            "and a host is heard later",
            &[(0, Unheard), (700, Free), (800, Taken), (9_000, Heard)],
            Some(11_000),
        ),
        ("and one is heard before", &[(0, Unheard), (500, Heard), (700, Free), (800, Taken)], Some(2_800)),
    ];
    for (what, steps, expected) in rows {
        let mut holds = Provisional::default();
        let mut steps = steps.iter().peekable();
        let (mut is_unheard, mut for_good) = (false, None);
        for millis in (0..=60_000).step_by(100) {
            while let Some((_, step)) = steps.next_if(|(time, _)| *time <= millis) {
                match step {
                    Free => holds.on_free(key(1), at(millis)),
                    Taken => holds.on_taken(key(1), is_unheard, at(millis)),
                    Released => holds.forget(key(1)),
                    Unheard | Heard => {
                        is_unheard = matches!(step, Unheard);
                        holds.on_heard(|_| !is_unheard, at(millis));
                    }
                }
            }
            holds.on_tick(at(millis));
            let is_over = !holds.contains(&key(1), at(millis));
            for_good = for_good.filter(|_| is_over).or(is_over.then_some(millis));
        }
        let expected_at = expected.map(|millis| millis.next_multiple_of(100));
        assert_eq!(for_good, expected_at, "{what}");
    }
}

#[test]
fn a_result_that_no_take_follows_is_forgotten() {
    let mut holds = Provisional::default();
    holds.on_free(key(1), at(0));
    holds.on_tick(at(60_000));
    holds.on_taken(key(1), false, at(60_000));
    assert!(!holds.contains(&key(1), at(60_000)), "it was taken for another reason");
}
