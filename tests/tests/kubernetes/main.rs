//! Three nodes in network namespaces, with real frames and real
//! processes: the holders of Services' VIPs over time.
//!
//! The tests run against an API server in this process, or the one of `KUBECONFIG` if that is set.

mod addresses;
mod bad_input;
mod cold_start;
mod conflicts;
mod crashes;
mod credentials;
mod dual_stack;
mod edits;
mod exhaustion;
mod in_use;
mod insecure;
mod kernel;
mod local;
mod metallb;
mod outages;
mod permitted;
mod planned;
mod pools;
mod restarts;
mod restores;
mod rivals;
mod services;
mod sharing;
mod stolen_token;
mod tenants;
mod unanswered;
mod vacant;
mod versions;
mod wire;
mod wire_shown;
mod words;
