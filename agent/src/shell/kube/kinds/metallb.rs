//! `MetalLB`'s objects, in the core's form. They are read, and of an `IPAddressPool` the status is
//! written.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::{Value, json};
use vipward_core::{
    pools::{Family, L2AdvertisementRecord, PoolRecord, PoolState, Sharing},
    records::PoolKind,
    reports::outbox::ApiObject,
    services::Annotations,
};

use super::{meta::Meta, vip_pool::selector};
use crate::shell::kube::link::call::{Call, Collection};

#[cfg(test)]
mod tests;

/// The API group, and the version that all of `MetalLB`'s types but one have.
pub(crate) const VERSION: &str = "metallb.io/v1beta1";
/// The version of `BGPPeer`.
const OF_PEERS: &str = "metallb.io/v1beta2";
/// The prefix of its annotations, and the one that they had before.
const PREFIX: &str = "metallb.io/";
const OLD_PREFIX: &str = "metallb.universe.tf/";
/// The annotation in which its controller records the pool of a Service's addresses.
const FROM_POOL: &str = "metallb.io/ip-allocated-from-pool";
/// The field manager of its controller's statuses: the name of the program.
const MANAGER: &str = "controller";

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MetalLb {
    IpAddressPools,
    L2Advertisements,
    /// `bgpadvertisements`, which are not served.
    BgpAdvertisements,
    /// `bgppeers`, likewise.
    BgpPeers,
    /// `bfdprofiles`, likewise.
    BfdProfiles,
    /// `communities`, likewise.
    Communities,
}

impl MetalLb {
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::IpAddressPools => "ipaddresspools",
            Self::L2Advertisements => "l2advertisements",
            Self::BgpAdvertisements => "bgpadvertisements",
            Self::BgpPeers => "bgppeers",
            Self::BfdProfiles => "bfdprofiles",
            Self::Communities => "communities",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::IpAddressPools => PoolKind::IpAddressPool.name(),
            Self::L2Advertisements => "L2Advertisement",
            Self::BgpAdvertisements => "BGPAdvertisement",
            Self::BgpPeers => "BGPPeer",
            Self::BfdProfiles => "BFDProfile",
            Self::Communities => "Community",
        }
    }

    fn version(self) -> &'static str {
        match self {
            Self::BgpPeers => OF_PEERS,
            Self::IpAddressPools
            | Self::L2Advertisements
            | Self::BgpAdvertisements
            | Self::BfdProfiles
            | Self::Communities => VERSION,
        }
    }

    pub(crate) fn collection(self, namespace: &str) -> Collection {
        Collection::at(self.version(), self.plural(), namespace)
    }

    /// Returns an object of the type, as Events refer to it.
    pub fn object(self, namespace: &str, name: &str, uid: &str) -> ApiObject {
        let (version, kind) = (self.version(), self.kind());
        ApiObject { version, kind, namespace: namespace.into(), name: name.into(), uid: uid.into() }
    }

    pub(crate) fn object_of(self, metadata: &Meta) -> ApiObject {
        let text = |text: &Option<Box<str>>| text.clone().unwrap_or_default();
        self.object(&text(&metadata.namespace), &metadata.name, &text(&metadata.uid))
    }
}

/// Returns an annotation's value. If one of `MetalLB`'s is absent, the one with its former name counts.
pub(crate) fn annotation<'a>(metadata: &'a Meta, name: &str) -> Option<&'a str> {
    let former = || metadata.annotation(&format!("{OLD_PREFIX}{}", name.strip_prefix(PREFIX)?));
    metadata.annotation(name).or_else(former)
}

/// Returns the annotations with a former name that have no effect beside the one with the present name, whose value
/// is another, each with that one.
pub(crate) fn overridden(metadata: &Meta) -> Vec<(Box<str>, Box<str>)> {
    let present = |former: &str| Some(format!("{PREFIX}{}", former.strip_prefix(OLD_PREFIX)?));
    let pairs = metadata.annotation_names().filter_map(|former| Some((former, present(former)?)));
    let values = |name: &str| {
        let value = metadata.annotation(name)?;
        Some(value.split(',').map(str::trim).collect::<BTreeSet<_>>())
    };
    let differ = |(former, by): &(&str, String)| {
        Annotations::NAMES.contains(&by.as_str())
            && values(by).is_some_and(|present| values(former) != Some(present))
    };
    pairs.filter(differ).map(|(former, by)| (former.into(), by.into())).collect()
}

/// Returns true if a Service's status with this field manager is from `MetalLB`. Another program could
/// use that name too.
pub(crate) fn is_from_metallb(name: &str, metadata: &Meta) -> bool {
    name == MANAGER && annotation(metadata, FROM_POOL).is_some()
}

/// `spec` of an `IPAddressPool`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolSpec {
    addresses: Option<Vec<Box<str>>>,
    auto_assign: Option<bool>,
    #[serde(rename = "avoidBuggyIPs")]
    avoid_buggy: Option<bool>,
    service_allocation: Option<Allocation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Allocation {
    priority: Option<i32>,
    namespaces: Option<Vec<String>>,
    namespace_selectors: Option<Vec<LabelSelector>>,
    service_selectors: Option<Vec<LabelSelector>>,
}

/// Returns an `IPAddressPool` in the core's form.
pub(crate) fn pool(metadata: &Meta, spec: PoolSpec) -> PoolRecord {
    let priority = priority(spec.service_allocation.as_ref());
    let Allocation { namespaces, namespace_selectors, service_selectors, .. } =
        spec.service_allocation.unwrap_or(Allocation {
            priority: None,
            namespaces: None,
            namespace_selectors: None,
            service_selectors: None,
        });
    PoolRecord {
        generation: None,
        name: PoolKind::IpAddressPool.key(&metadata.name),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        labels: metadata.labels.clone().unwrap_or_default(),
        created: metadata.created(),
        deleting: metadata.is_deleting(),
        addresses: spec.addresses.unwrap_or_default(),
        lenient: true,
        auto_assign: spec.auto_assign.unwrap_or(true),
        priority,
        service_selectors: selectors(service_selectors.as_deref()),
        namespace_selectors: selectors(namespace_selectors.as_deref()),
        namespaces: namespaces.iter().flatten().map(|name| name.as_str().into()).collect(),
        use_ends: true,
        avoid_buggy: spec.avoid_buggy.unwrap_or(false),
        sharing: Sharing::Key,
        ..PoolRecord::default()
    }
}

/// Returns a pool's place among all. Pools for certain Services come before the others, and among
/// them those with a priority, the lowest number first.
fn priority(allocation: Option<&Allocation>) -> i32 {
    match allocation.map(|allocation| allocation.priority.unwrap_or_default()) {
        None => i32::MAX,
        Some(unset) if unset <= 0 => i32::MAX - 1,
        Some(priority) => priority.min(i32::MAX - 2),
    }
}

fn selectors(selectors: Option<&[LabelSelector]>) -> Vec<Box<str>> {
    selectors.into_iter().flatten().map(selector).collect()
}

/// `spec` of an `L2Advertisement`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AdvertisementSpec {
    #[serde(rename = "ipAddressPools")]
    pools: Option<Vec<String>>,
    #[serde(rename = "ipAddressPoolSelectors")]
    pool_selectors: Option<Vec<LabelSelector>>,
    node_selectors: Option<Vec<LabelSelector>>,
    preferred_node_selectors: Option<Vec<PreferredNodes>>,
    service_selectors: Option<Vec<LabelSelector>>,
    interfaces: Option<Vec<Box<str>>>,
}

#[derive(Deserialize)]
struct PreferredNodes {
    weight: i32,
    preference: LabelSelector,
}

/// Returns an `L2Advertisement` in the core's form.
pub(crate) fn advertisement(metadata: &Meta, spec: AdvertisementSpec) -> L2AdvertisementRecord {
    let preferred = spec.preferred_node_selectors.iter().flatten();
    L2AdvertisementRecord {
        name: metadata.name.as_str().into(),
        pools: spec.pools.iter().flatten().map(|name| name.as_str().into()).collect(),
        pool_selectors: selectors(spec.pool_selectors.as_deref()),
        nodes: selectors(spec.node_selectors.as_deref()),
        preferred: preferred.map(|it| (it.weight, selector(&it.preference))).collect(),
        services: selectors(spec.service_selectors.as_deref()),
        interfaces: spec.interfaces.unwrap_or_default(),
    }
}

/// Returns the status of an `IPAddressPool`.
pub(crate) fn status(state: &PoolState) -> Value {
    let counts = |family| state.counts.get(&family).copied().unwrap_or_default();
    let number = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
    let (v4, v6) = (counts(Family::V4), counts(Family::V6));
    json!({
        "assignedIPv4": number(v4.allocated + v4.kept),
        "assignedIPv6": number(v6.allocated + v6.kept),
        "availableIPv4": number(v4.available()),
        "availableIPv6": number(v6.available()),
    })
}

/// Returns the request that writes the status of an `IPAddressPool`.
pub(crate) fn status_call(namespace: &str, name: &str, status: &Value) -> Call {
    MetalLb::IpAddressPools.collection(namespace).merge_status(name, &json!({"status": status}))
}
