//! Problems of Services, each with the value, the place and the remedy.

use std::{fmt, net::IpAddr, sync::Arc};

use thiserror::Error;

use super::{Ineffective, OtherController, Place, Port, Refusal, ServiceRecord};
use crate::{
    base::{legible::Excerpt, pattern::PatternError, time::utc},
    pools::Lack,
    records::{NodeName, SelectorError, ServiceName},
};

mod reason;

pub use self::reason::ProblemReason;

#[cfg(test)]
mod tests;

const MOST_LISTED: usize = 16;

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Problem {
    #[error(
        "{place} is {value:?}: {why}. Until it is put right, what was last read there, if anything, stays in effect"
    )]
    Malformed { place: Place, value: Excerpt, why: Malformed },
    #[error("{address} ({place}) is not announced: {why}")]
    Refused { address: IpAddr, place: Place, why: Refusal },
    #[error(
        "it is to have {} ({place}), but {by} has written {} into the status, and Vipward does not change \
         that. Where the other one only assigns addresses, make both name the same. {way_out}",
        join(.wanted), join(.status)
    )]
    OtherManager {
        by: Writer,
        /// Its addresses. Empty if none of them is a VIP.
        status: Vec<IpAddr>,
        place: Place,
        wanted: Vec<IpAddr>,
        way_out: WayOut,
    },
    #[error(
        "{by} has written {} into the status, and so has Vipward: both may answer for the same address. \
         Where the other one only assigns addresses, leave them to it: remove {place}. {way_out}",
        join(.status)
    )]
    SharedStatus { by: Writer, status: Vec<IpAddr>, place: Place, way_out: WayOut },
    #[error(
        "{} take turns at status.loadBalancer: what one writes, the next replaces. Vipward writes none \
         until no other writer has changed it for 5 minutes. {way_out}",
        rivals(.managers)
    )]
    Contested {
        /// Their known field managers, Vipward's included.
        managers: Vec<Arc<str>>,
        way_out: WayOut,
    },
    #[error(
        "annotation {} makes it a Service of {}, and Vipward serves it too, since it has no class: both may \
         answer for the same address. Remove that annotation, or set vipward.io/ignore to \"true\". {way_out}",
        .controller.annotation(), .controller.name()
    )]
    OtherController { controller: OtherController, way_out: WayOut },
    #[error(
        "Vipward does not announce it any more: {}; whichever controller serves it now is to announce it. \
         To have it back, give it spec.loadBalancerClass {ours:?} (only as it is created, or becomes one \
         of type LoadBalancer)",
        taken(.class.as_deref(), .ours)
    )]
    HandedOver { class: Option<Arc<str>>, ours: Arc<str> },
    #[error("VIP {vip} stays announced and is defended, but {}", .why.conflict())]
    Disputed { vip: IpAddr, why: Refusal },
    #[error(
        "{vip} is announced, but Vipward does not write it into the status: no Node has an address \
         (status.addresses) in its subnet, and no VIPPool has it. Make a VIPPool with it (autoAssign: false will do)"
    )]
    Unconfirmed { vip: IpAddr },
    #[error("annotation {annotation} has no effect on a Service: {why}")]
    Ineffective { annotation: Excerpt, why: Ineffective },
    #[error(
        "{ignored} is {value:?}, and has no effect: {used} comes first, and is {in_effect:?}. Have both name the same, \
         or remove one"
    )]
    Contradiction { used: Place, in_effect: Excerpt, ignored: Place, value: Excerpt },
    #[error(
        "spec.externalIPs has {}, which Vipward does not announce: agents and controller run without \
         --external-ips. Name them in the annotation vipward.io/addresses instead (of a Gateway: in its \
         spec.infrastructure.annotations), or set that flag",
        join(.unserved)
    )]
    ExternalIpsUnserved { unserved: Vec<IpAddr> },
    #[error(
        "spec.externalIPs is deprecated since Kubernetes 1.36, and off by default from 1.40 on. Name the \
         addresses in the annotation vipward.io/addresses instead, or have a VIPPool give this Service \
         some"
    )]
    ExternalIps,
    #[error(transparent)]
    Lacking(Lack),
    #[error(
        "{vip} is not reserved for it, since the API server refuses the VirtualIP: {why}. Mend that (the rights \
         of the service account vipward-controller, admission policies, quotas): Vipward tries again. \
         Or name another address in the annotation vipward.io/addresses"
    )]
    NotReserved { vip: IpAddr, why: Arc<str> },
    #[error(
        "its status is not written, since the API server refuses that: {why}. Mend that (the rights of Vipward's \
         service account on services/status, admission policies): Vipward tries again"
    )]
    StatusRefused { why: Arc<str> },
    #[error(
        "it requests {asked} addresses, and a Service may have {limit} (--max-addresses): only the first of them are \
         announced; give the others to further Services"
    )]
    TooManyAddresses { asked: usize, limit: usize },
    #[error(
        "{vip} ({place}) is not announced: its namespace has {limit} VIPs, and may have no more \
         (--max-vips-per-namespace); remove one, or have an admin raise the limit"
    )]
    TooManyVips { vip: IpAddr, place: Place, limit: usize },
    #[error(
        "{vip} ({place}) is not announced for this Service: it belongs to Service {with}. Choose another \
         address; or, to share it, give both Services the same annotation vipward.io/share, and have the \
         Namespace {} list {own} in its annotation vipward.io/share-with", .with.namespace
    )]
    Unshared { vip: IpAddr, place: Place, with: ServiceName, own: Arc<str> },
    #[error(
        "{vip} ({place}) is not announced for this Service: its port {port} is that of Service {with}, \
         {}; change the port, or give one of them another address",
        if *.is_of_owner { "whose namespace has the VIP" } else { "which had it first" }
    )]
    Clash {
        vip: IpAddr,
        place: Place,
        port: Port,
        with: ServiceName,
        /// True if the other one alone is of the owner's namespace.
        is_of_owner: bool,
    },
    #[error(
        "VIP {vip} is on a node without an endpoint of this Service, which gets no traffic \
         (externalTrafficPolicy Local): {}", apart(*.vip, .with.as_ref())
    )]
    Partial {
        vip: IpAddr,
        /// The Service before it that has no node with it in common.
        with: Option<ServiceName>,
    },
    #[error(
        "node {node} may get VIP {vip} before its service proxy delivers: nothing answers at \
         healthCheckNodePort {port} there. See whether kube-proxy, or what replaces it, runs on that node. \
         If it serves no such port, start the agents with --proxy-health off"
    )]
    ProxyUnreachable { vip: IpAddr, port: u16, node: NodeName },
    #[error(
        "{place} is {value:?} for VIP {vip}, and has no effect: Service {with}, which has the VIP longer, \
         decides, and has {}; make them the same, or give one of them another address", used_text(.used.as_ref())
    )]
    Disagrees { vip: IpAddr, place: Place, value: Excerpt, with: ServiceName, used: Option<Excerpt> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeenBy<'a> {
    All,
    /// All nodes see it, and the named node knows most about it.
    AllBest(&'a NodeName),
    /// Perhaps only this node sees it, because of its own network.
    This,
}

impl Problem {
    pub(super) fn is_contest(&self) -> bool {
        matches!(self, Self::Contested { .. })
    }

    pub(super) fn is_of_status(&self) -> bool {
        matches!(self, Self::OtherManager { .. } | Self::SharedStatus { .. })
    }

    pub fn seen_by(&self) -> SeenBy<'_> {
        match self {
            Self::Refused {
                why: Refusal::NodeInterface { node, .. } | Refusal::NodeGateway { node, .. },
                ..
            }
            | Self::Disputed {
                why: Refusal::NodeInterface { node, .. } | Refusal::NodeGateway { node, .. },
                ..
            } => SeenBy::AllBest(node),
            Self::Refused { why, .. } | Self::Disputed { why, .. } if why.is_this_nodes_view() => {
                SeenBy::This
            }
            // Only the process that writes the status is refused, and each node asks its own proxy.
            Self::StatusRefused { .. } | Self::ProxyUnreachable { .. } => SeenBy::This,
            Self::Refused { .. }
            | Self::Disputed { .. }
            | Self::Ineffective { .. }
            | Self::Contradiction { .. }
            | Self::ExternalIpsUnserved { .. }
            | Self::ExternalIps
            | Self::Unconfirmed { .. }
            | Self::NotReserved { .. }
            | Self::Lacking(_)
            | Self::Malformed { .. }
            | Self::OtherManager { .. }
            | Self::SharedStatus { .. }
            | Self::Contested { .. }
            | Self::OtherController { .. }
            | Self::HandedOver { .. }
            | Self::TooManyAddresses { .. }
            | Self::TooManyVips { .. }
            | Self::Unshared { .. }
            | Self::Clash { .. }
            | Self::Partial { .. }
            | Self::Disagrees { .. } => SeenBy::All,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WayOut {
    pub service: ServiceName,
    pub ours: Arc<str>,
    /// True if the Service is of that class.
    pub is_set: bool,
    /// True if the other one is `MetalLB`'s controller, which Vipward replaces.
    pub is_from_metallb: bool,
}

impl WayOut {
    /// Returns the remedy for a Service with two controllers. `ours` is the served class.
    pub(super) fn of(record: &ServiceRecord, ours: &Arc<str>) -> Self {
        let (ours, is_set) = (Arc::clone(ours), record.class.is_some());
        let is_from_metallb = record.status_from_metallb;
        Self { service: record.name.clone(), ours, is_set, is_from_metallb }
    }
}

impl fmt::Display for WayOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, ours, is_set, is_from_metallb } = self;
        if *is_from_metallb {
            return f.write_str(
                "MetalLB's controller still runs, and Vipward replaces it (--metallb): scale it down (kubectl -n \
                 metallb-system scale deployment controller --replicas=0; metallb-controller, when Helm installed it)",
            );
        }
        f.write_str("Let one controller serve each Service: ")?;
        if *is_set {
            write!(
                f,
                "spec.loadBalancerClass gives this one to Vipward ({ours:?}); have the other serve its own class only"
            )?;
        } else {
            write!(
                f,
                "create it anew with a spec.loadBalancerClass, {ours:?} for Vipward, and have both leave \
                 Services without one alone (Vipward: --class-only)"
            )?;
        }
        f.write_str(", or give each its own namespaces (Vipward: --namespace). ")?;
        write!(f, "If the other one is gone, clear what it left: {}", Clearing(service))
    }
}

/// The command that clears a Service's status, whoever has written it.
#[derive(Clone, Copy, Debug)]
pub struct Clearing<'a>(pub &'a ServiceName);

impl fmt::Display for Clearing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServiceName { namespace, name } = self.0;
        write!(
            f,
            "kubectl -n {namespace} patch service {name} --subresource=status --type=merge -p \
             '{{\"status\":{{\"loadBalancer\":{{\"ingress\":null}}}}}}'"
        )
    }
}

/// The field manager that has written a status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Writer {
    /// None if the API server does not name it.
    pub manager: Option<Arc<str>>,
    /// The time of its last write there, in seconds since 1970.
    pub since: Option<i64>,
}

impl Writer {
    pub(super) fn of(record: &ServiceRecord) -> Self {
        Self { manager: record.status_manager.clone(), since: record.status_since }
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.manager {
            Some(manager) => write!(f, "field manager {manager:?}")?,
            None => f.write_str("an unknown field manager")?,
        }
        self.since.map_or(Ok(()), |since| write!(f, " (since {})", utc(since)))
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Malformed {
    #[error("{part:?} is no IP address; write addresses as 192.0.2.10, with commas between them")]
    Address { part: Excerpt },
    #[error("{part:?} has a prefix length; a VIP is one address: leave `/…` out")]
    Prefix { part: Excerpt },
    #[error(transparent)]
    Selector(#[from] SelectorError),
    #[error("{0}; write names or globs as eth0 or ens*, with commas between them")]
    Pattern(PatternError),
    #[error("it has {bytes} bytes; write at most 4096")]
    TooLong { bytes: usize },
    #[error("it must be \"true\" or \"false\"")]
    Flag,
}

fn used_text(used: Option<&Excerpt>) -> String {
    used.map_or_else(|| "none".to_owned(), |used| format!("{used:?}"))
}

fn apart(vip: IpAddr, with: Option<&ServiceName>) -> String {
    match with {
        Some(with) => format!(
            "no node has endpoints of it and of Service {with}, which comes first; run Pods of both on one \
             node, or give one of them another address"
        ),
        None => format!(
            "a node that serves all comes first after --stable-for, if it can hold the VIP and no operator \
             has moved it; see `vipward explain {vip}`"
        ),
    }
}

fn rivals(managers: &[Arc<str>]) -> String {
    let mut names: Vec<_> = managers.iter().map(|manager| format!("{manager:?}")).collect();
    if names.len() < 2 {
        names.push("one that the API server does not name".to_owned());
    }
    format!("field managers {}", names.join(" and "))
}

fn taken(class: Option<&str>, ours: &str) -> String {
    match class {
        Some(class) => format!("its spec.loadBalancerClass is {class:?} now, and Vipward serves {ours:?}"),
        None => {
            format!("it has no spec.loadBalancerClass now, and Vipward serves {ours:?} only (--class-only)")
        }
    }
}

fn join<T: fmt::Display>(values: &[T]) -> String {
    if values.is_empty() {
        return "no such address".to_owned();
    }
    let shown = values.iter().take(MOST_LISTED).map(T::to_string).collect::<Vec<_>>().join(", ");
    match values.len().saturating_sub(MOST_LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
