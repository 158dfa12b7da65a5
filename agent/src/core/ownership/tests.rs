//! The rules of docs/OWNERSHIP.md, as tables: what happens, and what one node does about it.

mod start;
mod renewing;
mod world;
