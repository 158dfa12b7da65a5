//! Agents, nodes and the API server that stop, fail or change, and come back.

mod cold_start;
mod crashes;
mod deletions;
mod outages;
mod planned;
mod restarts;
mod restores;
mod versions;
