use std::collections::BTreeSet;

use super::*;

#[test]
fn every_outcome_has_a_counter_of_its_own() {
    let names: BTreeSet<_> = Outcome::ALL.iter().map(|outcome| outcome.name()).collect();
    assert_eq!(names.len(), Outcome::ALL.len());
    assert_eq!(
        size_of::<Counters>(),
        (Outcome::ALL.len() + 2) * 8,
        "and one for defences, one for lost events"
    );
    for (index, outcome) in Outcome::ALL.iter().enumerate() {
        let mut words = [0_u64; size_of::<Counters>() / 8];
        words[*outcome as usize] = 7;
        let counters: Counters = bytemuck::cast(words);
        assert_eq!(*outcome as usize, index);
        assert_eq!(counters.get(*outcome), 7, "{}", outcome.name());
        assert_eq!(Outcome::ALL.iter().map(|other| counters.get(*other)).sum::<u64>(), 7);
    }
}

#[test]
fn the_counters_of_all_cpus_are_added_up() {
    let words: [u64; size_of::<Counters>() / 8] = core::array::from_fn(|i| i as u64);
    let counters: Counters = bytemuck::cast(words);
    let sum: [u64; size_of::<Counters>() / 8] = bytemuck::cast(counters.plus(counters));
    assert_eq!(sum, words.map(|word| 2 * word));
}

#[test]
fn only_answers_are_sent() {
    for outcome in Outcome::ALL {
        let answers = outcome.name().starts_with("answered");
        assert_eq!(outcome.action() == Action::Answer, answers, "{}", outcome.name());
        let suppressed = ["suppressed", "refused"].iter().any(|start| outcome.name().starts_with(start));
        assert!(!suppressed || outcome.action() == Action::Drop, "{}", outcome.name());
    }
}
