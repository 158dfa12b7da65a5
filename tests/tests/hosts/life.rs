//! The agent's life and death: killed, replaced, stopped, resized, upgraded, withdrawn, unloaded.

mod fence;
mod going;
mod restarts;
mod sizes;
mod versions;
