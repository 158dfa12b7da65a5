//! The objects of the API server: their types, checks and versions, and the writes that change them.

pub(crate) mod builtins;
pub(crate) mod checks;
pub(crate) mod cluster;
pub(crate) mod columns;
pub(crate) mod definitions;
pub(crate) mod owners;
pub(crate) mod resource;
pub(crate) mod schema;
pub(crate) mod store;
pub(crate) mod strategic;
pub(crate) mod time;
pub(crate) mod write;
