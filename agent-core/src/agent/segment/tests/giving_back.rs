//! VIPs that a peer holds too.

use super::*;
use crate::segment::rivals::Age;

const OLD: Age = Age(1_000_000);

impl Host {
    fn is_stated(&mut self, from: MacAddr, age: Age) -> Vec<String> {
        self.on(Input::Stated { ifindex: ETH0, from, holds: &[(key(10).addr, age)] })
    }

    /// Returns a host that has held a VIP for some seconds, without a provisional time.
    fn that_held() -> Self {
        let mut host = Self::new();
        host.takes(key(10));
        host.wait(5_000);
        host.site.source.right = Right::NoClaims;
        host
    }
}

#[test]
fn a_vip_is_given_back_to_a_peer_that_has_held_it_for_longer() {
    type Row = (&'static str, fn(&mut Host), MacAddr, Age, bool);
    let rows: [Row; 6] = [
        ("a peer's hold is older", |_| {}, PEER, OLD, true),
        ("it is younger", |_| {}, PEER, Age(0), false),
        ("an unknown host states it", |_| {}, unknown_host(1), OLD, false),
        ("the VIP is forced", |host| host.site.source.is_forced = true, PEER, OLD, false),
        ("addresses are not probed", |host| host.configure(|it| it.probe.count = 0), PEER, OLD, false),
        ("the agent withdraws", |host| drop(host.on(Input::Withdrawn)), PEER, OLD, false),
    ];
    for (what, change, from, age, is_given_back) in rows {
        let mut host = Host::that_held();
        change(&mut host);
        assert_eq!(host.receives(event(EventKind::Contested, PEER)), ["began contested 10"], "{what}");
        let words = host.is_stated(from, age);
        let expected = [
            &format!("note: yields 10 to {PEER}"),
            "ended contested 10: this node is something else to the VIP now",
            "note: in use 10",
            "late 10",
            "give back 10",
        ];
        assert_eq!(words, if is_given_back { &expected[..] } else { &[] }, "{what}");
        assert_eq!(host.segment.is_probed(&key(10)), is_given_back, "{what}");
    }
}

#[test]
fn in_a_cluster_no_statement_moves_a_vip() {
    let mut host = Host::that_held();
    host.receives(event(EventKind::Contested, PEER));
    host.site.source.right = Right::Given;
    assert_eq!(host.is_stated(PEER, OLD), [""; 0]);
}

#[test]
fn a_forged_claim_does_not_confirm_a_statement() {
    let mut host = Host::that_held();
    host.receives(Event { source: unknown_host(1).0, ..event(EventKind::Contested, PEER) });
    assert_eq!(host.is_stated(PEER, OLD), ["probe held 10"]);
}

#[test]
fn a_vip_is_doubled_while_a_peers_answers_go_on() {
    let claim = || event(EventKind::Contested, PEER);
    let said = |words: Vec<String>| only(words, "doubled|no longer doubled|probe held");
    let is_doubled = |host: &Host| host.segment.doubled(&key(10)).is_some();
    let mut host = Host::that_held();
    assert_eq!(said(host.receives(claim())), [""; 0]);
    assert_eq!(said(host.wait(1_000)), ["probe held 10"]);
    assert!(!is_doubled(&host), "it may have been its last claim");
    assert_eq!(said(host.receives(claim())), ["doubled 10"]);
    assert_eq!(said(host.wait(6_990)), ["probe held 10"; 3]);
    assert!(is_doubled(&host));
    assert_eq!(said(host.wait(10)), ["no longer doubled 10"], "three requests had no answer");
    assert!(!is_doubled(&host));
    host.receives(claim());
    assert!(!is_doubled(&host), "it may be its last claim");

    let mut host = Host::that_held();
    for _ in 0..5 {
        host.receives(Event { source: unknown_host(1).0, ..claim() });
        host.wait(1_000);
    }
    assert!(!is_doubled(&host), "a host that claims in a peer's name is not the peer");
}

fn only(words: Vec<String>, which: &str) -> Vec<String> {
    words.into_iter().filter(|word| which.split('|').any(|begin| word.starts_with(begin))).collect()
}
