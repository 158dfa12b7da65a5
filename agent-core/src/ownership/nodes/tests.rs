use super::*;
use crate::ownership::{
    Expected, Found, Outcome,
    tests::records::{LEASE, MARGIN, RENEWAL, VIP, VIP_2, at, lease, mac, node, session, settings},
};

/// Returns what node `a` knows with a lease deadline that lies ahead from 0 on.
fn nodes() -> Nodes {
    let settings = settings("a");
    let first = session("a", 1);
    let mut own = Own::new(&settings, &Found { session: Some(first), ..Found::default() }, at(0));
    own.begin(None, RENEWAL, at(0));
    let mut nodes = Nodes::new(settings, own);
    renew(&mut nodes, at(0));
    nodes
}

fn renew(nodes: &mut Nodes, now: Monotonic) {
    nodes.own.renew(&nodes.settings, None, false, now);
    let renewal = nodes.own.end_renewal().expect("a renewal");
    let record = lease("a", nodes.own.session(), &[]);
    nodes.own.on_renewed(&nodes.settings, &renewal, record, now);
}

#[test]
fn a_lease_matters_to_vips_when_it_says_something_new_or_its_node_had_expired() {
    let mut nodes = nodes();
    let first = lease("b", Some(session("b", 1)), &[]);
    let renewed = LeaseRecord { version: "2".into(), ..first.clone() };
    let leaving = LeaseRecord { version: "3".into(), leaving: true, ..first.clone() };
    assert!(nodes.take_lease(first, at(0)));
    assert!(!nodes.take_lease(renewed, at(1_000)));
    assert!(nodes.take_lease(leaving.clone(), at(2_000)));
    for second in 1..=8 {
        renew(&mut nodes, at(second * 1_000));
    }
    assert!(nodes.is_expired(&"b".into(), at(8_000)));
    assert!(nodes.take_lease(LeaseRecord { version: "4".into(), ..leaving }, at(8_000)));
    assert!(nodes.is_alive(&"b".into(), at(8_000)));
}

#[test]
fn silence_counts_only_while_the_own_lease_deadline_is_valid() {
    let mut nodes = nodes();
    nodes.take_lease(lease("b", Some(session("b", 1)), &[]), at(0));
    assert_eq!(nodes.expires_at(&"b".into(), at(0)), Some(at(0) + LEASE + MARGIN));
    assert_eq!(nodes.expires_at(&"b".into(), at(5_000)), None, "the lease deadline has passed");
    renew(&mut nodes, at(6_000));
    assert_eq!(nodes.expires_at(&"b".into(), at(6_000)), Some(at(6_000) + LEASE + MARGIN));
}

#[test]
fn a_node_is_forgotten_with_the_last_that_is_known_of_it() {
    let mut nodes = nodes();
    let name = NodeName::from("b");
    let owner = vec![(name.clone(), session("b", 1))];
    nodes.take_lease(lease("b", Some(session("b", 1)), &[]), at(0));
    nodes.take_node(node("b"), at(0));
    nodes.index_claim(VIP, &[], owner.clone(), at(0));
    assert_eq!(nodes.peers(), BTreeSet::from([mac("b")]));
    assert!(nodes.lose_lease(&name, at(1)) && !nodes.lose_lease(&name, at(2)));
    assert!(nodes.lose_node(&name) && !nodes.lose_node(&name));
    assert!(nodes.member(&name).is_some(), "a claim names it");
    nodes.index_claim(VIP, &owner, Vec::new(), at(3));
    assert!(nodes.member(&name).is_none());
    assert!(nodes.peers().is_empty());
}

#[test]
fn the_index_knows_the_vips_of_each_session() {
    let mut nodes = nodes();
    let (b, c) = ((NodeName::from("b"), session("b", 1)), (NodeName::from("c"), session("c", 1)));
    nodes.index_claim(VIP, &[], vec![b.clone()], at(0));
    nodes.index_claim(VIP_2, &[], vec![b.clone(), c.clone()], at(5));
    nodes.index_claim(VIP, std::slice::from_ref(&b), vec![c.clone()], at(7));
    let of =
        |(name, session): &(NodeName, Session)| nodes.claimed_in(name, *session).collect::<Vec<IpAddr>>();
    assert_eq!((of(&b), of(&c)), (vec![VIP_2], vec![VIP, VIP_2]));
    assert_eq!(nodes.claimed_since(&c.0, c.1), Some(at(5)));
}

#[test]
fn a_dead_node_that_claims_name_is_expired_once_at_the_version_that_was_seen() {
    let mut nodes = nodes();
    let (name, dead) = (NodeName::from("b"), session("b", 1));
    nodes.take_lease(lease("b", Some(dead), &[]), at(0));
    for second in 1..=9 {
        renew(&mut nodes, at(second * 1_000));
        let writes = nodes.expire_dead_nodes(at(second * 1_000));
        assert!(writes.is_empty(), "no claim names it");
    }
    nodes.index_claim(VIP, &[], vec![(name.clone(), dead)], at(9_000));
    assert_eq!(nodes.next_expiring(at(9_000)), Some(at(0) + LEASE + MARGIN));
    let writes = nodes.expire_dead_nodes(at(9_000));
    let version = nodes.lease(&name).expect("a Lease").version.clone();
    assert_eq!(writes.len(), 1);
    assert_eq!((writes[0].session, writes[0].ended.as_slice()), (None, [dead].as_slice()));
    assert_eq!(writes[0].expected, Expected::At(version));
    assert!(nodes.expire_dead_nodes(at(9_000)).is_empty(), "the write is under way");

    assert_eq!(nodes.on_expired(&name, Outcome::Unknown, at(9_100)), Some(Expired::Read));
    nodes.end_expiring(&name);
    assert!(nodes.expire_dead_nodes(at(9_200)).is_empty(), "a pause");
    assert_eq!(nodes.expire_dead_nodes(at(9_400)).len(), 1);
    // The Lease has changed since: its node lives.
    assert_eq!(nodes.on_expired(&name, Outcome::Conflict, at(9_500)), Some(Expired::Read));
    assert!(nodes.is_alive(&name, at(9_500)));
}

#[test]
fn a_write_ends_eight_sessions_at_most_and_the_next_one_the_others() {
    type Lives = &'static [u8];
    let sessions = |lives: Lives| lives.iter().map(|life| session("b", *life)).collect::<Vec<_>>();
    let rows: [(&str, Lives, Lives, Option<u8>, Lives); 5] = [
        ("the session that the Lease carries", &[], &[1], Some(1), &[1]),
        ("as many as one write may end", &[], &[1, 2, 3, 4, 5, 6, 7], Some(8), &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("one more waits", &[], &[1, 2, 3, 4, 5, 6, 7, 8], Some(9), &[1, 2, 3, 4, 5, 6, 7, 9]),
        ("the next write", &[1, 2, 3, 4, 5, 6, 7, 9], &[7, 8], None, &[1, 2, 3, 4, 5, 6, 7, 9, 8]),
        ("those on the list count no more", &[1, 2], &[1, 2, 3], Some(4), &[1, 2, 3, 4]),
    ];
    for (what, ended, claimed, carried, expected) in rows {
        let mut nodes = nodes();
        let name = NodeName::from("b");
        let carried = carried.map(|life| session("b", life));
        nodes.take_lease(lease("b", carried, &sessions(ended)), at(0));
        let claimed = sessions(claimed).into_iter().map(|session| (name.clone(), session)).collect();
        nodes.index_claim(VIP, &[], claimed, at(0));
        let write = nodes.expire_all(&name).expect("a write");
        assert_eq!((write.session, write.ended), (None, sessions(expected)), "{what}");
    }
}
