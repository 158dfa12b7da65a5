//! Single reads and writes: for a command of an operator, and for the reason why the agent is to end.

pub(crate) mod claim_access;
pub(crate) mod mover;
pub(crate) mod overview;
pub(crate) mod releaser;
pub(crate) mod termination;
pub(crate) mod uninstaller;
pub(crate) mod wire_secret;
