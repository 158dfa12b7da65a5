//! Answers to a Service that requests an address: what it lacks, and what each pool offers it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use thiserror::Error;

use super::{super::Family, Apart, Counts, known_pools::listed};
use crate::{
    base::legible::Excerpt,
    records::{PoolKind, ServiceName, Shown},
};

/// An address that a Service lacks, or has against another request of its own, with the reason and the
/// remedy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Error)]
pub enum Lack {
    #[error(
        "there is no {} {name:?} (annotation {}); create it, or name one that kubectl get {} lists",
        kind.name(), kind.annotation(), kind.plural()
    )]
    NoSuchPool {
        /// The kind of pool that the annotation names.
        kind: PoolKind,
        name: Excerpt,
    },
    #[error(
        "{} is not for this Service: its namespaces or selectors leave it out, it is being deleted, or a \
         value of it cannot be read; have it serve the Service, or name another pool",
        Shown(pool)
    )]
    NotServed { pool: Arc<str> },
    #[error(
        "{vip} belongs to {}, which is not for this Service; choose another address, or have the pool serve it",
        Shown(pool)
    )]
    NotServedAddress { vip: IpAddr, pool: Arc<str> },
    #[error(
        "no pool gives this Service an {} address: none with autoAssign serves its namespace and labels \
         and has that family; create one, or name a pool in the annotation vipward.io/pool", family.name()
    )]
    NoPool { family: Family },
    #[error(
        "no {} address is free in {}; add addresses to one of them, or release some (vipward pools)",
        family.name(), shown(pools)
    )]
    UsedUp { family: Family, pools: Vec<Arc<str>> },
    #[error(
        "its endpoints are not known, which decide where its VIPs may be (externalTrafficPolicy Local): see why the \
         controller does not read the EndpointSlices, in its log"
    )]
    EndpointsUnknown,
    #[error("no VIPPool exists; create one, or name an address in the annotation vipward.io/addresses")]
    NoPoolAtAll,
    /// Only the agents report it.
    #[error(
        "no controller runs, which would give it {}; start it (deployment vipward-controller){}",
        missed(pool.as_deref(), addresses),
        if *is_helped_by_name { ", or name an address in the annotation vipward.io/addresses" } else { "" }
    )]
    NoController {
        /// The pool that the Service names.
        pool: Option<Arc<str>>,
        /// The addresses that it requests by name.
        addresses: Vec<IpAddr>,
        /// True if the agents serve an address that a Service names.
        is_helped_by_name: bool,
    },
    #[error(
        "no node can announce an {} address of {}{}. {}. {}",
        family.name(), shown(pools), if *is_own { " for this Service" } else { "" }, listed(segments),
        if *is_own {
            "Have its endpoints, its annotations for nodes and interfaces, and spec.announce of the pool leave a node \
             with such a segment"
        } else {
            "Give the pool addresses of a segment"
        }
    )]
    NotAnnounced {
        family: Family,
        pools: Vec<Arc<str>>,
        /// True if a node can announce them for other Services: this one's endpoints, its annotations for
        /// nodes and interfaces, and the pool leave none.
        is_own: bool,
        /// The segments of the nodes.
        segments: BTreeSet<IpNet>,
    },
    #[error("it does not share {vip} with the Services of its key: {}", why.of(with))]
    Unjoined {
        vip: IpAddr,
        /// The Service that has it, or the one of those that share it that has the port.
        with: ServiceName,
        why: Apart,
    },
    #[error(
        "{vip} is reserved for Service {by}{}; choose another address{}",
        if *is_kept { ", which was deleted, and whose address its pool keeps" } else { "" },
        if *is_kept { ", or have it released (vipward release)" } else { "" }
    )]
    Reserved {
        vip: IpAddr,
        by: ServiceName,
        /// True if the Service is gone.
        is_kept: bool,
    },
    #[error(
        "it keeps {vip}, which an admin wants released, since it requests that address by name; have it \
         request another one, or withdraw the request (annotation vipward.io/release of the VirtualIP)"
    )]
    AskedByName { vip: IpAddr },
    #[error(
        "its namespace has {limit} addresses, and may have no more (--max-vips-per-namespace); remove one, \
         or have an admin raise the limit"
    )]
    TooMany { limit: usize },
    #[error(
        "it keeps {vip}, which {} would not give it any more; to get another one: vipward release {vip}",
        Shown(pool)
    )]
    OutOfPool { vip: IpAddr, pool: Arc<str> },
    #[error(
        "it requests {} by name, and so gets none of {}, which it names too. Have it name a pool with \
         that address, or remove one of the two annotations",
        addresses(vips),
        Shown(pool)
    )]
    NotOfNamedPool { vips: Vec<IpAddr>, pool: Arc<str> },
}

impl Lack {
    /// Returns true if the Service does not have an address that it requests.
    pub fn is_of_an_address(&self) -> bool {
        match self {
            Self::NoSuchPool { .. }
            | Self::NotServed { .. }
            | Self::NotServedAddress { .. }
            | Self::NoPool { .. }
            | Self::NoPoolAtAll
            | Self::EndpointsUnknown
            | Self::NoController { .. }
            | Self::UsedUp { .. }
            | Self::NotAnnounced { .. }
            | Self::Reserved { .. }
            | Self::TooMany { .. } => true,
            Self::AskedByName { .. }
            | Self::OutOfPool { .. }
            | Self::NotOfNamedPool { .. }
            | Self::Unjoined { .. } => false,
        }
    }

    /// Returns true if it may soon be over: the endpoints are read when the first Service needs them.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::EndpointsUnknown)
    }

    /// Returns true if another controller may be about to give a Service without a class its address.
    pub fn may_be_anothers(&self) -> bool {
        matches!(self, Self::NoPoolAtAll | Self::NoController { pool: None, .. })
    }
}

/// A pool, from the view of a Service that requests an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prospect {
    pub pool: Arc<str>,
    /// The pool may give the Service an address, or the first reason against it.
    pub fit: Fit,
    /// The pools with lower numbers come first.
    pub priority: i32,
    pub counts: BTreeMap<Family, Counts>,
}

/// The answer to the question whether a pool may give a Service an address: yes, or the first reason
/// against it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fit {
    Serves,
    /// No node can announce its addresses for the Service.
    NotAnnounced,
    /// Only Services that name it get its addresses.
    NotAutomatic,
    OtherNamed,
    /// Its namespaces and selectors leave the Service out, it is being deleted, or one of them cannot
    /// be read.
    NotFor,
    /// An older pool has some of its addresses.
    Overlaps,
}

impl fmt::Display for Prospect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, fit, priority, counts } = self;
        write!(f, "{}: ", Shown(pool))?;
        f.write_str(match fit {
            Fit::Serves => {
                let free = |(family, counts): (&Family, &Counts)| {
                    format!(", {} of {} {} addresses are free", counts.available(), counts.total, family.name())
                };
                let free: String = counts.iter().map(free).collect();
                return write!(f, "serves it with priority {priority}{free}");
            }
            Fit::NotAnnounced => "no node can announce its addresses for the Service",
            Fit::NotAutomatic => "only Services that name it get its addresses (autoAssign: false)",
            Fit::OtherNamed => "the Service names another one",
            Fit::NotFor => {
                "its namespaces or selectors leave the Service out, it is being deleted, or one of them cannot be read"
            }
            Fit::Overlaps => "gives out nothing, since an older pool has some of its addresses",
        })
    }
}

fn addresses(vips: &[IpAddr]) -> String {
    vips.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}

fn missed(pool: Option<&str>, named: &[IpAddr]) -> String {
    match pool {
        _ if !named.is_empty() => addresses(named),
        Some(pool) => format!("an address of {}", Shown(pool)),
        None => "an address of a VIPPool".to_owned(),
    }
}

/// Returns the kinds and names of pools: `VIPPool lan, wan, IPAddressPool lan`.
fn shown(pools: &[Arc<str>]) -> String {
    let mut last = None;
    let named = pools.iter().map(|pool| {
        let (kind, name) = PoolKind::of(pool);
        if last.replace(kind) == Some(kind) { name.to_owned() } else { Shown(pool).to_string() }
    });
    named.collect::<Vec<_>>().join(", ")
}
