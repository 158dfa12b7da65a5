//! One thing after the other: what waits while a result is awaited, and when the agent wakes.

use std::time::Duration;

use vipward_common::EventKind;

use super::{world::*, *};
use crate::base::samples::unknown_host;

const VIPS: &str = "vips: [{address: 10.0.0.10}, {address: \"2001:db8::64\"}]\n";

#[test]
fn an_input_while_a_result_is_awaited_begins_no_other_work() {
    type Make = fn(&World) -> Input;
    let inputs: [(&str, Make, &[&str], &str); 3] = [
        ("a deadline", |_| Input::Deadline, &["lease_deadline"], "read yields"),
        (
            "an event",
            |world| Input::Program(vec![world.event_of(10, EventKind::Sighted, unknown_host(1))]),
            &["log conflict Sighted"],
            "read yields",
        ),
        ("a change", |_| Input::Changed(Changed::default()), &[], "observe"),
    ];
    for (what, input, at_once, later) in inputs {
        // The results that have come when the other input does.
        for results in 0..3 {
            let mut world = World::running(VIPS, &[10, 100]);
            world.eth0().mac = vipward_common::MacAddr([2, 0, 0, 0, 0, 7]);
            world.changed();
            world.eth0().mac = crate::base::samples::HOLDER;
            world.most = Some(results);
            world.now = world.now + ms(20_000);
            let before = world.notify(Input::Changed(Changed::default()));
            world.most = Some(0);
            let input = input(&world);
            let effects = world.agent.on(input, world.now);
            let lines = effects.iter().filter_map(|effect| lines::of(effect, &world.view));
            let lines: Vec<_> = lines.filter(|line| line != "log late" && !line.contains("Taking")).collect();
            assert_eq!(lines, at_once, "{what} after {results} results");
            world.give_effects(effects);
            world.most = None;
            world.carry_on();
            let after = world.take();
            let writes = |line: &String| line.starts_with("write own 3 01");
            let all = [before, after].concat();
            let written = all.iter().position(writes).expect("the write goes on");
            let begun = all.iter().rposition(|line| line == later).expect("the other work is done too");
            assert!(written < begun, "{what} after {results} results: {all:?}");
        }
    }
}

#[test]
fn a_result_that_nothing_waits_for_changes_nothing() {
    let mut world = World::running(VIPS, &[10, 100]);
    let outcomes = [
        Outcome::Announced { key: key(99), round: crate::segment::announce::Round::Refresh },
        Outcome::NotSent(key(99)),
        Outcome::Counted(BTreeMap::new()),
    ];
    for outcome in outcomes {
        assert_eq!(world.notify(Input::Result(outcome)), [""; 0]);
    }
}

#[test]
fn the_deadline_of_each_part_is_the_agent_s() {
    type Change = fn(&mut World);
    type Make = fn() -> World;
    let file: Make = || World::running(VIPS, &[10, 100]);
    let cluster: Make = || World::living(&[10], &[12]);
    // Description, the agent, a change, and the time of the next deadline at the latest.
    let rows: [(&str, Make, Change, u64); 11] = [
        ("the heartbeat", file, |_| (), 1_000),
        (
            "an announcement",
            file,
            |world| drop(world.reload(Some("vips: [{address: 10.0.0.12, force: true}]\n"), false)),
            1_000,
        ),
        ("a probe", file, |world| drop(world.reload(Some("vips: [{address: 10.0.0.12}]\n"), false)), 200),
        ("free VIPs", file, take_due, 10),
        ("memberships to read", file, |world| drop(world.notify(down())), 100),
        (
            "answers to examine",
            file,
            |world| {
                world.eth0().addresses.push("10.0.0.2/16".parse().expect("an address"));
                world.agent.answers.examine_all();
            },
            500,
        ),
        ("a full round", file, |world| world.agent.host.verify_by(world.now + ms(3)), 3),
        ("a yield", file, yielded, 200),
        ("a round of listening", file, |world| drop(world.changed_mac()), 1_000),
        ("the engine", cluster, |_| (), 1_000),
        (
            "a finding to show",
            cluster,
            |world| drop(world.event(10, EventKind::Conflict, unknown_host(1))),
            0,
        ),
    ];
    for (what, make, change, most) in rows {
        let mut world = make();
        change(&mut world);
        let next = world.agent.next_deadline();
        let wait = next.saturating_since(world.now);
        assert!(wait <= ms(most), "{what}: in {wait:?}");
    }
}

fn down() -> Input {
    Input::Changed(Changed { may_have_left: [ETH0].into(), ..Changed::default() })
}

/// Has an address found free.
fn take_due(world: &mut World) {
    world.reload(Some("vips: [{address: 10.0.0.12}]\n"), false);
    while world.agent.segment().undecided() > 0 {
        world.after(ms(1));
    }
    assert_eq!(world.roles(), ["12 foreign ?"]);
}

fn yielded(world: &mut World) {
    world.yield_to(10, PEER);
    world.event(10, EventKind::Yielded, PEER);
}

#[test]
fn the_deadline_of_the_agent_is_never_later_than_that_of_a_part() {
    for mut world in
        [World::running(VIPS, &[10, 100]), World::living(&[10], &[12]), World::wired(&[10], &[12])]
    {
        // Not in step with the heartbeat.
        world.after(ms(333));
        world.changed_mac();
        for _ in 0..200 {
            let agent = &world.agent;
            let silent = agent.answers.next_deadline().filter(|_| agent.segment.is_started());
            let parts = [
                ("segment", agent.segment.next_deadline()),
                ("sight", agent.visibility.next_deadline()),
                ("memberships", agent.memberships.next_deadline()),
                ("source", agent.source.next_deadline()),
                ("host", Some(agent.host.next_deadline())),
                ("answers", silent),
            ];
            let next = agent.next_deadline();
            assert_eq!(Some(next), parts.iter().filter_map(|(_, part)| *part).min(), "{parts:?}");
            world.after(ms(150));
        }
    }
}

#[test]
fn an_agent_at_rest_wakes_for_its_heartbeat_alone() {
    let mut world = World::running(VIPS, &[10, 100]);
    let lines = world.after(Duration::from_secs(5));
    assert_eq!(only(lines, "lease_deadline|read yields").len(), 10);
    let mut world = World::living(&[10], &[]);
    world.after(Duration::from_secs(26));
    let lines = only(world.after(Duration::from_secs(5)), "write lease|read|observe");
    assert_eq!(lines, ["write lease a: session"; 5]);
}
