//! Steps of a Service: the addresses that it requests, that the pools give it, and that its status
//! names.

use std::net::IpAddr;

use super::{cluster, facts::ServiceFacts, link};
use crate::{
    base::time::utc,
    diagnosis::{
        fact::{Fact, Unread},
        finding::Finding,
    },
    records::{Reservation, Shown},
    services::{AddressRequest, Clearing, Problem, ServiceAccount},
};

pub(super) fn steps(facts: &ServiceFacts) -> Vec<Finding> {
    let name = &facts.service;
    let account = match &facts.account {
        Fact::Read(Some(account)) => account,
        Fact::Read(None) => {
            let remedy = format!("see kubectl -n {} get services", name.namespace);
            return vec![Finding::red(link::SERVICE, format!("there is no Service {name}"), remedy)];
        }
        Fact::Unread(why) if why.is_skipped() => {
            let remedy = "give a kubeconfig, or explain an address";
            return vec![Finding::red(link::CLUSTER, &why.reason, remedy)];
        }
        Fact::Unread(why) => return vec![cluster::unreadable(why)],
    };
    if let Some(why) = &account.unserved {
        let says = format!("{name} is not served: {}", why.why);
        return vec![Finding::red(link::SERVICE, says, why.remedy.clone())];
    }
    let mut steps = vec![
        Finding::green(link::SERVICE, format!("{name} is of type LoadBalancer and served")),
        request(account),
    ];
    if account.is_elsewhere {
        steps.push(status(account, facts));
    } else {
        steps.extend([pool(account, facts), status(account, facts)]);
    }
    steps
}

fn request(account: &ServiceAccount) -> Finding {
    let says = match &account.request {
        AddressRequest::Addresses(place, addresses) => format!("it requests {} ({place})", list(addresses)),
        AddressRequest::Families(families, pool) => {
            let families: Vec<_> = families.iter().map(|family| format!("an {}", family.name())).collect();
            let pool = match pool {
                Some(pool) => format!("{}, which an annotation names", Shown(pool)),
                None => "any VIPPool".to_owned(),
            };
            format!("it requests {} address of {pool}", families.join(" and "))
        }
    };
    // The next step has the addresses that the pools do not give.
    let is_of_pools =
        |problem: &&Problem| matches!(problem, Problem::Lacking(lack) if lack.is_of_an_address());
    let problems = account.problems.iter().filter(|problem| !is_of_pools(problem));
    let problems: Vec<_> = problems.map(ToString::to_string).collect();
    if problems.is_empty() {
        return Finding::green(link::REQUEST, says);
    }
    Finding::yellow(link::REQUEST, says, "each problem names its remedy").with(problems)
}

fn pool(account: &ServiceAccount, facts: &ServiceFacts) -> Finding {
    let leader = match (&facts.leader, &account.request) {
        (Fact::Read(Some(leader)), _) => format!("the controller {leader}"),
        (Fact::Unread(why), _) => format!("the controller (its Lease cannot be read: {why})"),
        (Fact::Read(None), AddressRequest::Families(..)) if account.given.is_empty() => {
            return Finding::red(
                link::POOL,
                "no controller runs that could give it an address of a pool",
                "run vipward controller, or name an address in the annotation vipward.io/addresses",
            );
        }
        (Fact::Read(None), _) => {
            let why = Unread::skipped("no controller runs; what it has, it keeps");
            return Finding::unknown(link::POOL, &why);
        }
    };
    let given = account.given.iter().map(|(vip, reservation)| origin(*vip, reservation.as_ref()));
    let given: Vec<_> = given.collect();
    let mut details: Vec<_> = account.prospects.iter().map(ToString::to_string).collect();
    if matches!(account.request, AddressRequest::Addresses(..)) {
        details.clear();
    }
    if let Fact::Unread(why) = &facts.pools
        && given.is_empty()
    {
        return Finding::unknown(link::POOL, &why.of("the pools cannot be read"));
    }
    let mut lacks = account.lacks.iter().filter(|lack| lack.is_of_an_address());
    if let Some(first) = lacks.next() {
        let others = lacks.map(ToString::to_string);
        let details = given.into_iter().chain(others).chain(details);
        let remedy = "the reason names the remedy; the address then comes by itself";
        return Finding::red(link::POOL, first.to_string(), remedy).with(details);
    }
    if !given.is_empty() {
        return Finding::green(link::POOL, given.join("; ")).with(details);
    }
    let namespace = &facts.namespace;
    let remedy = format!(
        "{leader} reserves one within seconds; if it does not, see whether it renews its Lease \
         (kubectl -n {namespace} get lease vipward-controller), and its log"
    );
    Finding::red(link::POOL, "no address is reserved for it yet", remedy).with(details)
}

/// Returns the text about an address's origin.
fn origin(vip: IpAddr, reservation: Option<&Reservation>) -> String {
    match reservation {
        None => format!("{vip} is not reserved"),
        Some(Reservation { service, pool, .. }) => {
            let pool = pool.as_ref().map_or_else(|| "no pool".to_owned(), |pool| Shown(pool).to_string());
            format!("{vip} of {pool} is reserved for {service}")
        }
    }
}

fn status(account: &ServiceAccount, facts: &ServiceFacts) -> Finding {
    let written = list(&account.status);
    let who = account.manager.as_deref().unwrap_or("an unknown manager");
    let since = account.since.map(|since| format!(" (since {})", utc(since))).unwrap_or_default();
    let clearing = format!("if {who} is gone, clear what it left: {}", Clearing(&facts.service));
    if account.is_elsewhere {
        let says = format!("{who} has written {written}{since}, which goes first");
        return Finding::green(link::STATUS, says).with([clearing]);
    }
    if account.given.is_empty() && account.status.is_empty() {
        return Finding::unknown(link::STATUS, &Unread::skipped("there is no address that it could name"));
    }
    let missing: Vec<_> =
        account.given.iter().map(|(vip, _)| *vip).filter(|vip| !account.status.contains(vip)).collect();
    if missing.is_empty() {
        return Finding::green(link::STATUS, format!("it names {written}, written by {who}"));
    }
    let says = format!("it does not name {} yet", list(&missing));
    if account.is_left {
        let says = format!("{says}: {who} has written {written}{since}");
        return Finding::red(link::STATUS, says, clearing);
    }
    let remedy = match &facts.leader {
        Fact::Read(None) => {
            "its holder writes it: see below why no node holds it, or that node's log".to_owned()
        }
        Fact::Read(Some(_)) | Fact::Unread(_) => format!(
            "the controller writes it within seconds, unless the address is refused (see below); that of no pool and \
             outside of --allow-address, once it is held. If not, see its log: \
             kubectl -n {} logs deployment/vipward-controller",
            facts.namespace
        ),
    };
    Finding::red(link::STATUS, says, remedy)
}

fn list(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl ServiceFacts {
    /// Returns the addresses that are to be explained after the Service.
    pub fn addresses(&self) -> Vec<IpAddr> {
        match &self.account {
            Fact::Read(Some(account)) => addresses(account),
            Fact::Read(None) | Fact::Unread(_) => Vec::new(),
        }
    }
}

/// Returns the addresses to explain after the Service: those that it has, its status names, or it
/// requests.
fn addresses(account: &ServiceAccount) -> Vec<IpAddr> {
    let given = account.given.iter().map(|(vip, _)| *vip);
    let asked = match &account.request {
        AddressRequest::Addresses(_, addresses) => addresses.as_slice(),
        AddressRequest::Families(..) => &[],
    };
    let mut all = Vec::new();
    for vip in given.chain([&*account.status, asked, &*account.external].into_iter().flatten().copied()) {
        if !all.contains(&vip) {
            all.push(vip);
        }
    }
    all
}
