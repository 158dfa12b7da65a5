//! The core decides. It is pure and synchronous: callers pass the time in, and the
//! core uses no clock, randomness, environment or I/O.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - [`base`]: times, pauses between attempts, addresses, names and texts.
//! - [`records`]: the cluster's objects as they were last read, and the messages between rooms.
//! - [`host`]: this host's network, the placement of VIPs on it, and the plan of its maps.
//! - [`segment`]: announcements, probes, conflicts, yields, groups, and the proof that the program sees frames.
//! - [`config`]: the file of a standalone agent.
//! - [`liveness`]: the failure detector: the nodes of a segment ping each other.
//! - [`delivery`]: whether this node's service proxy delivers what its VIPs receive.
//! - [`pools`]: pools of addresses, and the Services that have them.
//! - [`services`]: the VIPs that Services want.
//! - [`ownership`]: the node that holds a VIP.
//! - [`reports`]: the log lines, Events and notes on objects that are written, and how often.
//! - [`agent`]: parts of the agent, each composed of machines: inputs go in, effects come out.
//! - [`controller`]: the controller that leads, composed in the same way.
//! - [`diagnosis`]: the state of a host or cluster, what is wrong, and what to do.

#![forbid(unsafe_code)]

pub mod agent;
pub mod base;
pub mod config;
pub mod controller;
pub mod delivery;
pub mod diagnosis;
pub mod host;
pub mod liveness;
pub mod ownership;
pub mod pools;
pub mod records;
pub mod reports;
pub mod segment;
pub mod services;
