//! `vipward kubernetes`: what the agent of a cluster's node is told.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use ipnet::Ipv4Net;
use vipward_common::Policy;

use super::PlaneArgs;
use crate::core::{
    cluster::Selector,
    config::{InterfacePattern, XdpMode},
};

/// What follows `vipward kubernetes --help`.
pub(super) const HELP: &str = "\
In a cluster, apply the manifests under deploy/ instead of calling this by hand. To try it from a shell on a node:

  vipward kubernetes --kubeconfig ~/.kube/config --node-name \"$(hostname)\"

It needs CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_PERFMON, a bpffs, and the rights of the ClusterRole under deploy/.";

/// `vipward kubernetes`.
#[derive(Args, Debug)]
pub struct KubernetesArgs {
    /// The cluster, and this node in it.
    #[command(flatten)]
    pub api: ApiArgs,
    /// The name of this node's Node object.
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    pub node_name: Option<String>,
    /// This agent's Pod, to find out why it is told to end.
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub pod_name: Option<String>,
    /// The interfaces that VIPs can be on, by name or glob; repeatable. Default: every up Ethernet interface that leads to
    /// a segment.
    #[arg(long = "interface", value_name = "GLOB")]
    pub interfaces: Vec<InterfacePattern>,
    /// How the program is attached.
    #[arg(long, value_enum, default_value_t = XdpArg::Auto)]
    pub xdp: XdpArg,
    /// Which Services.
    #[command(flatten)]
    pub services: ServiceArgs,
    /// Who holds a VIP.
    #[command(flatten)]
    pub ownership: OwnershipArgs,
    /// The time between two refreshing announcements of a VIP.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub announce_refresh: Duration,
    /// The most frames a second that announce, over all VIPs.
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub announce_rate: u32,
    /// Where /livez and /readyz are served.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9647")]
    pub health_address: SocketAddr,
    /// The data plane and the log.
    #[command(flatten)]
    pub plane: PlaneArgs,
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
    /// The class of Services that are ours, as their spec.loadBalancerClass says.
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
    /// Also hold spec.externalIPs.
    #[arg(long)]
    pub external_ips: bool,
    /// Only addresses in this subnet may be VIPs; repeatable. Default: every address that is not somebody's.
    #[arg(long = "allow-address", value_name = "CIDR")]
    pub allow_addresses: Vec<Ipv4Net>,
    /// Withdraw VIPs of Services that have no ready endpoint, also under externalTrafficPolicy Cluster.
    #[arg(long)]
    pub withdraw_without_endpoints: bool,
    /// Let nodes with the label node.kubernetes.io/exclude-from-external-load-balancers hold VIPs too.
    #[arg(long)]
    pub ignore_exclude_label: bool,
}

/// How the nodes agree on who holds a VIP.
#[derive(Args, Debug)]
#[command(next_help_heading = "Who holds a VIP")]
pub struct OwnershipArgs {
    /// How long a node may be silent before others take its VIPs over.
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = humantime::parse_duration)]
    pub lease_duration: Duration,
    /// How often a node says that it lives.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    pub lease_renewal: Duration,
    /// A node stops this much before its lease ends, and others wait this much longer.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = humantime::parse_duration)]
    pub margin: Duration,
    /// What a node that cannot renew does: answer on until a peer announces the VIP, or stop.
    #[arg(long, value_enum, default_value_t = PolicyArg::Hold)]
    pub policy: PolicyArg,
    /// How long it answers on at most, when its agent is dead too.
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
}

/// How the program is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum XdpArg {
    /// Native where it works, else generic.
    Auto,
    /// In the driver only.
    Native,
    /// In the network stack only.
    Generic,
}

impl From<XdpArg> for XdpMode {
    fn from(mode: XdpArg) -> Self {
        match mode {
            XdpArg::Auto => Self::Auto,
            XdpArg::Native => Self::Native,
            XdpArg::Generic => Self::Generic,
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
    /// The VIP.
    pub address: std::net::Ipv4Addr,
    /// The node that is to hold it.
    #[arg(long, value_name = "NODE")]
    pub to: String,
    /// How long to wait until it holds it.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
    /// The cluster's configuration. Default: ~/.kube/config, else the service account of the Pod.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
}
