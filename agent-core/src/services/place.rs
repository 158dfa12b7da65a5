//! The fields and annotations by which a Service requests addresses.

use std::fmt;

use super::Settings;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    Status,
    Addresses,
    KubeVipAddresses,
    MetallbAddresses,
    LoadBalancerIp,
    ExternalIps,
    Pool,
    PoolAnnotation,
    MetallbPool,
    PreferredNodes,
    Nodes,
    Interface,
    Together,
    Ignore,
    KubeVipIgnore,
}

impl Place {
    /// Returns true if an address there is meant for Vipward alone.
    pub(super) fn is_for_vipward(self, settings: &Settings) -> bool {
        self == Self::Addresses || self == Self::MetallbAddresses && settings.metallb
    }

    /// Returns true if the right to write Services is not enough to write here.
    pub(super) fn is_for_controllers(self) -> bool {
        self == Self::Status
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Status => "status.loadBalancer.ingress",
            Self::Addresses => "annotation vipward.io/addresses",
            Self::KubeVipAddresses => "annotation kube-vip.io/loadbalancerIPs",
            Self::MetallbAddresses => "annotation metallb.io/loadBalancerIPs",
            Self::LoadBalancerIp => "spec.loadBalancerIP",
            Self::ExternalIps => "spec.externalIPs",
            Self::Pool => "a VIPPool",
            Self::PoolAnnotation => "annotation vipward.io/pool",
            Self::MetallbPool => "annotation metallb.io/address-pool",
            Self::PreferredNodes => "annotation vipward.io/preferred-nodes",
            Self::Nodes => "annotation vipward.io/nodes",
            Self::Interface => "annotation vipward.io/interface",
            Self::Together => "annotation vipward.io/together",
            Self::Ignore => "annotation vipward.io/ignore",
            Self::KubeVipIgnore => "annotation kube-vip.io/ignore",
        })
    }
}
