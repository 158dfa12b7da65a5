use std::vec::Vec;

use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A rival's record in `offenders`, without the limits of the VIP.
#[derive(Default)]
struct Rival {
    defended_ns: u64,
    answered: u32,
}

impl Rival {
    /// Claims the VIP. Returns true if the program defends it.
    fn claims(&mut self, now_ns: u64) -> bool {
        self.answered = answered_in_a_row(self.defended_ns, self.answered, now_ns);
        let is_defended = self.answered < MAX_ANSWERED;
        if is_defended {
            self.defended_ns = now_ns;
        }
        is_defended
    }
}

/// Returns the times, after the first, of the claims that are defended.
fn defended(claims: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut rival = Rival::default();
    claims.into_iter().filter(|at| rival.claims(SECOND + at)).collect()
}

#[test]
fn a_host_that_claims_ten_times_a_second_is_met_each_time() {
    let claims = || (0..600).map(|n| n * 100 * MS);
    assert_eq!(defended(claims()), claims().collect::<Vec<_>>());
}

#[test]
fn a_host_that_claims_in_pairs_is_met_each_time() {
    let claims = || (0..600).flat_map(|n| [n * 100 * MS, n * 100 * MS]);
    assert_eq!(defended(claims()), claims().collect::<Vec<_>>());
}

#[test]
fn a_rival_that_answers_ten_defences_in_a_row_is_met_once_per_defend_interval() {
    let defences = defended((0..35 * SECOND).step_by(1_000_000));
    let at_first: Vec<_> = (0..10).map(|n| n * MS).collect();
    assert_eq!(defences[..10], at_first);
    let later: Vec<_> = defences[10..].iter().map(|at| at / SECOND).collect();
    assert_eq!(later, [10, 20, 30]);
}

#[test]
fn a_rival_that_does_not_answer_the_last_defence_is_met_as_before() {
    let mut rival = Rival::default();
    let answers = (0..11).map(|n| rival.claims(SECOND + n * MS)).collect::<Vec<_>>();
    assert_eq!(answers, [&[true; 10][..], &[false]].concat());
    assert!(!rival.claims(10 * SECOND), "within ten seconds of the tenth defence");
    assert!(rival.claims(12 * SECOND), "after them");
    assert!(rival.claims(12 * SECOND + ANSWER_NS), "it has not answered");
    let answers = (1..11).map(|n| rival.claims(13 * SECOND + n * MS)).collect::<Vec<_>>();
    assert_eq!(answers, [true; 10], "it has ten again");
}

#[test]
fn an_answer_is_sooner_than_thirty_milliseconds() {
    let rows = [
        ("the first claim", 0, 0, SECOND, 0),
        ("an answer", SECOND, 0, SECOND + ANSWER_NS - 1, 1),
        ("no answer", SECOND, 9, SECOND + ANSWER_NS, 0),
        ("another CPU's clock is behind", SECOND, 3, SECOND - 4 * MS, 4),
        ("the tenth answer", SECOND, 9, SECOND, 10),
        ("waiting", SECOND, 10, 11 * SECOND - 1, 10),
        ("waited", SECOND, 10, 11 * SECOND, 9),
        ("long ago", SECOND, 10, u64::MAX, 9),
    ];
    for (what, defended_ns, answered, now_ns, expected) in rows {
        assert_eq!(answered_in_a_row(defended_ns, answered, now_ns), expected, "{what}");
    }
}
