//! `vipward who-has`: the arguments.

use std::{net::IpAddr, time::Duration};

use clap::Args;

use super::{address::address, output::ReportFormat, plane::PinArgs};

/// `vipward who-has`.
#[derive(Args, Debug)]
#[command(after_long_help = after_help())]
pub struct WhoHasArgs {
    /// The address to probe, or the name of its VirtualIP.
    #[arg(value_parser = address)]
    pub address: IpAddr,
    /// The interface (name, altname or MAC) to probe through. Default: where an agent here has it, else the one
    /// whose subnet contains the address.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// The number of probes.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub count: u32,
    /// How long to wait for answers to each probe; a later answer counts for the next probe.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = timeout)]
    pub timeout: Duration,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Table)]
    pub output: ReportFormat,
    #[command(flatten)]
    pub pins: PinArgs,
}

fn after_help() -> String {
    format!(
        "It sends ARP probes (RFC 5227) for IPv4, which change no host's cache, and Neighbour Solicitations for \
         IPv6, as clients do.\n\
         It needs CAP_NET_RAW, and CAP_BPF to read the pins.\n\
         Exit codes: 0 one MAC answers, 6 none, 7 several, 1 the probe failed, 4 CAP_NET_RAW is missing.\n\
         Vendor names are as of {}.",
        vipward_vendors::table_date()
    )
}

/// Parses the wait for answers. Fails if it is too
/// short to receive any answer, or longer than a minute.
fn timeout(text: &str) -> Result<Duration, String> {
    const RANGE: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_mins(1);

    let timeout = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if RANGE.contains(&timeout) { Ok(timeout) } else { Err("it must be between 10ms and 60s".to_owned()) }
}
