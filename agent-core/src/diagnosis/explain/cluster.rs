//! Steps that the API server shows: from the Service to the holder's life.

use std::net::IpAddr;

use super::{
    facts::{Cluster, Facts, LeaseSeen},
    host::explain_on,
    link,
};
use crate::{
    diagnosis::{
        doctor::MEND_CONTACT,
        fact::{Fact, Unread},
        finding::{Finding, State},
    },
    liveness::found::{self, FoundBy},
    ownership::{Disqualified, Eligible, NodeFacts, eligibility},
    records::{ClaimState, Demand, Epoch, Holder, LeaseRecord, NodeName, NodeRecord},
    services::{Mention, Place, Problem},
};

/// This host, if it could hold the address.
struct Here<'a> {
    node: &'a NodeName,
    interface: &'a str,
    /// True if its agent takes no VIP that is new or was another's, since no peer answers there.
    lacks_contact: Fact<bool>,
}

impl<'a> Here<'a> {
    fn find(cluster: &'a Cluster, facts: &Facts) -> Option<Self> {
        let demand = cluster.account.demand.as_ref()?;
        let is_here = |lease: &LeaseSeen| {
            lease.record.interfaces.iter().any(|interface| facts.own.contains(&interface.mac))
        };
        let (node, _) = cluster.leases.iter().find(|(_, lease)| is_here(lease))?;
        let able = able(cluster, demand, facts.address, cluster.nodes.get(node)?).ok()?;
        let interface = &*able.interface.name;
        let lacks = |names: &Vec<String>| names.iter().any(|name| name == interface);
        Some(Self { node, interface, lacks_contact: facts.without_contact.as_ref().map(lacks) })
    }

    /// Returns what speaks against it as a candidate, for want of contact.
    fn but(&self) -> Option<String> {
        match &self.lacks_contact {
            Fact::Read(lacks) => {
                lacks.then(|| format!("takes none that is new or was another's: {}", self.silence()))
            }
            Fact::Unread(why) => Some(format!("whether it has contact is unknown: {why}")),
        }
    }

    fn silence(&self) -> String {
        format!("no peer answers on {}, although one lives there", self.interface)
    }
}

/// Returns the step for an address that a candidate is to take. `here` is one that needs contact for it.
fn to_take(subject: &'static str, says: String, here: Option<&Here<'_>>) -> Finding {
    let unknown = match here.map(|here| (here, &here.lacks_contact)) {
        Some((here, Fact::Read(true))) => {
            return Finding::red(
                subject,
                format!("{says}; {}, this host, does not take it: {}", here.node, here.silence()),
                format!("another candidate takes it within seconds, if there is one; here: {MEND_CONTACT}"),
            );
        }
        Some((here, Fact::Unread(why))) => {
            Some(format!("whether {}, this host, takes it is unknown: {why}", here.node))
        }
        Some((_, Fact::Read(false))) | None => None,
    };
    let remedy = "a candidate takes it within seconds; if not, its log states why (permissions, an API server that \
                  refuses), or `vipward explain` there";
    Finding::red(subject, says, remedy).with(unknown)
}

pub(super) fn steps(cluster: &Cluster, facts: &Facts) -> Vec<Finding> {
    let here = Here::find(cluster, facts);
    let here = here.as_ref();
    let mut steps = vec![
        service(cluster),
        address(cluster),
        candidates(cluster, facts.address, here),
        claim(cluster, facts.unknown_hosts(cluster), here),
    ];
    if let Some(holder) = cluster.claim.as_ref().and_then(|claim| claim.state.holder()) {
        steps.push(session(cluster, holder, here));
    }
    steps
}

/// Returns the step for an API server that cannot be read.
pub(super) fn unreadable(why: &Unread) -> Finding {
    Finding::red(
        link::CLUSTER,
        format!("the API server cannot be read: {why}"),
        "mend the way to it, or give another --kubeconfig; what is held is answered on meanwhile",
    )
}

fn service(cluster: &Cluster) -> Finding {
    let mentions = &cluster.account.mentions;
    let is_served = |mention: &&Mention| mention.unserved.is_none() && mention.place.is_some();
    let served: Vec<_> = mentions.iter().filter(is_served).collect();
    let unserved = mentions.iter().filter_map(|mention| Some((mention, mention.unserved.as_ref()?)));
    let left_alone: Vec<_> = unserved
        .clone()
        .map(|(mention, why)| format!("{} is not served: {}", mention.service, why.why))
        .collect();
    let problems = mentions.iter().flat_map(|mention| {
        mention.problems.iter().map(move |problem| format!("{}: {problem}", mention.service))
    });
    let problems: Vec<_> = problems.collect();
    if !served.is_empty() {
        let names = served.iter().map(|mention| mention.service.to_string()).collect::<Vec<_>>().join(", ");
        let details = problems.iter().cloned().chain(left_alone);
        return if problems.is_empty() {
            Finding::green(link::SERVICE, format!("wanted by {names}")).with(details)
        } else {
            Finding::yellow(
                link::SERVICE,
                format!("wanted by {names}"),
                "see what is wrong with the Services",
            )
            .with(details)
        };
    }
    if let Some((mention, why)) = unserved.clone().next() {
        let says = format!("Service {} names it, and is not served: {}", mention.service, why.why);
        // The report already has the first of them.
        return Finding::red(link::SERVICE, says, why.remedy.clone()).with(left_alone.into_iter().skip(1));
    }
    if let Some(problem) = problems.first() {
        let remedy = "correct what the problem names";
        return Finding::red(link::SERVICE, problem.clone(), remedy).with(problems[1..].to_vec());
    }
    let left = if cluster.claim.is_some() { "; its VirtualIP is a leftover, or about to go" } else { "" };
    Finding::red(
        link::SERVICE,
        format!("no Service of type LoadBalancer names it{left}"),
        "annotate the Service with vipward.io/addresses, create a VIPPool with the address, or have an address \
         manager write the status",
    )
}

fn address(cluster: &Cluster) -> Finding {
    let account = &cluster.account;
    if let Some(refusal) = &account.refusal {
        // The reason contains the remedy.
        return Finding::red(
            link::ADDRESS,
            format!("it is not announced: {refusal}"),
            "give the Service another address",
        );
    }
    let served = account.mentions.iter().filter(|mention| mention.unserved.is_none());
    if account.demand.is_none()
        && let Some(problem) = served.clone().find_map(|mention| mention.problems.first())
    {
        return Finding::red(
            link::ADDRESS,
            problem.to_string(),
            "give the Service another address, or mend what the reason names",
        );
    }
    let place = |mention: &Mention| Some(format!("{} of {}", mention.place?, mention.service));
    let deprecated = served.clone().any(|mention| mention.place == Some(Place::ExternalIps));
    let places: Vec<_> = served.filter_map(place).collect();
    if places.is_empty() {
        return Finding::unknown(link::ADDRESS, &Unread::skipped("no Service that is served names it"));
    }
    let from = format!("from {}", places.join(", "));
    let step = match &cluster.segments {
        Fact::Read(_) => Finding::green(link::ADDRESS, from),
        Fact::Unread(why) => {
            let what = format!("{from}; whether this host refuses it is unknown");
            Finding::unknown(link::ADDRESS, &why.of(what))
        }
    };
    step.with(deprecated.then(|| Problem::ExternalIps.to_string()))
}

/// Returns the interface with which a node can hold the address. Fails with the reason why the node
/// cannot. The agents have the same rules. A node counts as dead only if its Lease was watched and
/// not renewed.
fn able<'a>(
    cluster: &'a Cluster,
    demand: &Demand,
    vip: IpAddr,
    node: &'a NodeRecord,
) -> Result<Eligible<'a>, Disqualified> {
    let lease = cluster.leases.get(&node.name);
    let record = lease.map(|lease| &lease.record);
    let facts = NodeFacts {
        exists: true,
        session: record.and_then(LeaseRecord::live_session),
        alive: !lease.is_some_and(LeaseSeen::is_silent),
        leaving: record.is_some_and(|record| record.leaving),
        interfaces: record.map(|record| record.interfaces.as_slice()).unwrap_or_default(),
        node: Some(node),
        proxy: record.and_then(|record| record.proxy.as_ref()),
        keeps: false,
    };
    eligibility(&facts, vip, demand, cluster.honour_exclude_label)
}

fn candidates(cluster: &Cluster, vip: IpAddr, here: Option<&Here<'_>>) -> Finding {
    let Some(demand) = &cluster.account.demand else {
        let why = Unread::skipped("no node may hold what no Service wants");
        return Finding::unknown(link::CANDIDATES, &why);
    };
    let nodes = cluster.nodes.iter();
    let all: Vec<_> = nodes.map(|(name, node)| (name, able(cluster, demand, vip, node))).collect();
    let contact = |name: &NodeName| here.filter(|here| here.node == name)?.but();
    let details = all.iter().map(|(name, found)| match found {
        Ok(Eligible { soft, .. }) => {
            let unserved = demand.unserved_on(name).map(|service| format!("{service} has no endpoint there"));
            let but = soft.iter().map(ToString::to_string).chain(unserved).chain(contact(name));
            let but: Vec<_> = but.collect();
            let but = if but.is_empty() { String::new() } else { format!(", but {}", but.join("; ")) };
            format!("{name}: can hold it{but}")
        }
        Err(why) => format!("{name}: {why}"),
    });
    let details: Vec<_> = details.collect();
    let able = all.iter().filter(|(_, found)| found.is_ok()).count();
    if able > 0 {
        return Finding::green(link::CANDIDATES, format!("{able} of {} nodes can hold it", all.len()))
            .with(details);
    }
    if all.is_empty() {
        return Finding::red(link::CANDIDATES, "there is no Node", "see `kubectl get nodes`");
    }
    let first = all.iter().find_map(|(_, found)| found.as_ref().err());
    let remedy = first.map(Disqualified::remedy).unwrap_or_default();
    Finding::red(link::CANDIDATES, format!("none of {} nodes can hold it", all.len()), remedy).with(details)
}

fn claim(cluster: &Cluster, unknown_hosts: Fact<Vec<String>>, here: Option<&Here<'_>>) -> Finding {
    let is_forced = cluster.account.demand.as_ref().is_none_or(|demand| demand.force);
    // Only a VIP that has had no holder yet waits until its address is free.
    let is_new =
        cluster.claim.as_ref().is_none_or(|claim| claim.epoch == Epoch(0) && claim.state.holder().is_none());
    let mut details = Vec::new();
    match unknown_hosts {
        _ if !is_new || is_forced => {}
        Fact::Read(unknown_hosts) => {
            if let Some(who) = unknown_hosts.first() {
                return Finding::red(
                    link::CLAIM,
                    format!("no node has claimed it, because it is in use: {who} answers for it"),
                    "give that host another address, and it is taken at once; or have it taken all the same: \
                    kubectl annotate virtualip NAME vipward.io/force=true",
                );
            }
        }
        Fact::Unread(why) => details.push(format!("whether another host uses it is unknown: {why}")),
    }
    let Some(claim) = &cluster.claim else {
        return match cluster.account.demand {
            None => {
                let why = Unread::skipped("there is no VirtualIP, and none is needed");
                Finding::unknown(link::CLAIM, &why)
            }
            Some(_) => {
                to_take(link::CLAIM, "there is no VirtualIP: no agent has claimed it".to_owned(), here)
                    .with(details)
            }
        };
    };
    if !claim.note.cause.is_empty() {
        details.push(format!("cause: {}", claim.note.cause));
    }
    details.extend(claim.note.trouble.clone());
    if let Some(to) = &claim.move_to {
        details.push(format!("wanted on {to}"));
    }
    if claim.deleting {
        details.push("the object is being deleted".to_owned());
    }
    let epoch = claim.epoch;
    match (&claim.state, &cluster.unanswered) {
        (ClaimState::Held(holder), Some(why)) => Finding::red(
            link::CLAIM,
            format!("{} has it, and no node answers for it: {why}, epoch {epoch}", holder.node),
            format!("look there: {}", explain_on(claim.vip, &cluster.namespace, holder)),
        ),
        (ClaimState::Held(holder), None) => {
            let Holder { node, mac, interface, .. } = holder;
            let lives = session(cluster, holder, here).state == State::Green;
            let held = if lives { "held by" } else { "it names" };
            Finding::green(link::CLAIM, format!("{held} {node} at {mac} on {interface}, epoch {epoch}"))
        }
        (ClaimState::Offered { to, from }, _) => Finding::yellow(
            link::CLAIM,
            format!("{} is handing it over to {}, epoch {epoch}", from.0, to.node),
            "wait: it is over in seconds, or taken back",
        ),
        // A VIP that was released needs no contact, unless it is new.
        (ClaimState::Released | ClaimState::Blank, _) => {
            to_take(link::CLAIM, format!("no node holds it, epoch {epoch}"), here.filter(|_| is_new))
        }
    }
    .with(details)
}

fn session(cluster: &Cluster, holder: &Holder, here: Option<&Here<'_>>) -> Finding {
    let node = &holder.node;
    let others = "others take it over when they have seen that for the lease duration, if any can";
    let Some(lease) = cluster.leases.get(node) else {
        return Finding::red(
            link::SESSION,
            format!("there is no Lease of {node}"),
            format!("start its agent; {others}"),
        );
    };
    let record = &lease.record;
    if record.ended.contains(&holder.session) {
        let says = format!("the session of {node} in which it held it has been ended");
        // A node needs no contact for a VIP that was its own.
        return to_take(link::SESSION, says, here.filter(|here| here.node != node));
    }
    if record.session != Some(holder.session) {
        return Finding::red(
            link::SESSION,
            format!("{node} lives in another session than the one that the claim names"),
            format!("its agent claims it anew, or {others}"),
        );
    }
    let (watched, duration) = (lease.watched.as_secs_f64(), record.duration.as_secs_f64());
    if lease.is_silent() {
        return Finding::red(
            link::SESSION,
            format!(
                "{node} has not renewed its Lease while it was watched for {watched:.1} s; one is good for \
                {duration:.1} s"
            ),
            format!("see whether its agent runs and reaches the API server; {others}"),
        );
    }
    if !lease.renewed {
        return Finding::yellow(
            link::SESSION,
            format!(
                "{node} has not renewed its Lease for {watched:.1} s, and has {duration:.1} s: it is being restarted"
            ),
            "wait until it is back",
        );
    }
    let leaving = if record.leaving { "; it goes away, and hands its VIPs over" } else { "" };
    Finding::green(link::SESSION, format!("{node} renews its Lease{leaving}"))
        .with([failover(cluster, record)])
}

/// Returns how long it takes until others know that a holder is dead, and why.
fn failover(cluster: &Cluster, record: &LeaseRecord) -> String {
    let leases: Vec<_> = (cluster.leases.values())
        .map(|seen| found::Seen { lease: &seen.record, lives: !seen.is_silent() })
        .collect();
    match FoundBy::of(record, true, &leases) {
        FoundBy::Voters { names, quorum } => format!(
            "if it dies, that is found by {quorum} of its {} voters ({}), in about 0.3 s times --wire (2 \
            by default)",
            names.len(),
            names.join(", ")
        ),
        FoundBy::Lease(why) => {
            let lasts = record.duration.as_secs_f64();
            format!("if it dies, that is found by its Lease, after {lasts:.1} s and the margin: {why}")
        }
    }
}
