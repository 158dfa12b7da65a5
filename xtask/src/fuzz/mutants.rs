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

/// An input of the corpus, and its digest.
type Digested<'a> = (u64, &'a [u8]);

/// Returns `number` inputs: most are changed inputs of the corpus, some are random bytes. Each has a seed of
/// its own, so one more input in the corpus changes few of them.
pub(super) fn mutants(corpus: &[Vec<u8>], seed: u64, number: usize) -> Vec<Vec<u8>> {
    let corpus: Vec<_> = corpus.iter().map(|input| (digest(input), input.as_slice())).collect();
    let mut seeds = Rng::with_seed(seed);
    iter::repeat_with(|| mutant(&mut seeds.fork(), &corpus)).take(number).collect()
}

fn digest(input: &[u8]) -> u64 {
    input.iter().fold(0, |digest, byte| Rng::with_seed(digest ^ u64::from(*byte)).u64(..))
}

/// Chooses an input by its digest: its place in the corpus changes with the number of others.
fn choose<'a>(rng: &mut Rng, corpus: &[Digested<'a>]) -> Option<&'a [u8]> {
    let draw = rng.u64(..);
    let chosen = corpus.iter().max_by_key(|(digest, _)| Rng::with_seed(digest ^ draw).u64(..));
    chosen.map(|(_, input)| *input)
}

fn mutant(rng: &mut Rng, corpus: &[Digested<'_>]) -> Vec<u8> {
    let is_new = rng.u8(0..8) == 0;
    let Some(input) = choose(rng, corpus).filter(|_| !is_new) else {
        let length = rng.usize(0..=LONGEST);
        return random(rng, length);
    };
    let mut input = input.to_vec();
    for _ in 0..rng.usize(1..=CHANGES) {
        change(rng, &mut input, corpus);
    }
    input
}

fn random(rng: &mut Rng, length: usize) -> Vec<u8> {
    iter::repeat_with(|| rng.u8(..)).take(length).collect()
}

fn change(rng: &mut Rng, input: &mut Vec<u8>, corpus: &[Digested<'_>]) {
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
            // The rest comes from another input.
            if let Some(other) = choose(rng, corpus) {
                input.truncate(at);
                input.extend(&other[rng.usize(0..=other.len())..]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
