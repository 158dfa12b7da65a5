//! Wanted addresses that a proxy, a router or a host answers for.

use super::*;
use crate::{
    host::stale::{Failure, Left},
    segment::{confirming::Answerer, probing::Proxied},
};

impl Host {
    /// Returns a host that has found a wanted address in use twice.
    fn that_found(mac: MacAddr) -> Self {
        let mut host = Self::new();
        host.wait(50);
        host.wants();
        for _ in 0..2 {
            while !host.wait(10).contains(&"probe 10".to_owned()) {}
            host.is_answered(mac);
        }
        host
    }

    fn wants(&mut self) {
        self.on(Input::Wanted { key: key(10), manner: Manner::OFTEN });
    }

    fn claim(&self, mac: MacAddr) -> Event {
        let kind = if mac == PEER { EventKind::Moved } else { EventKind::Sighted };
        Event { at_ns: self.site.now().as_nanos(), holder: [0; 6], ..event(kind, mac) }
    }

    fn is_answered(&mut self, mac: MacAddr) -> Vec<String> {
        let claim = self.claim(mac);
        self.receives(claim)
    }

    /// Has the program count the answers to probes.
    fn counts(&mut self) -> Vec<String> {
        let count = Offender {
            first_ns: at(150).as_nanos(),
            last_ns: at(2_150).as_nanos(),
            claims: 2,
            kind: EventKind::Sighted,
            oper: OPER_REQUEST,
            source: [0; 6],
            answered: 0,
            strays: 0,
            defended_ns: 0,
        };
        let counted = [(OffenderKey { vip: key(10), mac: unknown_host(1) }, count)];
        self.on(Input::Counted(counted.into()))
    }

    /// Lets time pass until the machine wants to judge by the program's counts.
    fn waits_for_verdict(&mut self) -> Vec<String> {
        let words = self.wait(2_500);
        let asked = words.iter().filter(|word| *word == "ask host 10").count();
        assert_eq!(asked, 3, "{words:?}");
        self.wait(1_150)
    }
}

#[test]
fn an_address_that_only_a_proxy_answers_for_is_free_by_the_policy() {
    for policy in [Proxied::Take, Proxied::Wait] {
        let mut host = Host::that_found(unknown_host(1));
        host.configure(|settings| settings.probe.proxied = policy);
        let words = host.waits_for_verdict();
        assert_eq!(words.last().map(String::as_str), Some("count"), "and no broadcast probe: {words:?}");
        let verdict: &[&str] = match policy {
            Proxied::Take => &[
                "note: proxy at 10, takes",
                "ended in_use 10: only a proxy answers, for a host that does not answer itself",
                "free 10",
            ],
            Proxied::Wait => &["note: proxy at 10", "named in_use 10"],
        };
        assert_eq!(host.counts(), verdict);
        assert!(host.segment.is_proxy(&key(10), unknown_host(1)));
        assert!(!host.segment.is_proxy(&key(10), unknown_host(2)));
        assert_eq!(host.wait(3_000).contains(&"probe 10".to_owned()), policy == Proxied::Wait);
    }
}

#[test]
fn a_host_that_answers_by_unicast_keeps_its_address_and_is_told_from_a_router() {
    for answerer in [Answerer::Host, Answerer::Router] {
        let mut host = Host::that_found(unknown_host(1));
        host.wait(1_010);
        assert_eq!(host.is_answered(unknown_host(1)), ["tell apart 10"]);
        let told = host.on(Input::Told { key: key(10), mac: unknown_host(1), answerer });
        assert_eq!(told, [format!("note: {} at 10", answerer.name()), "named in_use 10".to_owned()]);
        let words = host.wait(4_000);
        let free = words.iter().filter(|word| *word == "free 10").count();
        let rest: Vec<_> = words.iter().filter(|word| word.starts_with("ask host")).collect();
        match answerer {
            Answerer::Host => assert_eq!((free, rest.len()), (1, 0), "it leaves, and no probe is answered"),
            Answerer::Router | Answerer::Proxy => {
                assert_eq!((free, rest.len()), (0, 3), "it is asked once more");
            }
        }
    }
}

#[test]
fn a_router_that_answers_requests_and_no_probe_keeps_the_address() {
    let mut host = Host::that_found(unknown_host(1));
    host.wait(1_010);
    host.is_answered(unknown_host(1));
    host.on(Input::Told { key: key(10), mac: unknown_host(1), answerer: Answerer::Router });
    for _ in 0..3_000 {
        let words = host.wait(10);
        assert!(!words.contains(&"free 10".to_owned()), "{words:?}");
        if words.contains(&"ask host 10".to_owned()) {
            host.is_answered(unknown_host(1));
        }
    }
    assert_eq!(host.segment.conflicts().count(), 1, "the conflict goes on");
}

#[test]
fn a_peer_is_asked_by_the_agent_of_a_file_alone_and_not_about_a_yielded_vip() {
    for is_file in [false, true] {
        let mut host = Host::new();
        if is_file {
            let mut desired = Desired {
                entries: [(key(10), crate::host::placement::DesiredEntry::new(Role::Held, HOLDER))].into(),
                ..Desired::default()
            };
            host.with(|segment, context| segment.hold_back(&mut desired, &Observed::default(), context));
            host.on(Input::Written);
        } else {
            host.wants();
        }
        host.wait(100);
        assert!(host.is_answered(PEER).contains(&"in use 10 by a peer".to_owned()));
        let asked = host.wait(1_500).iter().filter(|word| *word == "ask host 10").count();
        assert_eq!(asked, if is_file { 2 } else { 0 }, "the claims of a cluster show who may answer");
    }
}

#[test]
fn an_address_with_a_proxy_stays_in_use_while_its_entry_could_not_be_written() {
    let mut host = Host::that_found(unknown_host(1));
    host.waits_for_verdict();
    let failure = Failure { left: Left::Silent, interface: None, error: "no room".to_owned() };
    host.site.stale.on_tried(|_| true, |_| true, [(key(10).addr, failure)].into());
    assert!(!host.counts().contains(&"free 10".to_owned()));
}

#[test]
fn a_host_that_a_proxy_spoke_for_gets_its_address_back_once_the_proxy_is_silent() {
    let mut host = Host::that_found(unknown_host(1));
    host.waits_for_verdict();
    assert!(host.counts().contains(&"free 10".to_owned()), "only a proxy answers");
    host.takes(key(10));
    host.wait(5_000);
    host.on(Input::Unwanted(key(10).addr));
    host.wants();
    assert!(host.wait(1_500).contains(&"free 10".to_owned()), "nobody answers");
    host.takes(key(10));
    host.wait(100);
    let at_ns = host.site.now().as_nanos();
    let words = host.receives(Event { at_ns, ..event(EventKind::Conflict, unknown_host(1)) });
    assert!(words.contains(&"give back 10".to_owned()), "{words:?}");
}

#[test]
fn a_request_that_could_not_be_sent_shows_nothing() {
    let mut host = Host::that_found(unknown_host(1));
    host.wait(1_010);
    host.on(Input::NotSent(key(10)));
    let words = host.wait(3_000);
    assert!(!words.contains(&"ask host 10".to_owned()), "{words:?}");
}

#[test]
fn a_proxy_that_answers_again_does_not_end_a_hold_and_another_host_does() {
    for (mac, gives_back) in [(unknown_host(1), false), (unknown_host(2), true)] {
        let mut host = Host::that_found(unknown_host(1));
        host.waits_for_verdict();
        assert!(host.counts().contains(&"free 10".to_owned()));
        host.takes(key(10));
        host.wait(100);
        let at_ns = host.site.now().as_nanos();
        let words = host.receives(Event { at_ns, ..event(EventKind::Conflict, mac) });
        assert_eq!(words.contains(&"give back 10".to_owned()), gives_back, "{mac}: {words:?}");
    }
}
