use std::time::Duration;

use vipward_common::MacAddr;

use super::*;
use crate::records::{NodeInterface, Session, Version};

fn wid(node: &str) -> Wid {
    Wid::from_number(u64::from(node.as_bytes()[0])).expect("not zero")
}

/// Returns the Lease of a node whose voters are `set`.
fn lease(node: &str, set: &str) -> LeaseRecord {
    let set: Vec<Wid> = set.split_terminator(' ').map(wid).collect();
    let interface = NodeInterface {
        name: "eth0".into(),
        altnames: Vec::new(),
        mac: MacAddr([2, 0, 0, 0, 0, node.as_bytes()[0]]),
        subnets: vec!["192.0.2.0/24".parse().expect("a subnet")],
        bound: Vec::new(),
        gateways: Vec::new(),
        carrier: true,
        last_for: Vec::new(),
        unreached: Vec::new(),
    };
    let offer = Offer {
        wid: wid(node),
        mode: if set.is_empty() { Mode::Off } else { Mode::Notice },
        round: 1,
        invited: set.clone(),
        need: if set.len() == 3 { 2 } else { 1 },
        set,
        keys: vec![KeyId(1)],
    };
    LeaseRecord {
        node: node.into(),
        version: Version::from("1"),
        session: Session::from_number(7),
        ended: Vec::new(),
        duration: Duration::from_secs(4),
        interfaces: vec![interface],
        leaving: false,
        wire: Some(offer),
        proxy: None,
    }
}

fn offer(lease: &mut LeaseRecord) -> &mut Offer {
    lease.wire.as_mut().expect("an offer")
}

#[test]
fn leases_say_how_a_dead_node_is_found() {
    type Change = fn(&mut Vec<LeaseRecord>);
    let rows: [(&str, &str, &str, bool, Change, &str); 12] = [
        ("three voters", "b c d", "", true, |_| {}, "2 of b, c, d"),
        ("two", "b c", "", true, |_| {}, "2 of b, c"),
        ("one", "b", "", true, |_| {}, "1 of b"),
        ("one of three is dead", "b c d", "c", true, |_| {}, "2 of b, c, d"),
        (
            "two of three are dead",
            "b c d",
            "c d",
            true,
            |_| {},
            "1 of its voters (b, c, d) live, and 2 must agree",
        ),
        (
            "one of two has no session",
            "b c",
            "",
            true,
            |all| all[2].session = None,
            "1 of its voters (b, c) live, and 2 must agree",
        ),
        (
            "a voter that no Lease names",
            "b z",
            "",
            true,
            |_| {},
            "1 of its voters (b, 000000000000007a) live, and 2 must agree",
        ),
        ("no offer", "", "", true, |all| all[0].wire = None, "it takes no part"),
        ("another key", "", "", true, |all| offer(&mut all[2]).keys = vec![KeyId(2)], "no key of it"),
        (
            "another segment",
            "",
            "",
            true,
            |all| all.iter_mut().skip(1).for_each(|other| other.interfaces.clear()),
            "no other node",
        ),
        ("no VIP", "", "", false, |_| {}, "it answers for no VIP"),
        ("off for a reason of its own", "", "", true, |_| {}, "too few of the nodes"),
    ];
    for (what, set, dead, holds, change, expected) in rows {
        let mut all = vec![lease("a", set), lease("b", "a"), lease("c", ""), lease("d", "")];
        change(&mut all);
        let is_dead = |lease: &LeaseRecord| dead.split(' ').any(|name| lease.node.as_str() == name);
        let seen: Vec<_> = all.iter().map(|lease| Seen { lease, lives: !is_dead(lease) }).collect();
        let found = match FoundBy::of(&all[0], holds, &seen) {
            FoundBy::Voters { names, quorum } => format!("{quorum} of {}", names.join(", ")),
            FoundBy::Lease(slow) => slow.to_string(),
        };
        assert!(found.starts_with(expected), "{what}: {found}");
    }
}

#[test]
fn a_dead_node_with_another_key_or_segment_does_not_matter() {
    let mut all = [lease("a", ""), lease("b", "")];
    offer(&mut all[1]).keys = vec![KeyId(2)];
    let seen = all.each_ref().map(|lease| Seen { lease, lives: lease.node.as_str() == "a" });
    assert_eq!(FoundBy::of(&all[0], true, &seen), FoundBy::Lease(Slow::Alone));
}
