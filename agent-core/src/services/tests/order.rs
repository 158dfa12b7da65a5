//! The order in which the controller's index and allocator learn of an event, row by row. A row fails if
//! the order is reversed, or if the names at the begin are forgotten or stay.

use super::{
    controller::{pool, reserved_for},
    *,
};
use crate::pools::PoolRecord;

fn line(command: &ControllerCommand) -> String {
    let command = match command {
        ControllerCommand::Reserve(write) => match &write.reservation {
            Some(reservation) => return format!("reserve {} for {}", write.vip, reservation.service),
            None => return format!("free {}", write.vip),
        },
        ControllerCommand::GiveUp(vip) => return format!("give up {vip}"),
        ControllerCommand::Serve(command) => command,
    };
    match command {
        Command::ListSlices { service } => format!("list the slices for {service}"),
        Command::Demand(vip, Some(_)) => format!("demand {vip}"),
        Command::Demand(vip, None) => format!("no demand {vip}"),
        Command::WriteIngress { service, addresses } => format!("write {addresses:?} to {service}"),
        Command::ClearIngress { service } => format!("clear {service}"),
        Command::LeaveIngress { service } => format!("leave {service}"),
        Command::Report { service, .. } => format!("report about {service}"),
        Command::ProblemOver { service, .. } => format!("over for {service}"),
    }
}

fn settings() -> Settings {
    let namespace_selector = Some("served=yes".parse().expect("a selector"));
    Settings { most_addresses: 2, external_ips: true, namespace_selector, ..Settings::default() }
}

/// Returns a controller that has had these events. What it reserves and frees is done at once.
fn after(events: Vec<Event>) -> Controller {
    let mut controller = Controller::start(settings());
    let interfaces = vec![interface(&["192.0.2.0/24", "2001:db8::/64"])];
    let lease = Event::NodeInterfaces { node: "node-z".into(), interfaces, session: Some(session(1)) };
    for event in [Event::SlicesListed, lease, namespace("default", true)].into_iter().chain(events) {
        let mut commands = controller.on_event(event);
        while let Some(command) = (!commands.is_empty()).then(|| commands.remove(0)) {
            if let ControllerCommand::Reserve(write) = command {
                let event = match write.reservation {
                    Some(reservation) => reserved_for(write.vip, reservation),
                    None => Event::ClaimGone(write.vip),
                };
                commands.extend(controller.on_event(event));
                commands.extend(controller.on_pools(pools::Event::Answered(write.vip)));
            }
        }
    }
    controller
}

fn namespace(name: &str, is_served: bool) -> Event {
    let labels = labels(if is_served { &[("served", "yes")] } else { &[] });
    Event::Namespace { name: name.into(), labels, share_with: BTreeSet::new() }
}

fn put(record: ServiceRecord) -> Event {
    Event::Service(Box::new(record))
}

fn external(record: ServiceRecord, address: &str) -> ServiceRecord {
    ServiceRecord { external_ips: vec![ip(address)], ..record }
}

fn held(vip: &str, reservation: Option<Reservation>) -> Event {
    claim(ip(vip), (true, false), &[], reservation)
}

/// Returns a pool that keeps the address of a Service that is gone.
fn keeping(addresses: &str) -> Event {
    let record = PoolRecord {
        name: "lan".into(),
        addresses: vec![addresses.into()],
        keep: Some("forever".into()),
        ..PoolRecord::default()
    };
    Event::Pool(pools::Change::Pool(Box::new(record)))
}

type Row = (&'static str, Vec<Event>, Event, &'static [&'static str]);

#[test]
fn what_the_index_and_the_allocator_receive_first_decides_what_follows() {
    let kept = |name| Reservation { service: named(name), pool: Some("lan".into()), kept: Some(None) };
    let has = |name| Reservation { service: named(name), pool: Some("lan".into()), kept: None };
    let dual =
        ServiceRecord { families: vec![pools::Family::V4, pools::Family::V6], ..service("default/web") };
    let rows: [Row; 7] = [
        (
            "a claim: the allocator learns of it before the address is permitted, and again after that",
            vec![Event::Synced, put(service("default/web").addressed("203.0.113.9"))],
            held("203.0.113.9", None),
            &[
                "over for default/web",
                "demand 203.0.113.9",
                "reserve 203.0.113.9 for default/web",
                "no demand 203.0.113.9",
            ],
        ),
        (
            "a claim that is gone: the allocator learns of it when its VIP was never held",
            vec![
                keeping("203.0.113.9"),
                held("203.0.113.9", Some(kept("default/gone"))),
                Event::Synced,
                put(service("default/web").addressed("203.0.113.9")),
            ],
            Event::ClaimGone(ip("203.0.113.9")),
            &["over for default/web", "report about default/web"],
        ),
        (
            "the begin: a reservation whose Service asks for nothing is freed, when all have asked",
            vec![
                pool("lan", &["192.0.2.100-192.0.2.101"]),
                reserved_for(ip("192.0.2.100"), has("default/web")),
                reserved_for(ip("192.0.2.101"), has("default/gone")),
                put(service("default/web")),
            ],
            Event::Synced,
            &["free 192.0.2.101", "demand 192.0.2.100", "write [192.0.2.100] to default/web"],
        ),
        (
            "the begin: no address that a Service names is given to another one before it",
            vec![
                pool("lan", &["192.0.2.100-192.0.2.101"]),
                put(service("default/a")),
                put(external(service("default/b").status("other", &["192.0.2.7"]), "192.0.2.100")),
            ],
            Event::Synced,
            &[
                "reserve 192.0.2.101 for default/a",
                "report about default/b",
                "demand 192.0.2.7",
                "demand 192.0.2.100",
            ],
        ),
        (
            "after the begin: what a Service named is free when the Service is gone",
            vec![
                pool("lan", &["192.0.2.100"]),
                put(service("default/a").status("other", &["192.0.2.100"])),
                Event::Synced,
                Event::ServiceGone(named("default/a")),
            ],
            put(service("default/b")),
            &["reserve 192.0.2.100 for default/b"],
        ),
        (
            "a change: the Service asks before it is evaluated, and no problem comes and goes",
            vec![Event::Synced, pool("lan", &["192.0.2.100", "2001:db8::10"]), put(dual)],
            put(external(service("default/web"), "192.0.2.50")),
            &[
                "free 2001:db8::10",
                "report about default/web",
                "demand 192.0.2.50",
                "demand 192.0.2.100",
                "no demand 2001:db8::10",
                "write [192.0.2.100] to default/web",
            ],
        ),
        (
            "several Services: what the first wants is not given to the second",
            vec![
                namespace("a", false),
                Event::Synced,
                pool("lan", &["192.0.2.100-192.0.2.101"]),
                put(external(service("a/a").status("other", &["192.0.2.7"]), "192.0.2.100")),
                put(service("a/b")),
            ],
            namespace("a", true),
            &["report about a/a", "reserve 192.0.2.101 for a/b", "demand 192.0.2.7", "demand 192.0.2.100"],
        ),
    ];
    for (description, before, event, expected) in rows {
        let mut controller = after(before);
        let lines: Vec<_> = controller.on_event(event).iter().map(line).collect();
        assert_eq!(lines, expected, "{description}");
    }
}

#[test]
fn before_everything_is_listed_the_allocator_knows_pools_and_objects_and_no_request() {
    let web = named("default/web");
    let reservation = Reservation { service: web.clone(), pool: Some("lan".into()), kept: None };
    let listed = vec![
        pool("lan", &["192.0.2.100"]),
        reserved_for(ip("192.0.2.100"), reservation),
        put(service("default/web")),
    ];
    let mut controller = after(listed);
    let known = |controller: &Controller| {
        let allocator = controller.allocator();
        (allocator.pools().count(), allocator.reservations().count(), allocator.prospects(&web).len())
    };
    assert_eq!(known(&controller), (1, 1, 0));
    controller.on_event(Event::Synced);
    assert_eq!(known(&controller), (1, 1, 1));
}
