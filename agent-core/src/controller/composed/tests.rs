//! The effects of each input in each state that matters, in order, row by row.

use std::collections::BTreeMap;

use super::*;
use crate::{
    ownership::Outcome,
    pools::{Change, Choice, PoolRecord},
    records::{ClaimRecord, NodeInterface, Session, Version},
    services::{Annotations, Ingress, IpMode, Port, Protocol, ServiceRecord},
};

const VIP: &str = "192.0.2.100";
const TERM: Duration = Duration::from_hours(1);

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
        Effect::WriteStatus { service, addresses, over } => {
            assert_eq!(over, None, "nothing is another manager's here");
            match addresses {
                Some(addresses) => format!("write {addresses:?} to {}", service.name),
                None => format!("clear {}", service.name),
            }
        }
        Effect::ListSlices(service) => format!("list the slices for {}", service.name),
        Effect::Problem(service, problem) => format!("problem of {}: {problem}", service.name),
        Effect::ProblemOver(service, problem) => format!("over for {}: {problem}", service.name),
        Effect::LeaveStatus(service) => format!("leave {}", service.name),
        Effect::Assigned(lasted) => format!("assigned in {} ms", lasted.as_millis()),
        Effect::ShowPools => "show the pools".to_owned(),
        Effect::Log(line) => format!("log {line:?}"),
    }
}

/// A controller at a time.
struct World {
    controller: Controller,
    /// It leads until `TERM`.
    election: Election,
    millis: u64,
}

impl World {
    /// Returns a controller that has read a node on the segment, and not everything yet.
    fn unsynced() -> Self {
        let mut election = Election::start("a".to_owned(), TERM);
        election.on_written(at(0).at);
        let controller = Controller::start(Settings::default(), at(0));
        let mut world = Self { controller, election, millis: 0 };
        let interface = NodeInterface {
            name: "eth0".into(),
            altnames: Vec::new(),
            mac: vipward_common::MacAddr([2, 0, 0, 0, 0, 1]),
            subnets: ["192.0.2.0/24", "2001:db8::/64"].map(|net| net.parse().expect("a subnet")).into(),
            bound: Vec::new(),
            gateways: Vec::new(),
            carrier: true,
            last_for: Vec::new(),
            unreached: Vec::new(),
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
        assert_eq!(world.seen([pool("lan", &[VIP])]), Vec::<String>::new());
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
        self.on(input, at(self.millis)).expect("it leads")
    }

    fn on(&mut self, input: Input, now: Now) -> Option<Vec<Effect>> {
        self.controller.on(&self.election, input, now)
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

fn other() -> ServiceName {
    ServiceName { namespace: "default".into(), name: "other".into() }
}

fn pool_record(name: &str, addresses: &[&str]) -> PoolRecord {
    let addresses = addresses.iter().map(|text| (*text).into()).collect();
    PoolRecord { name: name.into(), addresses, auto_assign: true, ..PoolRecord::default() }
}

fn pool(name: &str, addresses: &[&str]) -> Event {
    Event::Pool(Change::Pool(Box::new(pool_record(name, addresses))))
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
    let record = ClaimRecord::blank(write.vip, Version::from(version));
    Box::new(ClaimRecord { reservation: write.reservation.clone().map(Box::new), ..record })
}

fn reserved(write: &ReservationWrite, reserved: Reserved) -> Reply {
    Reply::Reserved(Box::new(write.clone()), reserved)
}

fn status(outcome: Outcome<()>) -> Reply {
    Reply::Status { service: web(), outcome, jitter: 0.5 }
}

#[test]
fn a_service_gets_its_address_reserved_and_then_written() {
    let (mut world, write) = World::reserving();
    world.millis = 30;
    let object = Reserved::Object(Some(written(&write, "1")));
    assert_eq!(world.replied(reserved(&write, object)), ["write [192.0.2.100] to web"]);
    world.millis = 50;
    assert_eq!(world.replied(status(Outcome::Done(()))), ["assigned in 40 ms"]);
    assert_eq!(world.seen([put(&service(&[VIP]))]), ["leave web"]);
    assert_eq!(world.replied(status(Outcome::Done(()))), Vec::<String>::new(), "it is measured once");
}

#[test]
fn a_reservation_that_failed_is_tried_again_and_a_refusal_is_reported_once() {
    let refused = Problem::NotReserved { vip: ip(VIP), why: "no right".into() };
    let rows = [
        (
            Reserved::Refused("no right".into()),
            vec!["log Refused(192.0.2.100, \"no right\")".to_owned(), format!("problem of web: {refused}")],
            vec!["log Reserved(192.0.2.100)".to_owned(), format!("over for web: {refused}")],
        ),
        (
            Reserved::Unknown,
            vec!["log Unknown(192.0.2.100)".to_owned()],
            vec!["log Reserved(192.0.2.100)".to_owned()],
        ),
    ];
    for (outcome, first, over) in rows {
        let (mut world, write) = World::reserving();
        assert_eq!(world.replied(reserved(&write, outcome.clone())), first);
        for pause in [1_000, 2_000, 4_000] {
            let due = at(world.millis + pause).at;
            while world.controller.next_deadline() < due {
                let pace = world.controller.next_deadline().saturating_since(at(world.millis).at);
                let lines = world.waited(u64::try_from(pace.as_millis()).expect("a second"));
                assert!(!lines.iter().any(|line| line.starts_with("reserve")), "{pause}: {lines:?}");
            }
            assert_eq!(world.controller.next_deadline(), due, "{pause}");
            world.millis = due.as_nanos() / 1_000_000;
            let lines = world.lines(Input::Deadline);
            assert_eq!(lines.first().map(String::as_str), Some("reserve 192.0.2.100 for web"), "{pause}");
            assert_eq!(world.replied(reserved(&write, outcome.clone())), [""; 0], "it is known");
        }
        let lines = world.replied(reserved(&write, Reserved::Object(Some(written(&write, "1")))));
        assert_eq!(lines, [over, vec!["write [192.0.2.100] to web".to_owned()]].concat());
    }
}

#[test]
fn a_refused_reservation_that_is_not_wanted_any_more_is_given_up_and_its_problem_is_over() {
    let named = |pool| ServiceRecord {
        annotations: Annotations::read(
            |name| (name == "vipward.io/pool").then_some(pool),
            std::iter::empty(),
            Vec::new(),
        ),
        ..service(&[])
    };
    let older = ServiceRecord { created: 7, ..service(&[]) };
    let (to_other, over) = ("reserve 192.0.2.100 for other", "over for web");
    let rows: [(&str, Event, &[&str]); 4] = [
        ("the Service is gone", Event::ServiceGone(web()), &[over, to_other]),
        ("it names another pool", put(&named("far")), &["reserve 192.0.2.200 for web", over, to_other]),
        ("its pool has no addresses any more", pool("lan", &[]), &[over]),
        ("it asks for the same", put(&older), &[]),
    ];
    for (what, event, expected) in rows {
        let (mut world, write) = World::reserving();
        let far = PoolRecord { auto_assign: false, ..pool_record("far", &["192.0.2.200"]) };
        world.seen([Event::Pool(Change::Pool(Box::new(far)))]);
        world.replied(reserved(&write, Reserved::Refused("no right".into())));
        world.seen([put(&ServiceRecord { name: other(), ..service(&[]) })]);
        let mut lines = world.seen([event]);
        lines.retain(|line| line.starts_with("reserve") || line.starts_with(over));
        let fits = |(line, expected): (&String, &&str)| line.starts_with(expected);
        assert!(lines.len() == expected.len() && lines.iter().zip(expected).all(fits), "{what}: {lines:?}");
        let again = world.waited(1_000).contains(&"reserve 192.0.2.100 for web".to_owned());
        assert_eq!(again, expected.is_empty(), "{what}");
    }
}

#[test]
fn services_that_are_refused_keep_to_their_addresses_and_their_pace() {
    let mut world = World::unsynced();
    let addresses = ["192.0.2.100", "192.0.2.101", "192.0.2.102"];
    let first = PoolRecord { choice: Choice::First, ..pool_record("lan", &addresses) };
    world.seen([Event::Pool(Change::Pool(Box::new(first)))]);
    world.listed(true);
    let both = [put(&service(&[])), put(&ServiceRecord { name: other(), ..service(&[]) })];
    let effects = world.step(Input::Seen(both.map(Seen::from).into()));
    let [Effect::Reserve(one), Effect::Reserve(two)] = effects.as_slice() else { panic!("{effects:?}") };
    for round in 0..3 {
        let refused = |write: &ReservationWrite| reserved(write, Reserved::Refused("no right".into()));
        let lines = world.lines(Input::Replies(vec![refused(one), refused(two)]));
        assert!(!lines.iter().any(|line| line.starts_with("reserve")), "{round}: {lines:?}");
        let mut again = world.waited(1_000 << round);
        again.retain(|line| line.starts_with("reserve"));
        assert_eq!(again, ["reserve 192.0.2.100 for web", "reserve 192.0.2.101 for other"], "{round}");
    }
}

#[test]
fn a_write_that_is_no_longer_wanted_has_its_outcome_before_it_is_given_up() {
    for outcome in [Reserved::Refused("no right".into()), Reserved::Unknown] {
        let (mut world, write) = World::reserving();
        world.replied(reserved(&write, Reserved::Refused("no right".into())));
        assert_eq!(world.waited(1_000)[0], "reserve 192.0.2.100 for web");
        let gone = [Event::ServiceGone(web()), put(&ServiceRecord { name: other(), ..service(&[]) })];
        let lines = world.seen(gone);
        assert!(!lines.iter().any(|line| line.starts_with("reserve")), "it is under way: {lines:?}");
        let mut lines = world.replied(reserved(&write, outcome.clone()));
        lines.retain(|line| line.starts_with("reserve") || line.starts_with("over for web"));
        assert_eq!(lines.len(), 2, "{outcome:?}: {lines:?}");
        assert_eq!(lines[1], "reserve 192.0.2.100 for other", "{outcome:?}");
        assert!(!world.waited(70_000).iter().any(|line| line.contains("web")), "{outcome:?}");
    }
}

#[test]
fn a_service_that_is_back_while_its_address_is_freed_keeps_it_if_that_is_refused() {
    let (mut world, write) = World::reserving();
    world.replied(reserved(&write, Reserved::Object(Some(written(&write, "1")))));
    world.replied(status(Outcome::Done(())));
    let effects = world.step(Input::Seen(vec![Event::ServiceGone(web()).into()]));
    let [.., Effect::Reserve(free)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(free.reservation, None);
    let lines = world.seen([put(&service(&[]))]);
    assert!(!lines.iter().any(|line| line.starts_with("write")), "it may be free soon: {lines:?}");
    let lines = world.replied(reserved(free, Reserved::Refused("no right".into())));
    assert_eq!(lines.last().map(String::as_str), Some("write [192.0.2.100] to web"), "{lines:?}");
    assert!(!world.waited(2_000).iter().any(|line| line.starts_with("free")));
}

#[test]
fn the_news_of_a_watch_may_come_before_the_outcome() {
    let (mut world, write) = World::reserving();
    let news = Seen::claim(*written(&write, "1"));
    assert_eq!(world.lines(Input::Seen(vec![news])), Vec::<String>::new(), "the write is under way");
    assert_eq!(world.replied(reserved(&write, Reserved::ReadSince)), ["write [192.0.2.100] to web"]);
}

#[test]
fn the_object_that_was_in_the_way_counts() {
    let (mut world, write) = World::reserving();
    let reservation = Some(Reservation { service: other(), pool: Some("lan".into()), kept: None });
    let theirs = ReservationWrite { reservation, ..write.clone() };
    let lines = world.replied(reserved(&write, Reserved::Object(Some(written(&theirs, "1")))));
    assert!(lines[0].starts_with("free 192.0.2.100"), "no Service of that name is there: {lines:?}");
}

#[test]
fn nothing_is_written_before_everything_is_listed_and_the_slices_if_a_service_needs_them() {
    let mut world = World::unsynced();
    assert_eq!(world.seen([pool("lan", &[VIP]), put(&service(&[]))]), Vec::<String>::new());
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
    assert_eq!(world.replied(status(Outcome::Unknown)), Vec::<String>::new());
    assert_eq!(world.waited(500), Vec::<String>::new());
    let lines = world.waited(1_500);
    assert_eq!(lines, ["write [192.0.2.100] to web", "show the pools"]);
    assert_eq!(world.controller.next_deadline(), at(world.millis + 1_000).at);
    assert_eq!(world.waited(100), Vec::<String>::new());
}

type Then<'a> = &'a dyn Fn(&mut World) -> Vec<String>;

#[test]
fn a_status_that_the_api_server_refuses_is_a_problem_of_its_service_for_as_long_as_that_lasts() {
    let refused = |why: &str| status(Outcome::Refused(why.into()));
    let problem = |why: &str| Problem::StatusRefused { why: why.into() };
    let begins = |why| format!("problem of web: {}", problem(why));
    let over = |why| format!("over for web: {}", problem(why));
    let done = vec![over("policy a"), "assigned in 20 ms".to_owned()];
    let rows: [(&str, Vec<String>, Then<'_>); 5] = [
        ("it is refused again", vec![], &|world| world.replied(refused("policy a"))),
        ("for another reason", vec![over("policy a"), begins("policy b")], &|world| {
            world.replied(refused("policy b"))
        }),
        ("nothing is known of it", vec![], &|world| world.replied(status(Outcome::Unknown))),
        ("it is written", done, &|world| world.replied(status(Outcome::Done(())))),
        ("the Service is gone", vec![over("policy a"), "leave web".to_owned()], &|world| {
            let mut lines = world.seen([Event::ServiceGone(web())]);
            lines.retain(|line| !line.starts_with("free"));
            lines
        }),
    ];
    for (what, expected, then) in rows {
        let (mut world, write) = World::reserving();
        world.millis = 30;
        world.replied(reserved(&write, Reserved::Object(Some(written(&write, "1")))));
        assert_eq!(world.replied(refused("policy a")), [begins("policy a")], "{what}");
        assert_eq!(then(&mut world), expected, "{what}");
    }
    let (mut world, write) = World::reserving();
    world.replied(reserved(&write, Reserved::Object(Some(written(&write, "1")))));
    world.seen([Event::ServiceGone(web())]);
    assert_eq!(world.replied(refused("policy a")), [""; 0], "it was left meanwhile");
}

#[test]
fn what_is_kept_for_a_time_is_given_up_when_the_wall_clock_says_so() {
    let (mut world, write) = World::reserving();
    let keeping = PoolRecord { keep: Some("10s".into()), ..pool_record("lan", &[VIP]) };
    world.seen([Event::Pool(Change::Pool(Box::new(keeping)))]);
    world.replied(reserved(&write, Reserved::Object(Some(written(&write, "1")))));
    let lines = world.seen([Event::ServiceGone(web())]);
    assert_eq!(lines, ["leave web", "keep 192.0.2.100 until Some(1700000010)"]);
    let kept = Reservation { kept: Some(Some(1_700_000_010)), ..write.reservation.clone().expect("one") };
    let kept = ReservationWrite { reservation: Some(kept), ..write };
    world.replied(reserved(&kept, Reserved::Object(Some(written(&kept, "2")))));
    for seconds in [1_700_000_005, 1_699_999_000, 1_700_000_009] {
        let now = Now { at: at(world.millis).at, unix_seconds: seconds };
        let lines: Vec<_> = world.on(Input::Deadline, now).into_iter().flatten().map(line).collect();
        assert_eq!(lines, ["show the pools"], "{seconds}: the monotonic clock stands still");
        assert_eq!(world.controller.next_deadline(), now.at + PACE);
    }
    let now = Now { at: at(world.millis).at, unix_seconds: 1_700_000_010 };
    let lines: Vec<_> = world.on(Input::Deadline, now).into_iter().flatten().map(line).collect();
    assert_eq!(lines, ["free 192.0.2.100", "show the pools"]);
    let later = Now { at: now.at + PACE, ..now };
    assert_eq!(world.on(Input::Deadline, later), Some(Vec::new()), "the wall clock stands still");
    assert_eq!(world.controller.next_deadline(), later.at + PACE);
}

#[test]
fn one_address_that_is_refused_keeps_no_other_back() {
    let mut world = World::synced();
    world.seen([pool("six", &["2001:db8::10"])]);
    let families = vec![pools::Family::V4, pools::Family::V6];
    let effects = world.step(Input::Seen(vec![put(&ServiceRecord { families, ..service(&[]) }).into()]));
    let [Effect::Reserve(four), Effect::Reserve(six)] = effects.as_slice() else { panic!("{effects:?}") };
    let done = Reserved::Object(Some(written(four, "1")));
    assert_eq!(world.replied(reserved(four, done)), [""; 0], "the other is under way");
    let lines = world.replied(reserved(six, Reserved::Refused("no right".into())));
    assert_eq!(lines.last().map(String::as_str), Some("write [192.0.2.100] to web"), "{lines:?}");
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
        (
            "in the way, and read since",
            Outcome::Conflict,
            Some(object("4")),
            Some(&latest),
            Reserved::ReadSince,
        ),
        ("gone", Outcome::Missing, Some(None), None, Reserved::Object(None)),
        ("gone, and made by others", Outcome::Missing, Some(None), Some(&latest), Reserved::ReadSince),
        ("not read", Outcome::Conflict, None, Some(&latest), Reserved::Unknown),
        ("refused", refused(), None, Some(&latest), Reserved::Refused("no right".into())),
        ("no answer", Outcome::Unknown, None, None, Reserved::Unknown),
    ];
    for (what, outcome, found, latest, expected) in rows {
        assert_eq!(Reserved::of(outcome, found, latest), expected, "{what}");
    }
}

#[test]
fn a_process_that_does_not_lead_by_the_time_of_an_input_decides_nothing() {
    let end = u64::try_from(TERM.as_millis()).expect("an hour");
    let rows = [
        ("in its term", end - 1, false, true),
        ("stopped until its term was over", end, false, false),
        ("another leads", 20, true, false),
    ];
    for (what, millis, is_lost, leads) in rows {
        let mut world = World::synced();
        if is_lost {
            world.election.on_lost();
        }
        let effects = world.on(Input::Seen(vec![put(&service(&[])).into()]), at(millis));
        assert_eq!(effects.is_some_and(|effects| !effects.is_empty()), leads, "{what}");
    }
}

#[test]
fn a_service_gets_what_is_reserved_for_it_and_was_announced_for_another_namespace() {
    let (mut world, write) = World::reserving();
    let mut object = written(&write, "1");
    object.note.services = vec![ServiceName { namespace: "other".into(), name: "api".into() }];
    let lines = world.replied(reserved(&write, Reserved::Object(Some(object))));
    assert_eq!(lines, ["write [192.0.2.100] to web"]);
}
