//! Tests of the steps that the API server shows: from the Service to the holder's life.

use super::*;
use crate::records::{KeyId, Local, Mode, Offer, Reach, Wid};

const BROKEN: &[Broken] = &[
    (
        "the API server is away",
        elsewhere,
        |facts| facts.cluster = Fact::failed("connection refused"),
        link::CLUSTER,
        "connection refused",
        "--kubeconfig",
    ),
    (
        "no Service names the address",
        elsewhere,
        |facts| in_cluster(facts).account = Account::default(),
        link::SERVICE,
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
        link::SERVICE,
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
        link::SERVICE,
        "has a prefix length",
        "correct what",
    ),
    (
        "the pool of the address selects no node",
        elsewhere,
        |facts| {
            in_cluster(facts).account.demand.as_mut().expect("a demand").policy =
                Some(of_pool("zone=z", "eth0"));
        },
        link::CANDIDATES,
        "none of 2 nodes can hold it",
        "change spec.announce.nodeSelector of VIPPool lan",
    ),
    (
        "the pool of the address has other interfaces",
        elsewhere,
        |facts| {
            in_cluster(facts).account.demand.as_mut().expect("a demand").policy = Some(of_pool("", "bond*"));
        },
        link::CANDIDATES,
        "none of 2 nodes can hold it",
        "change spec.announce.interfaces of VIPPool lan",
    ),
    (
        "the address is the API server's",
        elsewhere,
        |facts| {
            let account = &mut in_cluster(facts).account;
            account.refusal = Some(Refusal::ApiServer);
            account.demand = None;
        },
        link::ADDRESS,
        "the API server is there",
        "another address",
    ),
    (
        "another tenant has the address",
        elsewhere,
        |facts| {
            let account = &mut in_cluster(facts).account;
            account.demand = None;
            account.mentions[0].problems = vec![Problem::Unshared {
                vip: VIP,
                place: Place::Addresses,
                with: ServiceName { namespace: "other".into(), name: "web".into() },
                own: "default".into(),
            }];
        },
        link::ADDRESS,
        "it belongs to Service other/web",
        "what the reason names",
    ),
    (
        "no agent runs anywhere",
        elsewhere,
        |facts| {
            let cluster = in_cluster(facts);
            cluster.leases.clear();
            cluster.claim = None;
        },
        link::CANDIDATES,
        "none of 2 nodes can hold it",
        "run the agent there",
    ),
    (
        "no node is on the segment",
        elsewhere,
        |facts| {
            in_cluster(facts).nodes.remove(&name("n2"));
            lease_of(facts, "n1").record.interfaces[0].subnets.clear();
        },
        link::CANDIDATES,
        "none of 1 nodes",
        "in the VIP's subnet",
    ),
    (
        "no node has an endpoint",
        elsewhere,
        |facts| {
            let cluster = in_cluster(facts);
            cluster.nodes.remove(&name("n2"));
            cluster.account.demand.as_mut().expect("a demand").reach = Reach::On(Local::default());
        },
        link::CANDIDATES,
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
        link::CANDIDATES,
        "none of 2 nodes can hold it",
        "see whether the agent runs",
    ),
    (
        "no node has claimed it",
        elsewhere,
        |facts| {
            in_cluster(facts).claim = None;
            facts.segment = Fact::Read(report(Vec::new()));
        },
        link::CLAIM,
        "there is no VirtualIP",
        "log states why",
    ),
    (
        "no node has it",
        elsewhere,
        |facts| {
            claim(facts).state = ClaimState::Released;
            facts.segment = Fact::Read(report(Vec::new()));
        },
        link::CLAIM,
        "no node holds it, epoch 3",
        "a candidate takes it",
    ),
    (
        "another host uses the address",
        elsewhere,
        |facts| {
            in_cluster(facts).claim = None;
            facts.segment = Fact::Read(report(vec![row(ROGUE, Relation::Unknown, Seen::Wire)]));
        },
        link::CLAIM,
        "it is in use: 02:00:00:00:00:03 (locally administered) answers for it",
        "kubectl annotate virtualip NAME vipward.io/force=true",
    ),
    (
        "no node has a claim, and one answers still",
        elsewhere,
        |facts| {
            in_cluster(facts).claim = None;
            facts.segment = Fact::Read(report(vec![row(N1, Relation::Unknown, Seen::Wire)]));
        },
        link::CLAIM,
        "there is no VirtualIP",
        "a candidate takes it within seconds",
    ),
    (
        "no node holds it any more, and another host uses the address",
        elsewhere,
        |facts| {
            claim(facts).state = ClaimState::Released;
            facts.segment = Fact::Read(report(vec![row(ROGUE, Relation::Unknown, Seen::Wire)]));
        },
        link::CLAIM,
        "no node holds it, epoch 3",
        "a candidate takes it",
    ),
    (
        "its holder says that it does not answer",
        elsewhere,
        |facts| in_cluster(facts).unanswered = Some("eth0 has no carrier".into()),
        link::CLAIM,
        "n1 has it, and no node answers for it: eth0 has no carrier, epoch 3",
        "exec POD -- /vipward explain 192.0.2.10 (POD: the agent's on n1)",
    ),
    (
        "the holder is dead",
        elsewhere,
        |facts| {
            let lease = lease_of(facts, "n1");
            (lease.renewed, lease.watched) = (false, Duration::from_secs(5));
        },
        link::SESSION,
        "n1 has not renewed its Lease while it was watched for 5.0 s",
        "see whether its agent runs",
    ),
    (
        "the holder's Lease is gone",
        elsewhere,
        |facts| drop(in_cluster(facts).leases.remove(&name("n1"))),
        link::SESSION,
        "there is no Lease of n1",
        "start its agent",
    ),
    (
        "the holder was expired",
        elsewhere,
        |facts| lease_of(facts, "n1").record.ended.push(session(7)),
        link::SESSION,
        "has been ended",
        "a candidate takes it",
    ),
    (
        "the holder lives in another session",
        elsewhere,
        |facts| lease_of(facts, "n1").record.session = Some(session(8)),
        link::SESSION,
        "another session",
        "claims it anew",
    ),
];

#[test]
fn the_first_broken_step_of_the_cluster_is_named_with_what_to_do() {
    assert_broken(BROKEN);
}

#[test]
fn each_candidate_is_named_with_what_speaks_against_it() {
    let mut facts = elsewhere();
    let cluster = in_cluster(&mut facts);
    cluster.nodes.get_mut(&name("n2")).expect("the Node").cordoned = true;
    cluster.nodes.extend([node("n3")]);
    cluster.leases.insert(name("n3"), lease("n3", ROGUE));
    lease_of(&mut facts, "n3").record.interfaces[0].carrier = false;
    let other = ServiceName { namespace: "default".into(), name: "dns".into() };
    let demand = in_cluster(&mut facts).account.demand.as_mut().expect("a demand");
    demand.besides = vec![(other, Reach::On([name("n2")].into_iter().collect()))];
    let explanation = explain(&facts);
    let step = explanation.steps.iter().find(|step| step.subject == link::CANDIDATES).expect("the step");
    assert_eq!(step.found, "2 of 3 nodes can hold it");
    let details = [
        "n1: can hold it, but default/dns has no endpoint there",
        "n2: can hold it, but cordoned",
        "n3: eth0 has no carrier",
    ];
    assert_eq!(step.details, details);
}

#[test]
fn a_host_without_contact_says_that_it_does_not_take_what_is_new_or_was_anothers() {
    type Case = (&'static str, fn(&mut Facts), Option<&'static str>, &'static str);
    const NOT_TAKEN: &str =
        "n2, this host, does not take it: no peer answers on eth0, although one lives there";
    let cases: [Case; 8] = [
        ("another holds it", |_| {}, None, ""),
        (
            "it is cordoned, too",
            |facts| in_cluster(facts).nodes.get_mut(&name("n2")).expect("the Node").cordoned = true,
            None,
            "",
        ),
        (
            "its own former session held it",
            |facts| {
                let ClaimState::Held(holder) = &mut claim(facts).state else { panic!("held") };
                (holder.node, holder.session) = (name("n2"), session(70));
                lease_of(facts, "n2").record.ended.push(session(70));
            },
            Some(link::SESSION),
            "has been ended",
        ),
        ("its claim is missing", |facts| in_cluster(facts).claim = None, Some(link::CLAIM), NOT_TAKEN),
        (
            "it is new, and reserved",
            |facts| (claim(facts).state, claim(facts).epoch) = (ClaimState::Released, Epoch(0)),
            Some(link::CLAIM),
            NOT_TAKEN,
        ),
        (
            "its holder has died",
            |facts| lease_of(facts, "n1").record.ended.push(session(7)),
            Some(link::SESSION),
            NOT_TAKEN,
        ),
        (
            "it was released, which needs no contact",
            |facts| claim(facts).state = ClaimState::Released,
            Some(link::CLAIM),
            "no node holds it, epoch 3",
        ),
        (
            "contact is lost where the address is not",
            |facts| {
                lease_of(facts, "n1").record.ended.push(session(7));
                facts.without_contact = Fact::Read(vec!["eth1".to_owned()]);
            },
            Some(link::SESSION),
            "has been ended",
        ),
    ];
    for (what, change, broken, says) in cases {
        let mut facts = elsewhere();
        facts.without_contact = Fact::Read(vec!["eth0".to_owned()]);
        change(&mut facts);
        let explanation = explain(&facts);
        assert_eq!(explanation.broken, broken, "{what}");
        let step = explanation.steps.iter().find(|step| Some(step.subject) == broken);
        assert!(step.is_none_or(|step| step.found.ends_with(says)), "{what}: {step:?}");
        let remedy = explanation.remedy.unwrap_or_default();
        assert_eq!(remedy.contains("0x88b5"), says == NOT_TAKEN, "{what}: {remedy}");
        let candidates = explanation.steps.iter().find(|step| step.subject == link::CANDIDATES);
        let own = &candidates.expect("the step").details[1];
        let lacks = matches!(&facts.without_contact, Fact::Read(names) if names == &["eth0"]);
        assert_eq!(own.contains("no peer answers on eth0"), lacks, "{what}: {own}");
    }
}

#[test]
fn a_claim_is_not_said_to_be_held_by_a_node_that_does_not_renew_its_lease() {
    type Case = (&'static str, fn(&mut Facts), finding::State, &'static str);
    const NAMED: &str = "it names n1 at 02:00:00:00:01:01 on eth0, epoch 3";
    let cases: [Case; 4] = [
        ("it renews", |_| {}, Green, "held by n1 at 02:00:00:00:01:01 on eth0, epoch 3"),
        (
            "its Lease is silent",
            |facts| {
                let lease = lease_of(facts, "n1");
                (lease.renewed, lease.watched) = (false, Duration::from_secs(5));
            },
            Green,
            NAMED,
        ),
        (
            "it is being restarted, or dead",
            |facts| {
                let lease = lease_of(facts, "n1");
                (lease.renewed, lease.watched) = (false, Duration::from_secs(10));
                lease.record.duration = Duration::from_mins(1);
            },
            Green,
            NAMED,
        ),
        ("its session is over", |facts| lease_of(facts, "n1").record.ended.push(session(7)), Green, NAMED),
    ];
    for (what, change, verdict, says) in cases {
        let mut facts = elsewhere();
        change(&mut facts);
        let explanation = explain(&facts);
        let claim = explanation.steps.iter().find(|step| step.subject == link::CLAIM).expect("the step");
        assert_eq!((claim.state, claim.found.as_str()), (verdict, says), "{what}");
    }
}

#[test]
fn the_step_of_the_session_says_how_soon_the_death_of_the_holder_is_found() {
    let offer = |number: u64, set: &[u64]| {
        let wids = |of: &[u64]| of.iter().filter_map(|number| Wid::from_number(*number)).collect();
        Some(Offer {
            wid: Wid::from_number(number).expect("not zero"),
            mode: if set.is_empty() { Mode::Off } else { Mode::Notice },
            round: 1,
            invited: wids(set),
            set: wids(set),
            need: usize::from(!set.is_empty()),
            keys: vec![KeyId(1)],
        })
    };
    let rows = [
        (
            offer(1, &[2]),
            "if it dies, that is found by 1 of its 1 voters (n2), in about 0.3 s times --wire (2 by default)",
        ),
        (
            None,
            "if it dies, that is found by its Lease, after 4.0 s and the margin: it takes no part in the \
             failure detector (--wire off, --policy stop, or no key)",
        ),
    ];
    for (wire, expected) in rows {
        let mut facts = elsewhere();
        lease_of(&mut facts, "n1").record.wire = wire;
        lease_of(&mut facts, "n2").record.wire = offer(2, &[]);
        let explanation = explain(&facts);
        let step = explanation.steps.iter().find(|step| step.subject == link::SESSION).expect("the step");
        assert_eq!((step.state, &step.details[..]), (Green, &[expected.to_owned()][..]));
    }
}
