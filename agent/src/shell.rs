//! The shell: everything that reads and writes, and the loops that step the core and carry out its
//! effects.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - [`logging`]: the log: its writer, the limits of its lines, and the text of errors.
//! - [`kernel`]: the host's kernel, which the shell reads and changes by system calls, sockets and files.
//! - [`endpoints`]: the HTTP endpoints of agents and controllers, and the metrics on them.
//! - [`kube`]: Kubernetes: connections to the API server, and what is read from it and written to it.
//! - [`agent`]: the agent's event loop, with a file or a cluster as the source of VIPs.
//! - [`controller`]: the controller's loop, which gives out the addresses of the pools.
//! - [`commands`]: the commands that read facts and print what the core makes of them.

pub mod agent;
pub mod commands;
pub mod controller;
pub mod endpoints;
pub mod kernel;
pub mod kube;
pub mod logging;

#[cfg(test)]
mod testing;
