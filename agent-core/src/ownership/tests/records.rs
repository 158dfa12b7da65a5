//! Records for the tables: nodes of one letter, their writes, and the settings.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use vipward_common::{MacAddr, Policy};

use crate::{
    base::time::Monotonic,
    ownership::Settings,
    records::{
        Allowance, ClaimNote, ClaimRecord, ClaimState, Demand, Holder, LeaseRecord, NodeInterface,
        NodeRecord, PoolPolicy, Preference, Selector, ServiceName, Session,
    },
};

pub(in crate::ownership) const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
pub(in crate::ownership) const VIP_2: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 11));
pub(in crate::ownership) const VIP_3: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 12));

pub(in crate::ownership) const LEASE: Duration = Duration::from_secs(4);
pub(in crate::ownership) const RENEWAL: Duration = Duration::from_secs(1);
pub(in crate::ownership) const MARGIN: Duration = Duration::from_millis(500);
pub(in crate::ownership) const CLOCK_LATE: Duration = Duration::from_millis(4);
/// Time for which a claim rests, in which an owner repairs, and for which a MAC is new.
pub(in crate::ownership) const REST: Duration = Duration::from_millis(4_500);
pub(in crate::ownership) const STABLE_FOR: Duration = Duration::from_secs(30);
pub(in crate::ownership) const HANDOVER_PACE: Duration = Duration::from_secs(1);
pub(in crate::ownership) const HOLD_FOR: Duration = Duration::from_hours(1);
pub(in crate::ownership) const MOST_NEW: usize = 32;
pub(in crate::ownership) const RESTART_LEASE: Duration = Duration::from_mins(1);

/// Label of the nodes that come first for a VIP that `World::want` wants.
pub(in crate::ownership) const FIRST: &str = "first";

/// Returns a time of the parts' tests, which begin at 0.
pub(in crate::ownership) fn at(millis: u64) -> Monotonic {
    Monotonic::default() + ms(millis)
}

pub(in crate::ownership) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the duration less one millisecond.
pub(in crate::ownership) const fn just_before(duration: Duration) -> Duration {
    duration.saturating_sub(ms(1))
}

/// Returns a number for a node of one letter.
fn number(node: &str) -> u8 {
    node.as_bytes()[0]
}

pub(in crate::ownership) fn mac(node: &str) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number(node)])
}

/// Returns the session of a node's life. The first life is 1.
pub(in crate::ownership) fn session(node: &str, life: u8) -> Session {
    Session::from_number(u64::from(number(node)) << 8 | u64::from(life)).expect("a number that is not zero")
}

pub(in crate::ownership) fn holder(node: &str, life: u8) -> Holder {
    Holder { node: node.into(), session: session(node, life), mac: mac(node), interface: "eth0".into() }
}

/// Returns the state of a claim that a node holds in its first life.
pub(in crate::ownership) fn held(node: &str) -> ClaimState {
    ClaimState::Held(holder(node, 1))
}

/// Returns the state of an offer from one node to another, both in their first lives.
pub(in crate::ownership) fn offered(from: &str, to: &str) -> ClaimState {
    ClaimState::Offered { to: holder(to, 1), from: (from.into(), session(from, 1)) }
}

pub(in crate::ownership) fn interface(node: &str) -> NodeInterface {
    NodeInterface {
        name: "eth0".into(),
        altnames: Vec::new(),
        mac: mac(node),
        subnets: ["192.0.2.0/24", "2001:db8::/64"].map(|net| net.parse().expect("a subnet")).into(),
        bound: Vec::new(),
        gateways: Vec::new(),
        carrier: true,
        last_for: Vec::new(),
        unreached: Vec::new(),
    }
}

pub(in crate::ownership) fn lease(node: &str, session: Option<Session>, ended: &[Session]) -> LeaseRecord {
    LeaseRecord {
        node: node.into(),
        version: "0".into(),
        session,
        ended: ended.to_vec(),
        duration: LEASE,
        interfaces: vec![interface(node)],
        leaving: false,
        wire: None,
        proxy: None,
    }
}

pub(in crate::ownership) fn node(name: &str) -> NodeRecord {
    NodeRecord {
        name: name.into(),
        labels: BTreeMap::new(),
        cordoned: false,
        ready: true,
        network_unavailable: false,
        out_of_service: false,
    }
}

/// Returns a Node with these labels, which have no values.
pub(in crate::ownership) fn labelled(name: &str, labels: &[&str]) -> NodeRecord {
    let labels = labels.iter().map(|label| ((*label).to_owned(), String::new())).collect();
    NodeRecord { labels, ..node(name) }
}

/// Returns the policy of a pool. An empty selector is left out.
pub(in crate::ownership) fn policy(
    nodes: &[&str],
    interfaces: &[&str],
    preferred: Option<&str>,
) -> Arc<PoolPolicy> {
    let nodes = nodes.iter().filter(|text| !text.is_empty()).map(|text| selector(text)).collect();
    let interfaces = interfaces.iter().map(|text| text.parse().expect("a pattern")).collect();
    let preferred = preferred.map(|text| Preference { weight: 1, nodes: selector(text) });
    let preferred = preferred.into_iter().collect();
    let allowance = Allowance { nodes, interfaces, preferred, services: Vec::new() };
    Arc::new(PoolPolicy { pool: "lan".into(), advertisements: [].into(), allowances: vec![allowance] })
}

pub(in crate::ownership) fn selector(text: &str) -> Selector {
    text.parse().expect("a selector")
}

pub(in crate::ownership) fn demand() -> Demand {
    let service = ServiceName { namespace: "default".into(), name: "web".into() };
    Demand { services: vec![service], preferred: Some(selector(FIRST)), ..Demand::default() }
}

pub(in crate::ownership) fn settings(node: &str) -> Settings {
    Settings {
        node: node.into(),
        lease: LEASE,
        renewal: RENEWAL,
        margin: MARGIN,
        policy: Policy::Hold,
        hold_for: HOLD_FOR,
        restart_lease: RESTART_LEASE,
        stable_for: STABLE_FOR,
        handover_pace: HANDOVER_PACE,
        honour_exclude_label: true,
        clock_late: CLOCK_LATE,
        most_new: MOST_NEW,
        probing: None,
        wire: None,
        seed: 1,
    }
}

pub(in crate::ownership) fn claim_record(vip: IpAddr) -> ClaimRecord {
    ClaimRecord {
        note: ClaimNote { services: demand().services, cause: "a test".to_owned(), trouble: None },
        ..ClaimRecord::blank(vip, "0".into())
    }
}

/// Returns a node's usual interface, with the changes by `change`.
pub(in crate::ownership) fn changed_interface(
    node: &str,
    change: impl FnOnce(&mut NodeInterface),
) -> Vec<NodeInterface> {
    let mut changed = interface(node);
    change(&mut changed);
    vec![changed]
}

pub(in crate::ownership) fn named(name: &str) -> Arc<str> {
    name.into()
}
