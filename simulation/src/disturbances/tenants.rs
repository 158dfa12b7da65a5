//! The tenants' Services, which request addresses of a controller, and the pools and namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use vipward_core::{
    pools::{Choice, PoolRecord, Sharing},
    records::{Reservation, ServiceName},
};

use super::begin_and_end::keep;
use crate::{
    api::Service,
    schedule::{Asks, KeepPlan, OnTenants, PoolPlan, SharingPlan, TenantsPlan, names},
    world::World,
};

/// The label of a tenant's namespace.
const LABEL: &str = "served";

impl World {
    pub(crate) fn tenants_plan(&self) -> &TenantsPlan {
        self.plan.tenants.as_ref().expect("invariant: only a schedule with a controller has tenants")
    }

    /// Makes the pools and the namespaces.
    pub(crate) fn begin_tenants(&mut self) {
        for number in 0..2 {
            self.notify_pool(number);
            self.notify_namespace(number);
        }
    }

    /// Lets the Service of this number begin to request addresses.
    pub(crate) fn want(&mut self, number: usize) {
        self.record.disturbed(self.now);
        if self.plan.has_controller() {
            self.desired.tenants[number].begun = true;
            return self.notify_tenant(number);
        }
        self.desired.vips[number].begun = true;
        self.put_wanted_service(number);
    }

    /// Returns what a Service requests now.
    pub(crate) fn asks(&self, number: usize) -> Asks {
        let latest = self.desired.tenants[number].asks.last().map(|(_, asks)| *asks);
        latest.unwrap_or(self.tenants_plan().services[number].asks)
    }

    /// Returns a pool as it is now, if it exists.
    pub(crate) fn pool(&self, number: usize) -> Option<PoolPlan> {
        let desired = &self.desired.pools[number];
        let latest = desired.edits.last().map(|(_, plan)| *plan);
        (!desired.gone.any()).then(|| latest.unwrap_or(self.tenants_plan().pools[number]))
    }

    pub(super) fn change_tenants(&mut self, index: usize, what: OnTenants, begins: bool) {
        match what {
            OnTenants::ServiceGone { service, .. } => {
                self.desired.tenants[usize::from(service)].gone.change(begins);
                self.notify_tenant(service.into());
            }
            OnTenants::ServiceReplaced { service } => {
                self.remove_tenant(service.into());
                self.notify_tenant(service.into());
            }
            OnTenants::ServiceRetyped { service, .. } => {
                self.desired.tenants[usize::from(service)].retyped.change(begins);
                self.notify_tenant(service.into());
            }
            OnTenants::ServiceAsks { service, asks, .. } => {
                keep(&mut self.desired.tenants[usize::from(service)].asks, index, asks, begins);
                self.notify_tenant(service.into());
            }
            OnTenants::PoolEdited { pool, to, .. } => {
                keep(&mut self.desired.pools[usize::from(pool)].edits, index, to, begins);
                self.notify_pool(pool.into());
            }
            OnTenants::PoolGone { pool, .. } => {
                self.desired.pools[usize::from(pool)].gone.change(begins);
                self.notify_pool(pool.into());
            }
            OnTenants::Unlabelled { namespace, .. } => {
                self.desired.unlabelled[usize::from(namespace)].change(begins);
                self.notify_namespace(namespace.into());
            }
            OnTenants::Released { vip } => {
                let vip = names::vip(vip.into());
                if let Some(mut claim) = self.api.claims.get(&vip).cloned() {
                    claim.release = true;
                    self.api.put_claim(claim);
                    self.spread();
                }
            }
            OnTenants::Refused { of, .. } => self.api.refused[of as usize].change(begins),
        }
    }

    fn remove_tenant(&mut self, number: usize) {
        self.record_deletion(number);
        self.api.put_service(&names::tenants_service(number), None);
    }

    fn notify_tenant(&mut self, number: usize) {
        let name = names::tenants_service(number);
        self.unguard(&name);
        if self.desired.tenants[number].exists() {
            if !self.api.services.contains_key(&name) {
                self.desired.tenants[number].born += 1;
            }
            let tenant = &self.desired.tenants[number];
            let local = self.tenants_plan().services[number].local.map(|bits| self.nodes_of(bits));
            let what = (self.asks(number), !tenant.retyped.any());
            let service = Service::of_tenant(number, tenant.born, what, local);
            let service = service.with_status_of(self.api.services.get(&name));
            self.api.put_service(&name, Some(service));
        } else if self.api.services.contains_key(&name) {
            self.remove_tenant(number);
        }
        self.spread();
        self.stirred = true;
    }

    /// Records that a change of a Service may darken its VIPs.
    fn unguard(&mut self, service: &ServiceName) {
        for vip in 0..self.plan.vips.len() {
            let claim = self.api.claims.get(&names::vip(vip));
            let reserved = claim.and_then(|claim| claim.reservation.as_ref());
            if reserved.is_some_and(|reservation| reservation.service == *service) {
                self.record.guarded[vip] = false;
            }
        }
    }

    fn notify_pool(&mut self, number: usize) {
        let name = names::pool(number);
        if self.pool(number).is_some() && !self.api.pools.contains_key(&name) {
            self.desired.pools[number].born += 1;
        }
        let created = self.api.pools.get(&name).map_or(self.unix_seconds(), |pool| pool.created);
        let record = self.pool(number).map(|plan| self.pool_record(number, plan, created));
        self.api.put_pool(&name, record);
        self.record.tenants.kept.fill(None);
        self.spread();
    }

    fn pool_record(&self, number: usize, plan: PoolPlan, created: i64) -> PoolRecord {
        let vips = (0..self.plan.vips.len()).filter(|vip| plan.vips >> vip & 1 == 1);
        PoolRecord {
            name: names::pool(number),
            uid: format!("{number}-{}", self.desired.pools[number].born).into(),
            created,
            addresses: vips.map(|vip| names::vip(vip).to_string().into()).collect(),
            auto_assign: plan.auto_assign,
            namespace_selectors: plan.labelled.then(|| LABEL.into()).into_iter().collect(),
            sharing: match plan.sharing {
                SharingPlan::Never => Sharing::Never,
                SharingPlan::Namespace => Sharing::Namespace,
                SharingPlan::Key => Sharing::Key,
            },
            keep: match plan.keep {
                KeepPlan::Not => None,
                KeepPlan::Seconds(seconds) => Some(format!("{seconds}s").into()),
                KeepPlan::Forever => Some("forever".into()),
            },
            keep_at_most: plan.keep_at_most,
            choice: if plan.spread { Choice::Spread } else { Choice::First },
            ..PoolRecord::default()
        }
    }

    fn notify_namespace(&mut self, number: usize) {
        let is_labelled = !self.desired.unlabelled[number].any();
        let labels: BTreeMap<_, _> =
            is_labelled.then(|| (LABEL.to_owned(), String::new())).into_iter().collect();
        let other = self.tenants_plan().consent.then(|| names::tenants_namespace(number + 1));
        let share_with: BTreeSet<Arc<str>> = other.into_iter().collect();
        self.api.put_namespace(&names::tenants_namespace(number), labels, share_with);
        self.spread();
    }

    /// Returns the reservation of an address for a Service that exists and is of the right type.
    pub(crate) fn reservation(&self, vip: usize) -> Option<&Reservation> {
        let claim = self.api.claims.get(&names::vip(vip))?;
        let reservation = claim.reservation.as_deref().filter(|reservation| reservation.kept.is_none())?;
        self.served(&reservation.service).map(|_| reservation)
    }

    /// Returns a tenant's Service that is to have addresses.
    pub(crate) fn served(&self, name: &ServiceName) -> Option<&Service> {
        self.api.services.get(name).filter(|service| service.record().load_balancer)
    }

    /// Returns whether a node may hold a VIP by the endpoints of the Service that has it longest.
    pub(super) fn has_endpoints(&self, node: usize, vip: usize) -> bool {
        let Some(reservation) = self.reservation(vip) else { return false };
        let named = self.api.claims[&names::vip(vip)].note.services.iter();
        let owner = named.chain([&reservation.service]).find_map(|service| self.served(service));
        let local = owner.and_then(Service::local);
        local.is_none_or(|nodes| nodes.contains(&names::node(node)))
    }

    /// Returns the addresses that are reserved for a Service.
    pub(crate) fn reserved_for(&self, service: &ServiceName) -> Vec<IpAddr> {
        let is_its = |vip: &IpAddr| {
            let reservation = self.api.claims[vip].reservation.as_ref();
            reservation.is_some_and(|reservation| reservation.service == *service)
        };
        self.api.claims.keys().copied().filter(is_its).collect()
    }
}
