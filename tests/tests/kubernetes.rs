//! Three nodes in network namespaces, real frames, real processes: who answers for a Service's VIP, and when.
//!
//! They run against an API server in this process, and with `KUBECONFIG` set against the one that it names.

#[path = "kubernetes/addresses.rs"]
mod addresses;
#[path = "kubernetes/bad_input.rs"]
mod bad_input;
#[path = "kubernetes/conflicts.rs"]
mod conflicts;
#[path = "kubernetes/crashes.rs"]
mod crashes;
#[path = "kubernetes/edits.rs"]
mod edits;
#[path = "kubernetes/kernel.rs"]
mod kernel;
#[path = "kubernetes/local.rs"]
mod local;
#[path = "kubernetes/outages.rs"]
mod outages;
#[path = "kubernetes/planned.rs"]
mod planned;
#[path = "kubernetes/restarts.rs"]
mod restarts;
#[path = "kubernetes/rivals.rs"]
mod rivals;
#[path = "kubernetes/services.rs"]
mod services;
