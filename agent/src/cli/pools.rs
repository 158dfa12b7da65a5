//! `vipward pools` and `vipward release`: the arguments.

use std::{net::IpAddr, time::Duration};

use clap::Args;

use super::{
    access::{AccessArgs, NamespaceArg},
    address::address,
    output::Output,
};

/// `vipward pools`.
#[derive(Args, Debug)]
pub struct PoolsArgs {
    /// Only this pool, with its addresses.
    pub pool: Option<String>,
    /// List the reserved addresses too, each with its Service.
    #[arg(long)]
    pub addresses: bool,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub namespace: NamespaceArg,
}

/// `vipward release`.
#[derive(Args, Debug)]
pub struct ReleaseArgs {
    /// The address, or the name of its VirtualIP.
    #[arg(value_parser = address)]
    pub address: IpAddr,
    /// How long to wait until it is released.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub namespace: NamespaceArg,
}
