//! The effects of each input in each state that matters, in order, row by row.

use std::collections::BTreeMap;

use super::*;
use crate::{
    ownership::Outcome,
    pools::{Change, PoolRecord},
    records::{ClaimNote, ClaimRecord, ClaimState, Epoch, NodeInterface, Session, Version},
    services::{Ingress, IpMode, Port, Protocol, ServiceRecord},
};

const VIP: &str = "192.0.2.100";

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn web() -> ServiceName {
    ServiceName { namespace: "default".into(), name: "web".into() }
}

/// Returns the time so many milliseconds after the start, which was on a full second.
fn at(millis: u64) -> Now {
    let seconds = i64::try_from(millis / 1_000).expect("a short test");
    Now { at: Monotonic::from_nanos(millis * 1_000_000), unix_seconds: 1_700_000_000 + seconds }
}

fn line(effect: Effect) -> String {
    match effect {
        Effect::Reserve(ReservationWrite { vip, reservation: None, .. }) => format!("free {vip}"),
        Effect::Reserve(ReservationWrite { vip, reservation: Some(it), .. }) => match it.kept {
            Some(until) => format!("keep {vip} until {until:?}"),
            None => format!("reserve {vip} for {}", it.service.name),
        },
        Effect::WriteStatus { service, addresses: Some(addresses), from_metallb: false } => {
            format!("write {addresses:?} to {}", service.name)
        }
        Effect::WriteStatus { service, .. } => format!("clear {}", service.name),
        Effect::ListSlices(service) => format!("list the slices for {}", service.name),
        Effect::Problem(service, problem) => format!("problem of {}: {problem}", service.name),
        Effect::ProblemOver(service, problem) => format!("over for {}: {problem}", service.name),
        Effect::LeaveStatus(service) => format!("leave {}", service.name),
        Effect::Assigned(lasted) => format!("assigned in {} ms", lasted.as_millis()),
        Effect::ShowPools => "show the pools".to_owned(),
        Effect::Log(line) => format!("log {line:?}"),
    }
}

/// The outcome of a write.
type Answer = Box<dyn Fn(&ReservationWrite) -> Reserved>;

/// A controller at a time.
struct World {
    controller: Controller,
    millis: u64,
}

impl World {
    /// Returns a controller that has read a node on the segment, and not everything yet.
    fn unsynced() -> Self {
        let mut world = Self { controller: Controller::start(Settings::default(), at(0)), millis: 0 };
        let interface = NodeInterface {
            name: "eth0".into(),
            mac: vipward_common::MacAddr([2, 0, 0, 0, 0, 1]),
            subnets: vec!["192.0.2.0/24".parse().expect("a subnet")],
            bound: Vec::new(),
            gateways: Vec::new(),
            carrier: true,
        };
        let session = Some(Session::from_number(1).expect("not zero"));
        let lease = Event::NodeInterfaces { node: "node-z".into(), interfaces: vec![interface], session };
        let labels = BTreeMap::new();
        let namespace = Event::Namespace { name: "default".into(), labels, share_with: [].into() };
        assert_eq!(world.seen([lease, namespace]), Vec::<String>::new());
        world
    }

    /// Returns a controller with a pool of one address that has read everything.
    fn synced() -> Self {
        let mut world = Self::unsynced();
        assert_eq!(world.seen([pool(1)]), Vec::<String>::new());
        assert_eq!(world.listed(true), Vec::<String>::new());
        world
    }

    /// Returns one that has reserved the address for `web`, and has no reply yet.
    fn reserving() -> (Self, ReservationWrite) {
        let mut world = Self::synced();
        world.millis = 10;
        let effects = world.step(Input::Seen(vec![put(&service(&[])).into()]));
        let [Effect::Reserve(write)] = effects.as_slice() else { panic!("not one request: {effects:?}") };
        (world, write.clone())
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        self.controller.on(input, at(self.millis))
    }

    fn lines(&mut self, input: Input) -> Vec<String> {
        self.step(input).into_iter().map(line).collect()
    }

    fn seen(&mut self, events: impl IntoIterator<Item = Event>) -> Vec<String> {
        self.lines(Input::Seen(events.into_iter().map(Seen::from).collect()))
    }

    fn listed(&mut self, all: bool) -> Vec<String> {
        self.lines(Input::Seen(vec![Seen::Listed { slices: false, all }]))
    }

    fn replied(&mut self, reply: Reply) -> Vec<String> {
        self.lines(Input::Replies(vec![reply]))
    }

    fn waited(&mut self, millis: u64) -> Vec<String> {
        self.millis += millis;
        self.lines(Input::Deadline)
    }
}

/// Returns a pool of so many addresses.
fn pool(addresses: u8) -> Event {
    let range = format!("{VIP}-192.0.2.{}", 99 + addresses);
    let addresses = vec![range.as_str().into()];
    let record = PoolRecord { name: "lan".into(), addresses, auto_assign: true, ..PoolRecord::default() };
    Event::Pool(Change::Pool(Box::new(record)))
}

fn service(status: &[&str]) -> ServiceRecord {
    let mut record = ServiceRecord::new(web(), "1".into(), vec![Port { port: 80, protocol: Protocol::Tcp }]);
    record.ingress = status.iter().map(|it| Ingress { ip: Some(ip(it)), mode: IpMode::Vip }).collect();
    record.status_manager = Some("vipward".into()).filter(|_| !status.is_empty());
    record
}

fn put(record: &ServiceRecord) -> Event {
    Event::Service(Box::new(record.clone()))
}

/// Returns the object of an address, as it is after the write.
fn written(write: &ReservationWrite, version: &str) -> Box<ClaimRecord> {
    Box::new(ClaimRecord {
        vip: write.vip,
        version: Version::from(version),
        epoch: Epoch(0),
        state: ClaimState::Blank,
        deleting: false,
        move_to: None,
        force: false,
        release: false,
        note: ClaimNote::default(),
        reservation: write.reservation.clone().map(Box::new),
    })
}

fn reserved(write: &ReservationWrite, reserved: Reserved) -> Reply {
    Reply::Reserved(Box::new(write.clone()), reserved)
}

fn status_written(done: bool) -> Reply {
    Reply::Status { service: web(), done, jitter: 0.5 }
}

#[test]
fn a_service_gets_its_address_reserved_and_then_written() {
    let (mut world, write) = World::reserving();
    world.millis = 30;
    let object = Reserved::Object(Some(written(&write, "1")));
    assert_eq!(world.replied(reserved(&write, object)), ["write [192.0.2.100] to web"]);
    world.millis = 50;
    assert_eq!(world.replied(status_written(true)), ["assigned in 40 ms"]);
    assert_eq!(world.seen([put(&service(&[VIP]))]), ["leave web"]);
    assert_eq!(world.replied(status_written(true)), Vec::<String>::new(), "it is measured once");
}

#[test]
fn the_outcome_of_a_reservation_decides_what_is_reported_and_tried_again() {
    let problem = "log Refused(192.0.2.100, \"no right\")";
    let unknown = "log Unknown(192.0.2.100)";
    let object = |write: &ReservationWrite| Reserved::Object(Some(written(write, "1")));
    let rows: [(&str, Answer, &[&str], bool); 3] = [
        ("written", Box::new(object), &["write [192.0.2.100] to web"], false),
        ("refused", Box::new(|_| Reserved::Refused("no right".into())), &[problem, "problem of web"], true),
        ("unknown", Box::new(|_| Reserved::Unknown), &[unknown], true),
    ];
    for (what, outcome, expected, is_repeated) in rows {
        let (mut world, write) = World::reserving();
        let lines = world.replied(reserved(&write, outcome(&write)));
        assert_eq!(lines.len(), expected.len(), "{what}: {lines:?}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.starts_with(expected), "{what}: {line} is not {expected}");
        }
        let again = world.waited(1_000);
        assert_eq!(
            again.contains(&"reserve 192.0.2.100 for web".to_owned()),
            is_repeated,
            "{what}: {again:?}"
        );
    }
}

#[test]
fn the_news_of_a_watch_may_come_before_the_outcome() {
    let (mut world, write) = World::reserving();
    let news = Seen::claim(*written(&write, "1"));
    assert_eq!(world.lines(Input::Seen(vec![news])), Vec::<String>::new(), "the write is under way");
    assert_eq!(world.replied(reserved(&write, Reserved::ReadSince)), ["write [192.0.2.100] to web"]);
}

#[test]
fn a_refusal_is_reported_once_and_over_when_the_reservation_succeeds() {
    let (mut world, write) = World::reserving();
    let refused = || reserved(&write, Reserved::Refused("no right".into()));
    assert_eq!(world.replied(refused()).len(), 2);
    for pause in [1_000, 2_000] {
        assert!(world.waited(pause).contains(&"reserve 192.0.2.100 for web".to_owned()), "{pause}");
        assert_eq!(world.replied(refused()), Vec::<String>::new(), "it is known");
    }
    let lines = world.replied(reserved(&write, Reserved::Object(Some(written(&write, "1")))));
    assert_eq!(lines.first().map(String::as_str), Some("log Reserved(192.0.2.100)"));
    assert!(lines[1].starts_with("over for web: "), "{lines:?}");
    assert_eq!(lines[2], "write [192.0.2.100] to web");
}

#[test]
fn the_object_that_was_in_the_way_counts() {
    let (mut world, write) = World::reserving();
    let other = ServiceName { namespace: "default".into(), name: "other".into() };
    let reservation = Some(Reservation { service: other, pool: Some("lan".into()), kept: None });
    let theirs = ReservationWrite { reservation, ..write.clone() };
    let lines = world.replied(reserved(&write, Reserved::Object(Some(written(&theirs, "1")))));
    assert!(lines[0].starts_with("free 192.0.2.100"), "no Service of that name is there: {lines:?}");
}

#[test]
fn nothing_is_written_before_everything_is_listed_and_the_slices_if_a_service_needs_them() {
    let mut world = World::unsynced();
    assert_eq!(world.seen([pool(1), put(&service(&[]))]), Vec::<String>::new());
    assert_eq!(world.listed(false), Vec::<String>::new());
    let local = ServiceRecord { local: true, ..service(&[]) };
    assert_eq!(world.seen([put(&local)]), ["list the slices for web"]);
    assert_eq!(world.listed(true), Vec::<String>::new(), "the caller did not wait for the slices yet");
    let listed = Seen::Listed { slices: true, all: true };
    let lines = world.lines(Input::Seen(vec![listed]));
    assert_eq!(lines, ["reserve 192.0.2.100 for web"]);
}

#[test]
fn the_pools_are_shown_once_a_second_and_a_status_that_failed_is_written_again() {
    let (mut world, write) = World::reserving();
    world.replied(reserved(&write, Reserved::Object(Some(written(&write, "1")))));
    assert_eq!(world.replied(status_written(false)), Vec::<String>::new());
    assert_eq!(world.waited(500), Vec::<String>::new());
    let lines = world.waited(1_500);
    assert_eq!(lines, ["write [192.0.2.100] to web", "show the pools"]);
    assert_eq!(world.controller.next_deadline(), at(world.millis + 1_000).at);
    assert_eq!(world.waited(100), Vec::<String>::new());
}

#[test]
fn an_outcome_with_an_object_is_known_and_counts_unless_it_was_read_since() {
    let write = World::reserving().1;
    let object = |version: &str| Some(written(&write, version));
    let latest = Version::from("5");
    let refused = || Outcome::Refused("no right".into());
    let rows = [
        ("written", Outcome::Done(object("5")), None, Some(&latest), Reserved::Object(object("5"))),
        ("written before the watch", Outcome::Done(object("4")), None, Some(&latest), Reserved::ReadSince),
        ("freed", Outcome::Done(None), None, None, Reserved::Object(None)),
        ("freed, and made by others", Outcome::Done(None), None, Some(&latest), Reserved::ReadSince),
        ("in the way", Outcome::Conflict, Some(object("5")), Some(&latest), Reserved::Object(object("5"))),
        ("gone", Outcome::Missing, Some(None), None, Reserved::Object(None)),
        ("not read", Outcome::Conflict, None, Some(&latest), Reserved::Unknown),
        ("refused", refused(), None, Some(&latest), Reserved::Refused("no right".into())),
        ("no answer", Outcome::Unknown, None, None, Reserved::Unknown),
    ];
    for (what, outcome, found, latest, expected) in rows {
        assert_eq!(Reserved::of(outcome, found, latest), expected, "{what}");
    }
}
