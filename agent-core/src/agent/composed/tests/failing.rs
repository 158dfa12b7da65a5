//! Tests that a reading or write which fails is logged, is repeated after five seconds, and never ends the
//! agent.

use std::time::Duration;

use super::{api, host::RETRY, world::*, *};
use crate::ownership::Event;

const VIPS: &str =
    "vips: [{address: 10.0.0.10}, {address: 10.0.0.11, force: true}, {address: \"2001:db8::64\"}]\n";

/// A part that fails at the start, its log line, and what tries again.
type Row = (Part, &'static str, &'static str);

#[test]
fn a_part_that_fails_at_the_start_is_tried_again_and_the_lease_deadline_moves_on() {
    let rows: [Row; 5] = [
        (Part::Maps, "log unread Maps fails", "read maps"),
        (Part::Prepare, "log unread Prepare fails", "prepare [3]"),
        (Part::Groups, "problems {\"Groups fails\"}", "read maps"),
        (Part::Yields, "log unread Yields fails", "read maps"),
        (Part::Held, "log unread Held fails", "read held"),
    ];
    for (part, logged, tries) in rows {
        let mut world = World::file(VIPS);
        world.pin(10, vipward_common::Role::Held);
        world.fails = [part].into();
        let lines = world.notify(Input::Begin);
        assert!(lines.contains(&logged.to_owned()), "{part:?}: {lines:?}");
        assert!(lines.contains(&"lease_deadline".to_owned()), "{part:?}: {lines:?}");
        let lines = world.after_only(RETRY.saturating_sub(ms(1)), "lease_deadline|observe");
        assert_eq!(lines, ["lease_deadline"; 4], "{part:?}");
        world.fails.clear();
        let lines = world.after(ms(1));
        assert!(lines.contains(&tries.to_owned()), "{part:?}: {lines:?}");
        world.after(Duration::from_secs(4));
        assert_eq!(world.roles(), ["10 held 01", "11 held 01", "100 held 01"], "{part:?}");
        let announced: BTreeSet<_> = world.agent.segment().rounds().map(|(key, ..)| key.addr).collect();
        assert_eq!(announced, [vip(10), vip(11), vip(100)].into(), "{part:?}");
    }
}

#[test]
fn a_network_that_cannot_be_observed_is_observed_again() {
    let mut world = World::running(VIPS, &[10, 100]);
    world.fails = [Part::Network].into();
    assert_eq!(world.changed(), ["observe", "log unobserved"]);
    assert_eq!(world.after_only(RETRY.saturating_sub(ms(1)), "observe"), [""; 0]);
    world.fails.clear();
    assert_eq!(world.after_only(ms(1), "observe|read maps"), ["observe", "read maps"]);
}

#[test]
fn answers_that_cannot_be_examined_are_examined_after_a_pause() {
    for part in [Part::LeaseDeadline, Part::Seen] {
        let mut world = World::running(VIPS, &[10, 100]);
        world.fails = [part].into();
        let log = format!("log unread {part:?} fails");
        world.eth0().carrier = false;
        world.changed();
        // The heartbeat examines the answers each second; a failure puts that off.
        assert_eq!(world.after_only(RETRY, "log unread"), [log], "{part:?}");
        world.fails.clear();
        assert_eq!(
            world.after_only(RETRY * 2, "log silent"),
            ["log silent [10 11 100], over []"],
            "{part:?}"
        );
    }
}

#[test]
fn memberships_that_cannot_be_read_or_changed_are_tried_again() {
    let join = "join ff02::1:ff00:64";
    let rows: [(Part, &[&str], &[&str]); 2] = [
        (Part::Groups, &["read groups", "log groups"], &["read groups", join]),
        (Part::ChangeGroup, &["read groups", join], &[]),
    ];
    for (part, first, again) in rows {
        let mut world = World::running(VIPS, &[10, 100]);
        world.groups.clear();
        world.fails = [part].into();
        world.notify(Input::Changed(Changed { may_have_left: [ETH0].into(), ..Changed::default() }));
        assert_eq!(world.after_only(ms(100), "read groups|join|log groups"), first, "{part:?}");
        world.fails.clear();
        assert_eq!(world.after_only(RETRY, "read groups|join|log groups"), again, "{part:?}");
        world.after(Duration::from_secs(30));
        assert_eq!(world.groups.len(), 1, "{part:?}: the full round joins it at the latest");
    }
}

#[test]
fn an_entry_of_a_membership_that_cannot_be_read_is_read_with_all_others() {
    let mut world = World::file("vips: [{address: \"2001:db8::64\"}]\n");
    world.notify(Input::Begin);
    world.fails = [Part::Entries].into();
    world.eth0().carrier = false;
    // The address is probed no longer, and its membership follows.
    assert_eq!(only(world.changed(), "read 100|log groups"), ["read 100", "log groups"]);
    world.fails.clear();
    let lines = world.after_only(RETRY, "observe|read maps");
    assert_eq!(lines, ["observe", "read maps"]);
}

#[test]
fn an_entry_that_cannot_be_written_is_stale_and_tried_again() {
    let mut world = World::file("vips: [{address: 10.0.0.11, force: true}]\n");
    world.unwritable = [vip(11)].into();
    let lines = world.notify(Input::Begin);
    assert_eq!(
        only(lines, "write|log|announce"),
        ["write own 3 01, peer 09, 11 held 01", "log stale [11], over []"]
    );
    assert_eq!(world.after_only(RETRY, "write|log stale"), ["write 11 held 01"], "it is logged once");
    world.unwritable.clear();
    let lines = world.after_only(RETRY, "write|log 11|log stale|announce");
    let written =
        ["write 11 held 01", "log 11 none > held 01", "announce 11 01 Taking(0)", "log stale [], over [11]"];
    assert_eq!(lines[..4], written);
}

#[test]
fn peers_that_cannot_be_written_are_written_after_a_pause() {
    let mut world = World::living(&[10], &[]);
    world.fails = [Part::Macs].into();
    let other = crate::records::NodeName::from("b");
    let mut lease = world.api.leases[&other].clone();
    lease.interfaces[0].mac = vipward_common::MacAddr([2, 0, 0, 0, 0, 8]);
    world.api.put_lease(lease);
    let seen = api::seen_lease(&world.api.leases[&other]);
    assert_eq!(only(world.see(vec![seen]), "read macs|log"), ["read macs", "log peers unwritten"]);
    world.fails.clear();
    let lines = world.after_only(RETRY, "observe|read maps|write");
    assert_eq!(lines.iter().filter(|line| line.contains("peer 08")).count(), 1, "{lines:?}");
}

#[test]
fn no_claim_that_a_stale_entry_makes_unsafe_is_sent() {
    // Description, what the engine wants, the entry that stays, and the claim that is not sent.
    type Change = fn(&mut World) -> Vec<String>;
    let rows: [(&str, Change, &str, &str); 3] = [
        (
            "a release while it may answer",
            |world| {
                world.eth0().carrier = false;
                world.changed()
            },
            "10 held 01",
            "claim 10",
        ),
        (
            "a deletion while it may answer",
            |world| {
                let name = api::service(10).name;
                let gone = crate::services::Event::ServiceGone(name);
                world.see(vec![crate::agent::cluster::Seen::Object(None, Some(gone))])
            },
            "10 held 01",
            "delete claim 10",
        ),
        ("a take of a VIP that cannot be held", |world| world.end_b(), "12 foreign 09", "claim 12"),
    ];
    for (what, change, entry, unsafe_claim) in rows {
        let mut world = World::living(&[10], &[12]);
        world.unwritable = [vip(10), vip(12)].into();
        let lines = change(&mut world);
        if unsafe_claim == "claim 12" {
            // The claim comes first here: the node finds out only then, and stays silent.
            assert_eq!(
                only(lines, "claim 12|log stale"),
                ["claim 12: held by a, 2", "log stale [12], over []"]
            );
        } else {
            assert!(lines.contains(&"log stale [10], over []".to_owned()), "{what}: {lines:?}");
            assert_eq!(only(lines, unsafe_claim), [""; 0], "{what}");
        }
        assert!(world.roles().contains(&entry.to_owned()), "{what}: {:?}", world.roles());
        let lines = world.after_only(Duration::from_secs(20), &format!("{unsafe_claim}|delete"));
        assert_eq!(lines, [""; 0], "{what}: as long as it fails");
        world.unwritable.clear();
        let lines = world.after_only(Duration::from_secs(20), "write 1|write no|claim|delete");
        assert_eq!(lines.first().map(|line| line.starts_with("write ")), Some(true), "{what}: {lines:?}");
    }
}

#[test]
fn a_session_does_not_end_while_a_stale_entry_may_answer() {
    let mut world = World::living(&[10], &[]);
    world.unwritable = [vip(10)].into();
    let lines = world.owned(Event::Stop(StopReason::Leave));
    let mut lines = only(lines, "write lease");
    lines.extend(world.after_only(Duration::from_secs(15), "write lease"));
    assert!(!lines.iter().any(|line| line.contains("no session")), "{lines:?}");
}
