//! Three nodes in network namespaces, real frames, real processes: who answers for a Service's VIP, and when.
//!
//! They run against an API server in this process, and with `KUBECONFIG` set against the one that it names.

#[path = "kubernetes/bad_input.rs"]
mod bad_input;
#[path = "kubernetes/edits.rs"]
mod edits;
#[path = "kubernetes/outages.rs"]
mod outages;
#[path = "kubernetes/planned.rs"]
mod planned;
#[path = "kubernetes/services.rs"]
mod services;
