//! `vipward kubernetes`: the arguments of a cluster node's agent.

use std::{
    net::{AddrParseError, IpAddr, SocketAddr},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser};
use ipnet::IpNet;
use vipward_common::Policy;
use vipward_core::{
    base::pattern::InterfacePattern,
    config::{conflict_quiet, probe_repeat, probe_timing},
    host::attaching::Attach,
    liveness::Scale,
    records::Selector,
    segment::{conflict, probing},
    services,
};

use super::{
    access::{AccessArgs, NamespaceArg},
    address::address,
    endpoints::EndpointArgs,
    plane::PlaneArgs,
};

pub(super) const HELP: &str = "\
In a cluster, apply the manifests under deploy/ instead of calling this by hand. To try it from a shell on a node:

  vipward kubernetes --kubeconfig ~/.kube/config --node-name \"$(hostname)\"

It needs CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_PERFMON, a bpffs, and the rights of the ClusterRole \
under deploy/.";

/// `vipward kubernetes`.
#[derive(Args, Debug)]
pub struct KubernetesArgs {
    #[command(flatten)]
    pub api: ApiArgs,
    /// The name of this node's Node object.
    #[arg(
        long,
        value_name = "NAME",
        env = "NODE_NAME",
        value_parser = clap::builder::NonEmptyStringValueParser::new()
    )]
    pub node_name: Option<String>,
    /// This agent's Pod, to find out why it is to end.
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub pod_name: Option<String>,
    /// This agent's Pod's address, where its endpoints are served too.
    #[arg(long, value_name = "ADDRESS", env = "POD_IP")]
    pub pod_address: Option<PodAddress>,
    /// The interfaces that VIPs can be on, by name or glob; repeatable. Default: every up Ethernet
    /// interface that leads to a segment.
    #[arg(long = "interface", value_name = "GLOB")]
    pub interfaces: Vec<InterfacePattern>,
    /// How the program is attached.
    #[arg(long, value_enum, default_value_t = AttachArg::Auto)]
    pub attach: AttachArg,
    #[command(flatten)]
    pub services: ServiceArgs,
    /// No controller runs (vipward controller): read what Services request, and write the statuses
    /// of those whose VIPs this node holds. Default: announce what the statuses name, and write
    /// none.
    #[arg(long)]
    pub without_controller: bool,
    #[command(flatten)]
    pub ownership: OwnershipArgs,
    #[command(flatten)]
    pub proxy: ProxyArgs,
    /// The time between two refreshing announcements of a VIP.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub announce_refresh: Duration,
    /// The most frames a second that announce, over all VIPs.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5_000,
        value_parser = clap::value_parser!(u32).range(2..=1_000_000)
    )]
    pub announce_rate: u32,
    #[command(flatten)]
    pub probing: ProbingArgs,
    #[command(flatten)]
    pub conflicts: ConflictArgs,
    #[command(flatten)]
    pub pages: EndpointArgs,
    #[command(flatten)]
    pub plane: PlaneArgs,
}

impl KubernetesArgs {
    pub fn start_services(&self) -> services::Agent {
        let settings = self.services.settings();
        if self.without_controller {
            services::Agent::alone(settings)
        } else {
            services::Agent::announcer(settings)
        }
    }
}

/// The address of a Pod, which the downward API leaves empty while it has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodAddress(pub Option<IpAddr>);

impl FromStr for PodAddress {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() { Ok(Self(None)) } else { text.parse().map(Some).map(Self) }
    }
}

/// How the API server is reached.
#[derive(Args, Debug)]
pub struct ApiArgs {
    /// The cluster's configuration. Default: the service account of the Pod.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the nodes' Leases.
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", default_value = "vipward-system")]
    pub lease_namespace: String,
}

/// Which Services have VIPs here.
#[derive(Args, Debug)]
#[command(next_help_heading = "Which Services")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct ServiceArgs {
    /// The class of the Services that Vipward serves (their spec.loadBalancerClass).
    #[arg(long, value_name = "NAME", default_value = "vipward.io/l2")]
    pub load_balancer_class: String,
    /// Leave Services without a class alone.
    #[arg(long)]
    pub class_only: bool,
    /// Only Services in this namespace; repeatable.
    #[arg(long = "namespace", value_name = "NAMESPACE")]
    pub namespaces: Vec<String>,
    /// Only Services in namespaces with these labels.
    #[arg(long, value_name = "SELECTOR")]
    pub namespace_selector: Option<Selector>,
    /// Only Services with these labels.
    #[arg(long, value_name = "SELECTOR")]
    pub service_selector: Option<Selector>,
    /// Also hold spec.externalIPs. Kubernetes has deprecated them (1.36): addresses of VIPPools,
    /// or vipward.io/addresses, take their place.
    #[arg(long)]
    pub external_ips: bool,
    /// Only addresses in this network may be VIPs; repeatable. Default: those in the subnets of the
    /// nodes' segments.
    #[arg(long = "allow-address", value_name = "CIDR")]
    pub allow_addresses: Vec<IpNet>,
    /// No address in this network may be a VIP; repeatable. Name the networks of Pods and Services
    /// that the API server does not list.
    #[arg(long = "refuse-address", value_name = "CIDR")]
    pub refuse_addresses: Vec<IpNet>,
    /// The number of addresses that a Service may have.
    #[arg(long, value_name = "N", default_value_t = services::MOST_ADDRESSES)]
    pub max_addresses: usize,
    /// The number of VIPs that the Services of one namespace may have. Default: no limit.
    #[arg(long, value_name = "N")]
    pub max_vips_per_namespace: Option<usize>,
    /// Withdraw VIPs of Services that have no ready endpoint, also under externalTrafficPolicy
    /// Cluster.
    #[arg(long)]
    pub withdraw_without_endpoints: bool,
    /// Replace MetalLB: its IPAddressPools and annotations count, and what its controller
    /// wrote into statuses (needs a controller).
    #[arg(long)]
    pub metallb: bool,
    /// The namespace of MetalLB's objects.
    #[arg(long, value_name = "NAMESPACE", default_value = "metallb-system")]
    pub metallb_namespace: String,
    /// Let nodes with the label node.kubernetes.io/exclude-from-external-load-balancers hold VIPs
    /// too.
    #[arg(long)]
    pub ignore_exclude_label: bool,
}

impl ServiceArgs {
    pub fn settings(&self) -> services::Settings {
        services::Settings {
            class: self.load_balancer_class.as_str().into(),
            class_only: self.class_only,
            namespaces: self.namespaces.iter().map(|name| name.as_str().into()).collect(),
            namespace_selector: self.namespace_selector.clone(),
            service_selector: self.service_selector.clone(),
            external_ips: self.external_ips,
            allow: self.allow_addresses.clone(),
            refuse: self.refuse_addresses.clone(),
            most_addresses: self.max_addresses,
            most_vips: self.max_vips_per_namespace,
            withdraw_without_endpoints: self.withdraw_without_endpoints,
            metallb: self.metallb,
        }
    }
}

/// How the nodes agree on who holds a VIP.
#[derive(Args, Debug)]
#[command(next_help_heading = "Who holds a VIP")]
pub struct OwnershipArgs {
    /// How long a node may leave its Lease unrenewed before others take its VIPs over.
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = humantime::parse_duration)]
    pub lease_duration: Duration,
    /// The time between two renewals of a node's Lease.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    pub lease_renewal: Duration,
    /// A node's lease deadline is this much before the end of its Lease. Others wait this much longer.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = humantime::parse_duration)]
    pub margin: Duration,
    /// What a node that cannot renew does: answer on until a peer announces the VIP, or stop.
    #[arg(long, value_enum, default_value_t = PolicyArg::Hold)]
    pub policy: PolicyArg,
    /// The grace period: the longest time for which a node answers after its lease deadline, even
    /// without an agent.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = humantime::parse_duration)]
    pub hold_for: Duration,
    /// How long others wait for an agent that is restarted.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub restart_lease: Duration,
    /// How long a better node must have been one before it gets a VIP.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub stable_for: Duration,
    /// The time between two moves to better nodes.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = humantime::parse_duration)]
    pub handover_pace: Duration,
    /// How dead nodes are found. off: by their Leases alone. 1, 2 and 4: also by pings between the
    /// nodes of a segment, one each 100 ms times this value. A larger value bears longer stalls of
    /// hosts. Pings need the Secret vipward-wire and --policy hold.
    #[arg(long, value_enum, default_value_t = WireArg::Two)]
    pub wire: WireArg,
}

/// How this node's service proxy is asked.
#[derive(Args, Debug)]
#[command(next_help_heading = "Service proxy")]
pub struct ProxyArgs {
    /// Where kube-proxy, or what replaces it, says that it is healthy; several with commas, of which
    /// one suffices. A node that has booted takes no VIP before. Under externalTrafficPolicy Local,
    /// spec.healthCheckNodePort is asked too. off: neither is asked.
    #[arg(
        long,
        value_name = "URL|off",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:10256/healthz,http://127.0.0.1:9879/healthz"
    )]
    pub proxy_health: Vec<ProxyHealth>,
    /// How long an endpoint of the proxy that cannot be reached counts as not ready.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub proxy_timeout: Duration,
}

impl ProxyArgs {
    /// Returns the health endpoints. There is none if the proxy is not asked.
    pub fn health(&self) -> Vec<HealthUrl> {
        let urls = self.proxy_health.iter().map(|health| match health {
            ProxyHealth::Off => None,
            ProxyHealth::At(url) => Some(url.clone()),
        });
        urls.collect::<Option<_>>().unwrap_or_default()
    }

    /// Returns the time after which what cannot be reached no longer counts, if the proxy is asked.
    pub fn timeout(&self) -> Option<Duration> {
        (!self.health().is_empty()).then_some(self.proxy_timeout)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProxyHealth {
    Off,
    At(HealthUrl),
}

/// The URL of a health endpoint on this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthUrl {
    pub address: SocketAddr,
    pub path: String,
}

impl FromStr for ProxyHealth {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let rest =
            text.strip_prefix("http://").context("write off, or a URL as http://127.0.0.1:10256/healthz")?;
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = address
            .parse()
            .with_context(|| format!("{address:?} is no address with a port, as 127.0.0.1:10256"))?;
        let is_sound = path.chars().all(|letter| letter.is_ascii_graphic());
        anyhow::ensure!(is_sound, "{path:?} is no path");
        Ok(Self::At(HealthUrl { address, path: format!("/{path}") }))
    }
}

/// How addresses are probed.
#[derive(Args, Debug)]
#[command(next_help_heading = "Probing")]
#[expect(clippy::struct_field_names, reason = "the fields are named like the options")]
pub struct ProbingArgs {
    /// The number of probes of an address before its VIP is taken for the first time; 0 for none.
    #[arg(
        long,
        value_name = "N",
        default_value_t = probing::Settings::DEFAULT.count,
        value_parser = clap::value_parser!(u32).range(0..=20)
    )]
    pub probe_count: u32,
    /// The time between two of them, or rfc5227 for the times of the RFC (four to seven seconds in
    /// all).
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = probe_timing)]
    pub probe_interval: probing::Timing,
    /// The time between two probes for a VIP that is held, which find rivals that only answer; 0s
    /// for none.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = probe_repeat_of)]
    pub probe_repeat: Duration,
    /// The most probes a second, over all VIPs.
    #[arg(
        long,
        value_name = "N",
        default_value_t = probing::Settings::DEFAULT.rate,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub probe_rate: u32,
    /// The policy for an address that only a proxy answers for, in the name of a host that does not answer
    /// itself.
    #[arg(long, value_enum, default_value_t = ProxiedArg::Take)]
    pub probe_proxied: ProxiedArg,
}

/// The policy for an address that only a proxy answers for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ProxiedArg {
    /// It counts as free. The announcement corrects the proxy.
    Take,
    /// It counts as in use.
    Wait,
}

impl From<ProxiedArg> for probing::Proxied {
    fn from(proxied: ProxiedArg) -> Self {
        match proxied {
            ProxiedArg::Take => Self::Take,
            ProxiedArg::Wait => Self::Wait,
        }
    }
}

fn probe_repeat_of(text: &str) -> anyhow::Result<Duration> {
    let repeat = humantime::parse_duration(text)?;
    probe_repeat(repeat)?;
    Ok(repeat)
}

impl ProbingArgs {
    pub fn settings(&self) -> probing::Settings {
        probing::Settings {
            count: self.probe_count,
            timing: self.probe_interval,
            repeat: (!self.probe_repeat.is_zero()).then_some(self.probe_repeat),
            rate: self.probe_rate,
            proxied: self.probe_proxied.into(),
        }
    }
}

/// How conflicts are dealt with.
#[derive(Args, Debug)]
#[command(next_help_heading = "Conflicts")]
pub struct ConflictArgs {
    /// When a VIP that another host claims is announced again. The claims are dropped in any case.
    #[arg(long, value_enum, default_value_t = DefendArg::Match)]
    pub defend: DefendArg,
    /// How long a conflict must have been quiet to be over; at least 1s. Below --probe-repeat, the
    /// conflict with a rival that only answers ends, and begins anew with the next probe.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = conflict_quiet)]
    pub conflict_quiet: Duration,
}

impl ConflictArgs {
    pub fn settings(&self) -> conflict::Settings {
        conflict::Settings { defend: self.defend.into(), quiet: self.conflict_quiet }
    }
}

/// When a VIP is defended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DefendArg {
    /// The program announces it after each broadcast claim, at most 20 times a second; the agent
    /// acts as under `always`.
    Match,
    /// At once, and every 10s while claims come.
    Always,
    /// When a conflict begins.
    Once,
    /// Not at all.
    Never,
}

impl From<DefendArg> for conflict::Defend {
    fn from(defend: DefendArg) -> Self {
        match defend {
            DefendArg::Match => Self::Match,
            DefendArg::Always => Self::Always,
            DefendArg::Once => Self::Once,
            DefendArg::Never => Self::Never,
        }
    }
}

/// How the program is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum AttachArg {
    /// Native on hardware whose driver takes it, else tc.
    Auto,
    /// XDP in the driver only.
    Native,
    /// The ingress of traffic control only.
    Tc,
    /// XDP in the network stack only.
    Generic,
}

impl From<AttachArg> for Attach {
    fn from(attach: AttachArg) -> Self {
        match attach {
            AttachArg::Auto => Self::Auto,
            AttachArg::Native => Self::Native,
            AttachArg::Tc => Self::Tc,
            AttachArg::Generic => Self::Generic,
        }
    }
}

/// How dead nodes are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum WireArg {
    /// By their Leases alone.
    Off,
    /// Also by pings.
    #[value(name = "1")]
    One,
    /// With twice the times.
    #[value(name = "2")]
    Two,
    /// With four times the times.
    #[value(name = "4")]
    Four,
}

impl WireArg {
    /// Returns the factor of all times. None if nodes do not ping.
    pub const fn scale(self) -> Option<Scale> {
        match self {
            Self::Off => None,
            Self::One => Some(Scale::One),
            Self::Two => Some(Scale::Two),
            Self::Four => Some(Scale::Four),
        }
    }
}

/// What a node that cannot renew does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PolicyArg {
    /// Answer on, until a peer announces the VIP.
    Hold,
    /// Stop answering.
    Stop,
}

impl From<PolicyArg> for Policy {
    fn from(policy: PolicyArg) -> Self {
        match policy {
            PolicyArg::Hold => Self::Hold,
            PolicyArg::Stop => Self::Stop,
        }
    }
}

/// `vipward move`.
#[derive(Args, Debug)]
pub struct MoveArgs {
    /// The VIP, or the name of its VirtualIP.
    #[arg(value_parser = address)]
    pub address: IpAddr,
    /// The node that is to hold it.
    #[arg(long, value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    pub to: String,
    /// How long to wait until it holds it.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub namespace: NamespaceArg,
}

#[cfg(test)]
mod tests;
