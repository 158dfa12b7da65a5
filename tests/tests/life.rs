//! The agent's life and death: killed, replaced, stopped, resized, migrated, withdrawn, unloaded.

#[path = "life/fence.rs"]
mod fence;
#[path = "life/going.rs"]
mod going;
#[path = "life/layout.rs"]
mod layout;
#[path = "life/restarts.rs"]
mod restarts;
