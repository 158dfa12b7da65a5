//! VIPs that the program has yielded.

use vipward_common::Yield;

use super::*;
use crate::host::placement::DesiredEntry;

impl Host {
    /// Reconciles after the program has yielded a held VIP to a peer.
    pub(super) fn reconcile(&mut self, reclaim: bool) -> (BTreeSet<IpAddr>, Vec<String>) {
        let observed = Observed {
            entries: [(key(10), entry(Role::Held, HOLDER, 7))].into(),
            yields: [(0, Yield { mac: PEER.0, generation: 7 })].into(),
            ..Observed::default()
        };
        let entries = [(key(10), DesiredEntry::new(Role::Held, HOLDER))].into();
        let desired = Desired { entries, ..Desired::default() };
        let (asked, effects) = self.with(|segment, context| {
            segment.ask_about_yields((&desired, &observed), (true, reclaim), context)
        });
        (asked, words(&effects))
    }

    fn that_asks() -> Self {
        let mut host = Self::new();
        let (asked, words) = host.reconcile(false);
        assert_eq!((asked, words), ([key(10).addr].into(), vec!["note: asks about yield 10".to_owned()]));
        host
    }
}

#[test]
fn a_yielded_vip_is_asked_about_if_this_node_may_take_it_back() {
    let mut host = Host::new();
    host.site.source.may_take_back = false;
    assert_eq!(host.reconcile(false), (BTreeSet::new(), Vec::new()));
    let mut host = Host::that_asks();
    assert_eq!(host.reconcile(false).1, [""; 0], "once");
}

#[test]
fn a_yielded_vip_for_which_no_peer_answers_is_taken_back() {
    let mut host = Host::that_asks();
    let words = host.wait(3_500);
    let end: Vec<_> = words.iter().filter(|word| !word.starts_with("probe")).collect();
    assert_eq!(end, ["reconcile", "take back 10"]);
    assert!(host.segment.is_taken_back(key(10).addr));
    host.on(Input::Decided(key(10).addr));
    assert!(!host.segment.is_taken_back(key(10).addr), "a decision counts more");
}

#[test]
fn a_yielded_vip_that_another_node_may_have_by_the_end_of_the_question_stays_there() {
    let mut host = Host::that_asks();
    host.wait(1_000);
    host.site.source.may_take_back = false;
    let mut words = host.wait(3_000);
    words.retain(|word| !word.starts_with("probe"));
    assert_eq!((words, host.segment.is_taken_back(key(10).addr)), (vec!["reconcile".to_owned()], false));
}

#[test]
fn only_the_reply_of_a_peer_keeps_a_yielded_vip_there() {
    let reply = event(EventKind::Moved, PEER);
    let announcement = Event { oper: OPER_REQUEST, ..reply };
    let advertisement = Event { oper: TYPE_ADVERTISEMENT.into(), ..reply };
    let unknown = Event { holder: MacAddr::ZERO.0, ..reply };
    let forged = Event { source: unknown_host(66).0, ..unknown };
    let handed_over = Event { sha: unknown_host(5).0, source: PEER.0, ..unknown };
    let rows = [
        ("a reply", reply, true),
        ("an advertisement", advertisement, true),
        ("an announcement, which any host can send", announcement, false),
        ("a reply in the peer's name", forged, false),
        ("a peer's reply in the name of its successor", handed_over, true),
        ("an unknown host's answer", event(EventKind::Sighted, unknown_host(1)), false),
        ("a host that probes", event(EventKind::Probed, unknown_host(1)), false),
    ];
    for (what, answer, stays) in rows {
        let mut host = Host::that_asks();
        host.wait(150);
        let stops = host.receives(answer).contains(&"reconcile".to_owned());
        let taken_back = host.wait(4_000).contains(&"take back 10".to_owned());
        assert_eq!((stops, taken_back), (stays, !stays), "{what}");
    }
}

#[test]
fn an_answer_that_may_have_been_held_back_is_waited_for() {
    let taken_back_at = |swallowed| {
        let mut host = Host::that_asks();
        host.wait(1_500);
        host.receives(Event { oper: OPER_REQUEST, swallowed, ..event(EventKind::Moved, PEER) });
        while !host.wait(10).contains(&"take back 10".to_owned()) {}
        host.site.millis
    };
    let (sure, unsure) = (taken_back_at(0), taken_back_at(1));
    assert!(sure < 3_000 && unsure >= 3_500, "{sure} ms, {unsure} ms");
}

#[test]
fn a_decision_ends_the_question() {
    for reclaim in [false, true] {
        let mut host = Host::that_asks();
        let words = if reclaim { host.reconcile(true).1 } else { host.on(Input::Decided(key(10).addr)) };
        assert_eq!(words, ["reconcile"], "reclaim: {reclaim}");
        assert_eq!(host.wait(4_000), [""; 0]);
    }
}
