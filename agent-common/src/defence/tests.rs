use std::vec::Vec;

use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A rival's record in `offenders`, without the limits of the VIP.
#[derive(Default)]
struct Rival {
    defended_ns: u64,
    answers: Answers,
}

impl Rival {
    /// Claims the VIP. Returns true if the program defends it.
    fn claims(&mut self, now_ns: u64) -> bool {
        self.answers = self.answers.after_claim(self.defended_ns, now_ns);
        if self.answers.may_be_met() {
            self.defended_ns = now_ns;
        }
        self.answers.may_be_met()
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

/// Plays a rival that defends too: it answers each defence after `delay_ns`, and announces the
/// address itself once in `every_ns`. Returns the times of the defences against it.
fn defended_against(delay_ns: u64, every_ns: u64, length_ns: u64) -> Vec<u64> {
    let (mut rival, mut defences) = (Rival::default(), Vec::new());
    for began in (0..length_ns).step_by(usize::try_from(every_ns).expect("it fits")) {
        let mut at = began;
        while rival.claims(SECOND + at) {
            defences.push(at);
            at += delay_ns;
        }
    }
    defences
}

#[test]
fn a_rival_that_answers_ten_defences_in_a_row_is_met_once_per_defend_interval() {
    let defences = defended_against(MS, 10 * SECOND, 35 * SECOND);
    let at_first: Vec<_> = (0..10).map(|n| n * MS).collect();
    assert_eq!(defences[..10], at_first);
    let later: Vec<_> = defences[10..].iter().map(|at| at / SECOND).collect();
    assert_eq!(later, [20, 30], "ten seconds after the last defence at the earliest");
}

#[test]
fn a_flood_is_met_ten_times_and_again_after_five_claims_that_answer_nothing() {
    let defences = defended((0..2 * SECOND).step_by(1_000_000));
    assert_eq!(defences[..10], (0..10).map(|n| n * MS).collect::<Vec<_>>());
    assert_eq!(defences[10], 9 * MS + ANSWER_NS + 4 * MS);
}

#[test]
fn a_burst_does_not_silence_the_defence_for_long() {
    let burst = (0..11).map(|n| n * MS);
    let then = (1..=20).map(|n| n * SECOND);
    let defences = defended(burst.chain(then));
    assert_eq!(defences.len(), 10 + 16, "the fifth claim that answers nothing is met, and all after it");
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
        ("the first claim", 0, (0, 0), SECOND, (0, 0)),
        ("an answer", SECOND, (0, 0), SECOND + ANSWER_NS - 1, (1, 0)),
        ("no answer", SECOND, (9, 0), SECOND + ANSWER_NS, (0, 0)),
        ("another CPU's clock is behind", SECOND, (3, 0), SECOND - 4 * MS, (4, 0)),
        ("the tenth answer", SECOND, (9, 0), SECOND, (10, 0)),
        ("another frame of that answer", SECOND, (10, 3), SECOND + MS, (10, 3)),
        ("a stray", SECOND, (10, 3), 11 * SECOND - 1, (10, 4)),
        ("the fifth stray", SECOND, (10, 4), 11 * SECOND - 1, (9, 0)),
        ("waited", SECOND, (10, 3), 11 * SECOND, (9, 0)),
        ("long ago", SECOND, (10, 0), u64::MAX, (9, 0)),
    ];
    for (what, defended_ns, (in_a_row, strays), now_ns, expected) in rows {
        let after = Answers { in_a_row, strays }.after_claim(defended_ns, now_ns);
        assert_eq!((after.in_a_row, after.strays), expected, "{what}");
    }
}
