//! The agent of a cluster: its start, take-overs, news of the API server, and its end.

use std::time::Duration;

use vipward_common::{EventKind, Role};

use super::{
    api::{self, RENEWAL, REST, claim, held, seen_service, service},
    world::*,
    *,
};
use crate::{
    agent::cluster::{Input as News, Reply, Seen},
    base::samples::unknown_host,
    ownership::{Event, Outcome as Answer},
    records::ClaimState,
    services::{self, ServiceRecord},
};

const WORDS: &str =
    "read maps|read 1|prepare|write own|write no|write 1|lease_deadline|announce|log synced|read held";

#[test]
fn nothing_pinned_is_removed_before_the_cluster_is_known() {
    let mut world = World::cluster(&[10, 11]);
    // It only extends the grace period.
    let begins = ["read maps", "prepare [3]", "write own 3 01", "lease_deadline"];
    assert_eq!(only(world.notify(Input::Begin), WORDS), begins);
    let before = [
        Input::Deadline,
        Input::Changed(Changed::default()),
        Input::Program(vec![world.event_of(10, EventKind::Conflict, PEER)]),
        Input::Cluster(News::Seen(vec![Seen::Listed { slices: false, all: false }])),
    ];
    for input in before {
        let lines = world.notify(input);
        assert_eq!(only(lines, "announce|write no|write 1|claim"), [""; 0]);
    }
    assert_eq!(world.after_only(Duration::from_secs(40), "announce|write no|write 1|claim"), [""; 0]);
    assert_eq!(world.roles(), ["10 held 01", "11 held 01"]);
}

#[test]
fn what_is_not_wanted_goes_when_the_cluster_is_known_and_then_announcing_begins() {
    let mut world = World::cluster(&[10, 11]);
    world.notify(Input::Begin);
    world.api.put_claim(claim(vip(10), held("a"), 1));
    world.api.services = vec![service(10)];
    let lines = only(world.list(), WORDS);
    let expected = [
        "log synced",
        "read 10 11",
        "write no 11",
        "read maps",
        "prepare [3]",
        "read held",
        "announce 10 01 Taking(0)",
        "lease_deadline",
    ];
    assert_eq!(lines, expected);
    assert!(world.agent.segment().is_started());
}

#[test]
fn the_engine_starts_once_when_everything_is_listed() {
    let mut world = World::cluster(&[]);
    world.notify(Input::Begin);
    for (all, expected) in [(false, 0), (true, 1), (true, 0), (false, 0)] {
        let lines = world.see(vec![Seen::Listed { slices: all, all }]);
        assert_eq!(lines.iter().filter(|line| *line == "log synced").count(), expected, "{all}");
        let held = lines.iter().filter(|line| *line == "read held").count();
        assert_eq!(held, expected, "{all}: {lines:?}");
    }
}

#[test]
fn the_engine_starts_after_the_slices_that_a_service_needs() {
    let mut world = World::cluster(&[]);
    world.notify(Input::Begin);
    let local = ServiceRecord { local: true, ..service(10) };
    // The Service and the end of all lists are read together: the slices cannot be read in between.
    let read = vec![seen_service(local), Seen::Listed { slices: false, all: true }];
    assert_eq!(only(world.see(read), "list slices|log synced"), ["list slices"]);
    let listed = vec![Seen::Listed { slices: true, all: true }];
    assert_eq!(only(world.see(listed), "list slices|log synced"), ["log synced"]);
}

#[test]
fn a_start_whose_maps_cannot_be_read_removes_nothing_and_goes_on_later() {
    let mut world = World::cluster(&[10, 11]);
    world.notify(Input::Begin);
    world.api.put_claim(claim(vip(10), held("a"), 1));
    world.api.services = vec![service(10)];
    world.fails = [Part::Maps, Part::Entries].into();
    world.list();
    assert_eq!(world.roles(), ["10 held 01", "11 held 01"]);
    world.fails.clear();
    world.after(host::RETRY);
    assert_eq!(world.roles(), ["10 held 01"]);
}

#[test]
fn a_vip_is_announced_after_its_claim_and_its_entry_are_written() {
    let mut world = World::living(&[], &[12]);
    let lines = only(world.end_b(), "claim|read 1|write 1|tell|announce|holder|log notice|moved|took");
    let taken = [
        "claim 12: held by a, 2",
        "moved",
        "read 12",
        "write 12 held 01",
        "announce 12 01 Taking(0)",
        "holder 12 here",
        "log notice Holds",
        "took",
    ];
    assert_eq!(lines, taken, "without wire failover");
}

#[test]
fn the_former_holder_is_notified_before_the_announcement_and_gets_it_again() {
    let mut world = World::wired(&[], &[12]);
    let lines = only(world.end_b(), "claim|write 1|tell|announce");
    let taken = ["claim 12: held by a, 2", "write 12 held 01", "tell former 09", "announce 12 01 Taking(0)"];
    assert_eq!(lines, taken);
    for (after, expected) in [(49, 0), (1, 1), (99, 0), (1, 1), (199, 0), (1, 1), (500, 0)] {
        assert_eq!(world.after_only(ms(after), "repeat").len(), expected, "after {after} ms more");
    }
}

#[test]
fn one_frame_notifies_the_end_of_a_session_for_all_its_vips_of_10_ms() {
    // The number of milliseconds between the two entries, and of frames.
    for (between, frames) in [(0, 1), (9, 1), (10, 2)] {
        let mut world = World::wired(&[], &[12, 13]);
        // The second entry cannot be written at first.
        world.unwritable = if between == 0 { [].into() } else { [vip(13)].into() };
        let mut notified = only(world.end_b(), "tell");
        world.unwritable.clear();
        world.now = world.now + ms(between);
        world.agent.host.verify_by(world.now);
        notified.extend(only(world.notify(Input::Deadline), "tell"));
        assert_eq!(world.roles(), ["12 held 01", "13 held 01"], "{between} ms");
        assert_eq!(notified, vec!["tell former 09"; frames], "{between} ms");
        let repeats = world.after_only(ms(400), "repeat");
        assert_eq!(repeats.len(), 6, "{between} ms: {repeats:?}");
    }
}

#[test]
fn what_the_api_server_refuses_is_logged_once_and_its_end_too() {
    let mut world = World::living(&[], &[]);
    world.api.services = vec![service(14)];
    world.api.refuses = true;
    let seen = seen_service(service(14));
    world.see(vec![seen]);
    let lines = world.after_only(Duration::from_secs(20), "log refused");
    assert_eq!(lines, ["log refused Refused"]);
    world.api.refuses = false;
    let lines =
        world.after_only(Duration::from_secs(40), "log refused|write 14 held|announce 14 01 Taking(0)");
    assert_eq!(lines, ["log refused Over", "write 14 held 01", "announce 14 01 Taking(0)"]);
}

#[test]
fn a_status_that_the_api_server_refuses_is_a_problem_of_its_service_until_it_is_written() {
    let mut world = World::living(&[], &[]);
    world.api.services = vec![service(14)];
    world.api.refuses_statuses = true;
    world.see(vec![seen_service(service(14))]);
    let lines = world.after_only(Duration::from_secs(40), "problem");
    assert_eq!(lines, ["problem of default/web-14"], "it is refused again and again");
    world.api.refuses_statuses = false;
    assert_eq!(world.after_only(Duration::from_secs(90), "problem"), ["problem over of default/web-14"]);
}

#[test]
fn a_new_vip_is_probed_before_its_claim_is_written() {
    let mut world = World::living(&[], &[]);
    let lines = world.see(vec![seen_service(service(14))]);
    assert_eq!(only(lines, "write 1|claim|probe"), ["write 14 foreign ?"]);
    let lines = world.after_only(Duration::from_secs(2), "write 1|claim|probe|announce");
    let probed = ["probe 14"; 3];
    let taken = [
        "claim 14: held by a, 1",
        "write 14 held 01",
        "announce 14 01 Taking(0)",
        "announce 14 01 Taking(1)",
    ];
    assert_eq!(lines, [&probed[..], &taken].concat());
}

/// Lets time pass, in which another host answers each probe. Returns the Events.
fn answered(world: &mut World, host: u8, duration: Duration) -> Vec<String> {
    let (end, mut lines) = (world.now + duration, Vec::new());
    while world.now < end {
        lines.extend(world.after(ms(100)));
        if lines.last().is_some_and(|line| line.starts_with("probe") || line.starts_with("ask host")) {
            lines.extend(world.event(host, EventKind::Sighted, unknown_host(1)));
        }
    }
    only(lines, "post")
}

#[test]
fn a_conflict_about_an_address_in_use_is_reported_once_by_the_first_candidate() {
    // One Event is about the VIP, and one about its Service.
    let reported = ["post Conflict"; 2];
    // The VIP, and the Events while b lives and when it has gone. Node b is the first candidate for 15.
    for (host, beside_b, alone) in [(14, &reported[..], &[][..]), (15, &[], &reported)] {
        let mut world = World::living(&[], &[]);
        world.see(vec![seen_service(service(host))]);
        let lines = answered(&mut world, host, Duration::from_secs(90));
        assert_eq!(lines, beside_b, "{host}, beside b");
        world.end_b();
        let lines = answered(&mut world, host, Duration::from_mins(4));
        assert_eq!(lines, alone, "{host}, alone");
    }
}

#[test]
fn a_conflict_that_lasts_is_posted_again_every_ten_minutes() {
    let mut world = World::living(&[10], &[]);
    let mut posted = Vec::new();
    for half_minute in 0..50 {
        let at_once = only(world.event(10, EventKind::Conflict, unknown_host(1)), "post");
        posted.extend(at_once.into_iter().map(|line| (half_minute / 2, line)));
        let later = world.after_only(Duration::from_secs(30), "post");
        posted.extend(later.into_iter().map(|line| ((half_minute + 1) / 2, line)));
    }
    // One Event is about the VIP, and one about its Service.
    let minutes: Vec<_> = posted.iter().map(|(minute, _)| *minute).collect();
    assert!(posted.iter().all(|(_, line)| line == "post Conflict"), "{posted:?}");
    assert_eq!(minutes, [0, 0, 10, 10, 20, 20]);
}

#[test]
fn a_finding_is_shown_until_the_claim_has_it() {
    let mut world = World::living(&[10], &[]);
    world.event(10, EventKind::Conflict, unknown_host(1));
    assert_eq!(world.after_only(ms(100), "show"), ["show 10 Conflict"]);
    // Description, the outcome, and its line.
    let finding = crate::reports::claim_findings::Finding::Conflict(Some("another conflict".to_owned()));
    let rows: [(&str, Answer<crate::records::ClaimRecord>, &[&str]); 4] = [
        ("refused", Answer::Refused("forbidden".into()), &["log not shown 10 Conflict"]),
        ("refused again", Answer::Unknown, &[]),
        ("not stored", Answer::Done(world.api.claims[&vip(10)].clone()), &[]),
        ("there is no claim", Answer::Missing, &[]),
    ];
    // The write is under way while no answer comes.
    world.api.is_away = true;
    world.event(10, EventKind::Conflict, unknown_host(2));
    world.after(ms(200));
    for (what, outcome, expected) in rows {
        let reply = Reply::Shown { vip: vip(10), finding: finding.clone(), outcome, jitter: 0.0 };
        let input = News::Replies { replies: vec![reply], new_claims: 32 };
        assert_eq!(only(world.notify(Input::Cluster(input)), "log"), expected, "{what}");
    }
}

#[test]
fn an_agent_that_stops_gives_its_reason_last() {
    use crate::ownership::StopReason::*;
    let rows = [
        (Restart, vec!["stopped Some(Restart)"], vec!["10 held 01"]),
        (
            Leave,
            vec!["write 10 foreign ?", "claim 10: released, 1", "stopped Some(Leave)"],
            vec!["10 foreign ?"],
        ),
        (Uninstall, vec!["write no 10", "delete claim 10", "withdraw", "stopped Some(Uninstall)"], vec![]),
    ];
    for (reason, expected, roles) in rows {
        let mut world = World::living(&[10], &[]);
        // No other node can have it.
        world.api.renewing.clear();
        world.after(api::LEASE * 2);
        let mut lines = world.owned(Event::Stop(reason));
        lines.extend(world.after(Duration::from_secs(30)));
        assert_eq!(lines.last(), expected.last().map(|line| (*line).to_owned()).as_ref(), "{reason:?}");
        let lines = only(lines, "write 1|write no|claim|delete|withdraw|stopped");
        assert_eq!(lines, expected, "{reason:?}");
        assert_eq!(world.roles(), roles, "{reason:?}");
    }
}

#[test]
fn an_uninstall_leaves_nothing_that_a_full_round_would_write_again() {
    for step in [70, 90, 100, 110, 130] {
        let mut world = World::living(&[10], &[]);
        world.api.renewing.clear();
        world.after(api::LEASE * 2);
        let mut lines = world.owned(Event::Stop(StopReason::Uninstall));
        // The time for it passes, since no answer comes. A full round is due with each deadline.
        world.api.is_away = true;
        for _ in 0..200 {
            world.now = world.now + ms(step);
            world.agent.host.verify_by(world.now);
            lines.extend(world.notify(Input::Deadline));
        }
        assert_eq!(lines.last().map(String::as_str), Some("stopped Some(Uninstall)"), "{step}");
        assert!(world.entries.is_empty() && world.own.is_empty() && world.peers.is_empty(), "{step}");
    }
}

#[test]
fn another_agent_of_this_name_ends_it_after_its_entries_are_silent() {
    let mut world = World::living(&[10], &[]);
    let mut other = api::lease("a", None);
    other.session = Some(api::session("a", 9));
    world.api.put_lease(other);
    let mut lines = world.after(RENEWAL * 2);
    lines.retain(|line| {
        ["write 1", "write no", "read maps", "not alone"].iter().any(|it| line.starts_with(it))
    });
    assert_eq!(lines.last().map(String::as_str), Some("not alone"), "{lines:?}");
    assert_eq!(world.entries.values().filter(|entry| entry.role == Role::Held).count(), 0, "{lines:?}");
}

#[test]
fn no_entry_begins_to_answer_while_the_lease_deadline_has_passed() {
    let mut world = World::living(&[10], &[12]);
    world.api.is_away = true;
    world.api.renewing.clear();
    world.after(REST);
    let lines = world.end_b();
    assert_eq!(only(lines, "claim|write 1|announce"), [""; 0]);
    world.entries.get_mut(&key(10)).expect("an entry").role = Role::Foreign;
    let lines = world.after_only(Duration::from_secs(40), "write 1|announce 10 01 Taking");
    assert_eq!(lines, [""; 0], "an entry that another program silenced stays so");
    world.api.is_away = false;
    let lines = world.after_only(Duration::from_secs(10), "lease_deadline|write 10");
    let first = lines.iter().position(|line| line == "lease_deadline").expect("a lease deadline");
    let writes = lines.iter().position(|line| line == "write 10 held 01").expect("an entry");
    assert!(first < writes, "{lines:?}");
}

#[test]
fn a_vip_that_the_passed_lease_deadline_kept_silent_answers_as_soon_as_the_lease_deadline_is_given() {
    for silent in [&[10][..], &[10, 11], &[10, 11, 12]] {
        let mut world = World::living(&[10, 11, 12], &[]);
        world.api.is_away = true;
        world.api.renewing.clear();
        world.after(Duration::from_secs(20));
        for host in silent {
            world.entries.get_mut(&key(*host)).expect("an entry").role = Role::Foreign;
        }
        world.after(Duration::from_secs(40));
        world.api.is_away = false;
        let is_given = |world: &mut World| {
            let lines = world.after(ms(10));
            lines.contains(&"lease_deadline".to_owned()) && world.agent.source.may_begin_answering(world.now)
        };
        assert!((0..3_000).any(|_| is_given(&mut world)), "{silent:?}: the lease deadline is given");
        let mut lines = Vec::new();
        lines.extend(world.after(ms(10)));
        let held: Vec<_> = [10, 11, 12].iter().map(|host| format!("{host} held 01")).collect();
        assert_eq!(world.roles(), held, "{silent:?}: {lines:?}");
    }
}

#[test]
fn a_service_s_status_follows_the_entry() {
    let mut world = World::living(&[], &[12]);
    let lines = only(world.end_b(), "write 12|status");
    assert_eq!(lines, ["write 12 held 01", "status 12"]);
    let gone = services::Event::ServiceGone(service(12).name);
    let mut lines = only(world.see(vec![Seen::Object(None, Some(gone))]), "write no|delete|leave");
    lines.extend(world.after_only(REST, "write no|delete|leave"));
    assert_eq!(lines, ["leave status of default/web-12", "write no 12", "delete claim 12"]);
}

#[test]
fn a_claim_that_was_deleted_is_written_again_by_its_holder() {
    let mut world = World::living(&[10], &[]);
    world.api.claims.clear();
    let gone = Seen::Object(Some(Event::ClaimGone(vip(10))), Some(services::Event::ClaimGone(vip(10))));
    let lines = only(world.see(vec![gone]), "read claim|claim|log notice|write 1");
    assert_eq!(lines, ["read claim 10", "log notice Repaired", "claim 10: held by a, 1"]);
    assert!(matches!(world.api.claims[&vip(10)].state, ClaimState::Held(_)));
}
