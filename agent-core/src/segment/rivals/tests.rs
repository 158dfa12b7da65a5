use proptest::prelude::*;

use super::{statement::MOST_HOLDS, *};
use crate::base::samples::key;

const LOW: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const HIGH: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const STRANGER: MacAddr = MacAddr([2, 0, 0, 0, 0, 77]);

fn at(millis: u64) -> Monotonic {
    Monotonic::from_nanos(millis * 1_000_000)
}

fn vip() -> VipKey {
    key(10)
}

/// A host with one VIP, and its only peer.
struct One {
    own: MacAddr,
    peer: MacAddr,
    forced: bool,
    rivals: Rivals,
}

impl One {
    /// Returns a host that holds the VIP since `taken`.
    fn holding(own: MacAddr, peer: MacAddr, taken: u64) -> Self {
        let mut rivals = Rivals::default();
        rivals.on_taken(vip(), at(taken));
        Self { own, peer, forced: false, rivals }
    }

    fn with<T>(&mut self, now: u64, act: impl FnOnce(&mut Rivals, &Host<'_>) -> T) -> T {
        let (own, forced, peers) = (self.own, self.forced, [self.peer]);
        let host = Host { peers: &peers, is_forced: &|_| forced, mac_of: &|_| Some(own), now: at(now) };
        act(&mut self.rivals, &host)
    }

    fn stated(&mut self, now: u64, from: MacAddr, age: Age) -> Vec<Command> {
        let holds = [(vip().addr, age)];
        self.with(now, |rivals, host| rivals.on_stated((vip().ifindex, from), &holds, host))
    }

    fn claimed(&mut self, now: u64, from: MacAddr) -> Option<Command> {
        self.with(now, |rivals, host| rivals.on_claimed(vip(), from, host))
    }

    fn due(&mut self, now: u64) -> Vec<Command> {
        self.with(now, Rivals::on_tick)
    }

    fn age(&mut self, now: u64) -> Age {
        match self.due(now).as_slice() {
            [Command::State { holds, .. }] => holds[0].1,
            other => panic!("no statement: {other:?}"),
        }
    }
}

fn yields(commands: impl IntoIterator<Item = Command>) -> bool {
    commands.into_iter().any(|command| matches!(command, Command::Yield(_)))
}

#[test]
fn the_younger_hold_yields_and_of_equal_ones_that_of_the_higher_mac() {
    const NOW: u64 = 100_000;
    // Description, the own MAC and the peer's, the own age, the peer's age, whether the VIP is forced.
    type Row = (&'static str, (MacAddr, MacAddr), u64, Age, bool, bool);
    let (low, high) = ((LOW, HIGH), (HIGH, LOW));
    let rows: [Row; 13] = [
        ("the own is younger", low, 5_000, Age(90_000), false, true),
        ("the own is older", high, 90_000, Age(5_000), false, false),
        ("younger by more than a tie, with the lower MAC", low, 5_000, Age(6_001), false, true),
        ("younger within a tie, with the lower MAC", low, 5_000, Age(6_000), false, false),
        ("older within a tie, with the higher MAC", high, 6_000, Age(5_000), false, true),
        ("older by more than a tie, with the higher MAC", high, 6_001, Age(5_000), false, false),
        ("equal, with the lower MAC", low, 5_000, Age(5_000), false, false),
        ("equal, with the higher MAC", high, 5_000, Age(5_000), false, true),
        ("forced here", high, 5_000, Age(90_000), true, false),
        ("forced there, and younger", low, 90_000, Age::FORCED, false, true),
        ("forced on both", high, 5_000, Age::FORCED, true, false),
        ("the peer's is as old as can be told", low, 5_000, Age::GREATEST, false, true),
        ("the peer's began just now", high, 90_000, Age(0), false, false),
    ];
    for (what, (own, peer), own_age, other, forced, expected) in rows {
        let mut host = One { forced, ..One::holding(own, peer, NOW - own_age) };
        assert_eq!(host.claimed(NOW, peer), None, "{what}: no age is told yet");
        assert_eq!(yields(host.stated(NOW, peer, other)), expected, "{what}");
    }
}

#[test]
fn both_of_a_statement_and_a_claim_of_one_peer_make_a_host_yield() {
    const OLD: Age = Age(1_000_000);
    // Description, steps (time, statement or claim, from), whether the last makes it yield.
    type Step = (u64, bool, MacAddr);
    let rows: [(&str, &[Step], bool); 8] = [
        ("a statement alone", &[(0, true, HIGH), (900, true, HIGH)], false),
        ("a claim alone, of a host that tells no age", &[(0, false, HIGH), (9_000, false, HIGH)], false),
        ("a statement, then a claim", &[(0, true, HIGH), (4_999, false, HIGH)], true),
        ("a claim, then a statement", &[(0, false, HIGH), (4_999, true, HIGH)], true),
        ("a claim too late", &[(0, true, HIGH), (5_000, false, HIGH)], false),
        ("a statement too late", &[(0, false, HIGH), (5_000, true, HIGH)], false),
        ("a stranger's of both", &[(0, true, STRANGER), (1, false, STRANGER)], false),
        ("a stranger's statement, a peer's claim", &[(0, true, STRANGER), (1, false, HIGH)], false),
    ];
    for (what, steps, expected) in rows {
        let mut host = One::holding(LOW, HIGH, 0);
        let mut last = false;
        for (after, is_statement, from) in steps {
            let now = 10_000 + after;
            last = if *is_statement {
                yields(host.stated(now, *from, OLD))
            } else {
                yields(host.claimed(now, *from))
            };
        }
        assert_eq!(last, expected, "{what}");
    }
}

#[test]
fn a_vip_that_is_not_held_concerns_nobody() {
    let mut host = One::holding(LOW, HIGH, 0);
    host.claimed(1_000, HIGH);
    host.rivals.on_released(vip());
    assert_eq!(host.stated(1_001, HIGH, Age(90_000)), []);
    assert_eq!(host.claimed(1_002, HIGH), None);
    host.rivals.on_taken(vip(), at(2_000));
    assert_eq!(host.stated(2_001, HIGH, Age(90_000)), [Command::Ask(vip())], "earlier claims do not count");
}

#[test]
fn a_stated_hold_is_asked_for_once_a_second_until_it_is_claimed() {
    let mut host = One::holding(LOW, HIGH, 0);
    let asks = |host: &mut One, now| host.stated(now, HIGH, Age(5)) == [Command::Ask(vip())];
    assert!(asks(&mut host, 10_000));
    assert!(!asks(&mut host, 10_999), "a flood of statements");
    assert!(asks(&mut host, 11_000));
    host.claimed(11_001, HIGH);
    assert!(!asks(&mut host, 12_500), "it has answered");
    assert!(asks(&mut host, 16_001), "that is over");
}

#[test]
fn holds_are_stated_every_two_seconds_and_sooner_after_a_claim() {
    let mut host = One::holding(LOW, HIGH, 0);
    let hold = |age| Command::State { ifindex: vip().ifindex, to: HIGH, holds: vec![(vip().addr, Age(age))] };
    assert_eq!(host.due(999), []);
    assert_eq!(host.due(1_000), [hold(1_000)]);
    assert_eq!(host.rivals.next_deadline(), Some(at(3_000)));
    assert_eq!(host.due(3_000), [hold(3_000)]);
    host.claimed(3_300, HIGH);
    assert_eq!(host.rivals.next_deadline(), Some(at(4_000)), "a second after the last");
    assert_eq!(host.due(4_000), [hold(4_000)]);
    host.forced = true;
    assert_eq!(host.age(6_000), Age::FORCED);
    host.rivals.on_released(vip());
    assert_eq!(host.due(8_000), []);
    assert_eq!(host.rivals.next_deadline(), None, "nothing is held");

    let mut host = One::holding(LOW, HIGH, 0);
    host.with(1_000, |rivals, host| rivals.on_tick(&Host { peers: &[], ..*host }));
    assert_eq!(host.rivals.next_deadline(), None, "no peer");
    host.rivals.on_configured(at(9_000));
    assert_eq!(host.due(9_000), [hold(9_000)], "a reload has brought one");
    assert_eq!(host.age(u64::from(u32::MAX) + 60_000), Age::GREATEST);
}

#[test]
fn very_many_holds_leave_in_bursts() {
    let mut rivals = Rivals::default();
    let number = 3 * BURST * MOST_HOLDS;
    for host in 0..u32::try_from(number).expect("some thousands") {
        rivals.on_taken(VipKey::new(3, (0x0a00_0000 + host).to_be_bytes()), at(0));
    }
    let (mut stated, mut now) = (BTreeSet::new(), 1_000);
    for burst in 0..3 {
        let host = Host { peers: &[HIGH], is_forced: &|_| false, mac_of: &|_| Some(LOW), now: at(now) };
        for command in rivals.on_tick(&host) {
            let Command::State { holds, .. } = command else { panic!("{command:?}") };
            assert!(holds.len() <= MOST_HOLDS);
            stated.extend(holds.into_iter().map(|(vip, _)| vip));
        }
        assert_eq!(stated.len(), (burst + 1) * BURST * MOST_HOLDS);
        let next = rivals.next_deadline().expect("it goes on");
        now = next.as_nanos() / 1_000_000;
    }
    assert_eq!((stated.len(), now), (number, 3_000), "the next round begins after all");
}

proptest! {
    /// Two hosts, whose frames take some time, never yield to each other; and but for a difference that
    /// is as small as those times, one yields.
    #[test]
    fn of_two_hosts_one_yields(
        taken in [0..20_000_u64, 0..20_000],
        delays in [0..400_u64, 0..400],
        swapped: bool,
    ) {
        let macs = if swapped { [HIGH, LOW] } else { [LOW, HIGH] };
        let hosts = [0, 1].map(|it| One::holding(macs[it], macs[1 - it], taken[it]));
        let [mut first, mut second] = hosts;
        let now = 30_000;
        first.claimed(now, second.own);
        second.claimed(now, first.own);
        let ages = [first.age(now), second.age(now)];
        let yielded = [
            yields(first.stated(now + delays[1], second.own, ages[1])),
            yields(second.stated(now + delays[0], first.own, ages[0])),
        ];
        prop_assert!(yielded != [true, true], "both yield");
        let apart = taken[0].abs_diff(taken[1]);
        if apart.abs_diff(1_000) > delays[0] + delays[1] {
            prop_assert!(yielded != [false, false], "none yields");
        }
        if apart > 1_000 + delays[0] + delays[1] {
            prop_assert_eq!(yielded[0], taken[0] > taken[1], "the younger one");
        }
    }

    #[test]
    fn what_is_written_is_read(
        vips in prop::collection::vec((any::<[u8; 16]>(), any::<bool>(), any::<u32>()), 0..=MOST_HOLDS),
        padding in 0..50_usize,
    ) {
        let hold = |(octets, is_v4, age): ([u8; 16], bool, u32)| {
            let v4 = [octets[0], octets[1], octets[2], octets[3]];
            let vip = if is_v4 { IpAddr::from(v4) } else { IpAddr::from(octets).to_canonical() };
            (vip, Age(age))
        };
        let holds: Vec<Hold> = vips.into_iter().map(hold).collect();
        let mut frame = statement::write(HIGH, LOW, &holds);
        for length in 0..frame.len() {
            prop_assert_eq!(statement::read(&frame[..length]), None, "cut off at {}", length);
        }
        frame.extend(vec![0; padding]);
        prop_assert_eq!(statement::read(&frame), Some((LOW, holds)));
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200), is_one: bool) {
        let mut bytes = bytes;
        if is_one && bytes.len() > 18 {
            bytes[12..14].copy_from_slice(&statement::ETHERTYPE.to_be_bytes());
            bytes[14..18].copy_from_slice(&statement::MAGIC);
        }
        let holds = statement::read(&bytes).map_or(0, |(_, holds)| holds.len());
        prop_assert!(holds * 20 <= bytes.len());
    }
}
