use vipward_common::{ArpFrame, ND_SOLICITED, NdFrame, OPER_REPLY};

use super::*;
use crate::{
    base::samples::{HOLDER, key, unknown_host},
    segment::frame::Frame,
};

mod telling;

const RATE: u32 = 5_000;

fn at(millis: u64) -> Monotonic {
    Monotonic::from_nanos(millis * 1_000_000)
}

fn first() -> MacAddr {
    unknown_host(1)
}

/// A machine, the claims that the program has counted, and the commands so far, with their times.
struct Run {
    confirming: Confirming,
    counts: BTreeMap<OffenderKey, Offender>,
    millis: u64,
    all: Vec<(u64, Command)>,
}

impl Run {
    fn start(policy: Proxied) -> Self {
        let confirming = Confirming::start(policy, RATE, at(0));
        Self { confirming, counts: BTreeMap::new(), millis: 0, all: Vec::new() }
    }

    /// Returns a machine that knows at 10 s that a MAC uses the address. That MAC has answered two probes,
    /// and no request between them.
    fn in_use(policy: Proxied) -> Self {
        let mut run = Self::start(policy);
        run.millis = 8_000;
        run.is_in_use(first(), true);
        run.until(10_000);
        assert_eq!(run.asked(), [9_000, 9_300, 9_600], "after late answers to probes");
        assert_eq!(
            run.times(|command| !matches!(command, Command::Ask { .. })),
            [0; 0],
            "the prober goes on"
        );
        run.all.clear();
        run.on(Event::Probed(key(10)));
        run.is_in_use(first(), true);
        run
    }

    /// Has a MAC answer a probe.
    fn is_in_use(&mut self, mac: MacAddr, is_counted: bool) {
        self.claims(mac, EventKind::Sighted);
        self.on(Event::InUse { key: key(10), mac, is_counted });
    }

    fn on(&mut self, event: Event<'_>) {
        for command in self.confirming.on_event(event, at(self.millis)) {
            self.all.push((self.millis, command));
            if command == Command::Count {
                let counts = self.counts.clone();
                self.on(Event::Counted(&counts));
            }
        }
    }

    /// Has the program count a claim, without an event.
    fn claims(&mut self, mac: MacAddr, kind: EventKind) {
        let at_ns = at(self.millis).as_nanos();
        let new = Offender {
            first_ns: at_ns,
            last_ns: at_ns,
            claims: 0,
            kind,
            oper: OPER_REPLY,
            source: mac.0,
            answered: 0,
            strays: 0,
            defended_ns: 0,
        };
        let count = self.counts.entry(OffenderKey { vip: key(10), mac }).or_insert(new);
        (count.last_ns, count.kind, count.claims) = (at_ns, kind, count.claims + 1);
    }

    fn received(&mut self, mac: MacAddr) {
        let at = at(self.millis);
        self.on(Event::Received { key: key(10), mac, oper: OPER_REPLY, at });
    }

    /// Has a router redirect a request.
    fn redirects(&mut self) {
        self.claims(first(), EventKind::Sighted);
        for count in self.counts.values_mut() {
            count.oper = TYPE_REDIRECT.into();
        }
        let at = at(self.millis);
        self.on(Event::Received { key: key(10), mac: first(), oper: TYPE_REDIRECT.into(), at });
    }

    /// Lets time pass, in steps of ten milliseconds.
    fn until(&mut self, millis: u64) {
        while self.millis < millis {
            self.millis += 10;
            if self.confirming.next_deadline().is_some_and(|due| due <= at(self.millis)) {
                self.on(Event::Tick);
            }
        }
    }

    fn times(&self, is_one: impl Fn(&Command) -> bool) -> Vec<u64> {
        self.all.iter().filter(|(_, command)| is_one(command)).map(|(millis, _)| *millis).collect()
    }

    fn asked(&self) -> Vec<u64> {
        self.times(|command| matches!(command, Command::Ask { .. }))
    }

    fn freed(&self) -> Vec<u64> {
        self.times(|command| matches!(command, Command::Free { .. }))
    }

    fn told_apart(&self) -> Vec<u64> {
        self.times(|command| matches!(command, Command::Tell { .. }))
    }

    fn found(&self) -> Vec<(Answerer, bool)> {
        let found = self.all.iter().filter_map(|(_, command)| match command {
            Command::Found { answerer, takes, .. } => Some((*answerer, *takes)),
            _ => None,
        });
        found.collect()
    }

    fn tell(&mut self, answerer: Answerer) {
        self.on(Event::Told { key: key(10), mac: first(), answerer });
    }
}

#[test]
fn a_mac_that_answers_no_unicast_request_is_a_proxy_and_the_policy_decides() {
    for (policy, freed) in [(Proxied::Take, vec![13_600]), (Proxied::Wait, vec![])] {
        let mut run = Run::in_use(policy);
        run.until(20_000);
        assert_eq!(run.asked(), [11_000, 11_300, 11_600], "{policy:?}");
        assert_eq!(run.freed(), freed, "{policy:?}");
        assert_eq!(run.found(), [(Answerer::Proxy, policy == Proxied::Take)], "{policy:?}");
        assert_eq!(run.confirming.answerer(&key(10), first()), Some(Answerer::Proxy), "{policy:?}");
        assert_eq!(run.confirming.answerer(&key(10), unknown_host(2)), None, "{policy:?}: another MAC");
        assert_eq!(run.confirming.next_deadline(), None, "{policy:?}");
    }
}

/// The case, and what happens at a time.
type Row = (&'static str, u64, fn(&mut Run));

#[test]
fn an_address_is_not_free_unless_requests_were_sent_and_nobody_answered() {
    let rows: [Row; 14] = [
        ("a router redirects the request", 11_010, Run::redirects),
        ("the first request is answered", 11_001, |run| run.received(first())),
        ("the last request is answered late", 13_500, |run| run.received(first())),
        ("the program's clock lags behind an answer", 11_000, |run| {
            let at = at(run.millis - 10);
            run.on(Event::Received { key: key(10), mac: first(), oper: OPER_REPLY, at });
        }),
        ("the answer is only counted", 13_500, |run| run.claims(first(), EventKind::Sighted)),
        ("the MAC probes: it is about to use the address", 11_100, |run| {
            run.claims(first(), EventKind::Probed);
        }),
        ("the MAC has probed before", 10_100, |run| run.claims(first(), EventKind::Probed)),
        ("its count is gone", 12_000, |run| run.counts.clear()),
        ("a request was not sent", 11_000, |run| run.on(Event::NotSent(key(10)))),
        ("a broadcast probe left, which the proxy answers", 12_000, |run| run.on(Event::Probed(key(10)))),
        ("nobody wants to know", 12_000, |run| run.on(Event::Forget(key(10)))),
        ("another MAC answered the probes, and answers requests", 10_050, |run| {
            run.claims(unknown_host(2), EventKind::Sighted);
            run.until(13_700);
            assert_eq!(run.asked().len(), 4, "the other is asked");
            run.claims(unknown_host(2), EventKind::Sighted);
        }),
        ("another MAC announces it while the first is asked", 12_000, |run| {
            run.claims(unknown_host(2), EventKind::Conflict);
            run.until(14_000);
            run.received(unknown_host(2));
        }),
        ("ever new MACs claim it", 10_000, |run| {
            for number in 2..10 {
                run.claims(unknown_host(number), EventKind::Sighted);
            }
        }),
    ];
    for (what, millis, happens) in rows {
        let mut run = Run::in_use(Proxied::Take);
        run.until(millis);
        happens(&mut run);
        run.until(60_000);
        assert_eq!(run.freed(), [0; 0], "{what}");
        assert!(!run.found().contains(&(Answerer::Proxy, true)), "{what}");
    }
}

#[test]
fn answers_to_the_probes_and_those_of_silent_macs_speak_for_no_host() {
    let rows: [Row; 4] = [
        ("a late answer to a probe", 10_900, |run| run.received(first())),
        ("it is counted", 10_900, |run| run.claims(first(), EventKind::Sighted)),
        ("another MAC claimed it long ago", 10_000, |run| {
            run.claims(unknown_host(2), EventKind::Sighted);
            for count in run.counts.values_mut().filter(|count| count.source == unknown_host(2).0) {
                count.last_ns = at(8_000).as_nanos();
            }
        }),
        ("another proxy answered too, for a second dead host", 10_050, |run| {
            run.claims(unknown_host(2), EventKind::Sighted);
        }),
    ];
    for (what, millis, happens) in rows {
        let mut run = Run::in_use(Proxied::Take);
        run.until(millis);
        happens(&mut run);
        run.until(30_000);
        assert_eq!(run.freed().len(), 1, "{what}");
    }
}

#[test]
fn a_peers_answer_is_seen_by_its_event_and_its_silence_without_a_count() {
    for answers in [false, true] {
        let mut run = Run::start(Proxied::Take);
        for _ in 0..2 {
            run.on(Event::InUse { key: key(10), mac: HOLDER, is_counted: false });
            run.until(run.millis + 2_000);
        }
        if answers {
            run.received(HOLDER);
        }
        run.until(10_000);
        assert_eq!(run.freed().is_empty(), answers);
    }
}

#[test]
fn a_host_that_has_gone_delays_no_probe_and_is_no_proxy() {
    let mut run = Run::start(Proxied::Take);
    run.is_in_use(first(), true);
    run.until(2_000);
    run.on(Event::Probed(key(10)));
    run.until(2_700);
    assert_eq!(run.confirming.doubt(key(10), at(2_700)), None, "no probe was answered");
    run.on(Event::Forget(key(10)));
    assert_eq!(run.all.len(), 3, "{:?}", run.all);
    run.is_in_use(first(), true);
    run.until(10_000);
    assert_eq!(run.freed(), [0; 0], "later silence counts anew");
}

#[test]
fn an_answer_between_two_probes_shows_a_host() {
    for mac in [first(), unknown_host(2)] {
        let mut run = Run::start(Proxied::Take);
        run.is_in_use(first(), true);
        run.until(1_700);
        run.received(mac);
        run.until(2_000);
        run.on(Event::Probed(key(10)));
        run.is_in_use(first(), true);
        run.until(10_000);
        assert_eq!(run.freed().is_empty(), mac == first(), "{mac}");
    }
}

#[test]
fn the_prober_rests_until_each_request_has_its_verdict() {
    let mut run = Run::in_use(Proxied::Take);
    run.until(20_000);
    let mut rests = Vec::new();
    for (millis, command) in &run.all {
        if let Command::Rest { until, .. } = command {
            rests.push((*millis, *until));
        }
    }
    let [(_, first), (second, _), (_, last)] = rests[..] else { panic!("{rests:?}") };
    assert!(at(second) < first, "the second request comes before the prober goes on");
    assert!(at(run.freed()[0]) < last, "so does the verdict");
}

#[test]
fn a_host_that_answers_is_told_from_a_router_once_and_asked_once_an_attempt() {
    for answerer in [Answerer::Host, Answerer::Router] {
        let mut run = Run::in_use(Proxied::Take);
        run.until(11_000);
        run.received(first());
        assert_eq!((run.asked(), run.told_apart()), (vec![11_000], vec![11_000]));
        run.until(12_500);
        run.tell(answerer);
        for attempt in 0..5 {
            run.until(14_000 + attempt * 10_000);
            run.is_in_use(first(), true);
            run.until(run.millis + 1_000);
            run.received(first());
        }
        assert_eq!(run.found(), [(answerer, false)], "it is reported once");
        assert_eq!((run.asked().len(), run.told_apart().len()), (6, 1));
        for freed in [0, 1] {
            run.until(run.millis + 10_000);
            run.is_in_use(first(), true);
            run.until(run.millis + 5_000);
            assert_eq!(run.freed().len(), freed, "the host dies, and a proxy goes on");
        }
    }
}

#[test]
fn nothing_is_known_of_a_host_that_answers_no_request_when_it_is_told_from_a_router() {
    let mut run = Run::in_use(Proxied::Take);
    run.until(11_000);
    run.received(first());
    run.tell(Answerer::Proxy);
    run.tell(Answerer::Router);
    assert_eq!(run.found(), [], "nor is a second answer taken");
}

#[test]
fn an_address_that_a_router_answers_for_is_free_only_if_it_answers_no_unicast_request() {
    for (answers, redirects) in [(false, false), (false, true), (true, false)] {
        let mut run = Run::in_use(Proxied::Take);
        assert_eq!(run.confirming.doubt(key(20), at(10_000)), None, "no router is known");
        run.until(11_000);
        run.received(first());
        run.tell(Answerer::Router);
        run.until(20_000);
        assert!(run.confirming.doubt(key(10), at(20_000)).is_some());
        run.until(20_100);
        if answers {
            run.received(first());
        } else if redirects {
            run.redirects();
        }
        run.until(30_000);
        assert_eq!(run.asked()[1], 20_010, "at once: no probe was answered");
        assert_eq!(run.freed(), if answers { vec![] } else { vec![22_610] });
        assert_eq!(run.confirming.doubt(key(10), at(30_000)).is_some(), answers);
    }
}

#[test]
fn an_address_is_not_free_before_its_host_is_told_from_a_router() {
    let mut run = Run::in_use(Proxied::Take);
    assert_eq!(run.confirming.doubt(key(20), at(10_000)), None);
    run.until(11_000);
    run.received(first());
    assert!(run.confirming.doubt(key(10), at(11_000)).is_some());
    assert_eq!(run.confirming.doubt(key(20), at(11_000)), None, "another address");
}

#[test]
fn a_finding_is_forgotten_if_it_is_not_confirmed() {
    let mut run = Run::in_use(Proxied::Wait);
    run.until(14_000);
    for (millis, known) in [(190_000, Some(Answerer::Proxy)), (200_000, None)] {
        run.millis = millis;
        run.on(Event::Tick);
        assert_eq!(run.confirming.answerer(&key(10), first()), known, "at {millis} ms");
    }
}

#[test]
fn a_proxy_is_forgotten_when_probes_have_no_answer() {
    let mut run = Run::in_use(Proxied::Take);
    run.until(14_000);
    assert_eq!(run.confirming.answerer(&key(10), first()), Some(Answerer::Proxy));
    run.on(Event::Free(key(10)));
    assert_eq!(run.confirming.answerer(&key(10), first()), None, "whoever answers now is a host");
}

#[test]
fn thousands_are_asked_at_the_pace_and_few_are_told_apart_at_a_time() {
    let mut run = Run::start(Proxied::Take);
    for number in 0..4_000 {
        run.on(Event::InUse { key: key(number), mac: first(), is_counted: false });
    }
    run.until(8_000);
    run.all.clear();
    for number in 0..4_000 {
        run.on(Event::InUse { key: key(number), mac: first(), is_counted: false });
    }
    run.until(10_000);
    let asked = run.asked().len();
    assert!((2_000..=2_600).contains(&asked), "{asked} in the second after the pause");
    for number in 0..1_000 {
        let at = at(run.millis);
        run.on(Event::Received { key: key(number), mac: first(), oper: OPER_REPLY, at });
    }
    assert_eq!(run.told_apart().len(), MOST_TELLING);
    run.until(30_000);
    let counts = run.times(|command| *command == Command::Count).len();
    assert!(counts <= 20_000 / 250, "{counts} readings");
    assert_eq!(run.freed().len(), 3_000);
}
