use std::time::Duration;

use super::*;

const START: Monotonic = Monotonic::from_nanos(1_000_000_000);
/// Function that returns the Service after a turn, by the turn's number.
type AtTurn = fn(usize) -> ServiceRecord;

const CLASS_ONLY: &str = "(Vipward: --class-only)";

fn web() -> ServiceRecord {
    ServiceRecord { load_balancer_ip: Some("192.0.2.7".into()), ..service("a/web") }
}

fn ours() -> ServiceRecord {
    web().status("vipward", &["192.0.2.7"])
}

fn theirs(manager: &str) -> ServiceRecord {
    web().status(manager, &["192.0.2.8"])
}

fn of_class(class: Option<&str>) -> ServiceRecord {
    ServiceRecord { class: class.map(Into::into), ..web() }
}

/// Returns a holder of the VIP that has just begun to serve its Service.
fn holder() -> World {
    let mut world = World::new();
    world.hold("192.0.2.7", true);
    world.put(web());
    world.put(ours());
    world
}

fn contests(world: &World) -> Vec<String> {
    world.words().into_iter().filter(|words| words.contains("take turns")).collect()
}

fn has(words: &str, parts: &[&str]) {
    for part in parts {
        assert!(words.contains(part), "{part:?} in {words:?}");
    }
}

#[test]
fn the_way_out_of_two_controllers_depends_on_whether_the_service_has_a_class() {
    let settings = Settings { class: "lan".into(), ..Settings::default() };
    let table = [
        (
            "no class",
            None,
            vec!["create it anew with a spec.loadBalancerClass, \"lan\" for Vipward", CLASS_ONLY],
        ),
        (
            "ours",
            Some("lan"),
            vec!["gives this one to Vipward (\"lan\")", "the other serve its own class only"],
        ),
    ];
    for (description, class, parts) in table {
        let mut world = World::with(settings.clone());
        let both = ServiceRecord { status_shared: true, ..web().status("f5-cis", &["192.0.2.7"]) };
        world.put(ServiceRecord { class: class.map(Into::into), ..both });
        let words = world.words();
        assert_eq!(words.len(), 1, "{description}: {words:?}");
        has(&words[0], &["field manager \"f5-cis\"", "192.0.2.7", "(Vipward: --namespace)"]);
        has(&words[0], &parts);
        world.put(ServiceRecord { class: class.map(Into::into), ..web() });
        assert_eq!(world.problems, [], "{description}: it has stopped");
    }
}

#[test]
fn a_report_fits_into_an_event() {
    let class = "a".repeat(63);
    let settings = Settings { class: format!("{class}/{class}").into(), ..Settings::default() };
    let mut world = World::with(settings);
    let name = "n".repeat(63);
    world.put(ServiceRecord {
        name: ServiceName { namespace: name.as_str().into(), name: name.as_str().into() },
        other_controller: Some(OtherController::F5Address),
        status_since: Some(0),
        ..theirs(&"m".repeat(128))
    });
    for words in world.problems.iter().map(|(_, problem)| problem.to_string()) {
        assert!(words.len() <= 1_024, "{} bytes: {words}", words.len());
    }
    assert_eq!(world.problems.len(), 2);
}

#[test]
fn a_manager_that_writes_the_same_is_reported_while_both_do() {
    let mut world = holder();
    let both = ServiceRecord { status_shared: true, ..web().status("f5-cis", &["192.0.2.7"]) };
    world.put(both);
    let words = world.words();
    assert_eq!(words.len(), 1, "{words:?}");
    has(&words[0], &["field manager \"f5-cis\" has written 192.0.2.7", "so has Vipward", CLASS_ONLY]);
    has(&words[0], &["remove spec.loadBalancerIP"]);
    assert_eq!((world.vips(), world.duties.len()), (vec!["192.0.2.7".to_owned()], 0), "nothing else changes");
    world.put(web().status("f5-cis", &["192.0.2.7"]));
    assert_eq!(world.problems, [], "it is the other controller's: that one assigns, Vipward announces");
}

#[test]
fn a_status_that_is_lent_is_no_problem() {
    let mut world = World::new();
    world.put(service("a/web").status("controller", &["192.0.2.8"]));
    world.put(service("a/web").status("controller", &["192.0.2.9"]));
    world.put(service("a/web"));
    world.put(service("a/web").status("controller", &["192.0.2.8"]));
    assert_eq!((world.problems.len(), world.vips()), (0, vec!["192.0.2.8".to_owned()]));
}

#[test]
fn controllers_that_take_turns_are_one_problem_until_they_have_been_quiet() {
    let minutes = |minutes| START + Duration::from_mins(minutes);
    let table: [(_, AtTurn, _, _); 3] = [
        (
            "two others",
            |turn| theirs(["f5-cis", "metallb"][turn % 2]),
            "field managers \"f5-cis\" and \"metallb\" take turns",
            3,
        ),
        (
            "one that overwrites Vipward's",
            |turn| if turn.is_multiple_of(2) { ours() } else { theirs("f5-cis") },
            "field managers \"f5-cis\" and \"vipward\" take turns",
            5,
        ),
        (
            "one that removes Vipward's",
            |turn| if turn.is_multiple_of(2) { ours() } else { web() },
            "field managers \"vipward\" and one that the API server does not name take turns",
            5,
        ),
    ];
    for (description, record, words, third) in table {
        let mut world = World::new();
        world.hold("192.0.2.7", true);
        world.put(web());
        world.put(record(0));
        for turn in 1..third {
            world.put(record(turn));
            assert_eq!(contests(&world), [""; 0], "{description}: turn {turn}");
        }
        world.put(record(third));
        let notified = world.words();
        assert_eq!(notified.len(), 1, "{description}: the turns and nothing else: {notified:?}");
        has(&notified[0], &[words, CLASS_ONLY]);
        for turn in third + 1..30 {
            let commands = world.put(record(turn));
            let news = |command: &Command| {
                matches!(
                    command,
                    Command::Report { .. } | Command::ProblemOver { .. } | Command::WriteIngress { .. }
                )
            };
            assert!(!commands.iter().any(news), "{description}: {commands:?}");
        }
        world.put(web());
        assert_eq!(world.duties, [].into(), "{description}: it is not written to and fro");

        assert!(world.index().next_deadline().is_some());
        assert_eq!(world.pass(START), [], "{description}: the time of the last turn becomes known");
        assert_eq!(world.index().next_deadline(), Some(minutes(5)));
        assert_eq!(world.pass(minutes(5).saturating_sub(Duration::from_nanos(1))), [], "{description}");
        world.pass(minutes(5));
        assert_eq!(world.problems, [], "{description}: over");
        let write = Command::WriteIngress { service: named("a/web"), addresses: vec![ip("192.0.2.7")] };
        assert_eq!(world.duties.get(&named("a/web")), Some(&write), "{description}: and written again");
        assert_eq!(world.index().next_deadline(), None, "{description}");
    }
}

#[test]
fn turns_far_apart_are_no_contest() {
    let mut world = holder();
    for turn in 0..10 {
        world.put(theirs("f5-cis"));
        world.put(web());
        world.put(ours());
        world.pass(START + Duration::from_mins(10 * turn));
        world.pass(START + Duration::from_mins(10 * turn + 5));
    }
    assert_eq!(world.problems, []);
}

#[test]
fn what_we_do_to_the_status_ourselves_is_no_turn() {
    let mut world = holder();
    for _ in 0..10 {
        world.put(service("a/web").status("vipward", &["192.0.2.7"]));
        world.put(service("a/web"));
        world.put(web());
        world.put(ours());
    }
    assert_eq!((world.problems.len(), world.index().next_deadline()), (0, None));
    // No node has held it yet, so its address may be refused.
    let mut world = World::new();
    world.put(ours());
    for _ in 0..10 {
        world.node("node-a", &["192.0.2.7"]);
        world.put(web());
        world.node("node-a", &[]);
        world.put(ours());
    }
    assert_eq!((world.problems.len(), world.index().next_deadline()), (0, None));
}

#[test]
fn turns_leave_with_the_service() {
    let mut world = holder();
    for _ in 0..3 {
        world.put(theirs("f5-cis"));
        world.put(ours());
    }
    assert_eq!(contests(&world).len(), 1);
    world.notify(Event::ServiceGone(named("a/web")));
    assert_eq!((world.problems.len(), world.index().next_deadline()), (0, None));
    world.put(ours());
    assert_eq!(world.problems, []);
}

#[test]
fn a_service_that_goes_to_another_class_is_reported_from_any_class() {
    let class_only = Settings { class_only: true, ..Settings::default() };
    let table = [
        ("another class", Settings::default(), None, Some("f5"), vec!["is \"f5\" now", "\"vipward.io/l2\""]),
        ("from Vipward's", Settings::default(), Some("vipward.io/l2"), Some("f5"), vec!["is \"f5\" now"]),
        (
            "to none",
            class_only,
            Some("vipward.io/l2"),
            None,
            vec!["no spec.loadBalancerClass now", "--class-only"],
        ),
    ];
    for (description, settings, before, after, parts) in table {
        for in_between in [false, true] {
            let mut world = World::with(settings.clone());
            world.put(of_class(before));
            assert_eq!((world.problems.len(), world.vips().len()), (0, 1), "{description}");
            if in_between {
                let plain = ServiceRecord { load_balancer: false, class: None, ..web() };
                world.put(plain.clone().status("vipward", &["192.0.2.7"]));
                world.put(plain);
                assert_eq!(world.problems, [], "{description}: of another type has no owner");
            }
            world.put(of_class(after));
            let words = world.words();
            assert_eq!((words.len(), world.vips().len()), (1, 0), "{description}: {words:?}");
            has(&words[0], &["does not announce it any more"]);
            has(&words[0], &parts);
            assert_eq!(world.put(of_class(after)), [], "{description}: once");
            world.put(of_class(before));
            assert_eq!((world.problems.len(), world.vips().len()), (0, 1), "{description}: it is back");
        }
    }
}

#[test]
fn a_service_that_vipward_never_served_is_no_problem() {
    let mut world = World::new();
    let foreign = of_class(Some("f5"));
    world.put(foreign.clone());
    assert_eq!(world.problems, [], "at first sight");
    let plain = ServiceRecord { load_balancer: false, ..web() };
    world.put(plain.clone());
    world.put(foreign.clone());
    assert_eq!(world.problems, [], "nor ever served");

    world.put(of_class(None));
    world.put(plain.clone());
    world.notify(Event::ServiceGone(named("a/web")));
    world.put(foreign.clone());
    assert_eq!(world.problems, [], "one of that name was, and is gone");

    world.put(of_class(None));
    world.put(plain);
    world.put(ServiceRecord { uid: "2".into(), ..foreign });
    assert_eq!(world.problems, [], "another one of that name was");
    assert!(world.index().let_go.is_empty());
}

#[test]
fn an_annotation_that_hands_a_service_without_a_class_to_another_controller_is_reported() {
    let claimed = |controller, class: Option<&str>| ServiceRecord {
        other_controller: Some(controller),
        ..of_class(class)
    };
    let ignored = || {
        let ignore = [("vipward.io/addresses", "192.0.2.7"), ("vipward.io/ignore", "true")];
        ServiceRecord {
            other_controller: Some(OtherController::F5Address),
            ..service("a/web").annotated(&ignore)
        }
    };
    let table = [
        ("F5", claimed(OtherController::F5Address, None), Some(["annotation cis.f5.com/ip makes", "F5 CIS"])),
        (
            "a range",
            claimed(OtherController::F5Range, None),
            Some(["annotation cis.f5.com/ipamLabel makes", "F5 CIS"]),
        ),
        (
            "PureLB",
            claimed(OtherController::PureLb, None),
            Some(["annotation purelb.io/allocated-by makes", "PureLB"]),
        ),
        ("Vipward's by class", claimed(OtherController::F5Address, Some("vipward.io/l2")), None),
        ("another's by class", claimed(OtherController::F5Address, Some("f5")), None),
        ("left alone", ignored(), None),
    ];
    for (description, record, expected) in table {
        let mut world = World::new();
        world.put(record);
        let words = world.words();
        assert_eq!(words.len(), usize::from(expected.is_some()), "{description}: {words:?}");
        if let Some(parts) = expected {
            has(&words[0], &parts);
            has(&words[0], &[CLASS_ONLY]);
            world.put(web());
            assert_eq!(world.problems, [], "{description}: the annotation is gone");
        }
    }
}
