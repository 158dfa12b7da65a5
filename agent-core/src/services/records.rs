//! Records of the API server's objects and of this host's network. They
//! have only the fields that decisions need.

use std::{collections::BTreeSet, net::IpAddr, ops::Deref, sync::Arc};

use ipnet::IpNet;

use super::ineffective;
use crate::{
    host::{
        net::{Interface, NetView},
        owner::Owner,
    },
    pools::Family,
    records::{NodeName, Port, ServiceLabels, ServiceName, Version},
};

/// The field manager of this agent's writes into Services.
pub const FIELD_MANAGER: &str = "vipward";

#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the API's that is so or not")]
pub struct ServiceRecord {
    pub name: ServiceName,
    /// Its uid. Another Service of the same name has another one.
    pub uid: Arc<str>,
    /// Its version. Every write changes it.
    pub version: Version,
    /// The time of its creation, in seconds since 1970.
    pub created: i64,
    /// Its labels. They may be left empty unless
    /// [`Settings::service_selector`](super::Settings::service_selector) is set.
    pub labels: ServiceLabels,
    pub load_balancer: bool,
    pub cluster_ips: Vec<IpAddr>,
    pub class: Option<Arc<str>>,
    pub annotations: Annotations,
    pub families: Vec<Family>,
    pub family_policy: FamilyPolicy,
    pub load_balancer_ip: Option<Box<str>>,
    /// `spec.externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// `status.loadBalancer.ingress`, including entries without an address.
    pub ingress: Vec<Ingress>,
    /// The field manager that owns `status.loadBalancer`, by `metadata.managedFields`.
    /// If several own it, one that is not [`FIELD_MANAGER`].
    pub status_manager: Option<Arc<str>>,
    /// True if [`FIELD_MANAGER`] owns it too, because both applied the same.
    pub status_shared: bool,
    /// The time of that manager's last write there, in seconds since 1970. None if it is not known.
    pub status_since: Option<i64>,
    /// True if that manager is `MetalLB`'s controller, which Vipward replaces: what it wrote counts as
    /// Vipward's own.
    pub status_from_metallb: bool,
    /// True if a cloud controller has made a load balancer for it, by the finalizer of those.
    pub has_cloud_balancer: bool,
    pub other_controller: Option<OtherController>,
    /// True if `spec.externalTrafficPolicy` is `Local`.
    pub local: bool,
    /// `spec.healthCheckNodePort`.
    pub health_check_port: Option<u16>,
    pub ports: Vec<Port>,
    pub deleting: bool,
    /// The finalizers that keep a Service which is being deleted, as one text.
    pub finalizers: Option<Box<str>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FamilyPolicy {
    /// True if `spec.ipFamilies` has the families. Otherwise they follow from the cluster IPs.
    pub names: bool,
    /// True if `spec.ipFamilyPolicy` is `RequireDualStack`.
    pub needs_all: bool,
}

impl ServiceRecord {
    /// Returns a Service of type `LoadBalancer` with these ports, and with nothing else.
    pub fn new(name: ServiceName, uid: Arc<str>, ports: Vec<Port>) -> Self {
        Self {
            name,
            uid,
            version: Version::from("1"),
            created: 0,
            labels: ServiceLabels::default(),
            load_balancer: true,
            cluster_ips: Vec::new(),
            class: None,
            annotations: Annotations::default(),
            families: vec![Family::V4],
            family_policy: FamilyPolicy::default(),
            load_balancer_ip: None,
            external_ips: Vec::new(),
            ingress: Vec::new(),
            status_manager: None,
            status_shared: false,
            status_since: None,
            status_from_metallb: false,
            has_cloud_balancer: false,
            other_controller: None,
            local: false,
            health_check_port: None,
            ports,
            deleting: false,
            finalizers: None,
        }
    }

    pub(super) fn needs_endpoints(&self, withdraw_without_endpoints: bool) -> bool {
        self.load_balancer && !self.deleting && (self.local || withdraw_without_endpoints)
    }

    /// Returns true unless the Service names its families, and that of the address is not among them.
    /// kube-proxy then delivers nothing for the address.
    pub(crate) fn has_family(&self, address: IpAddr) -> bool {
        !self.family_policy.names || self.families.contains(&Family::of(address))
    }

    pub fn has_in_status(&self, vip: IpAddr) -> bool {
        self.ingress.iter().any(|ingress| ingress.ip == Some(vip))
    }

    /// Returns the writer of the status. Whether that binds Vipward is for the index to decide.
    pub fn status_owner(&self) -> StatusOwner<'_> {
        if self.ingress.is_empty() {
            return StatusOwner::Absent;
        }
        match self.status_manager.as_deref() {
            Some(FIELD_MANAGER) => StatusOwner::Vipward,
            Some(_) if self.status_from_metallb => StatusOwner::Vipward,
            manager => StatusOwner::Other(manager),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatusOwner<'a> {
    Absent,
    /// A Vipward agent or controller wrote them, or `MetalLB`'s controller, which it replaces.
    Vipward,
    /// Another controller wrote them, with its field manager if known.
    Other(Option<&'a str>),
}

/// An entry of `status.loadBalancer.ingress`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ingress {
    /// Its `ip`. None if it has only a host name.
    pub ip: Option<IpAddr>,
    pub mode: IpMode,
}

/// Destination of the traffic for an address, on arrival at a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpMode {
    /// The address itself. This is the default if the field is missing.
    Vip,
    /// Another destination: the address is at a load balancer
    /// elsewhere. Unknown modes count as this one.
    Proxy,
}

/// The annotations of a Service that Vipward knows. Most Services have none of them, and there are
/// thousands: so the values are apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Annotations(Option<Box<AnnotationValues>>);

impl From<AnnotationValues> for Annotations {
    fn from(values: AnnotationValues) -> Self {
        Self((values != AnnotationValues::NONE).then(|| Box::new(values)))
    }
}

impl Deref for Annotations {
    type Target = AnnotationValues;

    fn deref(&self) -> &AnnotationValues {
        static NONE: AnnotationValues = AnnotationValues::NONE;
        self.0.as_deref().unwrap_or(&NONE)
    }
}

#[cfg(test)]
impl std::ops::DerefMut for Annotations {
    fn deref_mut(&mut self) -> &mut AnnotationValues {
        self.0.get_or_insert_default()
    }
}

macro_rules! annotations {
    ($($(#[$doc:meta])* $field:ident = $name:literal,)*) => {
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct AnnotationValues {
            $($(#[$doc])* pub $field: Option<Box<str>>,)*
            /// The names of annotations that have no effect, or only by the settings: at most 8.
            pub ineffective: Vec<Box<str>>,
            /// The former names of annotations that have no effect beside the present ones, each with that one.
            pub former: Vec<(Box<str>, Box<str>)>,
        }

        impl AnnotationValues {
            const NONE: Self = Self { $($field: None,)* ineffective: Vec::new(), former: Vec::new() };
        }

        impl Annotations {
            pub const NAMES: &[&str] = &[$($name),*];

            /// Reads the known annotations. `value` returns an annotation's value by its name. `names` has
            /// all names, in their order; `former` is as in [`AnnotationValues::former`].
            pub fn read<'a, 'b>(
                value: impl Fn(&str) -> Option<&'a str>,
                names: impl Iterator<Item = &'b str>,
                former: Vec<(Box<str>, Box<str>)>,
            ) -> Self {
                let ineffective = ineffective::recorded(names, Self::NAMES);
                AnnotationValues { $($field: value($name).map(Into::into),)* ineffective, former }.into()
            }
        }
    };
}

annotations! {
    /// Addresses, comma separated.
    addresses = "vipward.io/addresses",
    /// The same for kube-vip.
    kube_vip_addresses = "kube-vip.io/loadbalancerIPs",
    /// The same for `MetalLB`.
    metallb_addresses = "metallb.io/loadBalancerIPs",
    /// The pool that its addresses are from.
    pool = "vipward.io/pool",
    /// The same for `MetalLB`.
    metallb_pool = "metallb.io/address-pool",
    /// A key for `MetalLB`: Services with the same one may share an address.
    metallb_share = "metallb.io/allow-shared-ip",
    /// A label selector: nodes that come first.
    preferred_nodes = "vipward.io/preferred-nodes",
    /// A label selector: the only nodes that may hold the VIPs.
    nodes = "vipward.io/nodes",
    /// Globs over interface names, comma separated.
    interface = "vipward.io/interface",
    /// `false`: each of the Service's VIPs has its own holder. Else they stay on one node.
    together = "vipward.io/together",
    /// A key: Services with the same one may share a VIP across namespaces.
    share = "vipward.io/share",
    /// `true`: Vipward ignores the Service.
    ignore = "vipward.io/ignore",
    /// The same for kube-vip.
    kube_vip_ignore = "kube-vip.io/ignore",
}

macro_rules! other_controllers {
    ($($(#[$doc:meta])* $name:ident = $annotation:literal, $controller:literal;)*) => {
        /// A controller that announces addresses itself, by the annotation that gives it a Service.
        ///
        /// Controllers that only assign addresses are not listed.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum OtherController {
            $($(#[$doc])* $name,)*
        }

        impl OtherController {
            /// Returns the first known annotation of the Service. `has` returns
            /// true for an annotation that the Service has.
            pub fn read(has: impl Fn(&str) -> bool) -> Option<Self> {
                [$((Self::$name, $annotation)),*].into_iter().find_map(|(other, name)| has(name).then_some(other))
            }

            pub fn annotation(self) -> &'static str {
                match self {
                    $(Self::$name => $annotation,)*
                }
            }

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $controller,)*
                }
            }
        }
    };
}

other_controllers! {
    F5Address = "cis.f5.com/ip", "F5 CIS";
    /// The address range for F5 CIS.
    F5Range = "cis.f5.com/ipamLabel", "F5 CIS";
    /// `PureLB` writes it when it assigns an address.
    PureLb = "purelb.io/allocated-by", "PureLB";
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointsRecord {
    /// Its name, in the namespace of its Service.
    pub slice: Arc<str>,
    pub service: ServiceName,
    pub ready: BTreeSet<NodeName>,
    pub serving_terminating: BTreeSet<NodeName>,
    /// True if there is a ready endpoint without a node.
    pub ready_elsewhere: bool,
    pub is_ipv6: bool,
}

/// This host's addresses, gateways and DNS servers, which no VIP may take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostNetwork {
    pub node: NodeName,
    /// The addresses of all its interfaces, except those that the agent has bound.
    pub addresses: Vec<HostAddress>,
    /// The next hops of its routes in all tables, default routes included.
    pub next_hops: BTreeSet<IpAddr>,
    /// The DNS servers in its `/etc/resolv.conf`.
    pub name_servers: BTreeSet<IpAddr>,
}

impl HostNetwork {
    /// Returns the addresses and gateways of a snapshot, with these DNS servers. The
    /// interfaces in `attached` lead to segments.
    pub fn of(node: NodeName, view: &NetView, attached: &[u32], name_servers: BTreeSet<IpAddr>) -> Self {
        let of_one = |interface: &Interface| {
            let (index, name) = (interface.index, Arc::from(interface.name.as_str()));
            let found = move |net: IpNet| HostAddress {
                interface: Arc::clone(&name),
                segment: attached.contains(&index),
                net,
                owner: view.owner_of(index, &net),
            };
            interface.foreign_addresses().map(found).collect::<Vec<_>>()
        };
        let addresses = view.interfaces.values().flat_map(of_one).collect();
        Self { node, addresses, next_hops: view.next_hops.clone(), name_servers }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostAddress {
    pub interface: Arc<str>,
    /// True if that interface leads to a segment. Then VIPs can be on it.
    pub segment: bool,
    pub net: IpNet,
    pub owner: Owner,
}
