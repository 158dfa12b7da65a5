use proptest::prelude::*;

use super::*;
use crate::base::samples::{at, millis};

const SETTINGS: Settings = Settings { refresh: Duration::from_mins(1), rate: 1_000 };
const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const NEW: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn key(ifindex: u32, host: u16) -> VipKey {
    let [high, low] = host.to_be_bytes();
    VipKey::new(ifindex, [10, 0, high, low])
}

fn taken(ifindex: u32, host: u16) -> Event {
    Event::Taken { key: key(ifindex, host), mac: OWN }
}

/// Description, events with their times, and times of the announcements.
type Row<'a> = (&'a str, &'a [(u64, Event)], &'a [u64]);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sent {
    millis: u64,
    key: VipKey,
    mac: MacAddr,
    round: Round,
}

/// An announcer, and an event loop that wakes it exactly at its deadlines.
struct Run {
    announcer: Announcer,
    sent: Vec<Sent>,
    repeats: Vec<(u64, VipKey, MacAddr)>,
    now: Monotonic,
}

impl Run {
    fn start(settings: &Settings, seed: u64) -> Self {
        Self {
            announcer: Announcer::start(settings, seed, at(0)),
            sent: Vec::new(),
            repeats: Vec::new(),
            now: at(0),
        }
    }

    fn notify(&mut self, event: Event) {
        let commands = self.announcer.on_event(event, self.now);
        for command in commands {
            let millis = millis(self.now);
            match command {
                Command::Send { key, mac, round } => self.sent.push(Sent { millis, key, mac, round }),
                Command::Repeat { key, mac, former } => {
                    assert_eq!(mac, OWN);
                    self.repeats.push((millis, key, former));
                }
            }
        }
        if let Some(deadline) = self.announcer.next_deadline() {
            assert!(deadline > self.now, "woken at {:?} for {deadline:?}", self.now);
        }
    }

    fn until(&mut self, until: u64) -> Vec<Sent> {
        while let Some(deadline) = self.announcer.next_deadline().filter(|deadline| *deadline <= at(until)) {
            self.now = deadline;
            self.notify(Event::Tick);
        }
        self.now = at(until);
        std::mem::take(&mut self.sent)
    }

    fn times(&mut self, until: u64) -> Vec<u64> {
        self.until(until).iter().map(|sent| sent.millis).collect()
    }
}

#[test]
fn a_vip_is_announced_at_once_then_in_five_rounds_then_refreshed() {
    let mut run = Run::start(&SETTINGS, 7);
    run.notify(taken(1, 1));
    let rounds: Vec<_> = run.until(10_000).iter().map(|sent| (sent.millis, sent.round)).collect();
    let expected = [0, 1_100, 2_200, 3_300, 4_400, 5_500];
    let expected: Vec<_> = expected.into_iter().zip((0..).map(Round::Taking)).collect();
    assert_eq!(rounds, expected);

    let mut last = 5_500;
    for sent in run.until(600_000) {
        assert_eq!((sent.key, sent.mac, sent.round), (key(1, 1), OWN, Round::Refresh));
        let pause = sent.millis - last;
        assert!((54_000..=66_000).contains(&pause), "a refresh after {pause} ms");
        last = sent.millis;
    }
    assert!(last > 530_000, "the refreshes ended at {last} ms");
}

#[test]
fn the_former_holder_receives_the_first_round_three_times_again_and_alone() {
    let succeeded = Event::Succeeded { key: key(1, 1), former: NEW };
    let (gone, lost) = (Event::Released { key: key(1, 1) }, Event::CarrierLost { ifindex: 1 });
    let rows: [Row<'_>; 5] = [
        ("no former holder", &[(0, taken(1, 1))], &[]),
        ("a former holder", &[(0, taken(1, 1)), (0, succeeded)], &[50, 150, 350]),
        ("the VIP is released", &[(0, taken(1, 1)), (0, succeeded), (100, gone)], &[50]),
        ("the carrier is lost", &[(0, taken(1, 1)), (0, succeeded), (200, lost)], &[50, 150]),
        ("it is taken anew", &[(0, taken(1, 1)), (0, succeeded), (60, taken(1, 1))], &[50]),
    ];
    for (what, events, expected) in rows {
        let mut run = Run::start(&SETTINGS, 7);
        for (at, event) in events {
            run.until(*at);
            run.notify(*event);
        }
        let rounds = run.until(5_000).len();
        let repeats: Vec<_> = expected.iter().map(|at| (*at, key(1, 1), NEW)).collect();
        assert_eq!(run.repeats, repeats, "{what}");
        let stays = !matches!(events.last(), Some((_, Event::Released { .. } | Event::CarrierLost { .. })));
        assert_eq!(rounds > 3, stays, "{what}: the group receives its rounds as always");
    }
}

#[test]
fn repetitions_that_cannot_leave_in_time_do_not_leave() {
    let mut run = Run::start(&Settings { rate: 20, ..SETTINGS }, 7);
    for host in 0..100 {
        run.notify(taken(1, host));
        run.notify(Event::Succeeded { key: key(1, host), former: NEW });
    }
    let sent = run.until(60_000);
    let first = |key| sent.iter().find(|sent| sent.key == key).expect("a first round").millis;
    assert!(!run.repeats.is_empty());
    for (millis, key, _) in &run.repeats {
        assert!(millis - first(*key) < 350 + 1_100, "a repetition after {} ms", millis - first(*key));
    }
    let last = (0..100).map(|host| first(key(1, host))).max();
    assert!(last < Some(21_000), "first rounds come first: {last:?}");
}

#[test]
fn an_ipv6_vip_is_announced_in_three_rounds_a_second_apart_then_refreshed() {
    let mut run = Run::start(&SETTINGS, 7);
    let key = VipKey::new(1, [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10]);
    run.notify(Event::Taken { key, mac: OWN });
    let rounds: Vec<_> = run.until(60_000).iter().map(|sent| (sent.millis, sent.round)).collect();
    let expected: Vec<_> = [0, 1_100, 2_200].into_iter().zip((0..).map(Round::Taking)).collect();
    assert_eq!(rounds[..3], expected);
    assert!(rounds[3..].iter().all(|(_, round)| *round == Round::Refresh), "{rounds:?}");
}

#[test]
fn the_probes_after_the_first_rounds_of_ipv6_vips_count_in_the_rate() {
    let last_first_round = |is_v6: bool| {
        let mut run = Run::start(&Settings { rate: 100, ..SETTINGS }, 7);
        for host in 0..100_u8 {
            let v6 = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host];
            let key = if is_v6 { VipKey::new(1, v6) } else { key(1, host.into()) };
            run.notify(Event::Taken { key, mac: OWN });
        }
        let sent = run.until(60_000);
        sent.iter().filter(|sent| sent.round == Round::Taking(0)).map(|sent| sent.millis).max()
    };
    let (v4, v6) = (last_first_round(false).expect("sent"), last_first_round(true).expect("sent"));
    assert!((1_900..2_200).contains(&v4) && (3_900..4_300).contains(&v6), "{v4} and {v6} ms");
}

#[test]
fn refreshes_are_spread_by_vip_and_seed_and_repeat_for_the_same() {
    let refreshes = |seed, host| {
        let mut run = Run::start(&SETTINGS, seed);
        run.notify(taken(1, host));
        run.times(300_000).split_off(6)
    };
    assert_eq!(refreshes(1, 1), refreshes(1, 1), "the same VIP and seed");
    assert_ne!(refreshes(1, 1), refreshes(1, 2), "another VIP");
    assert_ne!(refreshes(1, 1), refreshes(2, 1), "another seed");
    let firsts: BTreeSet<u64> = (0..200).map(|host| refreshes(1, host)[0] / 1_000).collect();
    assert!(firsts.len() >= 10, "200 refreshes fall into the seconds {firsts:?} only");
}

#[test]
fn what_happens_to_a_vip_changes_its_rounds() {
    let gone = Event::Released { key: key(1, 1) };
    let moved = Event::MacChanged { key: key(1, 1), mac: NEW };
    let lost = Event::CarrierLost { ifindex: 1 };
    let back = Event::CarrierReturned { ifindex: 1 };
    let again = [2_000, 3_100, 4_200, 5_300, 6_400, 7_500];
    let whole = [0, 1_100, 2_200, 3_300, 4_400, 5_500];
    let table: [Row<'_>; 9] = [
        ("nothing", &[], &whole),
        ("released", &[(2_000, gone)], &whole[..2]),
        ("released and taken again", &[(1_500, gone), (2_000, taken(1, 1))], &[&whole[..2], &again].concat()),
        ("taken once more", &[(2_000, taken(1, 1))], &[&whole[..2], &again].concat()),
        ("another MAC", &[(2_000, moved)], &[&whole[..2], &again].concat()),
        ("no carrier", &[(2_000, lost)], &whole[..2]),
        ("the carrier returns", &[(1_200, lost), (2_000, back)], &[&whole[..2], &again].concat()),
        ("another interface's carrier", &[(2_000, Event::CarrierLost { ifindex: 2 })], &whole),
        ("another VIP is released", &[(2_000, Event::Released { key: key(1, 2) })], &whole),
    ];
    for (what, events, expected) in table {
        let mut run = Run::start(&SETTINGS, 7);
        run.notify(taken(1, 1));
        let mut times = Vec::new();
        for (when, event) in events {
            times.extend(run.times(*when));
            run.notify(*event);
        }
        times.extend(run.times(20_000));
        assert_eq!(times, expected, "{what}");
    }
}

#[test]
fn a_failover_causes_one_round_unless_the_first_one_follows_it_anyway() {
    let failover = |received: u64| Event::FailedOver { ifindex: 1, received: at(received) };
    let (lost, back) = (Event::CarrierLost { ifindex: 1 }, Event::CarrierReturned { ifindex: 1 });
    let moved = Event::MacChanged { key: key(1, 1), mac: NEW };
    // Times are those after the first six rounds.
    let table: [Row<'_>; 9] = [
        ("one", &[(10_000, failover(10_000))], &[10_000]),
        ("two", &[(10_000, failover(10_000)), (10_050, failover(10_050))], &[10_000, 10_050]),
        ("another interface", &[(10_000, Event::FailedOver { ifindex: 2, received: at(10_000) })], &[]),
        ("after the round of a new MAC", &[(10_000, moved), (10_010, failover(9_990))], &[10_000]),
        ("before a new MAC", &[(10_000, failover(9_990)), (10_010, moved)], &[10_000, 10_010]),
        (
            "between the rounds of a new MAC",
            &[(10_000, moved), (10_500, failover(10_500))],
            &[10_000, 10_500],
        ),
        ("without carrier", &[(10_000, lost), (10_500, failover(10_500))], &[]),
        (
            "the carrier returns with it",
            &[(9_000, lost), (10_000, back), (10_010, failover(9_990))],
            &[10_000],
        ),
        ("the VIP is gone", &[(9_000, Event::Released { key: key(1, 1) }), (10_000, failover(10_000))], &[]),
    ];
    for (what, events, expected) in table {
        let mut run = Run::start(&SETTINGS, 7);
        run.notify(taken(1, 1));
        run.until(6_000);
        let mut times = Vec::new();
        for (when, event) in events {
            times.extend(run.times(*when));
            run.notify(*event);
        }
        times.extend(run.times(11_000));
        assert_eq!(times, expected, "{what}");
    }
}

#[test]
fn a_failover_that_waits_for_the_pace_announces_each_vip_once_and_before_later_rounds() {
    let slow = Settings { rate: 20, ..SETTINGS };
    let mut run = Run::start(&slow, 7);
    for host in 0..20 {
        run.notify(taken(1, host));
    }
    run.until(3_000);
    for received in [3_000, 3_050] {
        run.until(received);
        run.notify(Event::FailedOver { ifindex: 1, received: at(received) });
    }
    let sent = run.until(5_500);
    let after: BTreeSet<_> = sent.iter().take(20).map(|sent| (sent.key, sent.round)).collect();
    assert_eq!(after, (0..20).map(|host| (key(1, host), Round::Failover)).collect());
    let more = sent.iter().skip(20).filter(|sent| sent.round == Round::Failover).count();
    assert!(more <= 1, "{more} VIPs twice, of which only the first had left in between");
}

#[test]
fn a_vip_that_is_taken_without_carrier_waits_for_it() {
    let mut run = Run::start(&SETTINGS, 7);
    run.notify(Event::CarrierLost { ifindex: 1 });
    run.notify(taken(1, 1));
    assert_eq!(run.announcer.next_deadline(), None);
    assert_eq!(run.until(100_000), []);
    run.notify(Event::CarrierReturned { ifindex: 1 });
    assert_eq!(run.times(106_000), [100_000, 101_100, 102_200, 103_300, 104_400, 105_500]);
}

#[test]
fn rfc_5227_2_4_c_a_claim_is_answered_at_once_and_then_at_most_once_per_defend_interval() {
    let challenged = |times: &[u64]| {
        let mut run = Run::start(&SETTINGS, 7);
        run.notify(taken(1, 1));
        let mut sent = Vec::new();
        for time in times {
            sent.extend(run.until(*time));
            run.notify(Event::Challenged { key: key(1, 1) });
        }
        sent.extend(run.until(40_000));
        sent.retain(|sent| sent.round == Round::Defence);
        sent.iter().map(|sent| sent.millis).collect::<Vec<_>>()
    };
    let often: Vec<u64> = (0..80).map(|n| 20_000 + n * 100).collect();
    let table: [(&str, &[u64], &[u64]); 6] = [
        ("never", &[], &[]),
        ("while the rounds are under way", &[500, 2_300], &[500, 10_500]),
        ("right after the last round", &[5_600], &[5_600]),
        ("later", &[20_000], &[20_000]),
        ("ten times a second for eight seconds", &often, &[20_000, 30_000]),
        ("again after the interval", &[20_000, 31_000], &[20_000, 31_000]),
    ];
    for (what, times, expected) in table {
        assert_eq!(challenged(times), expected, "{what}");
    }

    let mut unknown = Run::start(&SETTINGS, 7);
    unknown.notify(Event::Challenged { key: key(1, 1) });
    assert_eq!(unknown.until(100_000), [], "a VIP that is not held");
}

#[test]
fn a_challenged_vip_is_refreshed_all_the_same() {
    let mut run = Run::start(&SETTINGS, 7);
    run.notify(taken(1, 1));
    run.until(20_000);
    run.notify(Event::Challenged { key: key(1, 1) });
    let refreshes = run.until(100_000).into_iter().filter(|sent| sent.round == Round::Refresh);
    let times: Vec<_> = refreshes.map(|sent| sent.millis).collect();
    assert!(matches!(times[..], [time] if (59_500..=71_500).contains(&time)), "{times:?}");
}

#[test]
fn a_defence_that_must_wait_puts_off_no_refresh() {
    let often = Settings { refresh: Duration::from_secs(4), ..SETTINGS };
    let mut run = Run::start(&often, 7);
    run.notify(taken(1, 1));
    run.until(20_000);
    run.notify(Event::Challenged { key: key(1, 1) });
    run.until(20_100);
    run.notify(Event::Challenged { key: key(1, 1) });
    let times = run.times(29_000);
    assert!(times.len() >= 2 && times[0] <= 24_400, "{times:?}");
}

#[test]
fn other_settings_move_the_refreshes_that_are_waiting() {
    let faster = Settings { refresh: Duration::from_secs(10), ..SETTINGS };
    let mut run = Run::start(&SETTINGS, 7);
    run.notify(taken(1, 1));
    run.until(10_000);
    run.announcer.configure(&faster, at(10_000));
    assert!(matches!(run.times(21_000)[..], [time] if (19_000..=21_000).contains(&time)));

    let mut same = Run::start(&SETTINGS, 7);
    same.notify(taken(1, 1));
    same.until(10_000);
    let before = same.announcer.next_deadline();
    same.announcer.configure(&SETTINGS, at(50_000));
    assert_eq!(same.announcer.next_deadline(), before, "a reload without a change moves nothing");
}

/// Returns the number of frames in the fullest second.
fn most_in_a_second(sent: &[Sent]) -> u32 {
    let in_second =
        |from: u64| sent.iter().filter(|sent| (from..from + 1_000).contains(&sent.millis)).count();
    let starts: BTreeSet<u64> = sent.iter().map(|sent| sent.millis).collect();
    let most = starts.into_iter().map(in_second).max().unwrap_or(0);
    u32::try_from(most).expect("few rounds") * FRAMES_PER_ROUND
}

#[test]
fn ten_thousand_vips_are_paced_first_rounds_first() {
    const VIPS: u16 = 10_000;
    let mut run = Run::start(&SETTINGS, 7);
    for host in 0..VIPS {
        run.notify(taken(1, host));
    }
    let sent = run.until(130_000);
    // The first rounds alone take 20.6 s at 500 rounds a second.
    let firsts: Vec<_> = sent.iter().take(usize::from(VIPS)).collect();
    assert!(
        firsts.iter().all(|sent| sent.round == Round::Taking(0)),
        "a later round left before a first one"
    );
    let vips: BTreeSet<_> = firsts.iter().map(|sent| sent.key).collect();
    assert_eq!(vips.len(), usize::from(VIPS), "every VIP has its first round");
    assert!((20_400..=20_700).contains(&firsts[firsts.len() - 1].millis), "{:?}", firsts.last());
    let rounds = sent.iter().filter(|sent| matches!(sent.round, Round::Taking(_))).count();
    assert_eq!(rounds, usize::from(VIPS) * usize::from(ROUNDS), "every round leaves, in time");
    let sample: Vec<_> = sent.iter().filter(|sent| sent.millis < 3_000).copied().collect();
    assert!(most_in_a_second(&sample) <= SETTINGS.rate, "{} frames in a second", most_in_a_second(&sample));
}

#[test]
fn a_vip_that_is_taken_goes_before_a_backlog_of_refreshes() {
    let slow = Settings { refresh: Duration::from_secs(2), rate: 20 };
    let mut run = Run::start(&slow, 7);
    for host in 0..100 {
        run.notify(taken(1, host));
    }
    run.until(120_000);
    run.notify(taken(1, 500));
    let sent = run.until(120_300);
    assert_eq!(sent.first().map(|sent| sent.key), Some(key(1, 500)), "{sent:?}");
}

#[test]
fn a_defence_goes_after_first_rounds_and_before_a_backlog_of_later_ones() {
    let slow = Settings { rate: 20, ..SETTINGS };
    let mut run = Run::start(&slow, 7);
    for host in 0..100 {
        run.notify(taken(1, host));
    }
    // Ten rounds leave each second. Every VIP has had its first
    // round, and 500 later rounds are due.
    run.until(10_500);
    run.notify(Event::Challenged { key: key(1, 7) });
    run.notify(taken(1, 500));
    let sent: Vec<_> = run.until(11_000).into_iter().map(|sent| (sent.key, sent.round)).take(2).collect();
    assert_eq!(sent, [(key(1, 500), Round::Taking(0)), (key(1, 7), Round::Defence)]);
}

#[test]
fn a_late_driver_makes_up_for_little() {
    let mut run = Run::start(&SETTINGS, 7);
    for host in 0..1_000 {
        run.notify(taken(1, host));
    }
    run.now = at(60_000);
    run.sent.clear();
    run.notify(Event::Tick);
    assert!(run.sent.len() <= 11, "{} rounds at once after a minute's silence", run.sent.len());
}

#[test]
fn an_agent_at_rest_wakes_a_few_times_a_second_however_many_vips_it_announces() {
    // The number of VIPs, and the largest number of times a second.
    for (vips, most) in [(1, 1), (100, 1), (1_000, 3), (10_000, 20)] {
        let mut run = Run::start(&SETTINGS, 7);
        for host in 0..vips {
            run.notify(taken(1, host));
        }
        run.until(600_000);
        let mut wakes = 0;
        while let Some(deadline) = run.announcer.next_deadline().filter(|next| *next <= at(660_000)) {
            run.now = deadline;
            run.notify(Event::Tick);
            wakes += 1;
        }
        assert!(wakes <= most * 60, "{vips} VIPs: {wakes} times a minute");
        assert!(run.sent.len() >= usize::from(vips) * 9 / 10, "{} refreshes", run.sent.len());
    }
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let key = (1_u32..=2, 0_u16..6).prop_map(|(ifindex, host)| key(ifindex, host));
    let mac = prop_oneof![Just(OWN), Just(NEW)];
    let event = prop_oneof![
        4 => (key.clone(), mac.clone()).prop_map(|(key, mac)| Event::Taken { key, mac }),
        2 => key.clone().prop_map(|key| Event::Released { key }),
        2 => (key.clone(), mac).prop_map(|(key, mac)| Event::MacChanged { key, mac }),
        3 => key.prop_map(|key| Event::Challenged { key }),
        1 => (1_u32..=2).prop_map(|ifindex| Event::CarrierLost { ifindex }),
        1 => (1_u32..=2).prop_map(|ifindex| Event::CarrierReturned { ifindex }),
        1 => (1_u32..=2).prop_map(|ifindex| Event::InterfaceGone { ifindex }),
        2 => (1_u32..=2).prop_map(|ifindex| Event::FailedOver { ifindex, received: at(0) }),
        1 => Just(Event::Tick),
    ];
    proptest::collection::vec((0_u64..5_000, event), 1..40)
}

/// State that an announcement must agree with, kept beside the announcer.
#[derive(Default)]
struct Truth {
    macs: BTreeMap<VipKey, MacAddr>,
    silent: BTreeSet<u32>,
    /// Time of a VIP's last defence (true) and of its last other announcement (false), since the
    /// last event that needs an announcement at once.
    last: BTreeMap<(VipKey, bool), u64>,
}

impl Truth {
    fn note(&mut self, event: Event) {
        match event {
            Event::Taken { key, mac } | Event::MacChanged { key, mac } => {
                self.macs.insert(key, mac);
                self.last.retain(|(last, _), _| *last != key);
            }
            Event::Released { key } => drop(self.macs.remove(&key)),
            Event::CarrierLost { ifindex } => drop(self.silent.insert(ifindex)),
            Event::CarrierReturned { ifindex } => {
                self.silent.remove(&ifindex);
                self.last.retain(|(key, _), _| key.ifindex != ifindex);
            }
            Event::InterfaceGone { ifindex } => {
                self.silent.remove(&ifindex);
                self.macs.retain(|key, _| key.ifindex != ifindex);
            }
            Event::Challenged { .. } | Event::FailedOver { .. } | Event::Succeeded { .. } | Event::Tick => {}
        }
    }

    fn check(&mut self, sent: &[Sent]) {
        for sent in sent {
            assert_eq!(self.macs.get(&sent.key), Some(&sent.mac), "{sent:?}: not held, or at another MAC");
            assert!(!self.silent.contains(&sent.key.ifindex), "{sent:?}: no carrier");
            if sent.round == Round::Failover {
                continue;
            }
            let is_defence = sent.round == Round::Defence;
            let least = if is_defence { 10_000 } else { 1_100 };
            if let Some(last) = self.last.insert((sent.key, is_defence), sent.millis) {
                assert!(sent.millis >= last + least, "{sent:?}: the last one was at {last}");
            }
        }
    }
}

proptest! {
    #[test]
    fn only_what_is_held_is_announced_in_its_time_and_nothing_is_forgotten(
        events in events(),
        (seed, rate) in (any::<u64>(), 20_u32..2_000),
    ) {
        let settings = Settings { refresh: Duration::from_secs(20), rate };
        let mut run = Run::start(&settings, seed);
        let (mut truth, mut all) = (Truth::default(), Vec::new());
        for (pause, event) in events {
            let sent = run.until(millis(run.now) + pause);
            truth.check(&sent);
            all.extend(sent);
            truth.note(event);
            run.notify(event);
            let sent = std::mem::take(&mut run.sent);
            truth.check(&sent);
            all.extend(sent);
        }
        let slot_rounds = 1 + rate * 5 / 2_000;
        let most = most_in_a_second(&all);
        prop_assert!(most <= rate + FRAMES_PER_ROUND * (1 + slot_rounds), "{most}");

        // At the slowest rate, twelve VIPs have all their rounds in
        // twelve seconds, and a refresh soon after.
        let sent = run.until(millis(run.now) + 40_000);
        truth.check(&sent);
        let announced: BTreeSet<_> = sent.iter().map(|sent| sent.key).collect();
        let wanted = truth.macs.keys().filter(|key| !truth.silent.contains(&key.ifindex)).copied();
        prop_assert_eq!(announced, wanted.collect());
    }
}
