//! Test library: LANs in network namespaces, agents on
//! them, an API server, and an oracle for the XDP program.
//! A [`Lan`](lan::Lan) is a switch and its hosts, each in its own network
//! namespace. LANs are invisible outside and independent of each other.
//! Dropping the values removes everything, also when a test panics.
//!
//! ```no_run
//! use std::{net::Ipv4Addr, time::Duration};
//! use vipward_tests::{arp::Arp, lan::{Lan, Nic}, wire::Wire};
//!
//! # fn main() -> anyhow::Result<()> {
//! let lan = Lan::new("example")?;
//! let client = lan.host("client", Nic::new("192.0.2.1/24".parse()?))?;
//! let server = lan.host("server", Nic::new("192.0.2.2/24".parse()?).mac("02:00:00:00:00:02".parse()?))?;
//!
//! // Ask with the kernel's own resolver …
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
//! | module | content |
//! |---|---|
//! | [`lan`] | switches, hosts, cables, addresses, neighbour tables, sysctls |
//! | [`process`] | child processes in a host |
//! | [`arp`], [`nd`], [`wire`] | frames from RFC 826 and RFC 4861, and a raw socket for them |
//! | [`family`], [`message`] | what a test needs to run in both families |
//! | [`probe`] | a thousand requests a second, with the sources and times of the answers |
//! | [`monitor`] | several VIPs on the wire: gaps, double answers, moves, announcements |
//! | [`datagrams`] | the datagrams of a client's kernel, and the nodes that received them |
//! | [`responder`], [`flood`] | an ARP responder in user space, and a rogue that floods |
//! | [`agent`], [`bpffs`] | the program under test, and a private place for its pins |
//! | [`apiserver`] | a Kubernetes API server that makes trouble on demand |
//! | [`kernel`], [`oracle`] | the program run frame by frame, and its expected results |
//! | [`verifier`] | the counts of the kernel's verifier, and their budgets |
//! | [`vm`] | the virtual machine that a test runs in |
//! | [`mod@cluster`] | three nodes whose agents share an API server, and their observers |
//! | [`node`] | a host with an agent that holds VIPs, and a client |
//! | [`scene`], [`hook`] | ready scenes with an agent, and foreign programs on a host |
//! | [`tools`], [`wait`], [`interrupt`] | external tools, waiting for a condition, and Ctrl-C |
//! Functions return [`anyhow::Result`]: in a test an
//! error is a failure, and its chain is the message.

pub mod agent;
pub mod apiserver;
pub mod arp;
pub mod bpffs;
pub mod chart;
pub mod cluster;
pub mod datagrams;
pub mod family;
pub mod flood;
pub mod hook;
pub mod http;
pub mod interrupt;
pub mod kernel;
pub mod lan;
pub mod message;
pub mod monitor;
pub mod nd;
pub mod node;
pub mod oracle;
pub mod probe;
pub mod process;
pub mod prometheus;
pub mod responder;
pub mod scene;
pub mod tools;
pub mod verifier;
pub mod vm;
pub mod wait;
pub mod wire;
mod worker;

use anyhow::{Result, ensure};

/// Fails unless this process is root, and says how to run it.
pub fn require_root() -> Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "needs root for network namespaces, raw sockets and bpffs: run `cargo xtask test`, or this command with sudo"
    );
    Ok(())
}
