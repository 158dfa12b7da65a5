//! Who says why a Service has no address, when no pool exists or no controller leads.

use std::time::Duration;

use super::{
    controller::{pool, reserved_for},
    *,
};
use crate::pools::Family;

const START: Monotonic = Monotonic::from_nanos(1_000_000_000);
const MINUTE: Duration = Duration::from_mins(1);
/// A moment less than a minute.
const ALMOST: Duration = Duration::from_millis(59_999);
const MOMENT: Duration = Duration::from_millis(1);

const NO_POOL: &str =
    "no VIPPool exists; create one, or name an address in the annotation vipward.io/addresses";

fn of_class(record: ServiceRecord) -> ServiceRecord {
    ServiceRecord { class: Some(DEFAULT_CLASS.into()), ..record }
}

fn in_pool(record: ServiceRecord) -> ServiceRecord {
    record.annotated(&[("vipward.io/pool", "lan")])
}

type Change = (&'static str, fn(&mut World));

impl World {
    fn texts(&self) -> Vec<String> {
        self.problems.iter().map(|(_, problem)| problem.to_string()).collect()
    }

    fn has_controller(&self) -> bool {
        match &self.process {
            Process::Agent(agent) => agent.has_controller(),
            Process::Controller(_) => panic!("no agent"),
        }
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        match &self.process {
            Process::Agent(agent) => agent.next_deadline(),
            Process::Controller(controller) => controller.index().next_deadline(),
        }
    }
}

#[test]
fn without_any_pool_the_controller_says_so_of_a_service_without_a_class_after_a_minute() {
    let web = || service("default/web");
    let none: &[&str] = &[];
    let table: [(&str, ServiceRecord, &[&str], &[&str]); 6] = [
        ("of our class", of_class(web()), &[NO_POOL], &[NO_POOL]),
        (
            "of both families",
            of_class(ServiceRecord { families: vec![Family::V4, Family::V6], ..web() }),
            &[NO_POOL],
            &[NO_POOL],
        ),
        ("of no class", web(), none, &[NO_POOL]),
        ("with another's address", web().status("other", &["198.51.100.7"]), none, none),
        ("of another class", ServiceRecord { class: Some("theirs".into()), ..web() }, none, none),
        ("with an address by name", of_class(web().addressed("192.0.2.10")), none, none),
    ];
    for (about, record, at_once, after_a_minute) in table {
        let mut world = World::of(Role::Controller, Settings::default());
        world.put(record);
        world.pass(START);
        world.pass(START + ALMOST);
        assert_eq!(world.texts(), at_once, "{about}");
        world.pass(START + MINUTE);
        assert_eq!(world.texts(), after_a_minute, "{about}");
        assert_eq!(world.next_deadline(), None, "{about}");
        world.notify(pool("lan", &["192.0.2.100", "2001:db8::10"]));
        assert_eq!(world.texts(), none, "{about}: a pool has come");
    }
}

#[test]
fn a_service_without_a_class_that_gets_an_address_within_a_minute_was_never_missed() {
    let events: [Change; 3] = [
        ("of another controller", |world| {
            world.put(service("default/web").status("other", &["198.51.100.7"]));
        }),
        ("of a pool", |world| {
            world.notify(pool("lan", &["192.0.2.100"]));
        }),
        ("it is gone", |world| {
            world.notify(Event::ServiceGone(named("default/web")));
        }),
    ];
    for (about, event) in events {
        let mut world = World::of(Role::Controller, Settings::default());
        world.put(service("default/web"));
        world.pass(START);
        event(&mut world);
        assert_eq!(world.next_deadline(), None, "{about}");
        world.pass(START + MINUTE * 2);
        assert_eq!(world.texts(), [""; 0], "{about}");
    }
}

#[test]
fn where_no_controller_leads_for_a_minute_the_agents_say_what_each_service_lacks() {
    let start = |what: &str| {
        format!("no controller runs, which would give it {what}; start it (deployment vipward-controller)")
    };
    let or_name = |what| start(what) + ", or name an address in the annotation vipward.io/addresses";
    let web = || of_class(service("default/web"));
    let (any, lan) = ("an address of a VIPPool", "an address of VIPPool lan");
    // The Service, whether an address is reserved for it, and what agents alone and those beside a
    // controller say.
    let table = [
        ("any address", web(), false, vec![or_name(any)], vec![start(any)]),
        ("of a pool", in_pool(web()), false, vec![or_name(lan)], vec![start(lan)]),
        (
            "of a pool, without a class",
            in_pool(service("default/web")),
            false,
            vec![or_name(lan)],
            vec![start(lan)],
        ),
        ("by name", web().addressed("192.0.2.10"), false, vec![], vec![start("192.0.2.10")]),
        ("it has one", web().status(FIELD_MANAGER, &["192.0.2.10"]), false, vec![], vec![]),
        ("another gave it one", web().status("other", &["192.0.2.10"]), false, vec![], vec![]),
        ("one is reserved", web(), true, vec![], vec![]),
        ("of another class", ServiceRecord { class: Some("theirs".into()), ..web() }, false, vec![], vec![]),
    ];
    for (about, record, is_reserved, alone, beside) in table {
        for (role, expected) in [(Role::Alone, &alone), (Role::Announcer, &beside)] {
            let mut world = World::of(role, Settings::default());
            if is_reserved {
                let service = named("default/web");
                world.notify(reserved_for(ip("192.0.2.10"), Reservation { service, pool: None, kept: None }));
            }
            world.put(record.clone());
            world.pass(START);
            world.pass(START + ALMOST);
            assert_eq!(world.texts(), [""; 0], "{about}, {role:?}: it may be starting");
            assert_eq!(world.has_controller(), role == Role::Announcer, "{about}, {role:?}");
            world.pass(START + MINUTE);
            assert_eq!(world.texts(), *expected, "{about}, {role:?}");
            assert!(!world.has_controller(), "{about}, {role:?}: agents report what all see");
            world.notify(Event::Leader(Some(Version::from("1"))));
            assert_eq!(world.texts(), [""; 0], "{about}, {role:?}: it is back");
            assert_eq!(world.has_controller(), role == Role::Announcer, "{about}, {role:?}");
        }
    }
    let mut world = World::of(Role::Announcer, Settings::default());
    world.put(service("default/web"));
    world.pass(START);
    world.pass(START + MINUTE);
    assert_eq!(world.next_deadline(), Some(Monotonic::default()), "the time is not known yet");
    world.pass(START + MINUTE);
    world.pass(START + MINUTE + ALMOST);
    assert_eq!(world.texts(), [""; 0], "another controller may give it one");
    world.pass(START + MINUTE * 2);
    assert_eq!(world.texts(), [start(any)]);
}

#[test]
fn a_controller_leads_while_its_lease_is_renewed_as_far_as_this_agent_can_see() {
    let lease = |version: &str| Event::Leader(Some(Version::from(version)));
    // What happens half a minute after the last renewal that was seen, and whether it is gone another
    // half minute later.
    let table: [(&str, Vec<Event>, bool); 7] = [
        ("nothing", vec![], true),
        ("a renewal", vec![lease("2")], false),
        ("a list, which shows the same", vec![lease("1")], true),
        ("it gives the lead up", vec![Event::Leader(None)], true),
        ("and another has it", vec![Event::Leader(None), lease("3")], false),
        ("this agent is cut off", vec![Event::Behind(true)], false),
        ("and no more", vec![Event::Behind(true), Event::Behind(false)], false),
    ];
    for (about, events, is_gone) in table {
        let mut world = World::of(Role::Announcer, Settings::default());
        world.notify(lease("1"));
        assert_eq!(world.next_deadline(), Some(Monotonic::default()), "the time is not known yet");
        world.pass(START);
        assert_eq!(world.next_deadline(), Some(START + MINUTE));
        world.pass(START + MINUTE / 2);
        for event in events {
            world.notify(event);
        }
        world.pass(START + MINUTE / 2 + MOMENT);
        world.pass(START + MINUTE);
        assert_eq!(world.has_controller(), !is_gone, "{about}");
    }
    let mut unlisted = World::unsynced(Role::Announcer, Settings::default());
    unlisted.pass(START);
    unlisted.pass(START + MINUTE * 10);
    assert!(unlisted.has_controller(), "its Lease may not be listed yet");
}
