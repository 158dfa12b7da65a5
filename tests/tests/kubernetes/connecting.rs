//! Credentials of agents, their certificates, and several API servers.

mod credentials;
mod insecure;
mod servers;
