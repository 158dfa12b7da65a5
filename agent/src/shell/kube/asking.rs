//! Single questions and requests: an administrator's, and why the agent is to end.

pub(crate) mod mover;
pub(crate) mod overview;
pub(crate) mod releaser;
pub(crate) mod termination;
pub(crate) mod wire_secret;
pub(crate) mod wishes;
