//! The options of a run.

use super::sabotage::Sabotage;

/// Options of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The part to break on the simulator's side.
    pub sabotage: Option<Sabotage>,
    /// True to trace every step.
    pub trace: bool,
}
