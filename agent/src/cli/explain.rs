//! `vipward explain`: the arguments.

use std::{net::IpAddr, path::PathBuf, sync::Arc};

use clap::Args;

use super::{
    access::AccessArgs, address::address, kubernetes::ServiceArgs, output::ReportFormat, plane::PinArgs,
};

#[cfg(test)]
mod tests;

const HELP: &str = "\
In a cluster, from anywhere with a kubeconfig. On the holder of the VIP it sees the most:

  vipward explain apps/web --kubeconfig ~/.kube/config
  vipward explain 192.0.2.10 --kubeconfig ~/.kube/config

Beside a standalone agent:

  vipward explain 192.0.2.10 --config /etc/vipward/vipward.yaml

Without a kubeconfig, and in no Pod, it reads no cluster. Give the options about Services that the agents have. \
What cannot be read from here is \"unknown\".

Exit codes: 0 no inspected step is broken, 8 a step is broken, 1 it failed or no step could be inspected, \
3 the kubeconfig is wrong, 4 no step could be inspected without root.";

/// `vipward explain`.
#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub struct ExplainArgs {
    /// What to explain: an address, the name of its VirtualIP, or a Service, as NAMESPACE/NAME or NAME.
    #[arg(value_name = "ADDRESS|SERVICE", value_parser = subject)]
    pub subject: Subject,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Table)]
    pub output: ReportFormat,
    /// The interface (name, altname or MAC) to probe the segment through. Default: where an agent here has it,
    /// else the one whose subnet contains it.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    #[command(flatten)]
    pub access: AccessArgs,
    /// The namespace of the nodes' Leases.
    #[arg(
        short = 'n',
        long,
        value_name = "NAMESPACE",
        env = "POD_NAMESPACE",
        default_value = "vipward-system"
    )]
    pub lease_namespace: String,
    /// The file of a standalone agent on this host; ~/.kube/config is not used then, unless a
    /// --context is named.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub pins: PinArgs,
    #[command(flatten)]
    pub services: ServiceArgs,
}

/// What to explain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    Address(IpAddr),
    /// A Service, and then its addresses.
    Service(NamedService),
}

/// A Service as an operator names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedService {
    /// Its namespace; by default the namespace of the kubeconfig's context.
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

/// Reads an address, or a Service's name. Fails for any other text.
fn subject(text: &str) -> Result<Subject, String> {
    let why = match address(text) {
        Ok(address) => return Ok(Subject::Address(address)),
        Err(why) if text.parse::<IpAddr>().is_ok() => return Err(why),
        Err(why) => why,
    };
    let (namespace, name) = match text.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, text),
    };
    // A Service is named as a host in DNS is (RFC 1035), and begins with a letter.
    let is_label = |text: &str| {
        text.len() <= 63
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    let begins_well = name.starts_with(|first: char| first.is_ascii_lowercase());
    if begins_well && is_label(name) && namespace.is_none_or(|it| !it.is_empty() && is_label(it)) {
        return Ok(Subject::Service(NamedService {
            namespace: namespace.map(Into::into),
            name: name.into(),
        }));
    }
    Err(format!("{why}, nor a Service such as apps/web"))
}
