//! The agent of a file: its start, a reload and its end.

use std::time::Duration;

use vipward_common::{EventKind, Role};

use super::{world::*, *};
use crate::base::samples::unknown_host;

pub(super) const PEERS: &str = "peers: [\"02:00:00:00:00:09\"]\n";
const ONE: &str = "vips: [{address: 10.0.0.10}]\n";
const FORCED: &str = "vips: [{address: 10.0.0.10, force: true}]\n";
const BOUND: &str = "vips: [{address: 10.0.0.10, bind: lo}]\n";

pub(super) fn parse(text: &str) -> Config {
    Config::parse(text, "vipward.yaml", "node-a").expect("a configuration")
}

impl World {
    /// Returns the agent of a file that has not begun.
    pub(super) fn file(text: &str) -> Self {
        Self::of_file(parse(&format!("{text}{PEERS}")), 1, |_| {})
    }

    /// The same on a network that a test has changed.
    pub(super) fn of_file(config: Config, seed: u64, change: impl Fn(&mut NetView)) -> Self {
        Self::new(|mut network| {
            change(&mut network.view);
            Start {
                source: Source::File(FileSource::start(&config, ms(4), BEGIN)),
                config,
                network,
                max_vips: 8,
                yields_settled: 0,
                proofs: BTreeMap::new(),
                seed,
            }
        })
    }

    /// Returns such an agent that runs, after all first rounds. It has found these VIPs in the pins.
    pub(super) fn running(text: &str, pins: &[u8]) -> Self {
        let mut world = Self::file(text);
        for host in pins {
            world.pin(*host, Role::Held);
        }
        world.notify(Input::Begin);
        world.after(ms(20_500));
        world
    }

    pub(super) fn reload(&mut self, text: Option<&str>, reclaim: bool) -> Vec<String> {
        let lines = self.read_file(text, reclaim);
        if !lines.iter().any(|line| line.starts_with("log unsettled")) {
            return lines;
        }
        // It is applied when it is found unchanged. Nothing else happens meanwhile.
        self.now = self.now + ms(2_000);
        self.read_file(text, reclaim)
    }

    /// Reads a file. One that takes something away is not applied yet.
    fn read_file(&mut self, text: Option<&str>, reclaim: bool) -> Vec<String> {
        let config = text.map(|text| Box::new(parse(&format!("{text}{PEERS}")))).ok_or(Unread::Faulty);
        self.notify(Input::File(File { config, reclaim }))
    }

    /// Fails to read a file.
    fn fail_to_read(&mut self) -> Vec<String> {
        self.notify(Input::File(File { config: Err(Unread::Unknown), reclaim: false }))
    }
}

#[test]
fn entries_come_before_the_lease_deadline_and_announcements_last() {
    // Description, the file, the pinned VIPs, what is written, and the announcement.
    type Row = (&'static str, &'static str, &'static [u8], &'static str, &'static [&'static str]);
    let rows: [Row; 5] = [
        ("pinned", ONE, &[10], "write own 3 01, peer 09", &["announce 10 01 Taking(0)"]),
        ("new", ONE, &[], "write own 3 01, peer 09, 10 foreign ?", &[]),
        ("forced", FORCED, &[], "write own 3 01, peer 09, 10 held 01", &["announce 10 01 Taking(0)"]),
        (
            "forced, beside a guarded one",
            "vips: [{address: 10.0.0.10, force: true}, {address: 10.0.0.11, mac: \"02:00:00:00:00:08\"}]\n",
            &[],
            "write own 3 01, peer 09, 11 foreign 08, 10 held 01",
            &["announce 10 01 Taking(0)"],
        ),
        ("not wanted", "vips: []\n", &[10], "write own 3 01, peer 09, no 10", &[]),
    ];
    for (what, text, pins, writes, announces) in rows {
        let mut world = World::file(text);
        for host in pins {
            world.pin(*host, Role::Held);
        }
        let lines = only(world.notify(Input::Begin), "read|prepare|write|lease_deadline|announce|probe");
        let begins = ["read maps", "prepare [3]", writes, "lease_deadline", "read yields", "read held"];
        assert_eq!(lines, [&begins[..], announces].concat(), "{what}");
    }
}

#[test]
fn a_new_vip_is_probed_and_then_taken() {
    let taken = ["read 10", "write 10 held 01", "announce 10 01 Taking(0)"];
    let bound = ["read maps", "prepare [3]", "write 10 held 01, bind 10 lo", "announce 10 01 Taking(0)"];
    for (text, takes) in [(ONE, &taken[..]), (BOUND, &bound)] {
        let mut world = World::file(text);
        world.notify(Input::Begin);
        let lines = world.after_only(ms(900), "read m|read 10|prepare|write|announce|probe 10");
        assert_eq!(lines, [&["probe 10"; 3][..], takes].concat(), "{text}");
        assert_eq!(world.after_only(Duration::from_secs(20), "probe 10"), [""; 0]);
    }
    let mut world = World::file(&format!("{ONE}probe: {{count: 0}}\n"));
    let lines = only(world.notify(Input::Begin), "write|probe");
    assert_eq!(lines, ["write own 3 01, peer 09, 10 held 01"], "without probes");
}

#[test]
fn an_address_in_use_waits_until_it_is_free() {
    let mut world = World::file(ONE);
    world.notify(Input::Begin);
    world.after(ms(150));
    let lines = world.event(10, EventKind::Sighted, unknown_host(1));
    assert_eq!(lines, ["log conflict InUse", "log 10 in use", "read yields", "log probed, 1 in use"]);
    let lines = world.after_only(ms(1_800), "write|announce|probe");
    assert_eq!(lines, [""; 0]);
    let lines = world.after_only(ms(1_500), "log|write|announce|probe");
    let free = [
        "log conflict over Free",
        "write 10 held 01",
        "log 10 foreign ? > held 01",
        "announce 10 01 Taking(0)",
    ];
    assert_eq!(lines, [&["probe 10"; 3][..], &free].concat());
}

#[test]
fn the_progress_of_probes_is_logged_when_nothing_is_under_way() {
    let mut world = World::file(ONE);
    let lines = only(world.notify(Input::Begin), "write|log p");
    assert_eq!(lines, ["write own 3 01, peer 09, 10 foreign ?", "log probing 1"]);
    let lines = world.after_only(ms(900), "write|log p");
    assert_eq!(lines, ["write 10 held 01", "log probed, 0 in use"]);
}

#[test]
fn a_kernel_that_may_ask_is_a_problem_only_while_a_vip_is_bound() {
    let mut world = World::file(BOUND);
    world.warnings = vec!["the kernel may ask".to_owned()];
    world.notify(Input::Begin);
    assert_eq!(world.problems, [].into(), "it is held back");
    world.after(ms(900));
    assert_eq!(world.problems, ["the kernel may ask".to_owned()].into(), "it is bound");
}

#[test]
fn a_file_that_was_read_again() {
    let two = "vips: [{address: 10.0.0.10}, {address: 10.0.0.11, force: true}]\n";
    let applied = [
        "log configured",
        "lease_deadline",
        "read maps",
        "prepare [3]",
        "write 11 held 01",
        "lease_deadline",
        "read yields",
    ];
    let same = ["lease_deadline", "read maps", "prepare [3]", "lease_deadline", "read yields"];
    let with = |before: &[&'static str], after: &[&'static str]| [before, after].concat();
    let equal = with(&["log configured", "log reclaims"], &same);
    let faulty = with(&["log reclaims"], &same);
    let requested = with(&["log configured", "log reclaims"], &applied[1..]);
    let rows: [(&str, Option<&str>, bool, &[&str]); 6] = [
        ("the same", Some(ONE), false, &[]),
        ("faulty", None, false, &[]),
        ("changed", Some(two), false, &applied),
        ("the same, with reclaim", Some(ONE), true, &equal),
        ("faulty, with reclaim", None, true, &faulty),
        ("changed, with reclaim", Some(two), true, &requested),
    ];
    for (what, text, reclaim, expected) in rows {
        let mut world = World::running(ONE, &[10]);
        let lines = only(
            world.reload(text, reclaim),
            "log configured|log reclaims|lease_deadline|read|prepare|write",
        );
        assert_eq!(lines, expected, "{what}");
    }
}

const TWO: &str = "vips: [{address: 10.0.0.10}, {address: 10.0.0.11}]\n";
const UNSETTLED: &str = "log unsettled, 1 VIPs, 2s";

#[test]
fn a_file_that_takes_something_away_is_applied_when_it_was_read_again_and_has_not_changed() {
    let mut world = World::running(TWO, &[10, 11]);
    assert_eq!(world.read_file(Some(ONE), false), [UNSETTLED]);
    assert_eq!(world.after_only(ms(1_990), "read file|write"), [""; 0], "its writer may go on");
    assert_eq!(world.read_file(Some(ONE), false), [""; 0], "its mode was changed");
    assert_eq!(world.after_only(ms(10), "read file|write"), ["read file"]);
    assert_eq!(world.after_only(ms(900), "read file|write"), [""; 0], "it is read once");
    let lines = only(world.read_file(Some(ONE), false), "log configured|write");
    assert_eq!(lines, ["log configured", "write no 11"]);
    assert_eq!(world.after_only(ms(20_000), "read file|log configured"), [""; 0]);
}

#[test]
fn a_file_that_is_written_in_two_parts_takes_nothing_away() {
    let three = "vips: [{address: 10.0.0.10}, {address: 10.0.0.11}, {address: 10.0.0.12, force: true}]\n";
    for (what, second, writes, vips) in [
        ("as before", Some(TWO), &[][..], 1),
        ("with one more", Some(three), &["log configured", "write 12 held 01"], 2),
        ("faulty", None, &[], 1),
    ] {
        let mut world = World::running(TWO, &[10, 11]);
        assert_eq!(world.read_file(Some(ONE), false), [UNSETTLED], "{what}");
        assert_eq!(world.after_only(ms(1_500), "read file|write"), [""; 0], "{what}");
        assert_eq!(only(world.read_file(second, false), "log configured|write"), writes, "{what}");
        assert_eq!(world.after_only(ms(20_000), "read file|write no"), [""; 0], "{what}");
        // The first part has been forgotten.
        assert_eq!(world.read_file(Some(ONE), false), [format!("log unsettled, {vips} VIPs, 2s")], "{what}");
    }
}

#[test]
fn a_file_that_waits_is_not_forgotten_when_it_could_not_be_read_meanwhile() {
    // Times at which it could not be read, in ms since it was read first.
    for (what, failures) in [("before its time", [500, 1_000]), ("at its time and later", [2_000, 7_000])] {
        let mut world = World::running(TWO, &[10, 11]);
        let begin = world.now;
        assert_eq!(world.read_file(Some(ONE), false), [UNSETTLED], "{what}");
        for failure in failures {
            let at = begin + ms(failure);
            world.after(at.saturating_since(world.now));
            assert_eq!(world.fail_to_read(), [""; 0], "{what}");
        }
        world.after(ms(2_000));
        let lines = only(world.read_file(Some(ONE), false), "log configured|write");
        assert_eq!(lines, ["log configured", "write no 11"], "{what}");
    }
}

#[test]
fn a_file_that_goes_on_changing_is_applied_after_ten_seconds_and_a_request_is_carried_out_at_once() {
    let file = |number: u32| format!("{ONE}announce: {{refresh: {}s}}\n", 90 + number);
    let mut world = World::running(TWO, &[10, 11]);
    let began = world.now;
    let mut applied = Vec::new();
    for number in 0.. {
        applied = only(world.read_file(Some(&file(number)), false), "log configured|write");
        if !applied.is_empty() {
            break;
        }
        world.after(ms(1_500));
    }
    assert_eq!(applied, ["log configured", "write no 11"]);
    assert_eq!(world.now.saturating_since(began), ms(10_500));

    let mut world = World::running(TWO, &[10, 11]);
    world.read_file(Some(ONE), false);
    let lines = only(world.read_file(Some(ONE), true), "log configured|log reclaims|write");
    assert_eq!(lines, ["log configured", "log reclaims", "write no 11"]);
}

#[test]
fn a_reload_takes_yielded_vips_back_only_with_reclaim() {
    for (reclaim, writes) in [(false, &[][..]), (true, &["write 10 held 01"])] {
        let text = format!("{ONE}yield: keep\n");
        let mut world = World::running(&text, &[10]);
        world.yield_to(10, PEER);
        world.event(10, EventKind::Yielded, PEER);
        assert_eq!(world.roles(), ["10 foreign 09"]);
        let other = format!("{text}announce: {{refresh: 90s}}\n");
        assert_eq!(only(world.reload(Some(&other), reclaim), "write"), writes, "{reclaim}");
    }
}

#[test]
fn an_agent_that_ends_moves_the_lease_deadline_once_more_or_withdraws() {
    let rows: [(&str, &[&str]); 2] = [
        ("keep", &["lease_deadline", "read yields", "stopped None"]),
        ("withdraw", &["withdraw", "stopped None"]),
    ];
    for (shutdown, expected) in rows {
        let mut world = World::running(&format!("{ONE}shutdown: {shutdown}\n"), &[10]);
        assert_eq!(world.notify(Input::Stop), expected, "{shutdown}");
        assert_eq!(world.notify(Input::Deadline), [""; 0], "after the end");
    }
    let mut world = World::running(&format!("{ONE}shutdown: keep\n"), &[10]);
    world.yield_to(10, PEER);
    let lines = only(world.notify(Input::Stop), "lease_deadline|read|write|stopped");
    let settles = ["lease_deadline", "read yields", "read maps", "write 10 foreign ?", "stopped None"];
    assert_eq!(lines, settles, "a yield is settled first");
}

#[test]
fn a_heartbeat_that_comes_late_is_logged_and_the_start_is_not() {
    let mut world = World::file(ONE);
    world.now = BEGIN + Duration::from_secs(30);
    assert_eq!(only(world.notify(Input::Begin), "log late"), [""; 0], "the program was being loaded");
    world.now = world.now + Duration::from_secs(5);
    assert_eq!(world.notify(Input::Deadline)[..2], ["log late", "lease_deadline"]);
}
