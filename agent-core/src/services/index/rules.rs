//! The rules that differ by what a process does about Services.

use std::net::IpAddr;

use super::super::{
    Place, Problem, ServiceRecord, Settings,
    addresses::ClaimSummary,
    reading::{Reading, Wish},
    sharing::Kept,
    statuses::{Naming, Standing},
};
use crate::records::{Demand, PoolKind, ServiceName};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// An agent where no controller runs. It reads the requests of Services and their reservations,
    /// and writes the statuses of the Services whose VIPs it holds.
    Alone,
    /// An agent beside a controller: it announces what the statuses name, and what is reserved.
    Announcer,
    /// The controller: it gives out addresses of the pools, and writes every status.
    Controller,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    /// The kind of the pool that it came from or that has it. An agent does not know that.
    pub(crate) pool: Option<PoolKind>,
    /// The Service that it is reserved for. What is kept for one that is gone is reserved for none.
    pub(crate) reserved_for: Option<&'a ServiceName>,
}

impl Role {
    /// Returns the addresses that a Service wants if it is served. `given` has those that the
    /// controller gives it, or gave it before the controller was removed.
    pub(super) fn wish(
        self,
        reading: &Reading,
        record: &ServiceRecord,
        standing: Standing,
        given: &[IpAddr],
        settings: &Settings,
    ) -> Wish {
        let mut wish = Wish::default();
        let asked = reading.asked_at();
        let place = asked.map_or(Place::Pool, |(place, _)| place);
        match (standing, self) {
            (Standing::Bound, _) => wish.add_status(record, settings),
            (Standing::Own | Standing::Left(_), Self::Announcer) => {
                if standing == Standing::Own {
                    wish.add_status(record, settings);
                }
                // The controller writes some addresses into the status only once they are held.
                wish.add(given, place, record, settings);
            }
            (Standing::Own | Standing::Left(_), Self::Alone) => {
                let addresses = asked.map_or(given, |(_, addresses)| addresses);
                wish.add_for_status(addresses, place, record, settings);
            }
            (Standing::Own | Standing::Left(_), Self::Controller) => {
                wish.add_for_status(given, place, record, settings);
                // The pools are not asked for them.
                let asked = asked.map_or(&[][..], |(_, addresses)| addresses);
                let refused: Vec<_> = asked.iter().filter(|vip| !record.has_family(**vip)).copied().collect();
                wish.add(&refused, place, record, settings);
            }
        }
        // A left-over status serves until the Service has another address.
        if matches!(standing, Standing::Left(_)) && wish.wanted.is_empty() {
            wish.add_status(record, settings);
        }
        if standing != Standing::Own && self != Self::Announcer {
            wish.problems.extend(reading.disagreement(record, standing == Standing::Bound, settings));
        }
        wish.end(record, settings);
        wish
    }

    /// Decides if statuses may name an address that no admin has chosen.
    ///
    /// A user who names an address must not have the cluster's traffic for a host sent to a Service. So
    /// the controller names the address once its VIP is held: then no other host has answered for it.
    /// Claims and Leases are written with the tokens of nodes, so the address must be on a segment that
    /// a Node object confirms, too.
    pub(super) fn naming(
        self,
        summary: &ClaimSummary,
        is_held: bool,
        is_near: bool,
        is_confirmed: bool,
    ) -> Naming {
        match self {
            Self::Alone | Self::Announcer if is_held || is_near => Naming::Named,
            Self::Controller if is_held && is_confirmed => Naming::Named,
            Self::Controller if is_held => Naming::Unconfirmed,
            Self::Controller if summary.was_held && is_confirmed => Naming::Left,
            Self::Alone | Self::Announcer | Self::Controller => Naming::Unnamed,
        }
    }

    /// Returns true if statuses may begin to name an address: the controller has reserved it for a Service
    /// that has the VIP, or that only its ports keep from it. The reservation of one that has left goes
    /// to another Service, or is kept.
    pub(super) fn may_begin_to_name(
        self,
        origin: Origin<'_>,
        demand: Option<&Demand>,
        problems: &[(ServiceName, Problem)],
    ) -> bool {
        let has_it = |service| demand.is_some_and(|demand| demand.services.contains(service));
        let clashes = |service| {
            let is_clash = |problem: &Problem| matches!(problem, Problem::Clash { .. });
            problems.iter().any(|(name, problem)| name == service && is_clash(problem))
        };
        let is_right = |service| has_it(service) || clashes(service);
        self != Self::Controller || origin.reserved_for.is_some_and(is_right)
    }

    /// Returns true if Services of several namespaces may share an address by `MetalLB`'s key. What an
    /// agent finds in the statuses, the controller has allowed.
    pub(super) fn shares_by_metallb(self, origin: Origin<'_>, settings: &Settings) -> bool {
        settings.metallb && (self == Self::Announcer || origin.pool == Some(PoolKind::IpAddressPool))
    }

    /// Returns which Services keep an address of another namespace by `MetalLB`'s key. A
    /// `VIPPool`'s address needs consent, unless `MetalLB` gave it out.
    pub(super) fn kept_by_metallb(self, origin: Origin<'_>, settings: &Settings) -> Kept {
        let was_given = self == Self::Alone && origin.reserved_for.is_some();
        if !settings.metallb && !was_given {
            Kept::Never
        } else if origin.pool == Some(PoolKind::VipPool) {
            Kept::FromMetallb
        } else {
            Kept::Always
        }
    }

    /// Returns true if this process does a task about a status. A task is this node's if it holds or
    /// held a VIP of the Service. A Service of another class that was never served here may be another
    /// installation's.
    pub(super) fn does(self, is_this_nodes: bool, is_anothers: bool) -> bool {
        match self {
            Self::Alone => is_this_nodes,
            Self::Announcer => false,
            Self::Controller => !is_anothers,
        }
    }

    /// Returns true if a VIP whose claim may be lost keeps its place until the holders are known,
    /// because a status names it.
    pub(super) fn awaits_holders(self) -> bool {
        self == Self::Controller
    }

    /// Returns true if a status proves that a VIP was held before this process began. Without a
    /// controller, agents write the status themselves.
    pub(super) fn trusts_statuses(self) -> bool {
        self != Self::Alone
    }
}
