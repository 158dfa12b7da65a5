//! A yield: it is read back, the engine learns of it once, and the VIP is taken back or stays.

use std::time::Duration;

use vipward_common::{EventKind, Role};

use super::{
    super::*,
    api::{self, RENEWAL, REST},
    living,
    world::*,
};
use crate::{ownership::Settings, records::ClaimState};

const VIPS: &str = "vips: [{address: 10.0.0.10}]\n";
const WORDS: &str =
    "read yields|read maps|log asks|write 10|read claim|log takes back|post TakenBack|announce";
/// A yielded VIP that is probed, and one that stays with the peer for now.
const ASKED: [&str; 4] = ["read yields", "read maps", "log asks about 10", "write 10 foreign ?"];
const LEFT: [&str; 3] = ["read yields", "read maps", "write 10 foreign 09"];

impl World {
    fn yields(&mut self) -> Vec<String> {
        self.yield_to(10, PEER);
        let lines = self.event(10, EventKind::Yielded, PEER);
        only(lines, WORDS)
    }

    /// Returns a node whose lease deadline has passed, since the API server is away.
    fn cut_off(settings: &Settings) -> Self {
        let mut world = Self::living_with(settings, &[10], &[]);
        world.api.is_away = true;
        world.after(REST + RENEWAL);
        world
    }
}

#[test]
fn a_yield_of_a_file_s_vip_is_read_back_and_taken_back_without_a_peer() {
    let taken_back = ["log takes back 10", "write 10 held 01", "announce 10 01 Taking(0), taken back"];
    let rows: [(&str, &str, &[&str], &[&str]); 4] = [
        ("ask", "yield: ask\n", &ASKED, &taken_back),
        ("keep", "yield: keep\n", &LEFT, &[]),
        ("stop", "fence: {policy: stop}\n", &LEFT, &[]),
        ("without probes", "probe: {count: 0}\n", &LEFT, &[]),
    ];
    for (what, text, read_back, after) in rows {
        let mut world = World::running(&format!("{VIPS}{text}"), &[10]);
        assert_eq!(world.yields(), read_back, "{what}");
        assert_eq!(world.after_only(ms(3_000), "log takes|write|announce"), after, "{what}");
        assert_eq!(world.agent.host().yields_settled(), 1, "{what}");
        assert_eq!(
            world.lease_deadline.yields_settled, 1,
            "{what}: with the next move of the lease deadline"
        );
    }
}

#[test]
fn a_vip_that_a_peer_answers_for_stays_with_it() {
    let mut worlds = [World::running(VIPS, &[10]), World::cut_off(&living::settings())];
    for world in &mut worlds {
        world.yields();
        world.after(ms(500));
        world.event(10, EventKind::Moved, PEER);
        let lines = world.after_only(Duration::from_secs(4), "log takes|write 10|announce|probe");
        assert_eq!(lines, ["write 10 foreign 09"], "{}", world.agent.cluster().is_some());
    }
}

#[test]
fn the_engine_reads_the_claim_after_a_yield_and_learns_of_it_once() {
    // Description, change of the world, the lines of the event, and of the next seconds.
    type Change = fn(&mut World);
    let back = ["write 10 held 01", "announce 10 01 Taking(0)", "announce 10 01 Defence"];
    let rows: [(&str, Change, &[&str]); 2] = [
        ("the claim names this node", |_| (), &back),
        (
            "it names the peer",
            |world| world.api.put_claim(api::claim(vip(10), api::held("b"), 2)),
            &["write 10 foreign 09"],
        ),
    ];
    for (what, change, ends) in rows {
        let mut world = World::living(&[10], &[]);
        change(&mut world);
        let lines = world.yields();
        assert_eq!(lines[..4], ASKED, "{what}");
        assert_eq!(lines[4], "read claim 10", "{what}");
        assert_eq!(only(lines[5..].to_vec(), "write|announce"), ends, "{what}");
        let lines = world.after_only(ms(3_000), "read claim|log takes|write 10");
        assert_eq!(lines, [""; 0], "{what}");
        // A full round for another reason finds the yield settled.
        world.after(Duration::from_secs(30));
        assert_eq!(world.event(10, EventKind::Yielded, PEER).last().map(String::as_str), Some("read yields"));
    }
}

#[test]
fn a_yield_that_a_full_round_finds_first_reaches_the_engine_once() {
    let mut world = World::living(&[10], &[]);
    world.yield_to(10, PEER);
    world.eth0().addresses.push("10.0.0.2/16".parse().expect("an address"));
    let other = crate::host::net::Interface::sample(4, "eth1");
    world.view.interfaces.insert(4, other);
    let lines = only(world.changed(), "read maps|write own 4|read claim");
    assert_eq!(
        lines[..3],
        ["read maps", "write own 4 04, peer 09, 10 foreign ?, 10 foreign ?", "read claim 10"]
    );
    let lines = only(world.event(10, EventKind::Yielded, PEER), "read claim");
    assert_eq!(lines, [""; 0]);
}

#[test]
fn a_yield_that_could_not_be_written_is_reported_to_the_engine_once() {
    for (holder, epoch, ends) in [("b", 2, "write 10 foreign 09"), ("a", 1, "write 10 held 01")] {
        let mut world = World::living(&[10], &[]);
        world.api.put_claim(api::claim(vip(10), api::held(holder), epoch));
        world.unwritable = [vip(10)].into();
        let lines = only(world.yields(), "read claim");
        assert_eq!(lines, ["read claim 10"], "{holder}");
        assert_eq!(world.agent.host().yields_settled(), 0, "{holder}: it is not settled");
        let lines = world.after_only(Duration::from_secs(40), "read claim");
        assert_eq!(lines, [""; 0], "{holder}: the claim is read once");
        world.unwritable.clear();
        let lines = world.after_only(Duration::from_secs(6), "write 10|read claim");
        assert_eq!(lines.last().map(String::as_str), Some(ends), "{holder}: {lines:?}");
        assert_eq!(world.agent.host().yields_settled(), 1, "{holder}");
    }
}

#[test]
fn a_vip_whose_claim_gives_it_back_is_taken_back_once_its_entry_can_be_read() {
    for part in [Part::Entries, Part::Records] {
        let mut world = World::living(&[10], &[]);
        world.fails = [part].into();
        assert_eq!(
            only(world.yields(), "read claim|write"),
            ["write 10 foreign ?", "read claim 10"],
            "{part:?}"
        );
        world.after(Duration::from_secs(20));
        assert_eq!(world.roles(), ["10 foreign 09"], "{part:?}");
        world.fails.clear();
        world.after(Duration::from_secs(5));
        assert_eq!(world.roles(), ["10 held 01"], "{part:?}");
    }
}

#[test]
fn a_node_that_is_cut_off_takes_a_yielded_vip_back_when_no_peer_answers() {
    let without = Settings { probing: None, ..living::settings() };
    let taken_back = ["log takes back 10", "post TakenBack", "post TakenBack", "write 10 held 01"];
    let rows: [(&str, Settings, &[&str]); 2] =
        [("with probes", living::settings(), &taken_back), ("without probes", without, &[])];
    for (what, settings, expected) in rows {
        let mut world = World::cut_off(&settings);
        world.yields();
        let lines = world.after_only(ms(3_000), "log takes|post TakenBack|write 10");
        assert_eq!(lines, expected, "{what}");
    }
}

#[test]
fn pins_that_were_yielded_are_taken_back_before_the_cluster_is_known() {
    let mut world = World::cluster(&[10, 11]);
    world.yield_to(10, PEER);
    world.api.is_away = true;
    let lines = only(world.notify(Input::Begin), "log asks|write");
    assert_eq!(lines, ["log asks about 10", "write own 3 01, 10 foreign ?"]);
    let lines = world.after_only(ms(3_000), "log takes|read maps|read 10|write|announce");
    // The cluster cannot place it yet, so the whole of the pins is read.
    assert_eq!(lines, ["log takes back 10", "read maps", "write 10 held 01", "read maps"]);
    assert_eq!(world.entries[&key(10)].role, Role::Held);
    // No claim names another, so it goes on when the cluster is known.
    world.api.is_away = false;
    for host in [10, 11] {
        world.api.put_claim(api::claim(vip(host), api::held("a"), 1));
        world.api.services.push(api::service(host));
    }
    world.list();
    world.after(REST + RENEWAL);
    assert!(matches!(world.api.claims[&vip(10)].state, ClaimState::Held(_)));
    assert_eq!(world.roles(), ["10 held 01", "11 held 01"]);
}
