//! Where the facts are looked for, and why nothing can be explained.

use std::path::PathBuf;

use thiserror::Error;
use vipward_core::services;

use crate::shell::{
    kernel::netlink::NetlinkError,
    kube::{Access, ConnectError},
};

/// The sources of facts.
#[derive(Clone, Debug)]
pub struct Options {
    /// The interface to probe the segment through; by default the one whose subnet contains the
    /// address.
    pub interface: Option<String>,
    /// The way to the API server, if there is one.
    pub access: Access,
    pub lease_namespace: String,
    /// The settings by which the agents choose the Services that they serve.
    pub services: services::Settings,
    /// True if nodes with the exclude label are left out.
    pub honour_exclude_label: bool,
    /// The file of a standalone agent.
    pub config: Option<PathBuf>,
    /// The pin directory of an agent that may run here.
    pub pin_dir: PathBuf,
}

/// The reason why nothing can be explained.
#[derive(Debug, Error)]
pub enum ExplainError {
    #[error("failed to find the API server")]
    Connect(#[from] ConnectError),
    #[error("failed to read the interfaces")]
    Netlink(#[from] NetlinkError),
    #[error("failed to read the clock")]
    Clock(#[from] nix::Error),
}
