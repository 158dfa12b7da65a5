//! Three nodes in network namespaces, real frames, real processes: who answers for a Service's VIP, and when.
//!
//! They run against an API server in this process, and with `KUBECONFIG` set against the one that it names.

#[path = "kubernetes/addresses.rs"]
mod addresses;
#[path = "kubernetes/local.rs"]
mod local;
#[path = "kubernetes/services.rs"]
mod services;
