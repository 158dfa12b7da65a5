//! The program in the kernel against the oracle: random frames over random maps, and every cell flipped.
//!
//! `VIPWARD_SEED=<n> cargo test -p vipward-tests --test differential` repeats a run, from its first batch on.

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    io::{self, Write as _},
    time::Instant,
};

use anyhow::{Context as _, Result};
use fastrand::Rng;
use vipward_tests::{
    kernel::Kernel,
    oracle::{generate, replay::Recording, table::Cell, world::World},
};

/// Frames over one content of the maps.
const BATCH: usize = 200;
const BATCHES: u64 = 6_000;
const LEAST_PER_CELL: u64 = 1_000;
/// Enough for every cell to be met many times.
const BATCHES_TO_FLIP: u64 = 500;

fn seed() -> Result<u64> {
    match env::var("VIPWARD_SEED") {
        Ok(seed) => seed.parse().with_context(|| format!("VIPWARD_SEED is {seed}, not a number")),
        Err(_) => Ok(u64::from(fastrand::u32(..))),
    }
}

fn record(kernel: &mut Kernel, seed: u64) -> Result<Recording> {
    let mut rng = Rng::with_seed(seed);
    let world = World::random(&mut rng);
    let frames = (0..BATCH).map(|_| generate::frame(&mut rng, &world)).collect();
    Recording::make(kernel, world, frames)
}

#[test]
fn a_million_random_frames_end_as_the_oracle_says() -> Result<()> {
    let seed = seed()?;
    let mut kernel = Kernel::load()?;
    let started = Instant::now();
    let mut met: BTreeMap<Cell, u64> = Cell::all().into_iter().map(|cell| (cell, 0)).collect();
    for batch in 0..BATCHES {
        let seed = seed.wrapping_add(batch);
        let recording = record(&mut kernel, seed)?;
        let cells = recording.compare(None).unwrap_or_else(|mismatch| {
            panic!("repeat with VIPWARD_SEED={seed}\n{}", recording.explain(&mismatch))
        });
        for (cell, count) in cells {
            *met.get_mut(&cell).with_context(|| format!("{cell:?} is not listed in Cell::all"))? += count;
        }
    }
    let mut table = format!("seed {seed}: {} frames in {:?}\n", BATCHES * BATCH as u64, started.elapsed());
    for (cell, count) in &met {
        writeln!(table, "{count:>8}  {cell:?}")?;
    }
    // Not by a macro: those are only shown when the test fails.
    io::stderr().lock().write_all(table.as_bytes())?;
    let rare: Vec<_> = met.iter().filter(|(_, count)| **count < LEAST_PER_CELL).collect();
    assert!(rare.is_empty(), "the generator misses cells (seed {seed}): {rare:?}");
    Ok(())
}

#[test]
fn a_flip_of_any_cell_of_the_oracle_is_noticed() -> Result<()> {
    let seed = seed()?;
    let mut kernel = Kernel::load()?;
    let mut recordings = Vec::new();
    for batch in 0..BATCHES_TO_FLIP {
        let recording = record(&mut kernel, seed.wrapping_add(batch))?;
        let cells = recording.compare(None).unwrap_or_else(|mismatch| {
            panic!("repeat with VIPWARD_SEED={seed}\n{}", recording.explain(&mismatch))
        });
        recordings.push((recording, cells));
    }
    let mut flips = 0;
    for cell in Cell::all() {
        for flip in cell.flips() {
            let mut there = recordings.iter().filter(|(_, cells)| cells.contains_key(&cell));
            let noticed = there.any(|(recording, _)| recording.compare(Some((cell, flip))).is_err());
            assert!(noticed, "{flip:?} in {cell:?} goes unnoticed (seed {seed})");
            flips += 1;
        }
    }
    println!("seed {seed}: {flips} flips in {} cells, all noticed", Cell::all().len());
    Ok(())
}
