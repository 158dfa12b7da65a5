//! Description of one address from the Services' view, and of one Service, for `explain`.

use std::{net::IpAddr, sync::Arc};

use super::{
    super::{
        Place, Problem, Refusal, ServiceRecord, Settings,
        reading::{Unselected, Wanted, named_pool},
        statuses::Standing,
    },
    Index, ServiceEntry,
};
use crate::{
    base::legible::Excerpt,
    pools::{Allocator, Family, Lack, Prospect},
    records::{Demand, Reservation, ServiceName},
};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    pub mentions: Vec<Mention>,
    pub refusal: Option<Refusal>,
    pub demand: Option<Demand>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mention {
    pub service: ServiceName,
    /// The field with the address. None if only a problem of the Service names the address.
    pub place: Option<Place>,
    pub unserved: Option<Unserved>,
    pub problems: Vec<Problem>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unserved {
    pub why: String,
    pub remedy: String,
}

/// Service from the controller's view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceAccount {
    pub unserved: Option<Unserved>,
    pub request: AddressRequest,
    /// The addresses that are reserved for it or shared with it, in its order, with their reservations.
    pub given: Vec<(IpAddr, Option<Reservation>)>,
    pub lacks: Vec<Lack>,
    pub prospects: Vec<Prospect>,
    pub status: Vec<IpAddr>,
    /// The field manager of the status. None if it is not known.
    pub manager: Option<Arc<str>>,
    /// The time of its last write, in seconds since 1970.
    pub since: Option<i64>,
    /// True if the status binds: another controller has written it.
    pub is_elsewhere: bool,
    /// True if another writer has left the status, and an address of Vipward's replaces it.
    pub is_left: bool,
    /// Its other addresses, from `spec.externalIPs`, if they are served.
    pub external: Vec<IpAddr>,
    pub problems: Vec<Problem>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AddressRequest {
    Addresses(Place, Vec<IpAddr>),
    /// An address of each family, from the pool that it names or from any.
    Families(Vec<Family>, Option<Arc<str>>),
}

impl Index {
    /// Returns the account of a Service, if there is one of that name. The controller's has what the
    /// pools know of it.
    pub fn account_of(&self, service: &ServiceName, pools: Option<&Allocator>) -> Option<ServiceAccount> {
        let entry = self.entries.get(service)?;
        let record = &entry.record;
        let request = match entry.reading.asked_at() {
            Some((place, addresses)) => AddressRequest::Addresses(place, addresses.to_vec()),
            None => {
                AddressRequest::Families(record.families.clone(), named_pool(record, self.settings.metallb))
            }
        };
        let reservation = |vip: &IpAddr| pools.and_then(|pools| pools.reservation(*vip)).cloned();
        let standing = self.standing(entry);
        let status: Vec<_> = record.ingress.iter().filter_map(|ingress| ingress.ip).collect();
        Some(ServiceAccount {
            unserved: entry.selection.err().map(|why| unserved(why, record, &self.settings)),
            request,
            given: entry.given.addresses.iter().map(|vip| (*vip, reservation(vip))).collect(),
            lacks: self.lacks(entry).to_vec(),
            prospects: pools.map(|pools| pools.prospects(service)).unwrap_or_default(),
            status,
            manager: record.status_manager.clone(),
            since: record.status_since,
            is_elsewhere: standing == Standing::Bound,
            is_left: matches!(standing, Standing::Left(_)),
            external: if self.settings.external_ips { record.external_ips.clone() } else { Vec::new() },
            problems: entry.problems.clone(),
        })
    }

    pub fn account(&self, address: IpAddr) -> Account {
        let vip = self.vips.get(&address);
        let mentions = self.entries.iter().filter_map(|(name, entry)| self.mention(name, entry, address));
        Account {
            mentions: mentions.collect(),
            refusal: vip.and_then(|vip| vip.refusal.clone()),
            demand: vip.and_then(|vip| vip.demand.clone()),
        }
    }

    fn mention(&self, name: &ServiceName, entry: &ServiceEntry, address: IpAddr) -> Option<Mention> {
        let place_in = |wanted: &[Wanted]| wanted.iter().find(|one| one.vip == address).map(|one| one.place);
        let unserved = entry.selection.err().map(|why| unserved(why, &entry.record, &self.settings));
        let would_want = || place_in(&self.wish(entry).wanted);
        let is_in_status = || entry.record.has_in_status(address);
        let place = place_in(&entry.wanted).or_else(|| unserved.as_ref().and_then(|_| would_want()));
        let place = place.or_else(|| is_in_status().then_some(Place::Status));
        let text = address.to_string();
        let is_meant = |problem: &&Problem| match problem {
            Problem::Malformed { value, .. } => value.contains(&text),
            Problem::OtherManager { wanted, .. } => wanted.contains(&address),
            Problem::SharedStatus { .. }
            | Problem::Contested { .. }
            | Problem::OtherController { .. }
            | Problem::HandedOver { .. }
            | Problem::TooManyAddresses { .. }
            | Problem::Lacking(_)
            | Problem::Ineffective { .. }
            | Problem::Contradiction { .. } => place.is_some(),
            Problem::ExternalIpsUnserved { unserved } => unserved.contains(&address),
            Problem::Refused { address: refused, .. } => *refused == address,
            // The address step reports it.
            Problem::ExternalIps
            // Only the process that writes or asks knows it.
            | Problem::NotReserved { .. }
            | Problem::StatusRefused { .. }
            | Problem::ProxyUnreachable { .. }
            // These are problems of a VIP.
            | Problem::Disputed { .. }
            | Problem::Unconfirmed { .. }
            | Problem::TooManyVips { .. }
            | Problem::Unshared { .. }
            | Problem::Clash { .. }
            | Problem::Partial { .. }
            | Problem::Disagrees { .. } => false,
        };
        let mut problems: Vec<Problem> = entry.problems.iter().filter(is_meant).cloned().collect();
        // A reason against the address itself is reported once for all Services.
        let vip = self.vips.get(&address).filter(|vip| vip.refusal.is_none());
        let of_vip = vip.into_iter().flat_map(|vip| &vip.problems).filter(|(service, _)| service == name);
        problems.extend(of_vip.map(|(_, problem)| problem.clone()));
        (place.is_some() || !problems.is_empty()).then(|| Mention {
            service: name.clone(),
            place,
            unserved,
            problems,
        })
    }
}

fn unserved(why: Unselected, record: &ServiceRecord, settings: &Settings) -> Unserved {
    let class = &settings.class;
    let (why, remedy) = match why {
        Unselected::NotLoadBalancer => {
            ("its type is not LoadBalancer".to_owned(), "set spec.type to LoadBalancer".to_owned())
        }
        Unselected::Deleting => match &record.finalizers {
            Some(held_by) => (
                format!("it is being deleted, and kept by {}", Excerpt::from(&**held_by)),
                "have the controller of that finalizer run again, or remove the finalizer (kubectl edit); then \
                 create another one"
                    .to_owned(),
            ),
            None => ("it is being deleted".to_owned(), "create another one".to_owned()),
        },
        Unselected::Class => match &record.class {
            Some(other) => (
                format!("its spec.loadBalancerClass is {other:?}, and {class:?} is served"),
                format!(
                    "create it anew with loadBalancerClass {class:?} (it cannot be changed), or let that \
                     class's controller serve it"
                ),
            ),
            None => (
                format!("it has no spec.loadBalancerClass, and only {class:?} is served (--class-only)"),
                format!("set spec.loadBalancerClass to {class:?}"),
            ),
        },
        Unselected::Namespace => (
            format!("namespace {} is not served (--namespace, --namespace-selector)", record.name.namespace),
            "move it to a namespace that is, or have the agents serve this one".to_owned(),
        ),
        Unselected::Labels => (
            "its labels are not those that are served (--service-selector)".to_owned(),
            "label it as the agents' --service-selector requires".to_owned(),
        ),
        Unselected::Ignored => (
            "an annotation excludes it (vipward.io/ignore, kube-vip.io/ignore)".to_owned(),
            "remove that annotation".to_owned(),
        ),
    };
    Unserved { why, remedy }
}
