//! Which Services on one VIP have it, and their combined demand.
//!
//! A VIP belongs to one Service, its owner. Any Service of the owner's namespace may share it, and
//! of another namespace only by consent. The owner alone decides where the VIP may be.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::super::{Annotations, Place, Port, Problem, ServiceRecord, StatusOwner, reading::Limits};
use crate::{
    base::pattern::InterfacePattern,
    records::{Demand, Local, NodeName, Reach, Selector, ServiceName, Session},
};

pub(crate) struct Member<'a> {
    pub(crate) name: &'a ServiceName,
    pub(crate) place: Place,
    pub(crate) record: &'a ServiceRecord,
    pub(crate) limits: &'a Limits,
}

pub(crate) type Consents = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Consent<'a> {
    pub(crate) listed: &'a Consents,
    pub(crate) metallb: bool,
    pub(crate) metallb_kept: Kept,
}

/// Which Services keep a VIP of another namespace by `MetalLB`'s key, if their statuses name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    Never,
    /// Those with a status from `MetalLB`. What Vipward gave out needs consent, and ends with it.
    FromMetallb,
    Always,
}

impl Member<'_> {
    fn keeps(&self, vip: IpAddr, kept: Kept) -> bool {
        self.had(vip)
            && match kept {
                Kept::Never => false,
                Kept::FromMetallb => self.record.status_from_metallb,
                Kept::Always => true,
            }
    }

    fn had(&self, vip: IpAddr) -> bool {
        self.record.status_owner() == StatusOwner::Vipward && self.record.has_in_status(vip)
    }
}

/// The Service that has each port of a VIP.
pub(crate) type Ports = BTreeMap<Port, ServiceName>;

type Problems = Vec<(ServiceName, Problem)>;

/// Returns true if a Service of the last owner's namespace still wants the VIP that it had. `former`
/// has the Services that had the VIP last, the owner first; `wanting` has those that want it now.
pub(crate) fn has_heir(former: &[ServiceName], wanting: &[(ServiceName, Place)]) -> bool {
    former.first().is_some_and(|owner| {
        let mut of_home = former.iter().filter(|name| name.namespace == owner.namespace);
        of_home.any(|name| wanting.binary_search_by(|(wants, _)| wants.cmp(name)).is_ok())
    })
}

/// Puts the Services that want a VIP in the order of their rights to it, the owner first. Present
/// members (`former`) keep their order. Services follow whose status names the VIP, then the
/// others, the oldest first. A Service comes last if it wants a port that another one `had`.
pub(crate) fn in_order<'a>(
    vip: IpAddr,
    mut members: Vec<Member<'a>>,
    former: &[ServiceName],
    had: &Ports,
) -> Vec<Member<'a>> {
    let positions: BTreeMap<_, _> =
        former.iter().enumerate().map(|(position, name)| (name, position)).collect();
    let position = |member: &Member<'_>| positions.get(member.name).copied();
    members.sort_by_cached_key(|member| {
        let position = position(member).unwrap_or(usize::MAX);
        (position, !member.had(vip), member.record.created, member.name.clone())
    });
    let owner = former.first().or_else(|| members.first().map(|first| first.name));
    let home = owner.map(|owner| Arc::clone(&owner.namespace));
    let is_of_home = |name: &ServiceName| Some(&name.namespace) == home.as_ref();
    let ports = |member: &Member<'a>| {
        let (name, record) = (member.name, member.record);
        record.ports.iter().map(move |port| (*port, name))
    };
    let has_had = |(port, name): &(Port, &ServiceName)| had.get(port) == Some(*name);
    let kept: BTreeMap<_, _> = members.iter().flat_map(ports).filter(has_had).collect();
    // The owner's namespace gives way to no other: a guest alone cannot have the VIP.
    let gives_way =
        |name: &ServiceName, to: &ServiceName| name != to && (!is_of_home(name) || is_of_home(to));
    members.sort_by_cached_key(|member| {
        let mut ports = member.record.ports.iter();
        ports.any(|port| kept.get(port).is_some_and(|to| gives_way(member.name, to)))
    });
    // A VIP whose owner is gone stays in the owner's namespace, if another Service there has it.
    let is_heir = |member: &Member<'_>| is_of_home(member.name) && position(member).is_some();
    if let Some(heir) = members.iter().position(is_heir) {
        members[..=heir].rotate_right(1);
    }
    members
}

/// Returns the Services that have a VIP, their ports, and the problems of those that do not get it.
/// `members` are in the order of their rights.
///
/// `former` has the Services that had the VIP last. While their claim is there, only their owner's
/// namespace inherits it. So a Service that is deleted and created again finds its VIP free.
pub(crate) fn admit<'a>(
    vip: IpAddr,
    members: Vec<Member<'a>>,
    former: &[ServiceName],
    consents: Consent<'_>,
) -> (Vec<Member<'a>>, Ports, Problems) {
    let mut ports = Ports::new();
    let mut problems = Vec::new();
    let mut admitted: Vec<Member<'a>> = Vec::new();
    for member in members {
        let (name, place) = (member.name, member.place);
        let owner = match admitted.first() {
            Some(owner) => Some(owner.name).filter(|_| !may_share(vip, owner, &member, consents)),
            None => former.first().filter(|owner| owner.namespace != name.namespace),
        };
        if let Some(with) = owner.cloned() {
            let own = Arc::clone(&name.namespace);
            problems.push((name.clone(), Problem::Unshared { vip, place, with, own }));
            continue;
        }
        let clash = member.record.ports.iter().find_map(|port| Some((*port, ports.get(port)?)));
        if let Some((port, with)) = clash {
            let is_owners = |with: &ServiceName| admitted[0].name.namespace == with.namespace;
            let is_of_owner = is_owners(with) && !is_owners(name);
            let with = ServiceName::clone(with);
            problems.push((name.clone(), Problem::Clash { vip, place, port, with, is_of_owner }));
            continue;
        }
        ports.extend(member.record.ports.iter().map(|port| (*port, name.clone())));
        admitted.push(member);
    }
    (admitted, ports, problems)
}

/// Returns true if a Service may share the VIP of `owner`. Across namespaces, both have the same
/// key, and the owner's namespace lists the other one. By `MetalLB`'s rules its key is enough, if the
/// traffic for both goes to any node.
fn may_share(vip: IpAddr, owner: &Member<'_>, other: &Member<'_>, consents: Consent<'_>) -> bool {
    fn key(text: Option<&str>) -> Option<&str> {
        text.map(str::trim).filter(|key| !key.is_empty())
    }
    let same = |key: &dyn Fn(&Annotations) -> Option<Box<str>>| {
        let own = key(&owner.record.annotations);
        own.is_some() && own == key(&other.record.annotations)
    };
    let (home, away) = (&owner.name.namespace, &other.name.namespace);
    let is_listed = || consents.listed.get(home).is_some_and(|listed| listed.contains(away));
    let by_consent = || same(&|it| key(it.share.as_deref()).map(Into::into)) && is_listed();
    let by_metallb = || {
        let is_anywhere = !owner.record.local && !other.record.local;
        (consents.metallb || other.keeps(vip, consents.metallb_kept))
            && is_anywhere
            && same(&|it| key(it.metallb_share.as_deref()).map(Into::into))
    };
    home == away || by_consent() || by_metallb()
}

/// Returns the demand of the Services that have a VIP, the owner first, and what of their wishes is
/// not in effect. There is at least one. `holders` are the nodes that the VIP's claim names.
pub(crate) fn combine(
    vip: IpAddr,
    members: &[Member<'_>],
    holders: &[(NodeName, Session)],
    reach: impl Fn(&ServiceRecord) -> Reach,
) -> (Demand, Problems) {
    let [owner, others @ ..] = members else { return (Demand::default(), Vec::new()) };
    let mut problems = Vec::new();
    // A guest decides only if no Service of the owner's namespace has an endpoint.
    let (home, guests): (Vec<_>, Vec<_>) =
        members.iter().partition(|member| member.name.namespace == owner.name.namespace);
    let reaches = home.into_iter().chain(guests).map(|member| (member.name, reach(member.record)));
    let reaches: Vec<_> = reaches.filter(|(_, reach)| !reach.is_nowhere()).collect();
    problems.extend(without_endpoint(vip, holders, &reaches));
    let (reach, besides) = reach_together(&reaches);
    for other in others {
        let mut compare = |place, own: Option<Box<str>>, used: Option<Box<str>>| {
            if let Some(value) = own.filter(|own| used.as_ref() != Some(own)) {
                let (with, value, used) =
                    (owner.name.clone(), (*value).into(), used.as_deref().map(Into::into));
                problems.push((other.name.clone(), Problem::Disagrees { vip, place, value, with, used }));
            }
        };
        let (own, used) = (other.limits, owner.limits);
        compare(Place::Nodes, selector(own.nodes.as_ref()), selector(used.nodes.as_ref()));
        let (own_first, used_first) = (selector(own.preferred.as_ref()), selector(used.preferred.as_ref()));
        compare(Place::PreferredNodes, own_first, used_first);
        compare(Place::Interface, patterns(own.interfaces.as_ref()), patterns(used.interfaces.as_ref()));
    }
    let Limits { nodes, preferred, interfaces } = owner.limits.clone();
    let demand = Demand {
        services: members.iter().map(|member| member.name.clone()).collect(),
        reach,
        besides,
        nodes,
        preferred,
        interfaces: interfaces.unwrap_or_default(),
        policy: None,
        force: false,
        together: Vec::new(),
    };
    (demand, problems)
}

/// Returns the nodes that can deliver the traffic, by the first Service with an endpoint, and those of
/// each other Service that not all of these nodes serve.
fn reach_together(reaches: &[(&ServiceName, Reach)]) -> (Reach, Vec<(ServiceName, Reach)>) {
    let Some(((_, decisive), others)) = reaches.split_first() else {
        return (Reach::On(Local::default()), Vec::new());
    };
    let is_limited = |own: &Reach| match (own, decisive) {
        (Reach::Anywhere, _) => false,
        (Reach::On(own), Reach::On(local)) => !local.nodes().is_subset(own.nodes()),
        (Reach::On(_), Reach::Anywhere | Reach::Unknown) | (Reach::Unknown, _) => true,
    };
    let besides = others.iter().filter(|(_, own)| is_limited(own));
    (decisive.clone(), besides.map(|(service, own)| ((*service).clone(), own.clone())).collect())
}

/// Returns the problems of the Services, but for the first, without an endpoint on a holder. Each names
/// the earlier Service for which no node serves it, if there is one.
fn without_endpoint(
    vip: IpAddr,
    holders: &[(NodeName, Session)],
    reaches: &[(&ServiceName, Reach)],
) -> Problems {
    let (mut served, mut problems) = (Vec::new(), Vec::new());
    for (service, reach) in reaches {
        let Reach::On(local) = reach else { continue };
        let mut left: Vec<_> = local.nodes().iter().collect();
        let apart = served.iter().find(|(_, earlier): &&(&ServiceName, &Reach)| {
            left.retain(|node| earlier.has(node));
            left.is_empty()
        });
        let with = apart.map(|(other, _)| (*other).clone());
        let is_first = *service == reaches[0].0;
        if !is_first && !holders.is_empty() && holders.iter().all(|(node, _)| !reach.has(node)) {
            problems.push(((*service).clone(), Problem::Partial { vip, with: with.clone() }));
        }
        if with.is_none() {
            served.push((service, reach));
        }
    }
    problems
}

fn selector(selector: Option<&Selector>) -> Option<Box<str>> {
    Some(selector?.as_str().into())
}

fn patterns(patterns: Option<&Vec<InterfacePattern>>) -> Option<Box<str>> {
    Some(patterns?.iter().map(InterfacePattern::to_string).collect::<Vec<_>>().join(",").into())
}
