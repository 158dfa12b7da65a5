use super::*;
use crate::{
    pools::{Counts, Family, Fit, Lack, Prospect},
    records::{PoolKind, Reservation},
    services::{AddressRequest, ServiceAccount},
};

fn account() -> ServiceAccount {
    let reservation = Reservation { service: service(), pool: Some("lan".into()), kept: None };
    let counts = [(Family::V4, Counts { total: 30, allocated: 1, kept: 0 })].into();
    ServiceAccount {
        unserved: None,
        request: AddressRequest::Families(vec![Family::V4], None),
        given: vec![(VIP, Some(reservation))],
        lacks: Vec::new(),
        prospects: vec![Prospect { pool: "lan".into(), fit: Fit::Serves, priority: 0, counts }],
        status: vec![VIP],
        manager: Some("vipward".into()),
        since: None,
        is_elsewhere: false,
        is_left: false,
        external: Vec::new(),
        problems: Vec::new(),
    }
}

fn facts(account: Option<ServiceAccount>) -> ServiceFacts {
    ServiceFacts {
        service: service(),
        account: Fact::Read(account),
        leader: Fact::Read(Some("c1".to_owned())),
        pools: Fact::Read(()),
        namespace: "vipward-system".to_owned(),
    }
}

/// Returns each step's link, verdict and text.
fn rows(explanation: &ServiceExplanation) -> Vec<(&'static str, finding::State, &str)> {
    explanation.steps.iter().map(|step| (step.subject, step.state, step.found.as_str())).collect()
}

#[test]
fn a_service_with_an_address_of_a_pool_is_followed_to_its_status() {
    let explanation = explain_service(&facts(Some(account())), &[]);
    assert_eq!(explanation.service, "apps/web");
    assert_eq!(
        rows(&explanation),
        [
            (link::SERVICE, Green, "apps/web is of type LoadBalancer and served"),
            (link::REQUEST, Green, "it requests an IPv4 address of any VIPPool"),
            (link::POOL, Green, "192.0.2.10 of VIPPool lan is reserved for apps/web"),
            (link::STATUS, Green, "it names 192.0.2.10, written by vipward"),
        ]
    );
    assert_eq!(
        explanation.steps[2].details,
        ["VIPPool lan: serves it with priority 0, 29 of 30 IPv4 addresses are free"]
    );
    assert_eq!((explanation.broken, explanation.remedy), (None, None));
}

#[test]
fn the_reason_for_no_address_is_the_first_broken_step() {
    let lack = Lack::UsedUp { family: Family::V4, pools: vec!["lan".into()] };
    let none = ServiceAccount { given: Vec::new(), status: Vec::new(), ..account() };
    let no_pool = ServiceAccount { prospects: Vec::new(), lacks: vec![Lack::NoPoolAtAll], ..none.clone() };
    let unserved =
        Unserved { why: "it is being deleted".to_owned(), remedy: "create another one".to_owned() };
    let cases = [
        (Some(ServiceAccount { lacks: vec![lack.clone()], ..none.clone() }), link::POOL, lack.to_string()),
        (Some(none.clone()), link::POOL, "no address is reserved for it yet".to_owned()),
        (Some(no_pool), link::POOL, Lack::NoPoolAtAll.to_string()),
        (
            Some(ServiceAccount { unserved: Some(unserved), ..account() }),
            link::SERVICE,
            "apps/web is not served: it is being deleted".to_owned(),
        ),
        (
            Some(ServiceAccount { status: Vec::new(), ..account() }),
            link::STATUS,
            "it does not name 192.0.2.10 yet".to_owned(),
        ),
        (None, link::SERVICE, "there is no Service apps/web".to_owned()),
    ];
    for (account, link, says) in cases {
        let explanation = explain_service(&facts(account), &[]);
        let step = explanation.steps.iter().find(|step| step.state == Red).expect("one is broken");
        assert_eq!((step.subject, &step.found), (link, &says));
        assert_eq!((explanation.broken, &explanation.remedy), (Some(link), &step.remedy));
    }
}

#[test]
fn without_a_controller_only_a_service_that_names_no_address_lacks_one() {
    let none = ServiceAccount { given: Vec::new(), status: Vec::new(), prospects: Vec::new(), ..account() };
    let asks =
        ServiceAccount { request: AddressRequest::Addresses(Place::Addresses, vec![VIP]), ..none.clone() };
    let pool = |account| {
        let explanation =
            explain_service(&ServiceFacts { leader: Fact::Read(None), ..facts(Some(account)) }, &[]);
        (explanation.steps[2].subject, explanation.steps[2].state)
    };
    assert_eq!(pool(none), (link::POOL, Red));
    assert_eq!(pool(asks), (link::POOL, Unknown));
    assert_eq!(pool(account()), (link::POOL, Unknown));
}

#[test]
fn pools_that_cannot_be_read_are_not_said_to_be_missing() {
    let lack = Lack::NoSuchPool { kind: PoolKind::VipPool, name: "lan".into() };
    let none = ServiceAccount {
        given: Vec::new(),
        status: Vec::new(),
        prospects: Vec::new(),
        lacks: vec![lack],
        ..account()
    };
    let unread = ServiceFacts { pools: Fact::failed("forbidden"), ..facts(Some(none)) };
    let explanation = explain_service(&unread, &[]);
    assert_eq!(explanation.steps[2].state, Unknown);
    assert_eq!(explanation.steps[2].found, "the pools cannot be read: forbidden");
}

#[test]
fn a_lease_that_cannot_be_read_is_not_taken_for_no_controller() {
    let none = ServiceAccount { given: Vec::new(), status: Vec::new(), ..account() };
    let unread = ServiceFacts { leader: Fact::failed("forbidden"), ..facts(Some(none)) };
    let explanation = explain_service(&unread, &[]);
    assert_eq!(explanation.steps[2].found, "no address is reserved for it yet");
    let remedy = explanation.remedy.expect("there is one");
    assert!(remedy.contains("its Lease cannot be read: forbidden"), "{remedy}");
}

#[test]
fn a_status_of_another_controller_goes_first_and_no_pool_is_looked_at() {
    let other = ServiceAccount {
        is_elsewhere: true,
        manager: Some("metallb".into()),
        since: Some(1_795_443_872),
        given: Vec::new(),
        ..account()
    };
    let explanation = explain_service(&facts(Some(other)), &[]);
    let links: Vec<_> = explanation.steps.iter().map(|step| step.subject).collect();
    assert_eq!(links, [link::SERVICE, link::REQUEST, link::STATUS]);
    let found = "metallb has written 192.0.2.10 (since 2026-11-23T14:24:32Z), which goes first";
    assert_eq!(explanation.steps[2].found, found);
    assert_eq!(explanation.steps[2].details, [CLEARING]);
    assert_eq!(explanation.broken, None);
}

const CLEARING: &str = "if metallb is gone, clear what it left: kubectl -n apps patch service web \
     --subresource=status --type=merge -p '{\"status\":{\"loadBalancer\":{\"ingress\":null}}}'";

#[test]
fn what_another_writer_has_left_is_the_broken_step_until_it_is_replaced() {
    let left = ServiceAccount {
        is_left: true,
        manager: Some("metallb".into()),
        status: vec![[192, 0, 2, 11].into()],
        ..account()
    };
    let explanation = explain_service(&facts(Some(left.clone())), &[]);
    assert_eq!(explanation.broken, Some(link::STATUS));
    let found = "it does not name 192.0.2.10 yet: metallb has written 192.0.2.11";
    assert_eq!(explanation.steps[3].found, found);
    assert_eq!(explanation.remedy.as_deref(), Some(CLEARING));
    let agrees = ServiceAccount { status: vec![VIP], ..left };
    assert_eq!(explain_service(&facts(Some(agrees)), &[]).broken, None);
}

#[test]
fn the_addresses_follow_each_once_and_a_broken_one_of_them_is_named() {
    let other: IpAddr = [192, 0, 2, 11].into();
    let asks = ServiceAccount {
        request: AddressRequest::Addresses(Place::Addresses, vec![VIP, other]),
        external: vec![other],
        ..account()
    };
    let facts = facts(Some(asks));
    assert_eq!(facts.addresses(), [VIP, other]);
    let unseen = |address| Facts {
        address,
        cluster: Fact::failed("refused"),
        config: Fact::skipped("no file"),
        pins: Fact::Read(None),
        native: BTreeMap::new(),
        without_contact: Fact::skipped("no agent"),
        waiting: Fact::skipped("no agent"),
        pin_dir: "/sys/fs/bpf/vipward".into(),
        agent: Fact::Read(Agent::Runs(None)),
        segment: Fact::skipped("not asked"),
        answerers: BTreeMap::new(),
        own: BTreeSet::new(),
    };
    let explanation = explain_service(&facts, &[unseen(VIP), unseen(other)]);
    assert_eq!(explanation.addresses.len(), 2);
    assert_eq!(explanation.broken, Some(link::CLUSTER));
    assert!(explanation.remedy.expect("there is one").starts_with("mend the way to it"));
}
