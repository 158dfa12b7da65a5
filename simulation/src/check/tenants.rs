//! Checks what the controllers promise: P1 to P6, and E3. The oracle reads the API server's objects, and
//! follows docs/kubernetes/pools.md.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use vipward_core::{
    pools::Lack,
    records::{ClaimRecord, ServiceName},
    services::Problem,
};

use super::events::NOTIFIED;
use crate::{
    api::Service,
    machine::{At, Contender},
    record::Kept,
    schedule::{Asks, KeepPlan, Kind, PoolPlan, Refused, SharingPlan, names},
    world::{RENEWALS, World},
};

/// The longest time until a Service has an address that it could have, or has its lack reported: a few
/// watches and writes.
const SERVED: Duration = Duration::from_secs(5);
/// The longest pause of the controller after a request that failed.
const PAUSE: Duration = Duration::from_secs(66);
/// What latencies take of a change of leaders.
const LATENCIES: Duration = Duration::from_secs(1);

impl World {
    pub(super) fn check_tenants(&mut self) {
        for number in 0..self.desired.tenants.len() {
            self.check_kept(number);
            self.check_served(number);
        }
        if self.plan.has_controller() {
            (0..self.plan.vips.len()).for_each(|vip| self.check_reservation(vip));
            self.check_led();
        }
    }

    /// Checks E3: while some controller could lead, one does in time. The time is the last leader's term, two
    /// rounds of the election, a request without an answer, and the latencies.
    fn check_led(&mut self) {
        let leads = |it: &Contender| it.leading().is_some() && it.clock.read(self.now) < it.until;
        let is_led = self.controllers.iter().any(leads);
        let since = self.record.tenants.leaderless.unwrap_or(self.now);
        self.record.tenants.leaderless = (!is_led).then_some(since);
        let able = self.controllers.iter().filter_map(|it| it.able).min();
        let Some(able) = able.filter(|_| !is_led) else { return };
        let bound = self.term() * 102 / 100 + self.term() * 2 / RENEWALS + self.request_timeout() + LATENCIES;
        if self.now.since(since.max(able).max(self.record.trouble.disturbed)) > bound {
            self.violate("E3", "no controller leads".to_owned());
        }
    }

    /// Checks P5 of one address.
    fn check_reservation(&mut self, vip: usize) {
        let (now, wrong) = (self.now, self.unsettled_reservation(vip));
        let since = &mut self.record.tenants.wrong[vip];
        *since = wrong.as_ref().map(|_| since.unwrap_or(now));
        let (Some(what), Some(since)) = (wrong, *since) else { return };
        let Some(fit) = self.fit_leader().and_then(|leader| leader.fit) else { return };
        let calm = fit.max(self.record.trouble.disturbed).max(self.pauses_until());
        if now.since(since.max(calm)) > SERVED {
            self.violate("P5", format!("{} {what}", names::vip(vip)));
        }
    }

    /// Returns a tenant's Service that is to have addresses.
    fn tenant(&self, number: usize) -> Option<&Service> {
        self.served(&names::tenants_service(number))
    }

    /// Returns whether a pool gives out addresses: it exists, and no older one has some of its own.
    fn is_usable(&self, number: usize) -> bool {
        let created = |number: usize| self.api.pools.get(&names::pool(number)).map(|pool| pool.created);
        let (Some(plan), other) = (self.pool(number), 1 - number) else { return false };
        let overlaps = self.pool(other).is_some_and(|other| other.vips & plan.vips != 0);
        !overlaps || (created(number), number) < (created(other), other)
    }

    fn serves(&self, plan: PoolPlan, service: &ServiceName) -> bool {
        let is_labelled = (0..2).any(|of| {
            names::tenants_namespace(of) == service.namespace && !self.desired.unlabelled[of].any()
        });
        !plan.labelled || is_labelled
    }

    fn pool_has(&self, number: usize, vip: usize) -> bool {
        self.pool(number).is_some_and(|plan| plan.vips >> vip & 1 == 1)
    }

    fn usable_pool_of(&self, vip: usize) -> Option<usize> {
        (0..2).find(|number| self.pool_has(*number, vip) && self.is_usable(*number))
    }

    /// Returns the pool whose rules count for an address.
    fn pool_of(&self, vip: usize) -> Option<PoolPlan> {
        let usable = self.usable_pool_of(vip);
        self.pool(usable.or_else(|| (0..2).find(|number| self.pool_has(*number, vip)))?)
    }

    /// Returns whether two Services may share an address, which the first one has.
    fn may_share(&self, vip: usize, owner: &ServiceName, other: &ServiceName) -> bool {
        match self.pool_of(vip).map_or(SharingPlan::Key, |plan| plan.sharing) {
            SharingPlan::Never => false,
            SharingPlan::Namespace => owner.namespace == other.namespace,
            SharingPlan::Key => self.may_ever_share(owner, other),
        }
    }

    /// Returns whether an address has no object, and no other Service requests it or has it.
    fn is_free(&self, vip: usize, service: &ServiceName) -> bool {
        let address = names::vip(vip);
        let others =
            (0..self.desired.tenants.len()).filter(|other| names::tenants_service(*other) != *service);
        let is_named = |other: usize| {
            let Some(found) = self.api.services.get(&names::tenants_service(other)) else { return false };
            let asks = found.record().load_balancer && self.asks(other) == Asks::Vip(byte(vip));
            asks || found.status().any(|ip| ip == address)
        };
        !self.api.claims.contains_key(&address) && !others.into_iter().any(is_named)
    }

    /// Returns whether the namespace of a Service has as many addresses as it may.
    fn is_full(&self, service: &ServiceName) -> bool {
        let is_in = |other: &ServiceName| other.namespace == service.namespace;
        let counts = |claim: &&ClaimRecord| match &claim.reservation {
            Some(reservation) => is_in(&reservation.service),
            None => claim.note.services.iter().any(is_in),
        };
        let reserved = self.api.claims.values().filter(counts).map(|claim| claim.vip);
        let others = (0..self.desired.tenants.len()).map(names::tenants_service).filter(is_in);
        let shared = others.filter_map(|other| self.served(&other)).flat_map(Service::status);
        let has: BTreeSet<IpAddr> = reserved.chain(shared).collect();
        self.tenants_plan().most.is_some_and(|most| has.len() >= usize::from(most))
    }

    /// Returns whether a Service has what it requests.
    fn has(&self, number: usize, service: &Service) -> bool {
        let mut status = service.status().map(names::vip_index);
        match self.asks(number) {
            Asks::Any => status.next().is_some(),
            Asks::Vip(vip) => status.any(|has| has == usize::from(vip)),
            Asks::Pool(pool) => status.any(|vip| self.is_from(vip, pool.into())),
        }
    }

    fn is_from(&self, vip: usize, pool: usize) -> bool {
        let claim = self.api.claims.get(&names::vip(vip));
        let from = claim.and_then(|claim| claim.reservation.as_ref()?.pool.clone());
        from == Some(names::pool(pool)) || self.pool(pool).is_some_and(|plan| plan.vips >> vip & 1 == 1)
    }

    /// Returns whether a Service could have what it requests.
    fn could(&self, number: usize) -> bool {
        let service = names::tenants_service(number);
        let has_free = |pool: usize| {
            let plan = self.pool(pool).filter(|_| self.is_usable(pool));
            let plan = plan.filter(|plan| self.serves(*plan, &service) && !self.is_full(&service));
            let mut vips = 0..self.plan.vips.len();
            plan.is_some_and(|plan| vips.any(|vip| plan.vips >> vip & 1 == 1 && self.is_free(vip, &service)))
        };
        let mut own = self.reserved_for(&service).into_iter().map(names::vip_index);
        match self.asks(number) {
            Asks::Any => {
                let is_automatic = |pool: &usize| self.pool(*pool).is_some_and(|plan| plan.auto_assign);
                own.next().is_some() || (0..2).filter(is_automatic).any(has_free)
            }
            Asks::Pool(pool) => own.any(|vip| self.is_from(vip, pool.into())) || has_free(pool.into()),
            Asks::Vip(vip) => self.could_have(vip.into(), &service),
        }
    }

    fn could_have(&self, vip: usize, service: &ServiceName) -> bool {
        let Some(claim) = self.api.claims.get(&names::vip(vip)) else {
            let serves = self.pool_of(vip).is_none_or(|plan| self.serves(plan, service));
            return serves && !self.is_full(service);
        };
        let Some(reservation) = &claim.reservation else { return false };
        let is_shared = reservation.kept.is_none() && self.may_share(vip, &reservation.service, service);
        reservation.service == *service || is_shared && !self.is_full(service)
    }

    /// Checks P1 and P3 of one Service.
    fn check_served(&mut self, number: usize) {
        let now = self.now;
        let state = self.tenant(number).map(|service| (self.has(number, service), self.could(number)));
        let is_in_order = state.is_some_and(|(has, _)| has && self.is_in_order(number));
        let update = |since: &mut Option<At>, is_so: bool| {
            *since = if is_so { Some(since.unwrap_or(now)) } else { None };
            *since
        };
        let record = &mut self.record.tenants;
        let has = state.is_some_and(|(has, _)| has);
        self.record.facts.waited |= has && record.waits[number];
        record.waits[number] = !has && (record.waits[number] || state == Some((false, false)));
        let could = update(&mut record.could[number], state == Some((false, true)));
        let lacks = update(&mut record.lacks[number], state == Some((false, false)));
        let content = update(&mut record.content[number], is_in_order);
        let Some(fit) = self.fit_leader().and_then(|leader| leader.fit) else { return };
        let calm = fit.max(self.record.trouble.disturbed);
        let without_pause = calm.max(self.pauses_until());
        let given = self.record.tenants.given;
        let lasts = |since: Option<At>, calm: At| {
            since.is_some_and(|since| now.since(since.max(calm).max(given)) > SERVED)
        };
        let events = self.events_due() + NOTIFIED;
        let service = names::tenants_service(number);
        let reports = self.problems_of(&service);
        let is_reported = self.is_reported(&service);
        self.record.facts.lacked |= lacks.is_some() && is_reported;
        let is_refused = self.api.refused[Refused::Reservation as usize].any()
            && lasts(could, calm.max(events))
            && self.reserved_for(&service).is_empty();
        let has_pool = self.pool(0).is_some() || self.pool(1).is_some() || self.asks(number) != Asks::Any;
        if lasts(could, without_pause) {
            self.violate("P1", format!("{service} could have an address, and has none"));
        } else if (lasts(lacks, without_pause.max(events)) || is_refused) && has_pool && !is_reported {
            self.violate("P3", format!("{service} lacks an address, and no Event says why"));
        } else if let Some(problem) = reports.filter(|_| lasts(content, without_pause)) {
            self.violate("P3", format!("{service} has what it asks for, and has a problem: {problem}"));
        }
    }

    /// Returns the time until which the controller may wait before it tries a request again.
    fn pauses_until(&self) -> At {
        let failed = self.fit_leader().and_then(|leader| leader.failed);
        failed.map(|failed| failed + PAUSE).unwrap_or_default()
    }

    /// Returns a problem of a Service, but that it shares with nobody of its key.
    fn problems_of(&self, service: &ServiceName) -> Option<String> {
        let mut problems = self.fit_leader()?.leading()?.problems.get(service)?.iter();
        let is_alone = |problem: &Problem| matches!(problem, Problem::Lacking(Lack::Unjoined { .. }));
        problems.find(|problem| !is_alone(problem)).map(ToString::to_string)
    }

    /// Returns whether a Service has one address, which is its own alone and stays.
    fn is_in_order(&self, number: usize) -> bool {
        let service = names::tenants_service(number);
        let [address] = self.reserved_for(&service)[..] else { return false };
        let vip = names::vip_index(address);
        let claim = &self.api.claims[&address];
        let is_alone = (0..self.desired.tenants.len()).filter(|other| *other != number).all(|other| {
            let found = self.tenant(other);
            found.is_none_or(|found| {
                self.asks(other) != Asks::Vip(byte(vip)) && found.status().all(|ip| ip != address)
            })
        });
        let pool = claim.reservation.as_ref().and_then(|reservation| reservation.pool.clone());
        let fits = (0..2).any(|number| {
            let has_it = |plan: PoolPlan| plan.vips >> vip & 1 == 1 && self.serves(plan, &service);
            pool == Some(names::pool(number))
                && self.is_usable(number)
                && self.pool(number).is_some_and(has_it)
        });
        let status = self.tenant(number).map(|service| service.status().collect::<Vec<_>>());
        !claim.release && is_alone && fits && status == Some(vec![address])
    }

    /// Returns the Service that has an address alone, and has had it for a while.
    pub(crate) fn settled_owner(&self, vip: IpAddr) -> Option<usize> {
        let is_settled = |number: &usize| {
            let since = self.record.tenants.content[*number];
            since.is_some_and(|since| self.now.since(since) > SERVED)
                && self.tenant(*number).is_some()
                && self.is_in_order(*number)
                && self.reserved_for(&names::tenants_service(*number)) == [vip]
        };
        (0..self.desired.tenants.len()).find(is_settled)
    }

    /// Checks P6: such an address is not given to another Service.
    pub(crate) fn check_owner(&mut self, settled: Option<usize>, vip: IpAddr) {
        let Some(service) = settled.map(names::tenants_service) else { return };
        let reservation = self.api.claims.get(&vip).and_then(|claim| claim.reservation.as_ref());
        if let Some(other) = reservation.map(|it| &it.service).filter(|it| **it != service) {
            self.violate("P6", format!("{vip} is given to {other}, and {service} has it"));
        }
    }

    /// Records that a Service is deleted, and the address that is kept for the next one of its name.
    pub(crate) fn record_deletion(&mut self, number: usize) {
        let service = names::tenants_service(number);
        let kept = self.kept_for(number, &service);
        if self.api.services.contains_key(&service) {
            self.record.tenants.kept[number] = kept;
        }
    }

    fn kept_for(&self, number: usize, service: &ServiceName) -> Option<Kept> {
        let [vip] = self.reserved_for(service)[..] else { return None };
        self.tenant(number)?.status().find(|ip| *ip == vip)?;
        let claim = &self.api.claims[&vip];
        let reservation = claim.reservation.as_ref().filter(|it| it.kept.is_none() && !claim.release)?;
        let has_it = |pool: &usize| {
            let plan = self.pool(*pool).filter(|_| self.is_usable(*pool));
            let has_it = plan.is_some_and(|plan| plan.vips >> names::vip_index(vip) & 1 == 1);
            has_it && reservation.pool == Some(names::pool(*pool))
        };
        let plan = (0..2).find(has_it).and_then(|pool| self.pool(pool))?;
        if !self.is_fitting(names::vip_index(vip), service) {
            return None;
        }
        let until = match plan.keep {
            _ if plan.keep_at_most.is_some() => return None,
            KeepPlan::Not => return None,
            KeepPlan::Seconds(seconds) => Some(self.unix_seconds() + i64::from(seconds) - 1),
            KeepPlan::Forever => None,
        };
        Some(Kept { vip, asks: self.asks(number), until })
    }

    /// Returns whether an address that is reserved for a Service is one that it requests.
    fn is_fitting(&self, vip: usize, service: &ServiceName) -> bool {
        let is_it = |number: &usize| names::tenants_service(*number) == *service;
        let Some(number) = (0..self.desired.tenants.len()).find(is_it) else { return false };
        match self.asks(number) {
            Asks::Any => true,
            Asks::Pool(pool) => self.is_from(vip, pool.into()),
            Asks::Vip(asked) => usize::from(asked) == vip,
        }
    }

    /// Checks P2 of one Service.
    fn check_kept(&mut self, number: usize) {
        let Some(Kept { vip, asks, until }) = self.record.tenants.kept[number] else { return };
        let others = (0..self.desired.tenants.len()).filter(|other| *other != number);
        // One that shares it by its key inherits it.
        let is_asked_for = |other: usize| {
            self.asks(other) == Asks::Vip(byte(names::vip_index(vip)))
                || self.tenant(other).is_some_and(|found| found.status().any(|ip| ip == vip))
        };
        let misses_pools = |it: &Contender| it.faults.stalled[Kind::Pool as usize].any();
        let exists = self.desired.tenants[number].exists();
        let is_over = until.is_some_and(|until| !exists && self.unix_seconds() >= until)
            || exists && (self.asks(number) != asks || self.tenant(number).is_none())
            || others.into_iter().any(is_asked_for)
            || self.controllers.iter().any(misses_pools)
            || self.api.claims.get(&vip).is_some_and(|claim| claim.release);
        if is_over {
            self.record.tenants.kept[number] = None;
            return;
        }
        let Some(status) = self.tenant(number).map(|service| service.status().collect::<Vec<IpAddr>>())
        else {
            return;
        };
        self.record.tenants.kept[number] = Some(Kept { vip, asks, until: None });
        if !status.is_empty() {
            self.record.tenants.kept[number] = None;
            self.record.facts.kept |= status == [vip];
            if status != [vip] {
                let service = names::tenants_service(number);
                self.violate(
                    "P2",
                    format!("{service} had {vip}, which is kept for it, and has {status:?} now"),
                );
            }
        }
    }

    /// Checks P4 of a status that is about to be written. A new address in it must be reserved for the
    /// Service, or for one that shares it.
    pub(crate) fn check_status(&mut self, service: &ServiceName, addresses: &[IpAddr]) {
        let Some(before) = self.served(service) else { return };
        let mut new = addresses.iter().copied().filter(|vip| before.status().all(|ip| ip != *vip));
        if let Some(vip) = new.find(|vip| !self.is_its(*vip, service, true)) {
            let what = format!("the status of {service} names {vip}, which is not reserved for it");
            self.violate("P4", what);
        }
    }

    /// Returns whether an address is reserved for a Service, or for one that shares it. What a Service has
    /// it keeps, whatever becomes of the pool: then the rules of the pool do not count.
    fn is_its(&self, vip: IpAddr, service: &ServiceName, is_new: bool) -> bool {
        let reservation = self.api.claims.get(&vip).and_then(|claim| claim.reservation.as_ref());
        reservation.is_some_and(|it| {
            // The controller may not have seen another rule yet.
            let is_shared = if is_new && self.now.since(self.record.trouble.disturbed) > SERVED {
                self.may_share(names::vip_index(vip), &it.service, service)
            } else {
                self.may_ever_share(&it.service, service)
            };
            it.service == *service || it.kept.is_none() && is_shared
        })
    }

    fn may_ever_share(&self, owner: &ServiceName, other: &ServiceName) -> bool {
        owner.namespace == other.namespace || self.tenants_plan().consent
    }

    /// Returns what is not settled about the tenants' Services.
    pub(super) fn unsettled_tenants(&self) -> Option<String> {
        (0..self.desired.tenants.len()).find_map(|number| self.unsettled_tenant(number))
    }

    fn unsettled_tenant(&self, number: usize) -> Option<String> {
        let service = names::tenants_service(number);
        let Some(found) = self.tenant(number) else {
            let is_named = self.api.services.get(&service).is_some_and(|it| it.status().next().is_some());
            return is_named.then(|| format!("{service} is not served, and has a status"));
        };
        if let Some(vip) = found.status().find(|vip| !self.is_its(*vip, &service, false)) {
            return Some(format!("the status of {service} names {vip}, which is not reserved for it"));
        }
        (!self.has(number, found) && self.could(number)).then(|| format!("{service} could have an address"))
    }

    /// Returns what is not settled about the reservation of an address.
    pub(super) fn unsettled_reservation(&self, vip: usize) -> Option<String> {
        let claim = self.api.claims.get(&names::vip(vip))?;
        let reservation = claim.reservation.as_ref()?;
        let is_served = self.served(&reservation.service).is_some();
        // A pool that gives out nothing decides about its own addresses alone.
        let came_from = (0..2).find(|number| reservation.pool.as_ref() == Some(&names::pool(*number)));
        let decides = self.usable_pool_of(vip).or(came_from).and_then(|number| self.pool(number));
        let keeps = decides.is_none_or(|plan| plan.keep != KeepPlan::Not);
        let what = match reservation.kept {
            None if !is_served => "is reserved for a Service that is not served",
            Some(_) if is_served && self.is_fitting(vip, &reservation.service) => {
                "is kept for a Service that asks for it"
            }
            Some(_) if !keeps => "is kept, and its pool keeps none",
            Some(Some(until)) if until + 2 < self.unix_seconds() => "is kept for too long",
            None | Some(_) => return None,
        };
        Some(what.to_owned())
    }
}

fn byte(vip: usize) -> u8 {
    u8::try_from(vip).expect("invariant: runs are small")
}
