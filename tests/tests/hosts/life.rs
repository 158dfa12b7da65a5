//! The agent's life and death: killed, replaced, stopped, resized, migrated, withdrawn, unloaded.

mod fence;
mod going;
mod layout;
mod restarts;
