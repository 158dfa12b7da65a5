//! The log lines, Events and notes on objects that are written, and how often.

pub mod bursts;
pub mod moves;
pub mod outbox;
pub mod refusals;
pub mod repairs;
pub mod reporting;
pub mod shown;
pub mod unanswered;
