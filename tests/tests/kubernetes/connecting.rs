//! Credentials of agents, and their certificates.

mod credentials;
mod insecure;
