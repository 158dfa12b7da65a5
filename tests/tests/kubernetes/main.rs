//! Three nodes in network namespaces, with real frames and real
//! processes: the holders of Services' VIPs over time.
//!
//! The tests run against an API server in this process, or the one of `KUBECONFIG` if that is set.
#![forbid(unsafe_code)]

mod addresses;
mod bad_input;
mod conflicts;
mod connecting;
mod dual_stack;
mod edits;
mod exhaustion;
mod in_use;
mod interruptions;
mod kernel;
mod local;
mod metallb;
mod permitted;
mod pools;
mod proxies;
mod rivals;
mod services;
mod stolen_token;
mod tenants;
mod unanswered;
mod user_values;
mod vacant;
mod wire;
