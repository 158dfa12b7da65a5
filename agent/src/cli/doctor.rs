//! `vipward doctor`: the arguments.

use clap::Args;
use vipward_core::base::pattern::InterfacePattern;

use super::{output::Output, plane::PinArgs};

pub(super) const HELP: &str = "\
Exit codes: 0 when nothing is red, 8 when something is; with --strict also when something is yellow or unknown. \
Otherwise 4 when root could read more.

It changes nothing. Run it as root to see everything: what could not be read is unknown, with the reason. \
While the lease deadline lies ahead, it waits for a heartbeat, for 3 s at most.

`vipward doctor --checks` and docs/reference/doctor.md describe every check.";

/// `vipward doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub pins: PinArgs,
    /// The interfaces to examine, by name, altname, MAC or glob; repeatable. Default: those that the
    /// program is attached to, and those that an agent would attach to.
    #[arg(long = "interface", value_name = "GLOB")]
    pub interfaces: Vec<InterfacePattern>,
    /// Show also the checks that are green or do not apply. JSON and YAML always have them.
    #[arg(long)]
    pub all: bool,
    /// Fail also when something is yellow or unknown.
    #[arg(long)]
    pub strict: bool,
    /// Only print what each check reads, and when it is yellow or red.
    #[arg(long)]
    pub checks: bool,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}
