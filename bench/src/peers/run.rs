//! A run of one scene: its settings, and the figures so far.

use std::fmt;
use std::time::Instant;

use super::{figures::Figures, scene::Scene, system::System};
use crate::report::Unit;

/// The settings of a run of one scene, and the figures recorded so far.
pub(super) struct Run<'a> {
    pub(super) started: Instant,
    pub(super) runs: u32,
    /// Systems that are installed.
    pub(super) systems: &'a [System],
    pub(super) scene: Scene,
    pub(super) figures: Figures,
}

impl Run<'_> {
    pub(super) fn progress(&self, what: impl fmt::Display) {
        eprintln!("[{:>3} s] {}: {what}", self.started.elapsed().as_secs(), self.scene);
    }

    pub(super) fn record(&mut self, what: &str, unit: Unit, system: System, value: f64) {
        self.figures.record(self.scene, what, unit, system, value);
    }
}
