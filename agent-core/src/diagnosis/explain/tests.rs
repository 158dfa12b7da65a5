mod attached;
mod cluster;
mod doubtful;
mod elsewhere;
mod host;
mod segment;
mod service;
mod unread;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::Arc,
    time::Duration,
};

use vipward_common::{MacAddr, Role, VipCounters};

use super::*;
use crate::{
    diagnosis::{
        doctor::Agent,
        finding::{
            self,
            State::{Green, Red, Unknown, Yellow},
        },
        pinned::{Entry, State},
        who_has::{Relation, Report, Row, Seen, Verdict as Answers},
    },
    host::{
        attaching::{Attach, Mode},
        net::Interface,
    },
    records::{
        Allowance, ClaimRecord, ClaimState, Demand, Epoch, Holder, LeaseRecord, NodeInterface, NodeName,
        NodeRecord, PoolPolicy, ServiceName, Session, Version,
    },
    services::{Account, Malformed, Mention, Place, Problem, Refusal, Unserved, WayOut, Writer},
};

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
const N1: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
const N2: MacAddr = MacAddr([2, 0, 0, 0, 1, 2]);
const ROGUE: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);

fn session(number: u64) -> Session {
    Session::from_number(number).expect("not zero")
}

fn name(node: &str) -> NodeName {
    NodeName::from(node)
}

fn service() -> ServiceName {
    ServiceName { namespace: "apps".into(), name: "web".into() }
}

fn holder(node: &str, mac: MacAddr) -> Holder {
    Holder { node: name(node), session: session(7), mac, interface: "eth0".into() }
}

fn lease(node: &str, mac: MacAddr) -> LeaseSeen {
    let subnets = vec!["192.0.2.0/24".parse().expect("a subnet")];
    let interface = NodeInterface {
        name: "eth0".into(),
        altnames: Vec::new(),
        mac,
        subnets,
        bound: Vec::new(),
        gateways: Vec::new(),
        carrier: true,
        last_for: Vec::new(),
        unreached: Vec::new(),
    };
    let record = LeaseRecord {
        node: name(node),
        version: Version::from("1"),
        session: Some(session(7)),
        ended: Vec::new(),
        duration: Duration::from_secs(4),
        interfaces: vec![interface],
        leaving: false,
        wire: None,
        proxy: None,
    };
    LeaseSeen { record, renewed: true, watched: Duration::from_secs(1) }
}

fn node(name: &str) -> (NodeName, NodeRecord) {
    let record = NodeRecord {
        name: name.into(),
        labels: BTreeMap::new(),
        cordoned: false,
        ready: true,
        network_unavailable: false,
        out_of_service: false,
    };
    (record.name.clone(), record)
}

fn row(mac: MacAddr, relation: Relation, seen: Seen) -> Row {
    Row {
        order: 1,
        mac: mac.to_string(),
        vendor: "locally administered".into(),
        relation,
        seen,
        answering: true,
        silent_because: None,
        ethernet_source: None,
        answered: 2,
        first: 2,
        replies: 2,
        announcements: 0,
        latency: None,
    }
}

fn report(answers: Vec<Row>) -> Report {
    Report {
        address: IpAddr::from([192, 0, 2, 10]),
        interface: "eth0".into(),
        vlan: None,
        ifindex: 2,
        asked_from: N2.to_string(),
        questions: 2,
        timeout_seconds: 0.5,
        verdict: match answers.len() {
            0 => Answers::NoHost,
            1 => Answers::One,
            _ => Answers::Several,
        },
        answers,
        probing: Vec::new(),
        agent: true,
        expected: None,
        notes: Vec::new(),
        vendors_of: "2026-10-17",
    }
}

fn entry(role: Role, mac: MacAddr) -> Entry {
    let count = VipCounters { answered: 12, conflicts: 0, suppressed: 1 };
    Entry { count: Some(count), ..Entry::sample(VIP, role, mac) }
}

/// Returns the pinned state of a cluster's node whose interface has the MAC `own`.
fn pinned(own: MacAddr, entries: Vec<Entry>) -> State {
    let mut state = State::sample();
    state.contents.entries = entries;
    state.contents.lease_deadline.session = 7;
    for interface in state.network.interfaces.values_mut() {
        interface.mac = own;
    }
    state
}

/// Returns a cluster in which n1 holds the VIP and n2 could, as a host with the MAC `own` sees it.
fn cluster_seen_from(own: MacAddr) -> Facts {
    let mention =
        Mention { service: service(), place: Some(Place::Addresses), unserved: None, problems: Vec::new() };
    let demand = Demand { services: vec![service()], ..Demand::default() };
    let cluster = Cluster {
        account: Account { mentions: vec![mention], refusal: None, demand: Some(demand) },
        claim: Some(ClaimRecord {
            epoch: Epoch(3),
            state: ClaimState::Held(holder("n1", N1)),
            ..ClaimRecord::blank(VIP, "1".into())
        }),
        unanswered: None,
        leases: [("n1", N1), ("n2", N2)].map(|(node, mac)| (name(node), lease(node, mac))).into(),
        nodes: ["n1", "n2"].map(node).into(),
        honour_exclude_label: true,
        segments: Fact::Read(vec![State::SAMPLE_IFINDEX]),
        namespace: "vipward-system".into(),
    };
    let is_holder = own == N1;
    let role = if is_holder { Role::Held } else { Role::Foreign };
    let seen = if is_holder { Seen::ThisHost } else { Seen::Wire };
    Facts {
        address: VIP,
        cluster: Fact::Read(cluster),
        config: Fact::skipped("no file was given"),
        pins: Fact::Read(Some(pinned(own, vec![entry(role, N1)]))),
        pin_dir: "/sys/fs/bpf/vipward".into(),
        agent: Fact::Read(Agent::Runs(None)),
        native: BTreeMap::from([(State::SAMPLE_IFINDEX, Fact::Read(true))]),
        without_contact: Fact::Read(Vec::new()),
        waiting: Fact::Read(None),
        segment: Fact::Read(report(vec![row(N1, Relation::Holder, seen)])),
        answerers: BTreeMap::new(),
        own: BTreeSet::from([own]),
    }
}

/// Returns the policy of a pool, with one selector of nodes and one pattern of interfaces.
fn of_pool(nodes: &str, interface: &str) -> Arc<PoolPolicy> {
    let nodes = vec![nodes.parse().expect("a selector")];
    let interfaces = vec![interface.parse().expect("a pattern")];
    Arc::new(PoolPolicy {
        pool: "lan".into(),
        advertisements: [].into(),
        allowances: vec![Allowance { nodes, interfaces, ..Allowance::default() }],
    })
}

fn standalone() -> Facts {
    let vip = ListedVip {
        guarded: None,
        interface: Some("eth0".into()),
        problems: Vec::new(),
        bind: Some(("lo".into(), true)),
    };
    Facts {
        cluster: Fact::skipped("no kubeconfig"),
        config: Fact::Read(Listed { file: "vipward.yaml".into(), attach: Attach::Auto, vip: Some(vip) }),
        ..cluster_seen_from(N1)
    }
}

fn in_cluster(facts: &mut Facts) -> &mut Cluster {
    let Fact::Read(cluster) = &mut facts.cluster else { panic!("a cluster") };
    cluster
}

fn claim(facts: &mut Facts) -> &mut ClaimRecord {
    in_cluster(facts).claim.as_mut().expect("a claim")
}

fn lease_of<'a>(facts: &'a mut Facts, node: &str) -> &'a mut LeaseSeen {
    in_cluster(facts).leases.get_mut(&name(node)).expect("a Lease")
}

fn pins(facts: &mut Facts) -> &mut State {
    let Fact::Read(Some(pins)) = &mut facts.pins else { panic!("pins") };
    pins
}

fn entries(facts: &mut Facts) -> &mut Vec<Entry> {
    &mut pins(facts).contents.entries
}

fn eth0(state: &mut State) -> &mut Interface {
    state.network.interfaces.get_mut(&State::SAMPLE_IFINDEX).expect("the interface")
}

fn listed(facts: &mut Facts) -> &mut Listed {
    let Fact::Read(listed) = &mut facts.config else { panic!("a file") };
    listed
}

fn listed_vip(facts: &mut Facts) -> &mut ListedVip {
    listed(facts).vip.as_mut().expect("an entry")
}

fn elsewhere() -> Facts {
    cluster_seen_from(N2)
}

fn at_the_holder() -> Facts {
    cluster_seen_from(N1)
}

fn unserved(facts: &mut Facts) -> &mut Option<Unserved> {
    let account = &mut in_cluster(facts).account;
    account.demand = None;
    &mut account.mentions[0].unserved
}

/// Description, facts before the fault, the fault, the step that is
/// named, and parts of its report and of its remedy.
type Broken = (&'static str, fn() -> Facts, fn(&mut Facts), &'static str, &'static str, &'static str);

fn assert_broken(table: &[Broken]) {
    for (what, facts, break_it, link, says, remedy) in table {
        let mut facts = facts();
        break_it(&mut facts);
        let explanation = explain(&facts);
        assert_eq!(explanation.broken, Some(*link), "{what}: {explanation:#?}");
        let step = explanation.steps.iter().find(|step| step.subject == *link).expect("the step");
        assert!(step.found.contains(says), "{what}: {says:?} in {:?}", step.found);
        let to_do = explanation.remedy.as_deref().unwrap_or_default();
        assert!(to_do.contains(remedy), "{what}: {remedy:?} in {to_do:?}");
    }
}

#[test]
fn what_is_right_has_no_broken_step_and_says_each_link_in_order() {
    use link::{
        ADDRESS, ATTACHED, BOUND, CANDIDATES, CLAIM, CONFIG, ENTRY, LEASE_DEADLINE, PLACEMENT, SEGMENT,
        SERVICE, SESSION,
    };
    for (what, facts, links) in [
        (
            "at the holder",
            at_the_holder(),
            &[SERVICE, ADDRESS, CANDIDATES, CLAIM, SESSION, ENTRY, ATTACHED, LEASE_DEADLINE, SEGMENT][..],
        ),
        ("elsewhere", elsewhere(), &[SERVICE, ADDRESS, CANDIDATES, CLAIM, SESSION, ENTRY, SEGMENT]),
        ("standalone", standalone(), &[CONFIG, PLACEMENT, ENTRY, ATTACHED, LEASE_DEADLINE, BOUND, SEGMENT]),
    ] {
        let explanation = explain(&facts);
        assert_eq!(explanation.broken, None, "{what}: {explanation:#?}");
        assert!(explanation.steps.iter().map(|step| &step.subject).eq(links), "{what}: {explanation:#?}");
        assert!(explanation.steps.iter().all(|step| step.state == Green), "{what}: {explanation:#?}");
        assert!(links.is_sorted_by_key(|link| link::ALL.iter().position(|it| it == link)), "{what}");
    }
}

#[test]
fn an_address_of_external_ips_is_right_and_its_step_says_that_the_field_is_deprecated() {
    let mut facts = at_the_holder();
    let says = |facts: &Facts| {
        let explanation = explain(facts);
        assert_eq!(explanation.broken, None, "{explanation:#?}");
        let step =
            explanation.steps.into_iter().find(|step| step.subject == link::ADDRESS).expect("the step");
        (step.found, step.details.join("; "))
    };
    assert_eq!(says(&facts).1, "");
    in_cluster(&mut facts).account.mentions[0].place = Some(Place::ExternalIps);
    let (from, details) = says(&facts);
    assert!(from.contains("spec.externalIPs"), "{from}");
    assert!(details.contains("deprecated since Kubernetes 1.36"), "{details}");
}
