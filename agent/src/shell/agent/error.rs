//! Why the agent could not start, or ended by itself.

use std::{io, path::PathBuf};

use thiserror::Error;
use vipward_core::{
    config::ConfigError,
    ownership::SettingsError,
    records::{NodeName, Session},
};

use crate::shell::{
    endpoints::EndpointsError,
    kernel::{
        bind::BindError,
        bpf::BpfError,
        file_watch::FileWatchError,
        groups::GroupsError,
        netlink::NetlinkError,
        packet::PacketError,
        preflight::{PinDirError, PreflightError},
    },
    kube::ConnectError,
};

/// The reason why the agent could not start, or ended by itself.
#[derive(Debug, Error)]
pub enum RunError {
    #[error("failed to read the configuration {}", path.display())]
    ReadConfig {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the configuration is wrong")]
    Config(#[from] ConfigError),
    /// Pools without a controller, which alone gives out their addresses.
    #[error(
        "--metallb needs a controller, since nothing else gives out the addresses of IPAddressPools: leave out \
         --without-controller, or --metallb"
    )]
    NoPools,
    #[error("this host cannot run the agent")]
    Preflight(#[from] PreflightError),
    #[error("the pin directory cannot be used")]
    PinDir(#[from] PinDirError),
    #[error("the data plane failed")]
    Bpf(#[from] BpfError),
    #[error("the network could not be observed")]
    Netlink(#[from] NetlinkError),
    /// A VIP could not be added to an interface, or removed from it.
    #[error("an address could not be changed")]
    Bind(#[from] BindError),
    /// The groups of neighbour solicitations could not be read or changed.
    #[error("the multicast groups of neighbour solicitations could not be read or changed")]
    Groups(#[from] GroupsError),
    #[error("failed to prepare the socket for announcements")]
    Packet(#[from] PacketError),
    #[error("the configuration cannot be watched")]
    Watch(#[from] FileWatchError),
    #[error("the settings are invalid")]
    Settings(#[from] SettingsError),
    /// An API server that cannot be found or used.
    #[error("no access to the API server")]
    Connect(#[from] ConnectError),
    #[error("failed to serve the HTTP endpoints")]
    Endpoints(#[from] EndpointsError),
    #[error(
        "another agent runs under the node name {node}, in session {session}: two would take VIPs from \
         each other. Give each its own --node-name"
    )]
    NotAlone { node: NodeName, session: Session },
    /// A fault of this program.
    #[error("the agent waits for a result that does not come: this is a fault of Vipward")]
    NoResult,
    #[error("failed to {operation}")]
    System {
        operation: &'static str,
        #[source]
        source: io::Error,
    },
}

pub(super) fn system(operation: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::System { operation, source }
}
