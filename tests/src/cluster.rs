//! Runs a cluster: nodes in network namespaces whose agents
//! share an API server, with a client and an observer.
//!
//! ```text
//!   client .1   observer .2   rogue .3        n1 .11   n2 .12   n3 .13
//!      └────────────┴────────────┴── eth0 ───────┴────────┴────────┘      the segment of the VIPs:
//!                                                │        │        │       192.0.2.0/24, 2001:db8::/64
//!                                                │        │        │
//!                     control .1 ──── mgmt0 ─────┴────────┴────────┘      198.51.100.0/24
//!                        └── forwarder ── API server, in this process or the one of KUBECONFIG
//! ```
//! A scenario reads as a table of steps. This one kills an agent for good:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use vipward_tests::cluster::{ClusterOptions, ServiceSpec, scenario};
//! # use vipward_tests::agent::VIP;
//! # fn main() -> anyhow::Result<()> {
//! scenario("crash", ClusterOptions::default(), |cluster| {
//!     cluster.create_service(&ServiceSpec::new("web", VIP))?;
//!     let old = cluster.wait_until_held(VIP)?;
//!     let watch = cluster.watch(&[VIP])?;
//!
//!     let crashed = watch.step(format!("kill -9 on {old}"));
//!     cluster.kill9(old)?;
//!     let new = cluster.wait_until_held_by_another(VIP, old)?;
//!     watch.wait_until_received_by(VIP, new)?;
//!
//!     let seen = watch.stop()?;
//!     seen.assert_flows_again(VIP, crashed, cluster.options().failover_limit());
//!     seen.assert_no_doubles_after_announcement(VIP, new, crashed);
//!     Ok(())
//! })
//! # }
//! ```

mod admin;
mod api;
mod controllers;
mod forwarder;
mod install;
mod members;
mod node;
mod objects;
mod options;
mod running;
mod scenario;
mod service;
mod tenants;
mod watch;
mod wire;

pub use self::{
    admin::{Admin, Change, Changes, Kind, MANAGER, Object},
    api::{Backend, ClusterApi, GoingBack, Saved},
    forwarder::{Cut, Forwarder},
    node::{MANAGEMENT, Member, N1, N2, N3, NodeId, SEGMENT},
    objects::EventNote,
    options::{ClusterOptions, PATIENCE, Switch},
    running::Cluster,
    scenario::{scenario, skip, skip_without_admission, skip_without_backup},
    service::{Endpoint, ServiceSpec},
    watch::{Seen, Watch},
};
