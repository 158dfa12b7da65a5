//! The arguments about the data plane and the log.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use vipward_common::{DEFAULT_MAX_VIPS, PIN_DIR};

/// The pin directory.
#[derive(Args, Debug)]
pub struct PinArgs {
    /// Directory on a bpffs for the maps and links; one agent each.
    #[arg(long, value_name = "DIR", default_value = PIN_DIR)]
    pub pin_dir: PathBuf,
}

/// The arguments of `vipward unload`.
#[derive(Args, Debug)]
pub struct UnloadArgs {
    #[command(flatten)]
    pub pins: PinArgs,
    /// Every pin directory of Vipward on the bpffs in sight that no agent uses.
    #[arg(long, conflicts_with = "pin_dir")]
    pub all: bool,
}

/// The options of every agent about its data plane and its log.
#[derive(Args, Debug)]
pub struct PlaneArgs {
    #[command(flatten)]
    pub pins: PinArgs,
    /// Entries of the VIP map: each VIP takes one on every attached interface, the held ones first.
    /// Changing it keeps the entries.
    #[arg(
        long,
        value_name = "N",
        default_value_t = DEFAULT_MAX_VIPS,
        value_parser = clap::value_parser!(u32).range(1..=1 << 22)
    )]
    pub max_vips: u32,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Also log each claim as the program sees it (through aya-log); off costs nothing.
    #[arg(long)]
    pub log_claims: bool,
    /// Load this eBPF object instead of the one in this binary.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub ebpf_object: Option<PathBuf>,
}

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}
