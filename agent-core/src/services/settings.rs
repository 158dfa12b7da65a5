//! Settings: the Services that are served, and the addresses that they may have.

use std::{collections::BTreeSet, sync::Arc};

use ipnet::IpNet;

use crate::records::Selector;

pub const DEFAULT_CLASS: &str = "vipward.io/l2";

/// Largest number of addresses of a Service by default.
pub const MOST_ADDRESSES: usize = 16;

#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Settings {
    /// The served class. Services of another class are never served.
    pub class: Arc<str>,
    /// True if Services without a class are excluded.
    pub class_only: bool,
    /// The served namespaces. If empty: all namespaces.
    pub namespaces: BTreeSet<Arc<str>>,
    pub namespace_selector: Option<Selector>,
    pub service_selector: Option<Selector>,
    /// True if `spec.externalIPs` are VIPs too.
    pub external_ips: bool,
    /// The networks that VIPs may be in. If empty: the subnets of the nodes' segments, and whatever
    /// another controller has written into a status.
    pub allow: Vec<IpNet>,
    pub refuse: Vec<IpNet>,
    pub most_addresses: usize,
    /// Largest number of VIPs of a namespace. None: there is no limit.
    pub most_vips: Option<usize>,
    /// True if a VIP without endpoints is withdrawn, even without `externalTrafficPolicy: Local`.
    pub withdraw_without_endpoints: bool,
    /// True if Vipward replaces `MetalLB`: its annotations and pools count too.
    pub metallb: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            class: DEFAULT_CLASS.into(),
            class_only: false,
            namespaces: BTreeSet::new(),
            namespace_selector: None,
            service_selector: None,
            external_ips: false,
            allow: Vec::new(),
            refuse: Vec::new(),
            most_addresses: MOST_ADDRESSES,
            most_vips: None,
            withdraw_without_endpoints: false,
            metallb: false,
        }
    }
}
