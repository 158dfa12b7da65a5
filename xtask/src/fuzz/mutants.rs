//! Inputs of a fuzz target that are the same on every day and every machine.
//!
//! libFuzzer makes others with the same seed: it follows coverage, which differs with the compiler and
//! with the seeds of hash maps.

use std::iter;

use fastrand::Rng;

/// Greatest number of changes of an input.
const CHANGES: usize = 4;
/// Greatest number of bytes that a change adds or removes.
const MANY: usize = 32;
/// Greatest length of an input that is made from nothing.
const LONGEST: usize = 512;
/// Bytes that are often a limit.
const LIMITS: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];

/// Returns `number` inputs: most are changed inputs of the corpus, some are random bytes.
pub(super) fn mutants(corpus: &[Vec<u8>], seed: u64, number: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::with_seed(seed);
    iter::repeat_with(|| mutant(&mut rng, corpus)).take(number).collect()
}

fn mutant(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let is_new = rng.u8(0..8) == 0;
    let Some(input) = rng.choice(corpus).filter(|_| !is_new) else {
        let length = rng.usize(0..=LONGEST);
        return random(rng, length);
    };
    let mut input = input.clone();
    for _ in 0..rng.usize(1..=CHANGES) {
        change(rng, &mut input, corpus);
    }
    input
}

fn random(rng: &mut Rng, length: usize) -> Vec<u8> {
    iter::repeat_with(|| rng.u8(..)).take(length).collect()
}

fn change(rng: &mut Rng, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let at = rng.usize(0..=input.len());
    let end = (at + rng.usize(1..=MANY)).min(input.len());
    match rng.u8(0..7) {
        0 => input[at..].iter_mut().take(1).for_each(|byte| *byte ^= 1 << rng.u8(0..8)),
        1 => input[at..].iter_mut().take(1).for_each(|byte| *byte = LIMITS[rng.usize(0..LIMITS.len())]),
        2 => input[at..end].iter_mut().for_each(|byte| *byte = rng.u8(..)),
        3 => {
            let length = rng.usize(1..=MANY);
            let new = random(rng, length);
            input.splice(at..at, new).for_each(drop);
        }
        4 => input.drain(at..end).for_each(drop),
        5 => {
            let part = input[at..end].to_vec();
            input.splice(at..at, part).for_each(drop);
        }
        _ => {
            // The rest is that of another input.
            if let Some(other) = rng.choice(corpus) {
                input.truncate(at);
                input.extend(&other[rng.usize(0..=other.len())..]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
