//! The source of the VIPs: a file, or a cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use vipward_common::MacAddr;

use super::{cluster::Cluster, file::File, segment::Authority};
use crate::{
    base::time::Monotonic,
    config::Config,
    host::{
        net::Vital,
        placement::{Entry, Wanted},
    },
    ownership::HolderClaim,
    segment::conflict::Right,
};

pub enum Source {
    /// A file: this node holds its VIPs, whatever other nodes do.
    File(Box<File>),
    /// A cluster, whose nodes decide together.
    Cluster(Box<Cluster>),
}

impl Source {
    /// Returns the VIPs, each with its desired entry.
    pub(super) fn wanted<'a>(&'a self, config: &'a Config) -> impl Iterator<Item = Wanted<'a>> + Clone {
        let cluster = match self {
            Self::File(_) => None,
            Self::Cluster(cluster) => Some(cluster),
        };
        // In a cluster, the configuration has none.
        let of_file = config.vips.iter().map(Wanted::from);
        of_file.chain(cluster.into_iter().flat_map(|cluster| cluster.wanted()))
    }

    pub(super) fn wanted_of<'a>(&'a self, config: &'a Config, vips: &BTreeSet<IpAddr>) -> Vec<Wanted<'a>> {
        match self {
            Self::File(_) => self.wanted(config).filter(|wanted| vips.contains(&wanted.address)).collect(),
            Self::Cluster(cluster) => cluster.wanted_of(vips),
        }
    }

    /// Returns the VIPs that this node should hold, among `of` or all.
    pub(super) fn said(
        &self,
        config: &Config,
        of: Option<&BTreeSet<IpAddr>>,
        now: Monotonic,
    ) -> BTreeMap<IpAddr, HolderClaim> {
        match self {
            Self::File(_) => {
                let is_one = |wanted: &Wanted<'_>| {
                    wanted.entry == Entry::Held && of.is_none_or(|of| of.contains(&wanted.address))
                };
                let held = self.wanted(config).filter(is_one);
                held.map(|wanted| (wanted.address, HolderClaim::Here { taken: true })).collect()
            }
            Self::Cluster(cluster) => cluster.said(of, now),
        }
    }

    /// Returns the VIPs of ended sessions.
    pub(super) fn left_behind(&self, now: Monotonic) -> Vec<IpAddr> {
        match self {
            Self::File(_) => Vec::new(),
            Self::Cluster(cluster) => cluster.engine().left_behind(now).collect(),
        }
    }

    /// Returns the time for which a VIP may be silent before that is reported.
    pub(super) fn grace(&self, config: &Config) -> Duration {
        match self {
            Self::File(_) => config.fence.duration,
            Self::Cluster(cluster) => cluster.grace(),
        }
    }

    /// Returns the addresses of other nodes, as far as they are known.
    pub(super) fn peer_addresses(&self) -> Vec<IpAddr> {
        match self {
            Self::File(_) => Vec::new(),
            Self::Cluster(cluster) => cluster.engine().peer_addresses().collect(),
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        match self {
            Self::File(file) => Some(file.next_deadline()),
            Self::Cluster(cluster) => cluster.next_deadline(),
        }
    }
}

impl Authority for Source {
    fn right(&self, vip: IpAddr, mac: MacAddr, now: Monotonic) -> Right {
        match self {
            Self::File(_) => Right::NoClaims,
            Self::Cluster(cluster) => cluster.right(vip, mac, now),
        }
    }

    fn may_take_back(&self, vip: IpAddr) -> bool {
        match self {
            Self::File(file) => file.takes_back(),
            Self::Cluster(cluster) => cluster.engine().may_take_back(vip),
        }
    }

    fn must_be_free(&self, vip: IpAddr) -> bool {
        match self {
            Self::File(file) => file.must_be_free(vip),
            // The engine requests the probes itself.
            Self::Cluster(_) => false,
        }
    }

    fn settles_by_age(&self) -> bool {
        match self {
            Self::File(_) => true,
            Self::Cluster(_) => false,
        }
    }

    fn is_forced(&self, vip: IpAddr) -> bool {
        match self {
            Self::File(file) => file.is_forced(vip),
            Self::Cluster(_) => false,
        }
    }

    fn is_known(&self) -> bool {
        match self {
            Self::File(_) => true,
            Self::Cluster(cluster) => cluster.is_known(),
        }
    }

    fn may_begin_answering(&self, now: Monotonic) -> bool {
        match self {
            Self::File(_) => true,
            Self::Cluster(cluster) => cluster.engine().may_begin_answering(now),
        }
    }

    fn is_vacant(&self, vip: IpAddr) -> bool {
        match self {
            Self::File(_) => false,
            Self::Cluster(cluster) => !cluster.engine().is_held_by_any(vip),
        }
    }

    fn must_receive(&self) -> Option<Vital> {
        match self {
            Self::File(_) => None,
            Self::Cluster(cluster) => {
                let index = cluster.index();
                index.is_behind().then(|| index.vital())
            }
        }
    }
}
