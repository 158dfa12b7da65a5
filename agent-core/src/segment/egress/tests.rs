use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

const SEGMENT: u32 = 4;
const VIP: IpAddr = v4(10);
const GATEWAY: IpAddr = v4(1);
const SERVER: IpAddr = v4(7);

const fn v4(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
}

const fn v6(last: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A network with a filter on the way out.
#[derive(Default)]
struct Network {
    egress: Egress,
    now: Monotonic,
    round: u64,
    /// The other hosts, with the senders that each does not answer.
    hosts: Vec<(IpAddr, Kind, BTreeSet<IpAddr>)>,
    /// The senders whose frames do not leave this host.
    filtered: BTreeSet<IpAddr>,
    /// True if other hosts answer nothing at all to a second question: a proxy answered the first.
    is_proxied: bool,
    has_lost: bool,
    /// The VIPs in whose names no question is sent: at first, and at half-time.
    unsent: [BTreeSet<IpAddr>; 2],
    /// True if no question arrives: at first, and at half-time.
    is_away: [bool; 2],
    /// The questions of the last round, by host, with the VIPs in their names.
    asked: Vec<(IpAddr, Vec<IpAddr>)>,
    unheard: BTreeSet<IpAddr>,
}

impl Network {
    fn of(hosts: &[(IpAddr, Kind)]) -> Self {
        let hosts = hosts.iter().map(|(host, kind)| (*host, *kind, BTreeSet::new())).collect();
        Self { hosts, now: Monotonic::from_nanos(1_000_000_000_000), ..Self::default() }
    }

    fn holding(hosts: &[(IpAddr, Kind)], vips: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut network = Self::of(hosts);
        vips.into_iter().for_each(|vip| network.hold(vip, None));
        network
    }

    fn on(&mut self, event: Event) -> Vec<Command> {
        self.egress.on_event(event, self.now)
    }

    fn hold(&mut self, vip: IpAddr, fault: Option<VipFault>) {
        self.on(Event::Held { key: VipKey::new(SEGMENT, vip), fault });
    }

    /// Adds the hosts' answers to questions in the names of VIPs, at first or at half-time.
    fn answer(&mut self, commands: Vec<Command>, half: usize, result: &mut Outcome) {
        for command in commands {
            let Command::Ask { segment, round, host, vips, .. } = command else { panic!("{command:?}") };
            let (_, _, refuses) = self.hosts.iter().find(|(it, ..)| *it == host).expect("a host");
            let sent: BTreeSet<IpAddr> = vips.iter().copied().collect();
            let sent = &sent - &self.unsent[half];
            if !self.is_proxied && !self.is_away[half] {
                let answers = result.answers.entry(host).or_default();
                answers.vips.extend(&(&sent - refuses) - &self.filtered);
                answers.own += 1;
            }
            self.asked.push((host, vips));
            assert_eq!(self.on(Event::Asked { segment, round, host, sent }), []);
        }
    }

    /// Has a whole round, which takes a second. Returns the VIPs about which a finding has changed.
    fn round(&mut self) -> (Vec<IpAddr>, Vec<IpAddr>) {
        self.round += 1;
        self.asked.clear();
        let round = self.round;
        self.on(Event::Began { segment: SEGMENT, round });
        let mut result = Outcome { has_lost: self.has_lost, ..Outcome::default() };
        for (address, kind, _) in self.hosts.clone() {
            result.answers.entry(address).or_default().own += 1;
            let host = Host { address, mac: MacAddr([2; 6]), own: v4(2), kind };
            let subnets = ["192.0.2.0/24", "2001:db8::/64"].map(|net| net.parse().expect("a subnet"));
            let commands =
                self.on(Event::Answered { segment: SEGMENT, round, host, subnets: subnets.into() });
            self.answer(commands, 0, &mut result);
        }
        let heard = result.answers.values().flat_map(|answers| answers.vips.clone()).collect();
        let commands = self.on(Event::Halfway { segment: SEGMENT, round, heard });
        self.answer(commands, 1, &mut result);
        self.now = self.now + seconds(1);
        let mut found = (Vec::new(), Vec::new());
        for command in self.on(Event::Ended { segment: SEGMENT, round, result }) {
            let Command::Found { begun, over, .. } = command else { panic!("{command:?}") };
            assert!(begun.iter().all(|vip| self.unheard.insert(*vip)), "{begun:?} once more");
            assert!(over.iter().all(|vip| self.unheard.remove(vip)), "{over:?} was not");
            found.0.extend(begun);
            found.1.extend(over);
        }
        found
    }

    /// Has the rounds that the machine wants within a time.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(wanted) = self.egress.wanted(SEGMENT).filter(|wanted| *wanted < end) {
            self.now = self.now.max(wanted);
            self.round();
        }
        self.now = self.now.max(end);
    }

    fn is_unheard(&self, vip: IpAddr) -> bool {
        let is = self.egress.is_unheard(VipKey::new(SEGMENT, vip));
        assert_eq!(is, self.unheard.contains(&vip), "{vip}");
        is
    }
}

#[test]
fn a_filter_is_found_by_two_rounds_at_once_and_its_end_by_one() {
    let mut network = Network::holding(&[(GATEWAY, Kind::Gateway)], [VIP]);
    network.filtered.insert(VIP);
    let began = network.now;
    network.run(seconds(4));
    assert!(network.is_unheard(VIP));
    assert_eq!(network.round, 2, "{:?}", network.now.saturating_since(began));
    network.filtered.clear();
    network.run(seconds(12));
    assert!(!network.is_unheard(VIP));
    network.filtered.insert(VIP);
    network.run(seconds(65));
    assert!(network.is_unheard(VIP), "a filter that comes later");
}

#[test]
fn silence_counts_only_if_a_witness_gives_it() {
    use Kind::{Gateway, Other, Peer};
    type Row = (&'static str, &'static [(IpAddr, Kind)], bool, IpAddr, bool);
    const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 10));
    const SERVERS: &[(IpAddr, Kind)] = &[(SERVER, Other), (v4(8), Other), (v4(9), Other)];
    const GATEWAY_V6: IpAddr = v6(1);
    // The hosts, whether they have answered the VIP before, the VIP, and whether it is unheard.
    let rows: [Row; 12] = [
        ("no host answers the own address", &[], false, VIP, false),
        ("a gateway", &[(GATEWAY, Gateway)], false, VIP, true),
        ("a gateway, for a VIP that it may have no route to", &[(GATEWAY, Gateway)], false, FAR, false),
        ("a gateway that had a route to it", &[(GATEWAY, Gateway)], true, FAR, true),
        ("a server, which may have the VIP itself", &[(SERVER, Other)], false, VIP, false),
        ("several servers", SERVERS, false, VIP, false),
        ("a server that answered before", &[(SERVER, Other)], true, VIP, true),
        ("a peer, whose service proxy may have it", &[(SERVER, Peer)], false, VIP, false),
        ("a peer whose service proxy has it since", &[(SERVER, Peer)], true, VIP, false),
        ("a peer, and a gateway behind it", &[(SERVER, Peer), (GATEWAY, Gateway)], false, VIP, true),
        ("a gateway of the other family", &[(GATEWAY, Gateway)], false, v6(10), false),
        ("its own", &[(GATEWAY_V6, Gateway)], false, v6(10), true),
    ];
    for (what, hosts, answered_before, vip, expected) in rows {
        let mut network = Network::holding(hosts, [vip]);
        if answered_before {
            network.run(seconds(2));
        }
        network.filtered.insert(vip);
        network.run(seconds(70));
        assert_eq!(network.is_unheard(vip), expected, "{what}");
    }
}

#[test]
fn what_looks_like_a_filter_and_is_none() {
    type Change = fn(&mut Network);
    let rows: [(&str, Change); 11] = [
        ("the gateway has no route to the VIP, and a server answers it", |it| {
            it.hosts[0].2.insert(VIP);
        }),
        ("the server has the VIP itself", |it| {
            it.hosts[1].2.insert(VIP);
        }),
        ("the server has it since it answered, and the gateway is away", |it| {
            it.hosts.remove(0);
            it.hosts[0].1 = Kind::Peer;
            it.hosts[0].2.insert(VIP);
        }),
        ("the switch answers in the hosts' names", |it| it.is_proxied = true),
        ("the sockets lose frames", |it| {
            it.has_lost = true;
            it.filtered.insert(VIP);
        }),
        ("the VIP is not held when the hosts are asked", |it| it.unsent = [[VIP].into(), [VIP].into()]),
        ("it is held again at half-time, and filtered", |it| {
            it.unsent[0].insert(VIP);
            it.filtered.insert(VIP);
        }),
        ("it is yielded before half-time, and filtered", |it| {
            it.unsent[1].insert(VIP);
            it.filtered.insert(VIP);
        }),
        ("the first questions do not arrive, and no question is sent at half-time", |it| {
            it.unsent[1].insert(VIP);
            it.is_away[0] = true;
        }),
        ("the questions at half-time do not arrive, and none was sent at first", |it| {
            it.unsent[0].insert(VIP);
            it.is_away[1] = true;
        }),
        ("no host answers any more", |it| {
            it.hosts.clear();
            it.filtered.insert(VIP);
        }),
    ];
    for (what, change) in rows {
        let mut network = Network::holding(&[(GATEWAY, Kind::Gateway), (SERVER, Kind::Other)], [VIP]);
        network.run(seconds(2));
        change(&mut network);
        network.run(seconds(600));
        assert!(!network.is_unheard(VIP), "{what}");
        assert!(network.round <= 62, "{what}: {} rounds", network.round);
    }
}

#[test]
fn a_host_that_was_away_for_a_question_is_no_witness() {
    for is_away in [[true, false], [false, true], [true, true]] {
        let mut network = Network::holding(&[(GATEWAY, Kind::Gateway)], [VIP]);
        network.run(seconds(2));
        network.filtered.insert(VIP);
        network.is_away = is_away;
        network.run(seconds(600));
        assert!(!network.is_unheard(VIP), "{is_away:?}");
        network.is_away = [false; 2];
        network.run(seconds(65));
        assert!(network.is_unheard(VIP), "{is_away:?}");
    }
}

#[test]
fn one_silent_round_is_no_finding() {
    let mut network = Network::holding(&[(GATEWAY, Kind::Gateway)], [VIP]);
    for _ in 0..10 {
        network.filtered.insert(VIP);
        assert_eq!(network.round(), (vec![], vec![]));
        network.filtered.clear();
        assert_eq!(network.round(), (vec![], vec![]));
        network.run(seconds(61));
    }
}

#[test]
fn a_vip_is_asked_for_about_once_a_minute_and_only_of_one_host() {
    let mut network =
        Network::holding(&[(GATEWAY, Kind::Gateway), (SERVER, Kind::Other)], [VIP, v4(11), v6(10)]);
    let mut asked = 0;
    for _ in 0..600 {
        let before = network.round;
        network.run(seconds(1));
        if network.round > before {
            asked += 1;
            assert_eq!(network.asked, [(GATEWAY, vec![VIP, v4(11)])]);
        }
    }
    assert!((9..=12).contains(&asked), "{asked}");
}

#[test]
fn many_vips_are_asked_for_in_turn_and_a_filter_of_all_is_named_fast() {
    let vip = |number: u32| IpAddr::from((10_u32 << 24 | number).to_be_bytes());
    let all = || (0..1_000).map(vip);
    let mut network = Network::of(&[(GATEWAY, Kind::Gateway)]);
    // The gateway has answered each of them once.
    all().for_each(|vip| network.hold(vip, None));
    let (mut asked, mut heard) = (BTreeSet::new(), 0);
    for minute in 1..=6 {
        let end = network.now + EVERY;
        while let Some(wanted) = network.egress.wanted(SEGMENT).filter(|wanted| *wanted < end) {
            network.now = network.now.max(wanted);
            network.round();
            let now: Vec<IpAddr> = network.asked.iter().flat_map(|(_, vips)| vips.clone()).collect();
            assert!(now.len() <= MOST as usize);
            heard += now.len();
            asked.extend(now);
        }
        network.now = end;
        let most = MOST as usize * (minute + 1);
        assert!(heard <= most, "{heard} in {minute} minutes");
    }
    assert_eq!(asked.len(), 1_000, "each had its turn");
    assert!(network.unheard.is_empty());

    network.filtered.extend(all());
    network.run(seconds(65));
    let first = network.unheard.len();
    assert!(first >= MOST as usize, "{first} are named");
    network.run(seconds(240));
    assert_eq!(network.unheard.len(), 1_000);
    network.filtered.clear();
    network.run(seconds(360));
    assert!(network.unheard.is_empty(), "{}", network.unheard.len());
}

#[test]
fn a_vip_that_was_just_taken_comes_first_and_at_once() {
    let vip = |number: u32| IpAddr::from((192_u32 << 24 | 2 << 8 | number).to_be_bytes());
    let mut network = Network::holding(&[(GATEWAY, Kind::Gateway)], (0..200).map(vip));
    network.run(seconds(30));
    assert!(network.unheard.is_empty());
    network.hold(VIP, None);
    network.filtered.insert(VIP);
    network.run(seconds(5));
    assert!(network.is_unheard(VIP));
}

#[test]
fn an_earlier_agents_finding_and_one_about_another_way_must_be_confirmed() {
    let key = VipKey::new(SEGMENT, VIP);
    for (hosts, filtered, expected) in [
        (&[(GATEWAY, Kind::Gateway)][..], true, true),
        (&[(GATEWAY, Kind::Gateway)], false, false),
        (&[(SERVER, Kind::Other)], true, false),
        (&[], true, false),
    ] {
        let mut network = Network::of(hosts);
        network.unheard.insert(VIP);
        network.hold(VIP, Some(VipFault::Unheard));
        // Its announcement leaves.
        network.hold(VIP, None);
        assert!(network.is_unheard(VIP));
        network.filtered.extend(filtered.then_some(VIP));
        network.run(seconds(5));
        assert_eq!(network.is_unheard(VIP), expected, "{hosts:?} {filtered}");

        network.on(Event::Anew(SEGMENT));
        assert_eq!(network.is_unheard(VIP), expected, "until it is known");
        network.filtered.clear();
        network.run(seconds(5));
        assert!(!network.is_unheard(VIP), "{hosts:?} {filtered}");

        network.on(Event::Released(key));
        assert_eq!(network.egress.wanted(SEGMENT), None);
    }
}

#[test]
fn a_round_of_another_way_proves_nothing() {
    let mut network = Network::holding(&[(GATEWAY, Kind::Gateway)], [VIP]);
    network.filtered.insert(VIP);
    network.round();
    let (segment, round) = (SEGMENT, 99);
    network.on(Event::Began { segment, round });
    let host = Host { address: GATEWAY, mac: MacAddr([2; 6]), own: v4(2), kind: Kind::Gateway };
    let subnets: Vec<IpNet> = vec!["192.0.2.0/24".parse().expect("a subnet")];
    let answered = Event::Answered { segment, round, host, subnets };
    assert_eq!(network.on(answered.clone()).len(), 1);
    network.on(Event::Anew(SEGMENT));
    assert_eq!(network.on(answered), []);
    assert_eq!(network.on(Event::Halfway { segment, round, heard: BTreeSet::new() }), []);
    let answers = [(GATEWAY, Answers { own: 3, vips: BTreeSet::new() })].into();
    let result = Outcome { answers, has_lost: false };
    assert_eq!(network.on(Event::Ended { segment, round, result }), []);
    assert!(!network.is_unheard(VIP));
}

proptest! {
    /// Whatever fails, no VIP is named that any host hears, and a VIP that a gateway no longer hears is
    /// named within 65 s.
    #[test]
    fn only_what_is_filtered_is_named_and_that_in_time(
        steps in prop::collection::vec((0..7_u8, 10..14_u8, 1..90_u64), 1..60),
    ) {
        let vips = [v4(10), v4(11), v4(12), v4(13)];
        let mut network =
            Network::holding(&[(GATEWAY, Kind::Gateway), (SERVER, Kind::Other), (v4(8), Kind::Peer)], vips);
        for (step, last, wait) in steps {
            let vip = v4(last);
            match step {
                0 => _ = network.filtered.insert(vip),
                1 => network.filtered.clear(),
                2 => network.has_lost = !network.has_lost,
                3 => _ = network.hosts[1].2.insert(vip),
                4 => {
                    network.on(Event::Released(VipKey::new(SEGMENT, vip)));
                    network.unheard.remove(&vip);
                    network.hold(vip, None);
                }
                5 => _ = network.on(Event::Anew(SEGMENT)),
                _ => {}
            }
            let before = network.filtered.clone();
            network.run(seconds(wait));
            for vip in vips {
                if network.unheard.contains(&vip) && wait >= 65 && !network.has_lost {
                    prop_assert!(before.contains(&vip), "{vip} is heard");
                }
                if before.contains(&vip) && wait >= 65 && !network.has_lost {
                    prop_assert!(network.unheard.contains(&vip), "{vip} is not named");
                }
            }
        }
    }
}
