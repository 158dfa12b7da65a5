//! Parsing of a Service's own fields: its addresses by precedence, its limits, and its opt-out.
//!
//! A value that cannot be parsed is reported, and the previous value stays
//! in effect. So a typing error removes no VIP.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use super::super::{
    IpMode, Malformed, Place, Problem, Refusal, ServiceRecord, Settings, StatusOwner, WayOut, Writer,
};
use crate::{
    base::{address::NeverAVip, pattern::InterfacePattern},
    pools::Family,
    records::{PoolKind, Selector},
};

/// Largest length of a selector or of a list of interfaces, in bytes.
const MOST_BYTES: usize = 4_096;

/// An address that a Service wants, and the field that requests it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) vip: IpAddr,
    pub(crate) place: Place,
}

#[derive(Debug, Default)]
pub(crate) struct Wish {
    /// Each address once, in the Service's order.
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) for_status: Vec<IpAddr>,
    pub(crate) problems: Vec<Problem>,
    /// The addresses so far, those beyond the limit too.
    asked: BTreeSet<IpAddr>,
}

/// Limits on the nodes and interfaces of a Service's VIPs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) nodes: Option<Selector>,
    pub(crate) preferred: Option<Selector>,
    pub(crate) interfaces: Option<Vec<InterfacePattern>>,
}

/// The addresses that an annotation or the spec requests.
#[derive(Clone, PartialEq, Eq, Debug)]
struct RequestedAddresses {
    place: Place,
    addresses: Vec<IpAddr>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reading {
    ignore: Option<bool>,
    ignore_kube_vip: Option<bool>,
    together: Option<bool>,
    asked: Option<RequestedAddresses>,
    limits: Limits,
}

impl Reading {
    /// Parses the Service again. Returns the problems of its values.
    pub(crate) fn update(&mut self, record: &ServiceRecord) -> Vec<Problem> {
        let mut problems = Vec::new();
        let annotations = &record.annotations;
        read(&mut self.ignore, annotations.ignore.as_deref(), Place::Ignore, flag, &mut problems);
        let ignore = annotations.kube_vip_ignore.as_deref();
        read(&mut self.ignore_kube_vip, ignore, Place::KubeVipIgnore, flag, &mut problems);
        read(&mut self.together, annotations.together.as_deref(), Place::Together, flag, &mut problems);
        let limits = &mut self.limits;
        read(&mut limits.nodes, annotations.nodes.as_deref(), Place::Nodes, selector, &mut problems);
        let preferred = annotations.preferred_nodes.as_deref();
        read(&mut limits.preferred, preferred, Place::PreferredNodes, selector, &mut problems);
        let interface = annotations.interface.as_deref();
        read(&mut limits.interfaces, interface, Place::Interface, patterns, &mut problems);
        self.update_asked(record, &mut problems);
        problems
    }

    fn update_asked(&mut self, record: &ServiceRecord, problems: &mut Vec<Problem>) {
        let Some((place, value)) = asking(record) else {
            self.asked = None;
            return;
        };
        // Addresses that were in effect before this process
        // began are in the status, if they were ever held.
        if self.asked.is_none() && record.status_owner() == StatusOwner::Vipward {
            let addresses = record.ingress.iter().filter_map(|ingress| ingress.ip).collect();
            self.asked = Some(RequestedAddresses { place, addresses });
        }
        let parse = |text: &str| Ok(RequestedAddresses { place, addresses: addresses(text)? });
        read(&mut self.asked, Some(value), place, parse, problems);
    }

    pub(crate) fn is_ignored(&self) -> bool {
        self.ignore == Some(true) || self.ignore_kube_vip == Some(true)
    }

    pub(crate) fn is_together(&self) -> bool {
        self.together != Some(false)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn asked(&self) -> &[IpAddr] {
        self.asked.as_ref().map_or(&[], |asked| &asked.addresses)
    }

    pub(crate) fn asked_at(&self) -> Option<(Place, &[IpAddr])> {
        self.asked.as_ref().map(|asked| (asked.place, asked.addresses.as_slice()))
    }

    /// Returns the problem of another controller's status beside an annotation or spec.
    pub(crate) fn disagreement(
        &self,
        record: &ServiceRecord,
        binds: bool,
        settings: &Settings,
    ) -> Option<Problem> {
        let RequestedAddresses { place, addresses } = self.asked.as_ref()?;
        // The address 0.0.0.0 leaves the choice to the controller.
        let wanted: Vec<_> = addresses.iter().filter(|address| !address.is_unspecified()).copied().collect();
        let shared = || Problem::SharedStatus {
            by: Writer::of(record),
            status: status_vips(record),
            place: *place,
            way_out: WayOut::of(record, &settings.class),
        };
        match self.other_manager(record, &wanted, settings) {
            Some(problem) => binds.then_some(problem),
            None => record.status_shared.then(shared),
        }
    }

    /// Returns the problem of another controller's status, if the Service is to have other addresses.
    pub(crate) fn other_manager(
        &self,
        record: &ServiceRecord,
        wanted: &[IpAddr],
        settings: &Settings,
    ) -> Option<Problem> {
        let status = status_vips(record);
        let set = |addresses: &[IpAddr]| addresses.iter().copied().collect::<BTreeSet<_>>();
        (!wanted.is_empty() && set(wanted) != set(&status)).then(|| Problem::OtherManager {
            by: Writer::of(record),
            status,
            place: self.asked.as_ref().map_or(Place::Pool, |asked| asked.place),
            wanted: wanted.to_vec(),
            way_out: WayOut::of(record, &settings.class),
        })
    }
}

impl Wish {
    /// Adds the addresses of a place, as many as the limit leaves room for. Those of a family that the
    /// Service does not have are problems instead.
    pub(crate) fn add(
        &mut self,
        addresses: &[IpAddr],
        place: Place,
        record: &ServiceRecord,
        settings: &Settings,
    ) {
        for address in addresses.iter().copied() {
            if !self.asked.insert(address) {
                continue;
            }
            if !record.has_family(address) {
                let wrong = Refusal::WrongFamily { family: Family::of(address) };
                let why = NeverAVip::of(address).map_or(wrong, Refusal::Never);
                self.problems.push(Problem::Refused { address, place, why });
            } else if self.asked.len() <= settings.most_addresses {
                self.wanted.push(Wanted { vip: address, place });
            }
        }
    }

    /// Adds the addresses in the status that can be VIPs: traffic for them arrives unchanged.
    pub(crate) fn add_status(&mut self, record: &ServiceRecord, settings: &Settings) {
        self.add(&status_vips(record), Place::Status, record, settings);
    }

    pub(crate) fn add_for_status(
        &mut self,
        addresses: &[IpAddr],
        place: Place,
        record: &ServiceRecord,
        settings: &Settings,
    ) {
        self.add(addresses, place, record, settings);
        self.for_status = self.wanted.iter().map(|wanted| wanted.vip).collect();
    }

    /// Adds the addresses of `spec.externalIPs`, if they are served, and the problem of too many.
    pub(crate) fn end(&mut self, record: &ServiceRecord, settings: &Settings) {
        if settings.external_ips {
            self.add(&record.external_ips, Place::ExternalIps, record, settings);
            self.problems.extend((!record.external_ips.is_empty()).then_some(Problem::ExternalIps));
        }
        self.problems.extend(self.excess(settings));
    }

    fn excess(&self, settings: &Settings) -> Option<Problem> {
        let (asked, limit) = (self.asked.len(), settings.most_addresses);
        (asked > limit).then_some(Problem::TooManyAddresses { asked, limit })
    }
}

fn status_vips(record: &ServiceRecord) -> Vec<IpAddr> {
    let vips = record.ingress.iter().filter(|ingress| match ingress.mode {
        IpMode::Vip => true,
        IpMode::Proxy => false,
    });
    vips.filter_map(|ingress| ingress.ip).collect()
}

impl ServiceRecord {
    pub fn asks_for(&self, vip: IpAddr) -> Option<Place> {
        let mut reading = Reading::default();
        reading.update_asked(self, &mut Vec::new());
        reading.asked.filter(|asked| asked.addresses.contains(&vip)).map(|asked| asked.place)
    }
}

fn asking(record: &ServiceRecord) -> Option<(Place, &str)> {
    address_places(record).next()
}

/// Returns the places that name addresses, with their texts. The first one counts.
pub(super) fn address_places(record: &ServiceRecord) -> impl Iterator<Item = (Place, &str)> {
    let annotations = &record.annotations;
    let places = [
        (Place::Addresses, &annotations.addresses),
        (Place::KubeVipAddresses, &annotations.kube_vip_addresses),
        (Place::MetallbAddresses, &annotations.metallb_addresses),
        (Place::LoadBalancerIp, &record.load_balancer_ip),
    ];
    places.into_iter().filter_map(|(place, value)| Some((place, is_set(value.as_deref())?)))
}

/// Returns the annotations that name a pool, with their texts. The first one counts.
pub(super) fn pool_places(record: &ServiceRecord) -> impl Iterator<Item = (Place, &str)> {
    let annotations = &record.annotations;
    let places =
        [(Place::PoolAnnotation, &annotations.pool), (Place::MetallbPool, &annotations.metallb_pool)];
    places.into_iter().filter_map(|(place, value)| Some((place, is_set(value.as_deref())?)))
}

/// Returns the name, among all pools, of the pool that an annotation names. Instead of `MetalLB`, its
/// annotation names an `IPAddressPool`, and else a `VIPPool`.
pub(super) fn pool_key(place: Place, name: &str, metallb: bool) -> Arc<str> {
    let is_theirs = place == Place::MetallbPool && metallb;
    if is_theirs { PoolKind::IpAddressPool } else { PoolKind::VipPool }.key(name.trim())
}

/// Returns the name, among all pools, of the pool that a Service names.
pub(crate) fn named_pool(record: &ServiceRecord, metallb: bool) -> Option<Arc<str>> {
    let (place, name) = pool_places(record).next()?;
    Some(pool_key(place, name, metallb))
}

fn is_set(value: Option<&str>) -> Option<&str> {
    value.filter(|value| !value.trim().is_empty())
}

/// Puts `value` into effect, if it can be parsed.
fn read<T>(
    in_effect: &mut Option<T>,
    value: Option<&str>,
    place: Place,
    parse: impl FnOnce(&str) -> Result<T, Malformed>,
    problems: &mut Vec<Problem>,
) {
    match is_set(value).map(|value| (value, parse(value))) {
        None => *in_effect = None,
        Some((_, Ok(read))) => *in_effect = Some(read),
        Some((value, Err(why))) => problems.push(Problem::Malformed { place, value: value.into(), why }),
    }
}

fn flag(text: &str) -> Result<bool, Malformed> {
    text.trim().parse().map_err(|_| Malformed::Flag)
}

fn selector(text: &str) -> Result<Selector, Malformed> {
    check_length(text)?;
    Ok(text.parse()?)
}

fn patterns(text: &str) -> Result<Vec<InterfacePattern>, Malformed> {
    check_length(text)?;
    text.split(',').map(|part| part.trim().parse().map_err(Malformed::Pattern)).collect()
}

pub(super) fn addresses(text: &str) -> Result<Vec<IpAddr>, Malformed> {
    text.split(',').map(str::trim).map(address).collect()
}

fn address(part: &str) -> Result<IpAddr, Malformed> {
    part.parse().map_err(|_| match part.split_once('/') {
        Some((address, _)) if address.parse::<IpAddr>().is_ok() => Malformed::Prefix { part: part.into() },
        Some(_) | None => Malformed::Address { part: part.into() },
    })
}

fn check_length(text: &str) -> Result<(), Malformed> {
    if text.len() > MOST_BYTES { Err(Malformed::TooLong { bytes: text.len() }) } else { Ok(()) }
}
