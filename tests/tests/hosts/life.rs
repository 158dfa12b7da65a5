//! The agent's life and death: killed, replaced, stopped, resized, upgraded, withdrawn, unloaded.

mod elsewhere;
mod going;
mod lease_deadline;
mod restarts;
mod sizes;
mod systemd;
mod versions;
