mod attached;
mod elsewhere;

use std::sync::Arc;

use super::*;
use crate::core::{
    cluster::{ClaimNote, ClaimState, Epoch, Holder, NodeLink, ServiceName, Session, Version},
    ownership::Demand,
    services::{Malformed, Mention, Place, Problem, Refusal, Unserved, WayOut},
    who_has::{Relation, Report, Row, Seen, Verdict as Answers},
};

const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
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
    let link = NodeLink { name: "eth0".into(), mac, subnets: Vec::new(), carrier: true };
    let record = LeaseRecord {
        node: name(node),
        version: Version::from("1"),
        session: Some(session(7)),
        ended: Vec::new(),
        duration: Duration::from_secs(4),
        links: vec![link],
        leaving: false,
    };
    LeaseSeen { record, renewed: true, watched: Duration::from_secs(1) }
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
        address: VIP,
        interface: "eth0".into(),
        ifindex: 2,
        asked_from: N2.to_string(),
        questions: 2,
        timeout_seconds: 0.5,
        verdict: match answers.len() {
            0 => Answers::Nobody,
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

fn entry(role: Role, mac: MacAddr) -> EntryFacts {
    EntryFacts {
        interface: "eth0".into(),
        role,
        mac,
        yielded: false,
        running: Some(Running { mode: Mode::Native, veth: false, offers_native: Some(true) }),
        link_trouble: None,
        counts: Some((12, 0, 1)),
    }
}

fn pinned(entries: Vec<EntryFacts>) -> Pinned {
    let (fence, fence_left) = (FenceState::Valid, Duration::from_secs(3));
    Pinned { dir: "/sys/fs/bpf/vipward".into(), entries, fence, fence_left }
}

/// n1 holds it, n2 could; seen from `own`.
fn cluster_seen_from(own: MacAddr) -> Facts {
    let mention =
        Mention { service: service(), place: Some(Place::Addresses), unserved: None, problems: Vec::new() };
    let demand = Demand { services: vec![service()], ..Demand::default() };
    let cluster = Cluster {
        account: Account { mentions: vec![mention], refusal: None, demand: Some(demand) },
        claim: Some(ClaimRecord {
            vip: VIP,
            version: Version::from("1"),
            epoch: Epoch(3),
            state: ClaimState::Held(holder("n1", N1)),
            deleting: false,
            move_to: None,
            note: ClaimNote::default(),
        }),
        leases: [("n1", N1), ("n2", N2)].map(|(node, mac)| (name(node), lease(node, mac))).into(),
        nodes: vec![(name("n1"), Ok(None)), (name("n2"), Ok(None))],
        namespace: "vipward-system".into(),
    };
    let is_holder = own == N1;
    let role = if is_holder { Role::Held } else { Role::Foreign };
    let seen = if is_holder { Seen::ThisHost } else { Seen::Wire };
    Facts {
        address: VIP,
        cluster: Look::Seen(cluster),
        config: Look::Not("no file was given".into()),
        pins: Look::Seen(pinned(vec![entry(role, N1)])),
        segment: Look::Seen(report(vec![row(N1, Relation::Holder, seen)])),
        own: BTreeSet::from([own]),
    }
}

fn standalone() -> Facts {
    let vip = ListedVip {
        guarded: None,
        interface: Some("eth0".into()),
        problems: Vec::new(),
        bind: Some(("lo".into(), true)),
    };
    Facts {
        cluster: Look::Not("no kubeconfig".into()),
        config: Look::Seen(Listed { file: "vipward.yaml".into(), xdp: XdpMode::Auto, vip: Some(vip) }),
        ..cluster_seen_from(N1)
    }
}

fn in_cluster(facts: &mut Facts) -> &mut Cluster {
    let Look::Seen(cluster) = &mut facts.cluster else { panic!("a cluster") };
    cluster
}

fn claim(facts: &mut Facts) -> &mut ClaimRecord {
    in_cluster(facts).claim.as_mut().expect("a claim")
}

fn lease_of<'a>(facts: &'a mut Facts, node: &str) -> &'a mut LeaseSeen {
    in_cluster(facts).leases.get_mut(&name(node)).expect("a Lease")
}

fn pins(facts: &mut Facts) -> &mut Pinned {
    let Look::Seen(pins) = &mut facts.pins else { panic!("pins") };
    pins
}

fn listed(facts: &mut Facts) -> &mut Listed {
    let Look::Seen(listed) = &mut facts.config else { panic!("a file") };
    listed
}

fn listed_vip(facts: &mut Facts) -> &mut ListedVip {
    listed(facts).vip.as_mut().expect("an entry")
}

/// What is broken, and a part of what is said about it and of what to do.
type Row4 = (&'static str, fn() -> Facts, fn(&mut Facts), Link, &'static str, &'static str);

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

const BROKEN: &[Row4] = &[
    (
        "the API server is away",
        elsewhere,
        |facts| facts.cluster = Look::Failed("connection refused".into()),
        Link::Cluster,
        "connection refused",
        "--kubeconfig",
    ),
    (
        "no Service names the address",
        elsewhere,
        |facts| in_cluster(facts).account = Account::default(),
        Link::Service,
        "no Service of type LoadBalancer names it; its VirtualIP is a leftover",
        "vipward.io/addresses",
    ),
    (
        "the Service is of another class",
        elsewhere,
        |facts| {
            let (why, remedy) = ("its class is \"other\"".to_owned(), "create it anew".to_owned());
            *unserved(facts) = Some(Unserved { why, remedy });
        },
        Link::Service,
        "Service apps/web names it, and is not served: its class is \"other\"",
        "create it anew",
    ),
    (
        "the annotation cannot be read",
        elsewhere,
        |facts| {
            let account = &mut in_cluster(facts).account;
            account.demand = None;
            account.mentions[0].place = None;
            let value = "192.0.2.10/24".into();
            let why = Malformed::Prefix { part: "192.0.2.10/24".into() };
            account.mentions[0].problems = vec![Problem::Malformed { place: Place::Addresses, value, why }];
        },
        Link::Service,
        "has a prefix length",
        "put right",
    ),
    (
        "the address is the API server's",
        elsewhere,
        |facts| {
            let account = &mut in_cluster(facts).account;
            account.refusal = Some(Refusal::ApiServer);
            account.demand = None;
        },
        Link::Address,
        "the API server is there",
        "another address",
    ),
    (
        "no agent runs anywhere",
        elsewhere,
        |facts| {
            let cluster = in_cluster(facts);
            cluster.nodes =
                vec![(name("n1"), Err(Disqualified::NoAgent)), (name("n2"), Err(Disqualified::NoAgent))];
            cluster.claim = None;
        },
        Link::Candidates,
        "none of 2 nodes can hold it",
        "run the agent there",
    ),
    (
        "no node is on the segment",
        elsewhere,
        |facts| {
            in_cluster(facts).nodes = vec![(name("n1"), Err(Disqualified::NoInterface))];
        },
        Link::Candidates,
        "none of 1 nodes",
        "in the VIP's subnet",
    ),
    (
        "no node has an endpoint",
        elsewhere,
        |facts| in_cluster(facts).nodes = vec![(name("n1"), Err(Disqualified::NoLocalEndpoint))],
        Link::Candidates,
        "none of 1 nodes",
        "externalTrafficPolicy: Cluster",
    ),
    (
        "all agents are dead, as their Leases show",
        elsewhere,
        |facts| {
            for node in ["n1", "n2"] {
                let lease = lease_of(facts, node);
                (lease.renewed, lease.watched) = (false, Duration::from_secs(5));
            }
        },
        Link::Candidates,
        "none of 2 nodes can hold it",
        "see whether the agent runs",
    ),
    (
        "nobody has claimed it",
        elsewhere,
        |facts| {
            in_cluster(facts).claim = None;
            facts.segment = Look::Seen(report(Vec::new()));
        },
        Link::Claim,
        "there is no VirtualIP",
        "log says why",
    ),
    (
        "nobody has it",
        elsewhere,
        |facts| {
            claim(facts).state = ClaimState::Released;
            facts.segment = Look::Seen(report(Vec::new()));
        },
        Link::Claim,
        "nobody holds it, epoch 3",
        "a candidate takes it",
    ),
    (
        "somebody else uses the address",
        elsewhere,
        |facts| {
            in_cluster(facts).claim = None;
            facts.segment = Look::Seen(report(vec![row(ROGUE, Relation::Unknown, Seen::Wire)]));
        },
        Link::Claim,
        "it is in use: 02:00:00:00:00:03 (locally administered) answers for it",
        "vipward.io/force=true",
    ),
    (
        "the holder is dead",
        elsewhere,
        |facts| {
            let lease = lease_of(facts, "n1");
            (lease.renewed, lease.watched) = (false, Duration::from_secs(5));
        },
        Link::Session,
        "n1 has not renewed its Lease while it was watched for 5.0 s",
        "see whether its agent runs",
    ),
    (
        "the holder's Lease is gone",
        elsewhere,
        |facts| drop(in_cluster(facts).leases.remove(&name("n1"))),
        Link::Session,
        "there is no Lease of n1",
        "start its agent",
    ),
    (
        "the holder was deposed",
        elsewhere,
        |facts| lease_of(facts, "n1").record.ended.push(session(7)),
        Link::Session,
        "has been ended",
        "takes it over",
    ),
    (
        "the holder lives in another session",
        elsewhere,
        |facts| lease_of(facts, "n1").record.session = Some(session(8)),
        Link::Session,
        "another session",
        "claims it anew",
    ),
    (
        "the holder has no entry",
        at_the_holder,
        |facts| pins(facts).entries = vec![entry(Role::Foreign, MacAddr::ZERO)],
        Link::Entry,
        "this host should answer, and has no entry that does",
        "its log",
    ),
    (
        "another host than the holder answers",
        elsewhere,
        |facts| pins(facts).entries = vec![entry(Role::Held, N2)],
        Link::Entry,
        "is held at 02:00:00:00:01:02, and it should not",
        "its log",
    ),
    (
        "the holder gave way",
        at_the_holder,
        |facts| {
            pins(facts).entries = vec![EntryFacts { yielded: true, ..entry(Role::Foreign, ROGUE) }];
        },
        Link::Entry,
        "gave way to 02:00:00:00:00:03",
        "SIGHUP",
    ),
    (
        "the program is not attached",
        at_the_holder,
        |facts| pins(facts).entries[0].link_trouble = Some("the program is not attached"),
        Link::Attached,
        "eth0 does not answer: the program is not attached",
        "see whether the agent runs",
    ),
    (
        "the fence is over",
        at_the_holder,
        |facts| pins(facts).fence = FenceState::Over,
        Link::Fence,
        "nothing is answered",
        "start the agent",
    ),
    (
        "nobody on the segment answers",
        elsewhere,
        |facts| facts.segment = Look::Seen(report(Vec::new())),
        Link::Segment,
        "nobody on eth0 answers",
        "explain it on the host with 02:00:00:00:01:01",
    ),
    (
        "the wrong host answers",
        elsewhere,
        |facts| facts.segment = Look::Seen(report(vec![row(ROGUE, Relation::Stranger, Seen::Wire)])),
        Link::Segment,
        "02:00:00:00:00:03 (locally administered; stranger) answers, and 02:00:00:00:01:01 should",
        "take the address away",
    ),
    (
        "two hosts answer",
        elsewhere,
        |facts| {
            let rows = [row(N1, Relation::Holder, Seen::Wire), row(ROGUE, Relation::Stranger, Seen::Dropped)];
            facts.segment = Look::Seen(report(rows.into()));
        },
        Link::Segment,
        "CONFLICT: 2 MACs",
        "take the address away from 02:00:00:00:00:03",
    ),
    (
        "standalone: the file is bad",
        standalone,
        |facts| facts.config = Look::Failed("line 3: unknown key".into()),
        Link::Config,
        "line 3: unknown key",
        "--check",
    ),
    (
        "standalone: the file does not list it",
        standalone,
        |facts| listed(facts).vip = None,
        Link::Config,
        "vipward.yaml does not list it",
        "add it under `vips:`",
    ),
    (
        "standalone: no interface is in its subnet",
        standalone,
        |facts| {
            let vip = listed_vip(facts);
            vip.interface = None;
            vip.problems = vec!["VIP 192.0.2.10 is in the subnet of no attached interface".into()];
        },
        Link::Placement,
        "in the subnet of no attached interface",
        "name an interface",
    ),
    (
        "standalone: no agent has run",
        standalone,
        |facts| facts.pins = Look::Not("nothing is pinned under /sys/fs/bpf/vipward".into()),
        Link::Entry,
        "nothing is pinned",
        "start the agent",
    ),
    (
        "standalone: it is not bound",
        standalone,
        |facts| listed_vip(facts).bind = Some(("lo".into(), false)),
        Link::Bound,
        "it is not on lo",
        "within 30 s",
    ),
    (
        "pins alone: no entry",
        standalone,
        |facts| {
            facts.config = Look::Not("no file".into());
            pins(facts).entries.clear();
        },
        Link::Entry,
        "there is no entry for it",
        "--kubeconfig",
    ),
];

#[test]
fn the_first_broken_step_is_named_with_what_to_do() {
    for (what, facts, break_it, link, says, remedy) in BROKEN {
        let mut facts = facts();
        break_it(&mut facts);
        let explanation = explain(&facts);
        assert_eq!(explanation.broken, Some(*link), "{what}: {explanation:#?}");
        let step = explanation.steps.iter().find(|step| step.link == *link).expect("the step");
        assert!(step.says.contains(says), "{what}: {says:?} in {:?}", step.says);
        let to_do = explanation.remedy.as_deref().unwrap_or_default();
        assert!(to_do.contains(remedy), "{what}: {remedy:?} in {to_do:?}");
    }
}

#[test]
fn what_is_right_has_no_broken_step_and_says_each_link_in_order() {
    use Link::{
        Address, Attached, Bound, Candidates, Claim, Config, Entry, Fence, Placement, Segment, Service,
        Session,
    };
    for (what, facts, links) in [
        (
            "at the holder",
            at_the_holder(),
            &[Service, Address, Candidates, Claim, Session, Entry, Attached, Fence, Segment][..],
        ),
        ("elsewhere", elsewhere(), &[Service, Address, Candidates, Claim, Session, Entry, Segment]),
        ("standalone", standalone(), &[Config, Placement, Entry, Attached, Fence, Bound, Segment]),
    ] {
        let explanation = explain(&facts);
        assert_eq!(explanation.broken, None, "{what}: {explanation:#?}");
        assert!(explanation.steps.iter().map(|step| &step.link).eq(links), "{what}: {explanation:#?}");
        assert!(
            explanation.steps.iter().all(|step| step.verdict == Verdict::Good),
            "{what}: {explanation:#?}"
        );
    }
}

#[test]
fn what_could_not_be_looked_at_is_said_and_breaks_nothing() {
    let facts = Facts {
        cluster: Look::Not("no kubeconfig".into()),
        pins: Look::Failed("permission denied".into()),
        segment: Look::Not("it needs CAP_NET_RAW".into()),
        ..elsewhere()
    };
    let explanation = explain(&facts);
    assert_eq!(explanation.broken, None);
    let seen: Vec<_> = explanation.steps.iter().map(|step| (step.link, step.verdict, &*step.says)).collect();
    assert_eq!(
        seen,
        [
            (Link::Cluster, Verdict::Unseen, "no kubeconfig"),
            (Link::Entry, Verdict::Unseen, "what is pinned here cannot be read: permission denied"),
            (Link::Segment, Verdict::Unseen, "it needs CAP_NET_RAW"),
        ]
    );
}

#[test]
fn what_passes_by_itself_is_in_doubt_and_not_broken() {
    type Case = (&'static str, fn() -> Facts, fn(&mut Facts), Link);
    let cases: [Case; 5] = [
        (
            "a handover",
            elsewhere,
            |facts| {
                claim(facts).state =
                    ClaimState::Offered { to: holder("n1", N1), from: (name("n2"), session(7)) };
            },
            Link::Claim,
        ),
        (
            "an agent that is restarted",
            elsewhere,
            |facts| {
                let lease = lease_of(facts, "n1");
                (lease.renewed, lease.watched) = (false, Duration::from_secs(10));
                lease.record.duration = Duration::from_mins(1);
            },
            Link::Session,
        ),
        (
            "a fence that is held over",
            at_the_holder,
            |facts| pins(facts).fence = FenceState::HeldOver,
            Link::Fence,
        ),
        (
            "a host that is behind",
            elsewhere,
            |facts| pins(facts).entries = vec![entry(Role::Foreign, N2)],
            Link::Entry,
        ),
        (
            "a Service with a problem",
            elsewhere,
            |facts| {
                let address: Arc<str> = "other".into();
                let problem = Problem::OtherManager {
                    manager: Some(address),
                    status: Vec::new(),
                    place: Place::Addresses,
                    wanted: vec![VIP.into()],
                    way_out: WayOut { ours: "vipward.io/l2".into(), is_set: false },
                };
                in_cluster(facts).account.mentions[0].problems = vec![problem];
            },
            Link::Service,
        ),
    ];
    for (what, facts, change, link) in cases {
        let mut facts = facts();
        change(&mut facts);
        let explanation = explain(&facts);
        assert_eq!(explanation.broken, None, "{what}: {explanation:#?}");
        let step = explanation.steps.iter().find(|step| step.link == link).expect("the step");
        assert_eq!(step.verdict, Verdict::Doubtful, "{what}: {explanation:#?}");
    }
}

#[test]
fn each_candidate_is_named_with_what_speaks_against_it() {
    let mut facts = elsewhere();
    in_cluster(&mut facts).nodes = vec![
        (name("n1"), Ok(None)),
        (name("n2"), Ok(Some(Disqualified::Cordoned))),
        (name("n3"), Err(Disqualified::NoCarrier { interface: "eth0".into() })),
    ];
    let explanation = explain(&facts);
    let step = explanation.steps.iter().find(|step| step.link == Link::Candidates).expect("the step");
    assert_eq!(step.says, "2 of 3 nodes can hold it");
    assert_eq!(step.details, ["n1: can hold it", "n2: can hold it, but cordoned", "n3: eth0 has no carrier"]);
}

#[test]
fn a_successor_is_no_trouble_of_the_interface() {
    let mut facts = elsewhere();
    claim(&mut facts).state = ClaimState::Offered { to: holder("n1", N1), from: (name("n2"), session(7)) };
    pins(&mut facts).entries =
        vec![EntryFacts { link_trouble: Some("the interface has another MAC"), ..entry(Role::Handover, N1) }];
    let explanation = explain(&facts);
    assert_eq!(explanation.broken, None, "{explanation:#?}");
    assert!(explanation.steps.iter().any(|step| step.link == Link::Attached));
}
