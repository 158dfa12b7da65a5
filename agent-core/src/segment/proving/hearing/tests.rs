use super::*;

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn silence_proves_nothing_until_a_host_is_heard_or_a_spanning_tree_forwards() {
    let mut hearing = Hearing::start(at(10));
    hearing.hear_nothing();
    assert_eq!(hearing.unheard_until(), Some(at(45)));
    assert!(hearing.is_awaited(at(44)) && !hearing.is_awaited(at(45)));
    hearing.hear(at(12));
    assert_eq!((hearing.unheard_until(), hearing.is_awaited(at(12))), (None, false));
    hearing.hear_nothing();
    assert_eq!(hearing.unheard_until(), None, "one host was heard: the link passes frames");
}

/// A description, true for a round that heard a host, and the times of those that count.
type Row = (&'static str, &'static [(u64, bool)], &'static [u64]);

#[test]
fn hosts_are_heard_again_after_a_silent_round() {
    let rows: [Row; 5] = [
        ("a host at once", &[(0, true)], &[]),
        ("a host after silent rounds", &[(1, false), (2, false), (3, true), (4, true)], &[3]),
        ("two short silences", &[(1, false), (3, true), (10, false), (11, true)], &[3]),
        ("two silences, a minute apart", &[(1, false), (3, true), (60, false), (63, true)], &[3, 63]),
        ("a host, and a silence later", &[(0, true), (60, false), (70, true)], &[70]),
    ];
    for (what, rounds, expected) in rows {
        let mut hearing = Hearing::start(at(0));
        let mut again = Vec::new();
        for (time, heard) in rounds {
            if !heard {
                hearing.hear_nothing();
            } else if hearing.hear(at(*time)) {
                again.push(*time);
            }
        }
        assert_eq!(again, expected, "{what}");
    }
}
