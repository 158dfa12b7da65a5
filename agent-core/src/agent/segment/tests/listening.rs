//! The program's events, and the results of probes.

use super::*;
use crate::host::stale::{Failure, Left};

/// This node's part in the VIP when the event comes.
#[derive(Clone, Copy, Debug)]
enum State {
    Holds,
    Guards,
    Probes,
    /// An attempt was put off, since a host probes for the address too.
    PutOff,
}

fn host(state: State) -> Host {
    let mut host = Host::new();
    match state {
        State::Holds => {
            host.takes(key(10));
            host.wait(10);
        }
        State::Guards => {}
        State::Probes | State::PutOff => {
            host.on(Input::Wanted { key: key(10), manner: Manner::OFTEN });
            host.wait(110);
        }
    }
    if matches!(state, State::PutOff) {
        assert_eq!(host.receives(event(EventKind::Probed, unknown_host(1))), [""; 0]);
        while !host.segment.prober.is_probing(&key(10)) {
            host.wait(10);
        }
    }
    host
}

#[test]
fn an_event_of_the_program_has_the_effects_that_the_state_asks_for() {
    use EventKind::{Conflict, Contested, Moved, Probed, Sighted, Yielded};

    let defended: &[&str] = &["announce 10 Defence", "began held 10"];
    let used: &[&str] = &["began in_use 10", "note: in use 10", "in use 10"];
    let by_peer: &[&str] = &["began moved 10", "note: in use 10", "in use 10 by a peer"];
    let guarded = Event { holder: PEER.0, ..event(Conflict, unknown_host(1)) };
    let sent_back = event(Sighted, Interface::sample(ETH1, "eth1").mac);
    let rows: [(&str, State, Event, &[&str]); 13] = [
        ("a claim on a held VIP", State::Holds, event(Conflict, unknown_host(1)), defended),
        ("a claim on a guarded VIP", State::Guards, guarded, &["began guarded 10"]),
        ("a peer's claim on a held VIP", State::Holds, event(Contested, PEER), &["began contested 10"]),
        ("a peer announces another VIP", State::Guards, event(Moved, PEER), &["began moved 10"]),
        ("the program gave way", State::Holds, event(Yielded, PEER), &["began yielded 10"]),
        (
            "a claim on a VIP without a holder",
            State::Guards,
            event(Sighted, unknown_host(1)),
            &["began sighted 10"],
        ),
        ("an answer to a probe", State::Probes, event(Sighted, unknown_host(1)), used),
        ("a peer's answer to a probe", State::Probes, event(Moved, PEER), by_peer),
        ("a host that probes what this one holds", State::Holds, event(Probed, unknown_host(1)), &[]),
        ("a host that probes too, once", State::Probes, event(Probed, unknown_host(1)), &[]),
        ("a host that probes too, again", State::PutOff, event(Probed, unknown_host(1)), used),
        ("this host's own frame", State::Holds, event(Conflict, HOLDER), &[]),
        ("its own frame, sent back to another interface", State::Probes, sent_back, &[]),
    ];
    for (what, state, event, expected) in rows {
        assert_eq!(host(state).receives(event), *expected, "{what}");
    }
}

#[test]
fn a_zero_mac_is_no_hosts_own() {
    let mut host = Host::new();
    let lo = Interface { mac: MacAddr::ZERO, ..Interface::sample(1, "lo") };
    host.site.view.interfaces.insert(1, lo);
    assert_eq!(host.receives(event(EventKind::Sighted, MacAddr::ZERO)), ["began sighted 10"]);
}

#[test]
fn a_free_address_ends_its_conflict_before_the_source_takes_it() {
    let mut host = host(State::Probes);
    host.receives(event(EventKind::Sighted, unknown_host(1)));
    let words = host.wait(15_000);
    let is_sent = |word: &&String| ["probe ", "ask host ", "count"].iter().any(|sent| word.starts_with(sent));
    let end: Vec<_> = words.iter().filter(|word| !is_sent(word)).collect();
    assert_eq!(end, ["ended in_use 10: the address is free", "free 10"]);
    assert_eq!(host.wait(5_000), [""; 0], "it is probed no longer");
}

#[test]
fn a_vip_whose_entry_could_not_be_written_is_not_found_free_by_any_probe_from_that_time() {
    let mut host = Host::new();
    let failure = Failure { left: Left::Silent, interface: None, error: String::new() };
    host.site.stale.on_tried(|_| true, |_| true, [(key(10).addr, failure)].into());
    host.on(Input::Wanted { key: key(10), manner: Manner::OFTEN });
    assert_eq!(host.wait(5_000), [""; 0], "no answer would be reported");
    host.site.stale.on_tried(|_| true, |_| true, BTreeMap::new());
    assert_eq!(host.wait(3_000), ["probe 10", "probe 10", "probe 10", "free 10"]);
}

#[test]
fn probes_from_before_an_entry_could_not_be_written_count_no_more() {
    let mut host = Host::new();
    host.on(Input::Wanted { key: key(10), manner: Manner::OFTEN });
    assert_eq!(host.wait(250), ["probe 10", "probe 10"]);
    let failure = Failure { left: Left::Silent, interface: None, error: String::new() };
    host.site.stale.on_tried(|_| true, |_| true, [(key(10).addr, failure)].into());
    assert_eq!(host.wait(5_000), [""; 0]);
    host.site.stale.on_tried(|_| true, |_| true, BTreeMap::new());
    assert_eq!(host.wait(3_000), ["probe 10", "probe 10", "probe 10", "free 10"]);
}

#[test]
fn an_unwanted_probe_ends_with_the_conflict_that_it_found() {
    let mut host = host(State::Probes);
    host.receives(event(EventKind::Sighted, unknown_host(1)));
    let ended = "ended in_use 10: this node does not watch for it any more";
    assert_eq!(host.on(Input::Unwanted(key(10).addr)), [ended]);
    assert_eq!(host.on(Input::Unwanted(key(10).addr)), [""; 0], "once");
    assert!(!host.wait(20_000).iter().any(|word| word.starts_with("probe")));
}

#[test]
fn the_counts_of_peers_and_of_hosts_that_only_probe_do_not_count() {
    let mut host = host(State::Holds);
    host.receives(event(EventKind::Conflict, unknown_host(1)));
    let count = |kind, mac| {
        let count = Offender {
            first_ns: 0,
            last_ns: 0,
            claims: 5,
            kind,
            oper: OPER_REPLY,
            source: mac,
            answered: 0,
            strays: 0,
            defended_ns: 0,
        };
        (OffenderKey { vip: key(10), mac: MacAddr(mac) }, count)
    };
    let counts = BTreeMap::from([
        count(EventKind::Probed, unknown_host(2).0),
        count(EventKind::Contested, PEER.0),
        count(EventKind::Sighted, PEER.0),
        count(EventKind::Conflict, unknown_host(3).0),
    ]);
    host.on(Input::Counted(counts));
    let conflict = host.segment.conflict_about(&key(10)).expect("it is open");
    let macs: Vec<_> = conflict.offenders.iter().map(|offender| offender.mac).collect();
    assert_eq!(macs, [unknown_host(1), unknown_host(3)]);
}

#[test]
fn a_mac_that_turns_out_to_be_a_peers_ends_its_conflict() {
    let mut host = host(State::Holds);
    host.receives(event(EventKind::Conflict, PEER));
    let ended = host.on(Input::Peer { ifindex: ETH0, mac: PEER });
    assert_eq!(ended, ["ended held 10: the offender is a peer"]);

    let mut host = self::host(State::Probes);
    host.receives(event(EventKind::Sighted, PEER));
    let ended = host.on(Input::Peer { ifindex: ETH0, mac: PEER });
    assert_eq!(ended, ["ended in_use 10: the offender is a peer"]);
    assert!(host.wait(1_000).contains(&"free 10".to_owned()), "it is probed anew at once");
}

#[test]
fn the_probes_of_a_wanted_address_begin_anew_with_the_carrier() {
    let mut host = host(State::Probes);
    host.wait(300);
    assert_eq!((host.has_carrier(false), host.has_carrier(true)), (vec![], vec![]));
    assert_eq!(host.wait(1_000), ["probe 10", "probe 10", "probe 10", "free 10"]);
}

#[test]
fn an_ipv6_address_is_received_in_its_group_from_its_first_probe_to_its_last() {
    let mut host = Host::new();
    assert_eq!(host.on(Input::Wanted { key: v6(), manner: Manner::OFTEN }), ["groups 16"]);
    assert_eq!(host.on(Input::Unwanted(v6().addr)), ["groups 16"]);
}

#[test]
fn the_end_of_an_entry_ends_the_conflict_about_it() {
    let mut host = host(State::Holds);
    host.receives(event(EventKind::Conflict, unknown_host(1)));
    let from = entry(Role::Held, HOLDER, 1);
    let ended = host.on(Input::Entry { key: key(10), from: Some(&from), to: None });
    assert_eq!(ended, ["ended held 10: this node does not watch for it any more"]);
}

#[test]
fn a_probe_that_could_not_be_sent_is_sent_again() {
    let probes = |failures: usize| {
        let mut host = Host::new();
        host.on(Input::Wanted { key: key(10), manner: Manner::OFTEN });
        let mut probes = 0;
        loop {
            for word in host.wait(10) {
                match word.as_str() {
                    "probe 10" => {
                        probes += 1;
                        if probes <= failures {
                            host.on(Input::NotSent(key(10)));
                        }
                    }
                    "free 10" => return probes,
                    other => panic!("{other}"),
                }
            }
        }
    };
    assert_eq!((probes(0), probes(2)), (3, 5));
}
