//! The command line and its help.

mod access;
mod address;
mod agent;
mod command;
mod controller;
mod doctor;
mod endpoints;
mod explain;
mod groups;
mod kubernetes;
mod output;
mod plane;
mod plugin;
mod pools;
mod status;
mod uninstall;
mod watch;
mod who_has;
mod wire;

pub use self::{
    access::{AccessArgs, IdentityArgs},
    agent::AgentArgs,
    command::{Cli, Command},
    controller::ControllerArgs,
    doctor::DoctorArgs,
    endpoints::{EndpointArgs, Listen, ListenAddress, ListenAddressError, PORT},
    explain::{ExplainArgs, NamedService, Subject},
    kubernetes::{
        ApiArgs, AttachArg, HealthUrl, KubernetesArgs, MoveArgs, OwnershipArgs, PodAddress, PolicyArg,
        ProxyArgs, ServiceArgs, WireArg,
    },
    output::{Output, ReportFormat},
    plane::{LogFormat, PinArgs, PlaneArgs, UnloadArgs},
    plugin::{CalledAs, complete, in_order},
    pools::{PoolsArgs, ReleaseArgs},
    status::{ExtentArgs, RecordArgs, StatusArgs},
    uninstall::UninstallArgs,
    watch::{LinesArg, WatchArgs},
    who_has::WhoHasArgs,
    wire::{SecretArgs, WireArgs, WireCommand, WireInitArgs, WireRotateArgs},
};
