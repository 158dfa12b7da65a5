//! Three nodes in network namespaces, real frames, real processes: who answers for a Service's VIP, and when.
//!
//! They run against an API server in this process, and with `KUBECONFIG` set against the one that it names.

mod addresses;
mod bad_input;
mod conflicts;
mod crashes;
mod edits;
mod insecure;
mod kernel;
mod local;
mod outages;
mod planned;
mod restarts;
mod restores;
mod rivals;
mod services;
mod unanswered;
