//! Decision about a node's fitness to hold a VIP, from plain facts.

use std::{borrow::Cow, collections::BTreeMap, fmt, net::IpAddr, sync::Arc};

use crate::{
    base::{address::mix, legible::Legible},
    host::interfaces::interface_for,
    records::{
        Delivers, Demand, HealthPort, NodeInterface, NodeName, NodeRecord, PoolKind, PoolPolicy, Proxy,
        Reach, Session, Shown,
    },
};

/// The label that keeps a node from holding VIPs.
const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Reason why a node cannot hold a VIP.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Disqualified {
    /// The node has no Lease, or no session in it.
    NoAgent,
    /// The node has not renewed its Lease for too long.
    NotRenewed,
    /// None of its interfaces is on the VIP's segment.
    NoInterface,
    /// The node has an interface on the VIP's segment, but the Services want others.
    InterfaceNotNamed {
        interface: Arc<str>,
    },
    /// The interface on the VIP's segment has no carrier.
    NoCarrier {
        interface: Arc<str>,
    },
    NoNode,
    /// The node has the label `node.kubernetes.io/exclude-from-external-load-balancers`.
    Excluded,
    /// The node has the taint `node.kubernetes.io/out-of-service`.
    OutOfService,
    /// The node has the condition `NetworkUnavailable`.
    NetworkUnavailable,
    /// A Service has `externalTrafficPolicy: Local`, and no ready endpoint on the node.
    NoLocalEndpoint,
    /// The node's service proxy has not been healthy since the node booted.
    ProxyStarting,
    /// The node's service proxy does not deliver to its ready endpoint.
    ProxyBehind {
        port: HealthPort,
    },
    /// The node's service proxy could not be reached for too long.
    ProxyUnreached {
        port: HealthPort,
        /// True if no port of it was ever reached, and the node's endpoints terminate.
        drains: bool,
    },
    /// The node's endpoints of a Service with `externalTrafficPolicy: Local` terminate.
    Draining,
    /// The annotation `vipward.io/nodes` leaves the node out.
    NotSelected,
    /// `MetalLB`'s objects have no address of the pool announced.
    NotAdvertised {
        pool: Arc<str>,
    },
    /// The pool of the address leaves the node out.
    NotSelectedByPool {
        /// The field that does so, with its object.
        field: Arc<str>,
    },
    /// The node has an interface on the VIP's segment, but the pool of the address has others.
    InterfaceNotOfPool {
        interface: Arc<str>,
        /// The field that names the others, with its object.
        field: Arc<str>,
    },
    /// The node's MAC is so new that others may not know it yet.
    NewMac,
    /// The node's agent is about to end.
    Leaving,
    /// The node is not ready, and other nodes are.
    NotReady,
    /// The node is cordoned, and other nodes are not.
    Cordoned,
    /// The VIP's clients did not reach the node lately.
    Unreached {
        interface: Arc<str>,
        /// Another soft reason. It decides where no node is reached.
        besides: Option<Box<Disqualified>>,
    },
}

impl Disqualified {
    /// Returns the place of a soft reason. A node with a lesser one comes first.
    ///
    /// A cordoned node serves like any. Endpoints that terminate serve for now, and Kubernetes soon has no
    /// ready endpoint on a node that is not ready: neither is worth a move to the other. A proxy that is not
    /// reached may have stopped, so its node takes nothing from endpoints that serve. If it was never
    /// reached, it may be of a kind that leaves terminating endpoints out. Worse is a proxy that has said
    /// that it does not deliver, and worst a node that no client reaches.
    pub(super) fn severity(soft: Option<&Self>) -> u8 {
        match soft {
            None => 0,
            Some(Self::Draining | Self::NotReady) => 2,
            Some(Self::ProxyUnreached { drains: false, .. }) => 3,
            Some(Self::ProxyUnreached { drains: true, .. }) => 4,
            Some(Self::ProxyBehind { .. } | Self::ProxyStarting) => 5,
            Some(Self::Unreached { besides, .. }) => 6 + Self::severity(besides.as_deref()),
            Some(_) => 1,
        }
    }

    /// Returns the reason against a node that the policy of the address does not select.
    fn not_selected(policy: &PoolPolicy) -> Self {
        let is_advertised =
            PoolKind::of(&policy.pool).0 == PoolKind::VipPool || !policy.advertisements.is_empty();
        if is_advertised {
            Self::NotSelectedByPool { field: policy.nodes_field() }
        } else {
            Self::NotAdvertised { pool: Arc::clone(&policy.pool) }
        }
    }

    /// Returns the remedy for a node that cannot hold a VIP.
    pub fn remedy(&self) -> Cow<'static, str> {
        let words = match self {
            Self::NoAgent => {
                "run the agent there: see the DaemonSet's Pods (kubectl -n vipward-system get pods -o wide) \
                 and their logs"
            }
            Self::NotRenewed => "see whether the agent runs and reaches the API server: its Pod and its log",
            Self::NoInterface => {
                "give a node an interface with an address in the VIP's subnet, or choose an address of a subnet \
                that there is"
            }
            Self::InterfaceNotNamed { .. } => "change or remove the annotation vipward.io/interface",
            Self::NoCarrier { .. } => {
                "check the cable, the switch port and the interface (ip link); if it is up, `vipward doctor` \
                 there says whether it is without contact"
            }
            Self::NoNode => "the agent's --node-name must be the name of a Node object",
            Self::Excluded => "remove the label, or start the agents with --ignore-exclude-label",
            Self::OutOfService => "remove the taint when the node is well again",
            Self::NetworkUnavailable => "check the node's network plugin",
            Self::NoLocalEndpoint => {
                "run a ready pod of the Service on a node, or set externalTrafficPolicy: Cluster"
            }
            Self::ProxyStarting | Self::ProxyBehind { .. } | Self::ProxyUnreached { .. } => {
                "see whether the node's kube-proxy, or what replaces it, runs and is healthy (--proxy-health)"
            }
            Self::Draining => "run a ready pod of the Service on a node",
            Self::NotSelected => "change or remove the annotation vipward.io/nodes",
            Self::NotAdvertised { pool } => {
                return format!("create an L2Advertisement that announces {}", Shown(pool)).into();
            }
            Self::NotSelectedByPool { field } => {
                return format!(
                    "change {field}, label a node as it requires, or choose an address of another pool"
                )
                .into();
            }
            Self::InterfaceNotOfPool { field, .. } => {
                return format!("change {field}, or choose an address of another pool").into();
            }
            Self::NewMac | Self::Leaving => "wait: it is over in seconds",
            Self::NotReady => "see the node (kubectl describe node)",
            Self::Cordoned => "uncordon a node",
            Self::Unreached { .. } => {
                "let the switch, hypervisor or cloud pass requests for the VIP to the node, and what comes from \
                 it: see `vipward doctor` there"
            }
        };
        words.into()
    }
}

impl fmt::Display for Disqualified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAgent => f.write_str("no agent is running"),
            Self::NotRenewed => f.write_str("its agent has not renewed its Lease"),
            Self::NoInterface => f.write_str("no interface is in the VIP's subnet"),
            Self::InterfaceNotNamed { interface } => {
                write!(
                    f,
                    "annotation vipward.io/interface leaves out {}, which is in the VIP's subnet",
                    Legible(interface)
                )
            }
            Self::NoCarrier { interface } => write!(f, "{} has no carrier", Legible(interface)),
            Self::NoNode => f.write_str("there is no such Node"),
            Self::Excluded => f.write_str("label node.kubernetes.io/exclude-from-external-load-balancers"),
            Self::OutOfService => f.write_str("taint node.kubernetes.io/out-of-service"),
            Self::NetworkUnavailable => f.write_str("condition NetworkUnavailable"),
            Self::NoLocalEndpoint => {
                f.write_str("externalTrafficPolicy is Local and no endpoint is ready there")
            }
            Self::ProxyStarting => f.write_str("its service proxy has not been healthy since it booted"),
            Self::ProxyBehind { port } => {
                write!(f, "its service proxy does not deliver yet (healthCheckNodePort {})", port.number)
            }
            Self::ProxyUnreached { port, .. } => {
                write!(f, "its service proxy is not reached (healthCheckNodePort {})", port.number)
            }
            Self::Draining => f.write_str("its endpoints terminate"),
            Self::NotSelected => f.write_str("annotation vipward.io/nodes leaves it out"),
            Self::NotAdvertised { pool } => {
                write!(f, "no L2Advertisement announces {}: create one", Shown(pool))
            }
            Self::NotSelectedByPool { field } => write!(f, "{field} leaves it out"),
            Self::InterfaceNotOfPool { interface, field } => {
                write!(f, "{field} leaves out {}, which is in the VIP's subnet", Legible(interface))
            }
            Self::NewMac => f.write_str("its MAC is too new to be known to all"),
            Self::Leaving => f.write_str("its agent is about to end"),
            Self::NotReady => f.write_str("not ready"),
            Self::Cordoned => f.write_str("cordoned"),
            Self::Unreached { interface, .. } => {
                write!(f, "the VIP's clients do not reach {}", Legible(interface))
            }
        }
    }
}

/// Returns the weight of a node for a key (rendezvous hashing; FNV-1a, mixed). It
/// is the same on every node and in every version.
pub fn weight(node: &str, key: impl IntoIterator<Item = u8>) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let hashed = node
        .bytes()
        .chain([0])
        .chain(key)
        .fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    mix(hashed)
}

/// The facts that decide if a node can hold a VIP.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct NodeFacts<'a> {
    /// True if the node exists, although its Node object may not have been read yet.
    pub exists: bool,
    pub session: Option<Session>,
    /// True if it renews its Lease, as far as this node can see.
    pub alive: bool,
    /// True if its agent is about to end.
    pub leaving: bool,
    pub interfaces: &'a [NodeInterface],
    pub node: Option<&'a NodeRecord>,
    /// The state of its service proxy, unless it states none.
    pub proxy: Option<&'a Proxy>,
    /// True if it may hold the VIP already: then its proxy is a soft reason.
    pub keeps: bool,
}

/// A node that can hold a VIP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Eligible<'a> {
    /// The session in which it can hold the VIP.
    pub session: Session,
    /// Its interface on the VIP's segment.
    pub interface: &'a NodeInterface,
    /// A soft reason against it, if there is one. Nodes without such a reason come first.
    pub soft: Option<Disqualified>,
}

/// Returns the session and interface with which a node can hold a VIP.
/// Fails with the first reason why it cannot.
pub fn eligibility<'a>(
    facts: &NodeFacts<'a>,
    vip: IpAddr,
    demand: &Demand,
    honour_exclude_label: bool,
) -> Result<Eligible<'a>, Disqualified> {
    let absent = if facts.exists { Disqualified::NoAgent } else { Disqualified::NoNode };
    let session = facts.session.ok_or(absent)?;
    if !facts.alive {
        return Err(Disqualified::NotRenewed);
    }
    if facts.leaving {
        return Err(Disqualified::Leaving);
    }
    let node = facts.node.ok_or(Disqualified::NoNode)?;
    let Some(interface) = demand.interface(facts.interfaces, vip, Some(&node.labels)) else {
        return Err(demand.why_no_interface(facts.interfaces, vip, node));
    };
    if !interface.carrier {
        return Err(Disqualified::NoCarrier { interface: Arc::clone(&interface.name) });
    }
    check_node(node, demand, honour_exclude_label)?;
    let soft = match delivery(facts, &demand.reach, &node.name) {
        Ok(()) if node.cordoned => Some(Disqualified::Cordoned),
        Ok(()) => (!node.ready).then_some(Disqualified::NotReady),
        Err(why @ (Disqualified::Draining | Disqualified::ProxyUnreached { .. })) => Some(why),
        Err(why @ (Disqualified::ProxyStarting | Disqualified::ProxyBehind { .. })) if facts.keeps => {
            Some(why)
        }
        Err(why) => return Err(why),
    };
    let soft = if interface.is_last_for(vip) {
        let besides = soft.map(Box::new);
        Some(Disqualified::Unreached { interface: Arc::clone(&interface.name), besides })
    } else {
        soft
    };
    Ok(Eligible { session, interface, soft })
}

/// Succeeds if a node delivers the traffic to a ready endpoint, as far as is known.
fn delivery(facts: &NodeFacts<'_>, reach: &Reach, node: &NodeName) -> Result<(), Disqualified> {
    let (is_ready, drains, port) = match reach {
        Reach::On(local) => (local.ready.contains(node), local.draining.contains(node), local.health_port),
        Reach::Anywhere | Reach::Unknown => (true, false, None),
    };
    if !is_ready && !drains {
        return Err(Disqualified::NoLocalEndpoint);
    }
    match (Proxy::delivers(facts.proxy, port), port) {
        (Delivers::Starting, _) => Err(Disqualified::ProxyStarting),
        (Delivers::Silent, Some(port)) => Err(Disqualified::ProxyUnreached { port, drains: !is_ready }),
        (Delivers::Yes, _) | (_, None) if is_ready => Ok(()),
        // The proxy is about to say whether it delivers. Until then, a holder keeps its VIP.
        (Delivers::Unanswered, _) if is_ready && facts.keeps => Ok(()),
        _ if drains => Err(Disqualified::Draining),
        (Delivers::Unreached, Some(port)) => Err(Disqualified::ProxyUnreached { port, drains: false }),
        (_, Some(port)) => Err(Disqualified::ProxyBehind { port }),
        (_, None) => Err(Disqualified::NoLocalEndpoint),
    }
}

fn check_node(node: &NodeRecord, demand: &Demand, honour_exclude_label: bool) -> Result<(), Disqualified> {
    if honour_exclude_label && node.labels.contains_key(EXCLUDE_LABEL) {
        return Err(Disqualified::Excluded);
    }
    if node.out_of_service {
        return Err(Disqualified::OutOfService);
    }
    if node.network_unavailable {
        return Err(Disqualified::NetworkUnavailable);
    }
    if demand.nodes.as_ref().is_some_and(|selector| !selector.matches(&node.labels)) {
        return Err(Disqualified::NotSelected);
    }
    if let Some(policy) = demand.policy.as_ref().filter(|policy| !policy.selects(&node.labels)) {
        return Err(Disqualified::not_selected(policy));
    }
    Ok(())
}

impl Demand {
    /// Returns the interface that the VIP has on a node with these labels.
    pub(crate) fn interface<'a>(
        &self,
        interfaces: &'a [NodeInterface],
        vip: IpAddr,
        labels: Option<&BTreeMap<String, String>>,
    ) -> Option<&'a NodeInterface> {
        let may_have_it = |interface: &NodeInterface| {
            self.policy.as_ref().is_none_or(|policy| policy.has(interface.names(), labels))
        };
        interface_for(interfaces, vip, &self.interfaces, may_have_it)
    }

    /// Returns the reason why the VIP has no interface on a node.
    fn why_no_interface(&self, interfaces: &[NodeInterface], vip: IpAddr, node: &NodeRecord) -> Disqualified {
        let Some(named) = interface_for(interfaces, vip, &self.interfaces, |_| true) else {
            return match interface_for(interfaces, vip, &[], |_| true) {
                Some(interface) => Disqualified::InterfaceNotNamed { interface: Arc::clone(&interface.name) },
                None => Disqualified::NoInterface,
            };
        };
        let policy = self.policy.as_ref().expect("invariant: only the policy leaves the interface out");
        if policy.selects(&node.labels) {
            let field = policy.interfaces_field();
            Disqualified::InterfaceNotOfPool { interface: Arc::clone(&named.name), field }
        } else {
            Disqualified::not_selected(policy)
        }
    }
}
