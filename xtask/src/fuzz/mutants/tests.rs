use super::*;

fn corpus() -> Vec<Vec<u8>> {
    vec![b"first input".to_vec(), Vec::new(), b"another, and a longer one".to_vec()]
}

#[test]
fn the_same_seed_gives_the_same_inputs_and_another_one_others() {
    let inputs = mutants(&corpus(), 1, 500);
    assert_eq!(inputs.len(), 500);
    assert_eq!(mutants(&corpus(), 1, 500), inputs);
    assert_ne!(mutants(&corpus(), 2, 500), inputs);
    // A later version of the generator must not change what a test run is.
    let mut hash = 0_u64;
    for byte in inputs.iter().flatten() {
        hash = hash.wrapping_mul(31).wrapping_add((*byte).into());
    }
    assert_eq!(hash, 12_092_385_201_862_870_754);
}

#[test]
fn one_more_input_in_the_corpus_changes_few_others() {
    let more = [vec![b"a new one".to_vec()], corpus()].concat();
    let (old, new) = (mutants(&corpus(), 1, 1_000), mutants(&more, 1, 1_000));
    // A quarter are now changes of the new one, and more are joined with it.
    let same = old.iter().zip(&new).filter(|(old, new)| old == new).count();
    assert!((600..800).contains(&same), "{same}");
}
