//! Combination of the demands of the Services on one VIP, with reports of contradictions.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use super::{
    endpoints::Reach,
    problem::{Place, Problem},
    reading::Limits,
    records::ServiceRecord,
};
use crate::{
    cluster::{NodeName, Selector, ServiceName},
    config::InterfacePattern,
    ownership::Demand,
};

/// A Service on a VIP.
pub(super) struct Member<'a> {
    pub(super) name: &'a ServiceName,
    pub(super) record: &'a ServiceRecord,
    pub(super) limits: &'a Limits,
    pub(super) reach: Reach,
}

/// Combines the demands of the Services on a VIP.
/// `members` has at least one, and is sorted by name.
pub(super) fn share(vip: Ipv4Addr, members: &[Member<'_>]) -> (Demand, Vec<(ServiceName, Problem)>) {
    let mut problems = clashes(vip, members);
    let local = local(vip, members, &mut problems);
    let nodes =
        first(vip, members, Place::Nodes, &mut problems, |limits| limits.nodes.as_ref(), selector_text);
    let preferred = first(
        vip,
        members,
        Place::PreferredNodes,
        &mut problems,
        |limits| limits.preferred.as_ref(),
        selector_text,
    );
    let interfaces = first(
        vip,
        members,
        Place::Interface,
        &mut problems,
        |limits| limits.interfaces.as_ref(),
        patterns_text,
    );
    let demand = Demand {
        services: members.iter().map(|member| member.name.clone()).collect(),
        local,
        nodes,
        preferred,
        interfaces: interfaces.unwrap_or_default(),
        force: false,
    };
    (demand, problems)
}

/// Returns the problems of shared ports. The first Service
/// by name has the port, and each other one has the problem.
fn clashes(vip: Ipv4Addr, members: &[Member<'_>]) -> Vec<(ServiceName, Problem)> {
    let mut taken = BTreeMap::new();
    let mut problems = Vec::new();
    for member in members {
        let ports: BTreeSet<_> = member.record.ports.iter().copied().collect();
        for port in ports {
            let owner: &ServiceName = taken.entry(port).or_insert(member.name);
            if owner != member.name {
                problems.push((member.name.clone(), Problem::Clash { vip, port, with: owner.clone() }));
            }
        }
    }
    problems
}

/// Returns the nodes that can serve every Service, or none if all nodes can. A
/// Service without endpoints does not count, except if no Service on the VIP has any.
fn local(
    vip: Ipv4Addr,
    members: &[Member<'_>],
    problems: &mut Vec<(ServiceName, Problem)>,
) -> Option<BTreeSet<NodeName>> {
    let mut common: Option<BTreeSet<NodeName>> = None;
    let mut bound = Vec::new();
    let mut anywhere = false;
    for member in members {
        match &member.reach {
            Reach::Anywhere => anywhere = true,
            Reach::On(nodes) => {
                bound.push(member.name.clone());
                common = Some(common.map_or_else(|| nodes.clone(), |common| &common & nodes));
            }
            Reach::Nowhere => {}
        }
    }
    if common.as_ref().is_some_and(BTreeSet::is_empty) {
        let problem = Problem::Impossible { vip, services: bound.clone() };
        problems.extend(bound.into_iter().map(|name| (name, problem.clone())));
    }
    common.or_else(|| (!anywhere).then(BTreeSet::new))
}

/// Returns the value of the first Service by name that has one. Reports
/// a problem on Services with another value.
fn first<'a, T: Clone + PartialEq + 'a>(
    vip: Ipv4Addr,
    members: &[Member<'a>],
    place: Place,
    problems: &mut Vec<(ServiceName, Problem)>,
    value: impl Fn(&'a Limits) -> Option<&'a T>,
    text: impl Fn(&T) -> Box<str>,
) -> Option<T> {
    let mut set = members.iter().filter_map(|member| Some((member.name, value(member.limits)?)));
    let (with, used) = set.next()?;
    for (name, other) in set.filter(|(_, other)| *other != used) {
        let (value, used, with) = (text(other), text(used), with.clone());
        problems.push((name.clone(), Problem::Disagrees { vip, place, value, with, used }));
    }
    Some(used.clone())
}

fn selector_text(selector: &Selector) -> Box<str> {
    selector.as_str().into()
}

#[expect(clippy::ptr_arg, reason = "it is what a limit holds")]
fn patterns_text(patterns: &Vec<InterfacePattern>) -> Box<str> {
    patterns.iter().map(InterfacePattern::to_string).collect::<Vec<_>>().join(",").into()
}
