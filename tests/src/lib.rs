//! Test library: LANs in network namespaces, agents on
//! them, an API server, and an oracle for the XDP program.
//! A [`Lan`](lan::Lan) is a switch and its hosts, each in its own network
//! namespace. LANs are invisible outside and independent of each other.
//! Dropping the values removes everything, also when a test panics.
//!
//! ```no_run
//! use std::{net::Ipv4Addr, time::Duration};
//! use vipward_tests::{frames::Arp, lan::{Lan, Nic, Wire}};
//!
//! # fn main() -> anyhow::Result<()> {
//! let lan = Lan::new("example")?;
//! let client = lan.host("client", Nic::new("192.0.2.1/24".parse()?))?;
//! let server = lan.host("server", Nic::new("192.0.2.2/24".parse()?).mac("02:00:00:00:00:02".parse()?))?;
//!
//! // Resolve it with the kernel's own resolver …
//! assert_eq!(client.resolve(Ipv4Addr::new(192, 0, 2, 2))?, server.mac("eth0")?);
//!
//! // … or with a frame of your own.
//! let wire = Wire::open(&client, "eth0")?;
//! wire.send(&Arp::request(client.mac("eth0")?, "192.0.2.1".parse()?, "192.0.2.2".parse()?).to_bytes())?;
//! let reply = wire.expect_arp(Duration::from_secs(1), "a reply", Arp::is_reply)?;
//! assert_eq!(reply.sha, server.mac("eth0")?);
//! # Ok(())
//! # }
//! ```
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - [`kit`]: processes, external tools, threads, and waiting.
//! - [`frames`]: the frames of ARP and neighbour discovery, and the two families of addresses.
//! - [`oracle`]: the program run frame by frame, its expected results, and the verifier's counts.
//! - [`lan`]: switches, hosts and cables, and what runs on a host without an agent.
//! - [`measure`]: VIPs as other hosts see them on the wire, and as applications do.
//! - [`agent`]: the agent under test, its pins, and ready scenes with it.
//! - [`apiserver`]: a Kubernetes API server that makes trouble on demand.
//! - [`cluster`]: nodes whose agents share an API server, and their observers.
//!
//! Functions return [`anyhow::Result`]: in a test an
//! error is a failure, and its chain is the message.

pub mod agent;
pub mod apiserver;
pub mod cluster;
pub mod frames;
pub mod kit;
pub mod lan;
pub mod measure;
pub mod oracle;
