//! The story that `cargo xtask demo` tells on LANs in network namespaces, measuring what it says as it goes.

mod cluster;
mod findings;
mod kept;
mod scenes;
mod stage;
mod strip;
mod voice;

use std::time::Instant;

use anyhow::{Context, Result};

use self::kept::Kept;
use self::stage::Stage;
use self::voice::Voice;
use crate::interrupt;

/// Tells the story, and removes everything that it made; with `keep` the LAN and its agent stay up.
pub fn run(keep: bool) -> Result<()> {
    crate::require_root()?;
    kept::ensure_none()?;
    let started = Instant::now();
    let voice = Voice::new();
    let told = Stage::new(keep).and_then(|mut stage| {
        let findings = scenes::tell(voice, &mut stage)?;
        findings.show(voice);
        Ok(stage)
    });
    // What an interrupted system call complains about is not what went wrong.
    interrupt::check()?;
    let stage = told?;
    if keep {
        let kept = stage.keep().context("failed to leave the LAN up")?;
        kept.explain(voice);
    } else {
        drop(stage);
        voice.say(&format!("Told in {} s; everything is removed again.", started.elapsed().as_secs()));
        voice.say("To look around yourself: cargo xtask demo --keep");
    }
    Ok(())
}

/// Removes what `run` left.
pub fn down() -> Result<()> {
    crate::require_root()?;
    let voice = Voice::new();
    match Kept::read()? {
        Some(kept) => {
            kept.remove()?;
            voice.say("The LAN, its agent and its pins are removed.");
        }
        None => voice.say("No LAN was left up: there is nothing to remove."),
    }
    Ok(())
}
