//! Tests of the questions to a service proxy, and of what a node states after its answers.

use std::collections::VecDeque;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(30);
/// A host that has been up for long.
const OLD: u64 = 3_600_000;
/// A host that has just booted.
const FRESH: u64 = 20_000;

fn at(millis: u64) -> Monotonic {
    Monotonic::from_nanos(millis * 1_000_000)
}

fn port(number: u16) -> HealthPort {
    HealthPort { number, is_ipv6: false }
}

fn vip(last: u16) -> IpAddr {
    IpAddr::from([10, 0, u8::try_from(last >> 8).expect("small"), u8::try_from(last & 255).expect("small")])
}

/// A node's proxy, which answers at once.
struct World {
    delivery: Delivery,
    now: Monotonic,
    health: Answer,
    ports: BTreeMap<HealthPort, Answer>,
    asked: Vec<(Monotonic, Target)>,
    others: Vec<Command>,
}

impl World {
    fn start(millis: u64, continues: bool) -> Self {
        let now = at(millis);
        Self {
            delivery: Delivery::start(Some(TIMEOUT), continues, now),
            now,
            health: Answer::Good,
            ports: BTreeMap::new(),
            asked: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Starts on a node whose proxy is healthy, with one VIP.
    fn with_vip(answer: Answer) -> Self {
        let mut world = Self::start(OLD, false);
        world.delivery.begin();
        world.answer(1, answer);
        world.want(1);
        world
    }

    fn want(&mut self, number: u16) {
        self.delivery.on_demand(vip(number), Some(port(number)), self.now);
        self.run(0);
    }

    fn answer(&mut self, number: u16, answer: Answer) {
        self.ports.insert(port(number), answer);
    }

    fn run(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        loop {
            let mut commands = VecDeque::from(self.delivery.on_time(self.now));
            while let Some(command) = commands.pop_front() {
                let Command::Ask(target) = command else {
                    self.others.push(command);
                    continue;
                };
                self.asked.push((self.now, target));
                let answer = match target {
                    Target::Health => self.health,
                    Target::Port(port) => self.ports.get(&port).copied().unwrap_or(Answer::Unreachable),
                };
                self.delivery.on_answer(target, answer, self.now);
                commands.extend(self.delivery.on_time(self.now));
            }
            match self.delivery.next_deadline().filter(|next| *next <= end) {
                Some(next) => self.now = self.now.max(next),
                None => break,
            }
        }
        self.now = end;
    }

    fn states(&self) -> String {
        self.delivery.statement().map_or("nothing".to_owned(), |stated| stated.stated().to_string())
    }
}

#[test]
fn a_node_that_has_booted_waits_until_its_proxy_was_healthy_once() {
    use Answer::{Bad, Good, Perhaps, Unreachable};
    type Row = (&'static str, bool, Option<Proxy>, u64, &'static [(Answer, u64, &'static str)]);
    let ports = || Some(Proxy::Delivers([(port(7), Delivers::Yes)].into()));
    let table: [Row; 14] = [
        ("healthy", false, None, FRESH, &[(Good, 0, "")]),
        ("healthy after a while", false, None, FRESH, &[(Bad, 60_000, "starting"), (Good, 200, "")]),
        ("its rules may come yet", false, None, FRESH, &[(Perhaps, 1_900, "starting"), (Perhaps, 200, "")]),
        ("no rules listed, on a node that is long up", false, None, OLD, &[(Perhaps, 0, "")]),
        ("it comes late", false, None, FRESH, &[(Unreachable, 29_000, "starting"), (Good, 200, "")]),
        ("ill again: once is enough", false, None, FRESH, &[(Good, 0, ""), (Bad, 5_000, "")]),
        ("there is none", false, None, FRESH, &[(Unreachable, 29_500, "starting"), (Unreachable, 700, "")]),
        ("there is none, on a node that is long up", false, None, OLD, &[(Unreachable, 0, "")]),
        ("ill, on a node that is long up", false, None, OLD, &[(Bad, 60_000, "starting"), (Good, 200, "")]),
        ("ill for too long", false, None, OLD, &[(Bad, 119_500, "starting"), (Bad, 900, "")]),
        (
            "now ill, now away: too long",
            false,
            None,
            FRESH,
            &[
                (Unreachable, 29_000, "starting"),
                (Bad, 29_000, "starting"),
                (Unreachable, 29_000, "starting"),
                (Bad, 29_000, "starting"),
                (Unreachable, 6_000, ""),
            ],
        ),
        ("a process goes on that waited", true, Some(Proxy::Starting), FRESH, &[(Bad, 900, "starting")]),
        ("a process goes on that did not", true, ports(), FRESH, &[(Unreachable, 0, "7")]),
        ("the first process that asks goes on", true, None, FRESH, &[(Unreachable, 0, "nothing")]),
    ];
    for (description, continues, stated, since, steps) in table {
        let mut world = World::start(since, continues);
        if continues {
            world.delivery.inherit(stated.as_ref(), world.now);
        }
        for (health, lasts, states) in steps {
            world.health = *health;
            world.run(*lasts);
            assert_eq!(world.states(), *states, "{description}");
        }
        let is_reported = world.others.contains(&Command::Report(News::Ungated));
        let is_too_long = description == "there is none" || description.contains("too long");
        assert_eq!(is_reported, is_too_long, "{description}");
        let waits = world.others.iter().filter(|news| **news == Command::Report(News::Waits)).count();
        let is_long = steps.iter().map(|(_, lasts, _)| lasts).sum::<u64>() > 40_000;
        assert_eq!(waits, usize::from(is_long), "{description}");
    }
    let off = Delivery::start(None, false, at(FRESH));
    assert_eq!((off.statement(), off.next_deadline()), (None, None), "off");
}

#[test]
fn a_node_delivers_while_its_proxy_says_so() {
    use Answer::{Bad, Good, Unreachable};
    type Row = (&'static str, &'static [(Answer, u64, &'static str)]);
    let table: [Row; 8] = [
        ("at once", &[(Good, 0, "1")]),
        ("when it has the endpoint", &[(Bad, 900, ""), (Good, 110, "1")]),
        ("when it has the Service", &[(Unreachable, 900, ""), (Good, 110, "1")]),
        ("no longer", &[(Good, 0, "1"), (Bad, 3_200, ""), (Good, 110, "1")]),
        ("a proxy that starts again leaves its rules", &[(Good, 0, "1"), (Unreachable, 600_000, "1")]),
        ("a proxy that starts again", &[(Good, 2_900, "1"), (Bad, 150, "1"), (Good, 3_000, "1")]),
        ("never reached", &[(Unreachable, 29_000, ""), (Unreachable, 3_000, "?"), (Bad, 3_200, "")]),
        ("reached once, then no longer", &[(Bad, 500, ""), (Unreachable, 40_000, "1?"), (Bad, 3_200, "")]),
    ];
    for (description, steps) in table {
        let mut world = World::with_vip(steps[0].0);
        for (answer, lasts, states) in steps {
            world.answer(1, *answer);
            world.run(*lasts);
            assert_eq!(world.states(), *states, "{description}");
        }
    }
}

#[test]
fn a_port_that_is_not_reached_is_reported_until_it_is_or_no_longer_matters() {
    let mut world = World::with_vip(Answer::Unreachable);
    world.run(40_000);
    assert_eq!(world.others, [Command::Unreachable(port(1), [vip(1)].into())]);
    // A second VIP of the same Service.
    world.others.clear();
    world.delivery.on_demand(vip(2), Some(port(1)), world.now);
    world.run(4_000);
    assert_eq!(world.others, [Command::Unreachable(port(1), [vip(2)].into())]);
    world.delivery.on_demand(vip(2), None, world.now);
    world.answer(1, Answer::Good);
    world.run(4_000);
    assert_eq!(world.others[1..], [Command::Reached([vip(2)].into()), Command::Reached([vip(1)].into())]);
}

#[test]
fn where_no_port_is_ever_served_a_new_endpoint_does_not_wait() {
    let mut world = World::with_vip(Answer::Unreachable);
    world.run(40_000);
    world.want(2);
    assert_eq!(world.states(), "?", "none was ever reached");
    // The proxy is another one now.
    world.answer(1, Answer::Good);
    world.answer(2, Answer::Bad);
    world.run(7_000);
    assert_eq!(world.states(), "1");
}

#[test]
fn the_answer_to_an_earlier_request_changes_nothing_and_is_no_second_place_in_the_queue() {
    let mut world = World::start(OLD, false);
    for _ in 0..5 {
        world.delivery.on_demand(vip(1), Some(port(1)), world.now);
        let asks = world.delivery.on_time(world.now);
        assert!(asks.contains(&Command::Ask(Target::Port(port(1)))), "{asks:?}");
        world.delivery.on_demand(vip(1), None, world.now);
        world.delivery.on_demand(vip(1), Some(port(1)), world.now);
        world.delivery.on_answer(Target::Port(port(1)), Answer::Good, world.now);
        world.delivery.on_demand(vip(1), None, world.now);
        world.now = world.now + Duration::from_millis(10);
    }
    world.answer(1, Answer::Good);
    world.want(1);
    world.asked.clear();
    world.run(30_000);
    assert_eq!(world.asked.len(), 10, "every 3 s, once");
}

#[test]
fn an_endpoint_that_goes_and_comes_back_is_asked_about_anew() {
    let mut world = World::with_vip(Answer::Good);
    world.delivery.on_demand(vip(1), None, world.now);
    assert_eq!(world.states(), "");
    world.answer(1, Answer::Bad);
    world.want(1);
    world.run(1_000);
    assert_eq!(world.states(), "");
}

#[test]
fn requests_are_few_at_rest_often_while_a_vip_waits_and_never_beyond_the_rate() {
    let asked = |world: &mut World, millis| {
        world.asked.clear();
        world.run(millis);
        world.asked.len()
    };
    let mut world = World::with_vip(Answer::Good);
    assert_eq!(asked(&mut world, 30_000), 10, "at rest, every 3 s");
    let mut world = World::with_vip(Answer::Bad);
    assert_eq!(asked(&mut world, 1_000), 10, "every 100 ms");
    world.run(600_000);
    assert_eq!(asked(&mut world, 60_000), 30, "and every 2 s after minutes");
    // Ten thousand Services.
    let mut world = World::start(OLD, false);
    for number in 1..=10_000 {
        world.answer(number, Answer::Good);
        world.want(number);
    }
    assert!((995..=1_001).contains(&asked(&mut world, 10_000)), "100 a second");
    world.run(200_000);
    assert_eq!(world.states(), "nothing", "more than a Lease can state");
    assert_eq!(world.others, [Command::Report(News::TooMany)]);
    // A port for which a VIP waits is asked before all others.
    world.answer(10_001, Answer::Bad);
    world.asked.clear();
    world.want(10_001);
    world.run(1_000);
    let of_one = world.asked.iter().filter(|(_, target)| *target == Target::Port(port(10_001))).count();
    assert_eq!(of_one, 10);
    // Many that wait leave every second place to those at rest.
    for number in 10_002..=11_000 {
        world.answer(number, Answer::Bad);
        world.want(number);
    }
    world.asked.clear();
    world.run(2_000);
    let at_rest = |target| matches!(target, Target::Port(port) if port.number <= 10_000);
    let resting = world.asked.iter().filter(|(_, target)| at_rest(*target)).count();
    assert!((90..=110).contains(&resting), "{resting} of {}", world.asked.len());
}

#[test]
fn a_node_with_too_many_ports_says_so_and_states_them_again_when_they_are_clearly_fewer() {
    let mut world = World::start(OLD, false);
    for number in 1..=513 {
        world.answer(number, Answer::Good);
        world.want(number);
    }
    world.run(10_000);
    let leave = |world: &mut World, numbers: std::ops::RangeInclusive<u16>| {
        for number in numbers {
            world.delivery.on_demand(vip(number), None, world.now);
        }
        world.run(1_000);
    };
    assert_eq!(world.states(), "nothing");
    leave(&mut world, 401..=513);
    assert_ne!(world.states(), "nothing", "400 are few enough");
    let news = [Command::Report(News::TooMany), Command::Report(News::Fits)];
    assert_eq!(world.others, news);
    for number in 401..=513 {
        world.want(number);
    }
    world.run(10_000);
    leave(&mut world, 402..=513);
    assert_eq!(world.states(), "nothing", "401 are not");
}
