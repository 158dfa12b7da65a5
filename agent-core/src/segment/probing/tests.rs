//! The rules of RFC 5227, by their sections, and the rules beyond them.

use proptest::prelude::*;

use super::*;
use crate::base::samples::{at, key, millis};

const UNKNOWN_HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xee]);
const FAST: Settings = Settings {
    count: 3,
    timing: Timing::Every(Duration::from_millis(200)),
    repeat: Some(Duration::from_mins(1)),
    rate: 5_000,
    proxied: Proxied::Take,
};
const RFC: Settings = Settings { timing: Timing::Rfc5227, ..FAST };

/// A prober, and an event loop that meets its deadlines to the nanosecond.
struct Run {
    prober: Prober,
    now: Monotonic,
    done: Vec<(Monotonic, Command)>,
}

impl Run {
    fn start(settings: &Settings, seed: u64) -> Self {
        Self { prober: Prober::start(settings, seed, at(0)), now: at(0), done: Vec::new() }
    }

    fn notify(&mut self, event: Event) -> &mut Self {
        let commands = self.prober.on_event(event, self.now);
        self.done.extend(commands.into_iter().map(|command| (self.now, command)));
        self
    }

    fn until(&mut self, end: Monotonic) -> &mut Self {
        while let Some(deadline) = self.prober.next_deadline().filter(|deadline| *deadline <= end) {
            assert!(deadline >= self.now, "a deadline in the past");
            self.now = deadline;
            self.notify(Event::Tick);
        }
        self.now = end;
        self
    }

    fn after(&mut self, duration: Duration) -> &mut Self {
        self.until(self.now + duration)
    }

    /// Goes on until `end`. A host answers the probes for which `is_in_use` returns true.
    fn answered_until(&mut self, end: Monotonic, is_in_use: impl Fn(VipKey, Monotonic) -> bool) {
        while self.now < end {
            let from = self.done.len();
            self.until(self.prober.next_deadline().map_or(end, |next| next.min(end)));
            let done = self.done.split_off(from);
            self.done.extend(done.iter().cloned());
            for (now, command) in done {
                match command {
                    Command::Send(key) if is_in_use(key, now) => {
                        self.notify(Event::Received { key, mac: UNKNOWN_HOST, by_peer: false });
                    }
                    Command::Send(_) | Command::Free(_) | Command::Unheard { .. } | Command::InUse { .. } => {
                    }
                }
            }
        }
    }

    fn probes(&self) -> Vec<Monotonic> {
        let is_probe = |(_, command): &&(Monotonic, Command)| matches!(command, Command::Send(_));
        self.done.iter().filter(is_probe).map(|(time, _)| *time).collect()
    }

    fn free(&self) -> Option<Monotonic> {
        self.done.iter().find(|(_, command)| matches!(command, Command::Free(_))).map(|(time, _)| *time)
    }

    fn in_use(&self) -> Vec<(Monotonic, u32)> {
        let conflict = |(time, command): &(Monotonic, Command)| match command {
            Command::InUse { conflicts, .. } => Some((*time, *conflicts)),
            Command::Send(_) | Command::Free(_) | Command::Unheard { .. } => None,
        };
        self.done.iter().filter_map(conflict).collect()
    }
}

fn wanted(key: VipKey) -> Event {
    Event::Wanted { key, manner: Manner::OFTEN }
}

fn received(host: u16) -> Event {
    Event::Received { key: key(host), mac: UNKNOWN_HOST, by_peer: false }
}

#[test]
fn a_free_address_is_known_to_be_free_after_three_probes_within_seven_hundred_milliseconds() {
    for seed in 0..500 {
        let mut run = Run::start(&FAST, seed);
        run.notify(wanted(key(1))).until(at(5_000));
        let probes = run.probes();
        assert_eq!(probes.len(), 3);
        assert!(millis(probes[0]) < 100, "the first wait is half an interval at most");
        for pair in probes.windows(2) {
            assert_eq!(pair[1].saturating_since(pair[0]), Duration::from_millis(200));
        }
        let free = run.free().expect("no host was received");
        assert_eq!(free.saturating_since(probes[2]), Duration::from_millis(200));
        assert!(free <= at(700), "{free:?}");
        assert_eq!(run.prober.next_deadline(), None, "nothing is left to do");
    }
}

#[test]
fn rfc_5227_2_1_1_probes_wait_up_to_a_second_and_are_one_to_two_seconds_apart() {
    let (mut first, mut between) = (Vec::new(), Vec::new());
    for seed in 0..500 {
        let mut run = Run::start(&RFC, seed);
        run.notify(wanted(key(1))).until(at(60_000));
        let probes = run.probes();
        assert_eq!(probes.len(), 3, "PROBE_NUM");
        first.push(millis(probes[0]));
        between.extend(probes.windows(2).map(|pair| millis(pair[1]) - millis(pair[0])));
        let free = run.free().expect("no host was received");
        assert_eq!(free.saturating_since(probes[2]), Duration::from_secs(2), "ANNOUNCE_WAIT");
    }
    assert!(first.iter().all(|wait| *wait <= 1_000), "PROBE_WAIT");
    assert!(between.iter().all(|pause| (1_000..=2_000).contains(pause)), "PROBE_MIN, PROBE_MAX");
    let spread = |times: &[u64]| times.iter().max().zip(times.iter().min()).map(|(most, least)| most - least);
    assert!(spread(&first) > Some(800) && spread(&between) > Some(800), "chosen uniformly at random");
}

#[test]
fn rfc_5227_2_1_1_a_host_received_from_the_first_wait_to_the_last_means_that_the_address_is_in_use() {
    // A host's frame arrives at this time. The number of probes differs, and so does the wait after
    // the last.
    for (what, millis) in [("before the first probe", 0), ("after one", 150), ("after all", 590)] {
        let mut run = Run::start(&FAST, 7);
        run.notify(wanted(key(1))).until(at(millis)).notify(received(1)).after(Duration::from_millis(1_900));
        assert_eq!(run.in_use(), [(at(millis), 1)], "{what}");
        assert_eq!(run.free(), None, "{what}");
    }
    let mut run = Run::start(&FAST, 7);
    run.notify(wanted(key(1))).notify(received(2)).until(at(5_000));
    assert!(run.in_use().is_empty() && run.free().is_some(), "another address is nothing to this one");
    run.notify(received(1));
    assert!(run.in_use().is_empty(), "what is received later is no matter of probing");
}

#[test]
fn rfc_5227_2_1_1_an_address_is_probed_for_during_an_attempt_and_not_between_two() {
    let mut run = Run::start(&FAST, 7);
    assert!(!run.prober.is_probing(&key(1)), "before");
    run.notify(wanted(key(1)));
    assert!(run.prober.is_probing(&key(1)), "from the first wait on");
    run.until(at(150)).notify(received(1));
    assert!(!run.prober.is_probing(&key(1)) && run.prober.asks_about(&key(1)), "it rests");
    run.after(RETRY + Duration::from_millis(1));
    assert!(run.prober.is_probing(&key(1)), "again");
}

#[test]
fn a_host_that_probes_too_puts_off_one_attempt_and_is_a_rival_in_the_next() {
    for millis in [0, 150, 590] {
        let mut run = Run::start(&FAST, 7);
        run.notify(wanted(key(1))).until(at(millis));
        let now = run.now;
        assert!(run.prober.put_off(&key(1), UNKNOWN_HOST, now), "at {millis} ms");
        assert!(!run.prober.is_probing(&key(1)), "its further probes are no matter");
        assert_eq!(run.prober.undecided(), 1, "there is no result");
        run.done.clear();
        run.after(RETRY + Duration::from_millis(1));
        assert_eq!(run.probes(), [], "at {millis} ms");
        let now = run.now;
        assert!(!run.prober.put_off(&key(1), UNKNOWN_HOST, now), "at {millis} ms");
        run.after(Duration::from_millis(700));
        assert_eq!((run.probes().len(), run.in_use()), (3, vec![]), "at {millis} ms");
        assert!(run.free().is_some(), "at {millis} ms");
    }
    let mut run = Run::start(&FAST, 7);
    assert!(!run.prober.put_off(&key(1), UNKNOWN_HOST, at(0)), "it is not asked about");
    run.notify(wanted(key(1)));
    assert!(run.prober.put_off(&key(1), UNKNOWN_HOST, at(0)));
    run.after(Duration::from_millis(500)).notify(Event::Recognised { ifindex: 3, mac: UNKNOWN_HOST });
    run.after(Duration::from_millis(700));
    assert!(run.free().is_some(), "the other host is a peer: the attempt begins again at once");
}

#[test]
fn an_address_in_use_is_probed_every_two_seconds_for_two_minutes_and_then_every_ten() {
    // The ranges are the pauses between two probes, in milliseconds: `first` in the first two
    // minutes, `later` after that.
    for (often, first, later) in
        [(true, 2_000..2_200, 10_000..10_200), (false, 60_000..60_200, 60_000..60_200)]
    {
        let mut run = Run::start(&FAST, 7);
        run.notify(Event::Wanted { key: key(1), manner: Manner { often, patient: false } })
            .answered_until(at(600_000), |_, _| true);
        let in_use = run.in_use();
        let begun = in_use[0].0;
        for pair in in_use.windows(2) {
            let is_first = pair[0].0.saturating_since(begun) < Duration::from_mins(2);
            let pauses = if is_first { &first } else { &later };
            assert!(pauses.contains(&(millis(pair[1].0) - millis(pair[0].0))), "often {often}: {pair:?}");
        }
        let last = in_use.last().map(|(time, _)| millis(*time));
        assert!(last > Some(530_000), "it is probed on and on: {last:?}");
    }
}

#[test]
fn an_address_is_found_free_soon_after_it_became_free_however_long_it_was_in_use() {
    // The time in use, and the longest time until it is found free, in milliseconds.
    for (in_use, longest) in
        [(1_000, 2_800), (25_000, 2_800), (109_000, 2_800), (150_000, 10_800), (600_000, 10_800)]
    {
        for seed in 0..20 {
            let mut run = Run::start(&FAST, seed);
            let freed = at(in_use + seed * 487);
            run.notify(wanted(key(1))).answered_until(freed, |_, _| true);
            run.after(Duration::from_mins(1));
            let free = run.free().expect("it is free").saturating_since(freed).as_millis();
            assert!(free <= longest, "in use for {in_use} ms, seed {seed}: {free} ms");
        }
    }
}

#[test]
fn a_node_that_is_to_probe_often_from_now_on_probes_at_once() {
    let mut run = Run::start(&FAST, 7);
    run.notify(Event::Wanted { key: key(1), manner: Manner { often: false, ..Manner::OFTEN } })
        .after(Duration::from_millis(150))
        .notify(received(1));
    run.after(Duration::from_secs(20)).notify(wanted(key(1)));
    let notified = run.now;
    run.after(Duration::from_secs(10));
    let free = run.free().expect("it is free by now").saturating_since(notified);
    assert!(free <= Duration::from_millis(700), "{free:?}");

    let mut run = Run::start(&FAST, 7);
    run.notify(wanted(key(1))).after(Duration::from_millis(150)).notify(received(1));
    run.after(Duration::from_millis(1_500)).notify(wanted(key(1))).after(Duration::from_millis(400));
    assert!(!run.prober.is_probing(&key(1)), "what is known already changes nothing");
}

#[test]
fn addresses_in_use_leave_half_of_the_rate_to_new_ones() {
    const IN_USE: u16 = 3_000;
    const RATE: u32 = 500;
    let mut run = Run::start(&Settings { rate: RATE, ..FAST }, 7);
    for host in 0..IN_USE {
        run.notify(wanted(key(host)));
    }
    let is_in_use = |asked: VipKey, _| asked < key(IN_USE);
    run.answered_until(at(20_000), is_in_use);
    let before = run.probes().len();
    run.answered_until(at(30_000), is_in_use);
    let probes = run.probes().len() - before;
    assert!((2_400..=2_500).contains(&probes), "{probes} in ten seconds: half of the rate");

    let new = run.now;
    for host in IN_USE..IN_USE + 50 {
        run.notify(wanted(key(host)));
    }
    run.answered_until(at(32_000), is_in_use);
    let free: Vec<Monotonic> =
        run.done.iter().filter(|(_, done)| matches!(done, Command::Free(_))).map(|(at, _)| *at).collect();
    assert_eq!(free.len(), 50);
    let slowest = free.iter().max().expect("there are some").saturating_since(new);
    // 150 probes at 500 a second, with a share for the others, end within the usual time.
    assert!(slowest <= Duration::from_secs(1), "{slowest:?}");
}

#[test]
fn an_address_that_became_free_is_found_free_in_its_turn_among_thousands_in_use() {
    let mut run = Run::start(&Settings { rate: 200, ..FAST }, 7);
    for host in 0..2_000 {
        run.notify(wanted(key(host)));
    }
    let freed = at(150_000);
    run.answered_until(at(190_000), |asked, now| asked != key(77) || now < freed);
    // All have a turn within 20 s at 100 probes a second. The second
    // and third probe of an attempt wait for no other turn.
    let free = run.free().expect("it is free").saturating_since(freed);
    assert!(free <= Duration::from_secs(22), "{free:?}");
}

#[test]
fn an_address_is_taken_as_soon_as_it_is_found_free() {
    let mut run = Run::start(&FAST, 7);
    run.notify(wanted(key(1))).until(at(100)).notify(received(1)).until(at(2_099));
    assert_eq!(run.free(), None);
    run.until(at(10_000));
    let free = run.free().expect("it is free now");
    assert!(free <= at(2_100 + 700), "{free:?}");
    assert!(!run.prober.asks_about(&key(1)));
}

#[test]
fn what_was_found_in_use_is_decided_whether_it_rests_or_is_asked_about_again() {
    let mut run = Run::start(&FAST, 1);
    run.notify(wanted(key(1))).notify(wanted(key(2)));
    assert_eq!(run.prober.undecided(), 2);
    run.after(Duration::from_millis(50)).notify(received(1));
    assert_eq!(run.prober.undecided(), 1, "it rests");
    run.after(Duration::from_millis(2_050));
    assert_eq!(run.prober.undecided(), 0, "the other is free, and it is asked about again");
    run.notify(received(1)).notify(wanted(key(3)));
    assert_eq!(run.prober.undecided(), 1, "only the new one is");
    run.notify(Event::Restart { ifindex: key(1).ifindex }).notify(Event::Forget(key(3)));
    assert_eq!(run.prober.undecided(), 0);
    run.notify(Event::Forget(key(1))).notify(wanted(key(1)));
    assert_eq!(run.prober.undecided(), 1, "what was forgotten is new");
}

#[test]
fn what_is_not_wanted_any_more_is_not_asked_about() {
    let mut run = Run::start(&FAST, 7);
    run.notify(wanted(key(1))).until(at(150)).notify(Event::Forget(key(1)));
    let probes = run.probes().len();
    run.until(at(10_000)).notify(Event::Forget(key(9)));
    assert_eq!((run.probes().len(), run.free()), (probes, None));
}

#[test]
fn probing_begins_again_when_the_interface_does() {
    let mut run = Run::start(&FAST, 7);
    run.notify(wanted(key(1))).until(at(550)).notify(Event::Restart { ifindex: 4 });
    run.notify(Event::Restart { ifindex: 3 }).until(at(5_000));
    let free = run.free().expect("no host was received");
    assert!(free >= at(550 + 600), "{free:?}");
    assert_eq!(run.probes().len(), 6);
}

#[test]
fn only_what_a_peer_was_found_to_use_is_asked_about_at_once_when_it_is_known_for_one() {
    let peer = |mac| Event::Recognised { ifindex: 3, mac };
    let Event::Received { mac, .. } = received(1) else { panic!("a host was received") };
    let mut run = Run::start(&FAST, 7);
    run.notify(wanted(key(1))).notify(wanted(key(2))).after(Duration::from_millis(300)).notify(received(1));
    assert!(run.prober.is_in_use(&key(1)));
    // Many nodes may join one after the other. Probing goes on, and resting addresses stay at rest.
    for other in 1..8 {
        run.after(Duration::from_millis(100)).notify(peer(MacAddr([2, 9, 9, 9, 9, other])));
    }
    assert!(run.free().is_some(), "the other address");
    let probes = run.probes().len();
    run.after(Duration::from_millis(500)).notify(peer(mac)).after(Duration::from_millis(400));
    assert!(run.prober.is_in_use(&key(1)), "until it has been asked about");
    assert!(run.probes().len() > probes, "1.6 s after it was received");
}

#[test]
fn no_probe_is_sent_when_none_is_wanted() {
    let mut run = Run::start(&Settings { count: 0, ..FAST }, 7);
    run.notify(wanted(key(1))).until(at(1));
    assert_eq!(run.done, [(at(0), Command::Free(key(1)))]);
}

#[test]
fn fewer_probes_than_were_sent_already_are_enough() {
    for count in [0, 1] {
        let mut run = Run::start(&FAST, 7);
        run.notify(wanted(key(1))).until(at(350));
        assert_eq!(run.probes().len(), 2);
        run.prober.configure(&Settings { count, ..FAST }, run.now);
        run.until(at(1_000));
        assert!(run.free().is_some() && run.probes().len() == 2, "{count}: {:?}", run.done);
    }
}

#[test]
fn a_probe_that_did_not_leave_is_sent_again() {
    let mut run = Run::start(&FAST, 7);
    run.notify(wanted(key(1))).until(at(150)).notify(Event::NotSent(key(1))).until(at(5_000));
    assert_eq!(run.probes().len(), 4);
    assert!(run.free().is_some());
}

#[test]
fn what_was_received_in_time_counts_before_anything_is_concluded() {
    let mut run = Run::start(&FAST, 7);
    run.notify(wanted(key(1))).notify(wanted(key(2))).until(at(550));
    // The event loop was late. By the clock both attempts are over, and two answers wait.
    run.now = at(5_000);
    run.notify(received(1)).notify(received(2)).notify(Event::Tick);
    assert_eq!(run.in_use().len(), 2);
    assert_eq!(run.free(), None);
}

#[test]
fn very_many_addresses_are_asked_about_at_the_pace_and_none_is_forgotten() {
    let mut run = Run::start(&FAST, 7);
    for host in 0..20_000 {
        run.notify(wanted(key(host)));
    }
    assert!(run.prober.asked.len() <= MOST_AT_ONCE, "what is remembered of each is bounded");
    run.until(at(60_000));
    let free = run.done.iter().filter(|(_, command)| matches!(command, Command::Free(_))).count();
    assert_eq!((run.probes().len(), free), (60_000, 20_000));
    let last = run.probes().last().copied().expect("there are probes");
    assert!(last < at(16_000), "as fast as the pace allows: {last:?}");
}

/// Returns the times and keys of the probes for `held` VIPs, until a time.
fn rounds(settings: &Settings, held: u16, until: Monotonic) -> Vec<(Monotonic, VipKey)> {
    let all: BTreeSet<VipKey> = (0..held).map(key).collect();
    let after = |last: Option<VipKey>| match last {
        Some(last) => all.range(last..).find(|key| **key != last).copied(),
        None => all.first().copied(),
    };
    let mut prober = Prober::start(settings, 7, at(0));
    let mut probed = Vec::new();
    while let Some(now) = prober.next_round().filter(|next| *next <= until) {
        probed.extend(prober.next_of_held(all.len(), after, now).into_iter().map(|key| (now, key)));
    }
    probed
}

#[test]
fn each_held_vip_is_probed_about_once_a_minute_spread_over_it() {
    for held in [1_u16, 2, 7, 100, 5_000] {
        let probed = rounds(&FAST, held, at(600_000));
        let mut by_vip: BTreeMap<VipKey, Vec<Monotonic>> = BTreeMap::new();
        for (time, key) in &probed {
            by_vip.entry(*key).or_default().push(*time);
        }
        assert_eq!(by_vip.len(), usize::from(held));
        for (key, times) in by_vip {
            for pair in times.windows(2) {
                let pause = pair[1].saturating_since(pair[0]);
                assert!((54..=66).contains(&pause.as_secs()), "{held} held, {key:?}: {pause:?}");
            }
        }
        let wakes = probed.iter().map(|(time, _)| time).collect::<BTreeSet<_>>().len();
        assert!(wakes <= 620, "{wakes} times awake in ten minutes for {held}");
        let second = at(300_000)..at(301_000);
        let in_a_second = probed.iter().filter(|(time, _)| second.contains(time)).count();
        assert!(in_a_second <= usize::from(held) / 60 * 2 + 2, "{in_a_second} in one second of {held}");
    }
    assert_eq!(rounds(&FAST, 0, at(600_000)), []);
    assert_eq!(rounds(&Settings { repeat: None, ..FAST }, 5, at(600_000)), []);
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        4 => (0_u16..6).prop_map(|host| wanted(key(host))),
        2 => (0_u16..6).prop_map(|host| Event::Forget(key(host))),
        3 => (0_u16..6).prop_map(received),
        1 => (3_u32..5).prop_map(|ifindex| Event::Restart { ifindex }),
        1 => Just(Event::Tick),
    ];
    proptest::collection::vec((0_u64..900, event), 1..60)
}

proptest! {
    #[test]
    fn an_address_is_free_only_after_all_probes_and_silence(events in events(), seed in any::<u64>()) {
        let mut run = Run::start(&FAST, seed);
        // Commands since the address was last received, wanted, or probed anew.
        let mut silent_since: BTreeMap<VipKey, Monotonic> = BTreeMap::new();
        let mut notified = 0;
        let mut check = |run: &Run, silent_since: &BTreeMap<VipKey, Monotonic>| {
            for (index, (time, command)) in run.done.iter().enumerate().skip(notified) {
                let Command::Free(key) = command else { continue };
                let since = silent_since[key];
                let sent = |(at, sent): &&(Monotonic, Command)| *sent == Command::Send(*key) && *at >= since;
                let probes = run.done[..index].iter().filter(sent).count();
                assert!(probes >= 3, "{key:?} after {probes} probes");
                assert!(time.saturating_since(since) >= Duration::from_millis(600));
            }
            notified = run.done.len();
        };
        for (pause, event) in events {
            run.after(Duration::from_millis(pause));
            check(&run, &silent_since);
            match &event {
                Event::Wanted { key, .. } if !run.prober.asks_about(key) => _ = silent_since.insert(*key, run.now),
                Event::Received { key, .. } => _ = silent_since.insert(*key, run.now),
                Event::Restart { ifindex: 3 } => silent_since.values_mut().for_each(|since| *since = run.now),
                Event::Wanted { .. }
                | Event::Late { .. }
                | Event::Unheard(_)
                | Event::ProbeHeld { .. }
                | Event::Forget(_)
                | Event::NotSent(_)
                | Event::Restart { .. }
                | Event::Recognised { .. }
                | Event::Unwatched(_)
                | Event::Tick => {}
            }
            run.notify(event);
            check(&run, &silent_since);
        }
        let wanted: BTreeSet<VipKey> = run.prober.all_asked().collect();
        run.done.clear();
        run.after(Duration::from_secs(70));
        let free = run.done.iter().filter_map(|(_, command)| match command {
            Command::Free(key) => Some(*key),
            Command::Send(_) | Command::Unheard { .. } | Command::InUse { .. } => None,
        });
        prop_assert_eq!(free.collect::<BTreeSet<_>>(), wanted, "each is free in the end");
    }
}

/// Returns a prober of an interface on which no host was heard since its link came up at 0.
fn unheard(settings: &Settings) -> Run {
    let mut run = Run::start(settings, 3);
    run.notify(Event::Unheard([(key(1).ifindex, at(35_000))].into()));
    run
}

#[test]
fn where_no_host_was_heard_an_address_is_free_when_the_link_has_been_up_for_long() {
    for settings in [FAST, RFC] {
        let mut run = unheard(&settings);
        run.notify(wanted(key(1))).until(at(120_000));
        let free = run.free().expect("no host answers");
        assert!((at(31_000)..=at(35_000)).contains(&free), "{free:?}");
        let probes = run.probes();
        assert_eq!(probes.len(), 6, "one attempt at once, and one when the port may forward");
        assert!(probes[3] >= at(28_000), "{probes:?}");
        for pair in [&probes[..3], &probes[3..]].iter().flat_map(|attempt| attempt.windows(2)) {
            let pause = millis(pair[1]) - millis(pair[0]);
            assert!((1_000..=2_000).contains(&pause), "the times of RFC 5227: {pause}");
        }
        let reports = run.done.iter().filter(|(_, it)| matches!(it, Command::Unheard { .. })).count();
        assert_eq!(reports, 1);
    }
    // The link has been up for long, and still no host was heard.
    let mut run = unheard(&FAST);
    run.until(at(100_000)).notify(wanted(key(1))).until(at(120_000));
    let took = run.free().expect("no host answers").saturating_since(at(100_000));
    assert!((Duration::from_secs(4)..=Duration::from_secs(7)).contains(&took), "RFC 5227, 2.1.1: {took:?}");
}

#[test]
fn an_attempt_begins_anew_when_a_host_is_heard() {
    let mut run = unheard(&FAST);
    run.notify(wanted(key(1))).until(at(20_000)).notify(Event::Unheard(BTreeMap::new())).until(at(60_000));
    let free = run.free().expect("no host answers");
    assert!(free > at(20_000 + 600) && free <= at(20_700), "{free:?}");

    let mut run = unheard(&FAST);
    run.notify(wanted(key(1))).until(at(20_000)).notify(received(1));
    run.notify(Event::Unheard(BTreeMap::new()));
    assert_eq!(run.in_use(), [(at(20_000), 1)]);
    assert_eq!(run.free(), None, "it is in use, and rests");
    // Probing is off.
    let mut run = unheard(&Settings { count: 0, ..FAST });
    run.notify(wanted(key(1))).until(at(1));
    assert_eq!(run.free(), Some(at(0)));
}

#[test]
fn an_address_whose_host_answers_late_is_probed_with_a_longer_wait() {
    let mut run = Run::start(&FAST, 3);
    run.notify(Event::Late { key: key(1), mac: UNKNOWN_HOST, by_peer: false });
    assert!(
        matches!(run.done[..], [(_, Command::InUse { is_late: true, conflicts: 1, .. })]),
        "{:?}",
        run.done
    );
    run.until(at(60_000));
    let (probes, free) = (run.probes(), run.free().expect("no host answers"));
    assert_eq!(probes.len(), 3);
    assert!(probes[0] >= at(2_000));
    assert_eq!(free.saturating_since(probes[2]), ANNOUNCE_WAIT);

    // A host that answers 1.5 s after each probe is always found.
    let mut run = Run::start(&FAST, 3);
    run.notify(Event::Late { key: key(1), mac: UNKNOWN_HOST, by_peer: false });
    let mut answers = BTreeSet::new();
    while run.now < at(60_000) {
        let known = run.done.len();
        run.until(run.now + Duration::from_millis(10));
        answers.extend(run.done[known..].iter().filter_map(|(sent, command)| {
            matches!(command, Command::Send(_)).then_some(*sent + Duration::from_millis(1_500))
        }));
        while answers.first().is_some_and(|answer| *answer <= run.now) {
            answers.pop_first();
            run.notify(received(1));
        }
    }
    assert_eq!(run.free(), None);
    assert!(run.in_use().len() > 10);
}

#[test]
fn the_held_vips_of_an_interface_are_probed_without_delay() {
    let held = [key(1), key(2), key(3)];
    let after = |last: Option<VipKey>| held.into_iter().find(|key| last.is_none_or(|last| *key > last));
    let mut prober = Prober::start(&FAST, 1, at(0));
    prober.on_event(Event::ProbeHeld { ifindex: key(1).ifindex }, at(10));
    assert_eq!(prober.next_round(), Some(at(10)));
    assert_eq!(prober.next_of_held(3, after, at(10)), held);
    prober.on_event(Event::ProbeHeld { ifindex: key(1).ifindex + 1 }, at(20_000));
    assert!(prober.next_of_held(3, after, at(20_000)).len() <= 1, "they are on another interface");
}
